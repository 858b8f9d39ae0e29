"""What was measured, as a page: one table of goals, one of rates, the machine, and how it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.bench.samples import Rate, Spread


class Row(NamedTuple):
    """One measurement. ``at_least`` or ``at_most`` is its goal; with neither it is only told.

    ``note``: what has to be known with the number, and what holds it back.
    """

    what: str
    against: str
    measured: Spread
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Is the median within the goal? None without one."""
        if self.at_least is not None:
            return self.measured.median >= self.at_least
        if self.at_most is not None:
            return self.measured.median <= self.at_most
        return None


class Detail(NamedTuple):
    """One thing that was timed, behind the ratios."""

    what: str
    rate: Rate


class Findings(NamedTuple):
    """What one part of the bench found."""

    rows: list[Row]
    details: list[Detail]


HEAD = """\
# Performance

Written by `make bench`; do not edit. Each number is a ratio to a floor that was measured in the same run on the same
machine, floor and candidate in turns, so that what loads the machine loads both. *measured* is the median of {rounds}
rounds, with the least and the greatest; a goal counts by the median.

{busy}## Goals

| what | against | measured | goal | met |
| --- | --- | --- | --- | --- |
"""
RATES = """
## Rates behind them

Medians. *server* and *database* are the CPU time that the process of the server and all processes of PostgreSQL used
for one operation; the load generator and pgbench, which share the cores, are not in it.

| what | operations/s | server, ms | database, ms |
| --- | --- | --- | --- |
"""
BUSY = """\
**The machine was busy: load {load} on {cores} cores. The rows with several processes (transition, getRun) do not decide
their goals; see *How*.**

"""
METHOD = """
## How

- The database is the embedded one with the product's settings, fsync on, in the folder for temporary files. Before each
  measurement the tables are vacuumed and a checkpoint is made. pgbench comes with it, and sends the same statements in
  the same protocol as our driver.
- *Transition* is `start_run`, queued to running: the rights, the row under its guards, the trigger state of the
  message, two events. Each needs a queued run that nobody started; they are made beforehand, every one in a thread of
  its own. pgbench calls `livebox.perform`, which is what the lane does for each operation of a batch: caller, rights,
  idempotency, then the function. Over HTTP the agent's invocation token is verified too, a fresh one for each run.
- The lock of the log is part of the function: whoever appends holds it until its commit, so that no reader can miss an
  event. pgbench waits for it once per transaction, the lane once per batch. To see what the lane costs and saves by
  itself, the last rows of the transition run the floor with that lock taken out, which no product could do.
- What else runs does not weigh on both sides alike. pgbench with the lock hands it from session to session, and each waits
  for a core in between: a busy machine flatters lane and HTTP against it. Without the lock, and reading, its many
  sessions get more of a busy machine than our few: that makes ours look worse.
- A rate counts from when every caller has done a fifth of its work until the first one is done.
- Over HTTP the load comes from a process of its own, one connection a caller, each sending as soon as it is answered.
- The HTTP layer counts requests per CPU second of the process that serves them, ours and the bare ones in one loop.
- *Patches* are a line and a number in one frame of about 270 bytes: validated, authorised, applied, acknowledged and sent
  to all who look, within keys that are set so high that nothing is refused. They come one by one, each in a packet of
  its own, or as many as are taken with 200 under way, which spares every server most of its system calls. Servers count
  by CPU time of their process. The bare servers use uvloop as ours does, and check nothing.
- The load on the gateway and on the bare servers comes from one process that costs little: it counts what devices get
  and reads the clock, the server's CPU time and its memory. The peers in Node have clients of their own; ShareDB's sends
  one operation at a time. They are left out where Node or their packages (`npm install`) are not there.
- *Patch to device* is from the write of a patch to its last byte at each device, by one clock.
- Memory is what the process has more after so many sessions or runs, by each, after half as many were there already.
- Growth is the exponent of time over size, fitted through all sizes: 0 is flat, 1 is linear. Rows are made by
  `generate_series`, one database per size, and the sizes take turns. What counts is the CPU time of the session, of
  writes without their commit.
"""


def page(machine: Sequence[tuple[str, str]], rounds: int, parts: Sequence[Findings], busy: str = "") -> str:
    """The whole page; ``busy`` is what it says first of a machine that had other things to do."""
    rows = [row for part in parts for row in part.rows]
    text = HEAD.format(rounds=rounds, busy=busy) + "".join(_row(row) for row in rows)
    notes = [f"- {row.what}: {row.note}\n" for row in rows if row.note]
    if notes:
        text += "\n" + "".join(notes)
    text += RATES + "".join(_detail(detail) for part in parts for detail in part.details)
    text += "\n## Machine\n\n| | |\n| --- | --- |\n" + "".join(f"| {name} | {value} |\n" for name, value in machine)
    return text + METHOD


def lines(found: Findings) -> list[str]:
    """The findings of one part for whoever watches."""
    marks = {True: "met", False: "MISSED", None: ""}
    told = [f"{row.what} / {row.against}: {_measured(row)}  {_goal(row)}  {marks[row.met]}" for row in found.rows]
    for what, (per_second, server, database) in found.details:
        told.append(f"{what}: {per_second:,.0f}/s, server {server * 1000:.3f} ms, database {database * 1000:.3f} ms")
    return told


def _row(row: Row) -> str:
    mark = {True: "yes", False: "**no**", None: ""}[row.met]
    return f"| {row.what} | {row.against} | {_measured(row)} | {_goal(row)} | {mark} |\n"


def _measured(row: Row) -> str:
    median, least, greatest = (f"{number:.2f}" for number in row.measured)
    return f"{median}{row.unit} ({least} to {greatest})"


def _goal(row: Row) -> str:
    if row.at_least is not None:
        return f"at least {row.at_least:g}{row.unit}"
    return f"at most {row.at_most:g}{row.unit}" if row.at_most is not None else ""


def _detail(detail: Detail) -> str:
    rate, server, database = detail.rate
    spent = (f"{seconds * 1000:.3f}" if seconds else "" for seconds in (server, database))
    return f"| {detail.what} | {rate:,.0f} | {' | '.join(spent)} |\n"
