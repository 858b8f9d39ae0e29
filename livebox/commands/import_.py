"""`livebox import`: bring runs over that were kept in two tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import click

from livebox.client import Livebox
from livebox.commands._agents import is_id, operators
from livebox.commands._server import Server, server_options
from livebox.commands._terminal import table
from livebox.importing.findings import Finding, Findings
from livebox.importing.lines import read_lines
from livebox.importing.order import ordered
from livebox.importing.reconciliation import Planned, Reconciliation, Unreported
from livebox.importing.records import STATES, Records, Registration, Row
from livebox.importing.writing import Written, compare, look, write
from livebox.printable import printable

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Read:
    """What is in the two files."""

    registrations: Sequence[Registration]
    rows: Sequence[Row]
    unreadable_rows: int

    @property
    def names(self) -> set[str]:
        """The names of all agents."""
        named = {name for each in self.registrations for name in (each.agent, *each.agents)}
        return named | {row.agent for row in self.rows}


@click.command("import")
@click.argument("registrations", type=_FILE)
@click.argument("runs", type=_FILE)
@click.option("--write", "writing", is_flag=True, help="Write what can be resolved; without it nothing is written.")
@click.option("--dry-run", is_flag=True, help="Only tell; this is what happens without --write.")
@click.option(
    "--agent",
    "agents",
    metavar="NAME=ID",
    multiple=True,
    help="Which agent a name in the files is. Ids, and handles of agents that operate a channel you see, need none.",
)
@click.option("--status", "statuses", metavar="WORD=STATE", multiple=True, help="What a status in the files means.")
@click.option(
    "--unreported",
    type=click.Choice(("running", "queued", "skip")),
    default="running",
    show_default=True,
    help="What becomes of a registration without a run row.",
)
@click.option("--json", "as_json", is_flag=True, help="Each finding, and at last the numbers, as a line of JSON.")
@server_options
def command(
    registrations: Path,
    runs: Path,
    writing: bool,
    dry_run: bool,
    agents: tuple[str, ...],
    statuses: tuple[str, ...],
    unreported: str,
    as_json: bool,
    url: str | None,
    token_file: Path | None,
) -> None:
    """Bring over the runs of REGISTRATIONS and RUNS, two files of JSON lines (docs/import.md has their formats).

    Tells everything in them that does not hang together, and what becomes of it, before anything is written. Repeating
    it does nothing twice. Status 1 when there is something that it cannot resolve: the runs concerned, and those below
    them, are not written. Needs a token of a service or an owner: LIVEBOX_TOKEN or --token-file.
    """
    if writing and dry_run:
        raise click.UsageError("give either --write or --dry-run")
    meanings = _pairs(statuses, "--status")
    for word, state in meanings.items():
        if state not in STATES:
            raise click.BadParameter(f"{word} cannot mean {state}: {', '.join(sorted(STATES))}", param_hint="--status")
    findings = Findings()
    read = _read(registrations, runs, findings, meanings)
    server = Server(url, token_file)

    async def work(livebox: Livebox) -> None:
        ids = await _agents(livebox, read.names, _pairs(agents, "--agent"))
        join = Reconciliation(
            findings, ids, unreported=cast(Unreported, unreported), unreadable_rows=read.unreadable_rows
        )
        planned = join.join(read.registrations, read.rows)
        there = await look(livebox, planned)
        planned = ordered(compare(planned, there, findings), there, findings)
        _tell(findings, as_json)
        told = len(findings.all)
        _numbers(read, planned, there, findings, as_json)
        if not writing:
            _say("Nothing was written; --write does.", as_json)
            return
        written = Written()
        try:
            await write(livebox, planned, findings, written)
        finally:
            _tell(findings.all[told:], as_json)
            _outcome(written, as_json)

    try:
        server.run(work)
    finally:
        sys.stdout.flush()
    if findings.count(resolved=False):
        sys.exit(1)


def _read(registrations: Path, runs: Path, findings: Findings, meanings: dict[str, str]) -> Read:
    records = Records(findings, meanings)
    try:
        with registrations.open("rb") as first, runs.open("rb") as second:
            found = records.registrations(read_lines(first, registrations.name, findings))
            bad = findings.count(resolved=False)
            rows = records.rows(read_lines(second, runs.name, findings))
    except OSError as error:
        raise click.ClickException(str(error)) from None
    unreadable = sum(finding.kind == "bad_json" for finding in [each for each in findings if not each.resolved][bad:])
    return Read(found, rows, unreadable + records.unreadable_rows)


async def _agents(livebox: Livebox, names: Iterable[str], given: dict[str, str]) -> dict[str, str]:
    """The ids of the agents that can be told, by name."""
    known = {name: name for name in names if is_id(name)} | given
    if any(name not in known for name in names):
        known = await operators(livebox) | known
    for name, agent_id in given.items():
        if not is_id(agent_id) or (await livebox.get_principal(agent_id))["kind"] != "agent":
            raise click.BadParameter(f"{name}: {agent_id} is not the id of an agent", param_hint="--agent")
    return known


def _pairs(given: Iterable[str], option: str) -> dict[str, str]:
    pairs = {}
    for each in given:
        name, mark, value = each.partition("=")
        if not (name and mark and value):
            raise click.BadParameter(f"{each} is not of the form NAME=VALUE", param_hint=option)
        pairs[name] = value
    return pairs


def _tell(findings: Iterable[Finding], as_json: bool) -> None:
    if as_json:
        for finding in findings:
            click.echo(json.dumps({**asdict(finding), "resolved": finding.resolved}))
        return
    table(
        ("", "what", "where", "run", ""),
        [
            (
                *("resolved" if finding.resolved else "UNRESOLVED", finding.kind, finding.where, finding.run_id),
                printable(finding.text, 300),
            )
            for finding in findings
        ],
    )


def _numbers(read: Read, planned: Sequence[Planned], there: Iterable[str], findings: Findings, as_json: bool) -> None:
    seen = set(there)
    numbers = {
        "registrations": len(read.registrations),
        "run_rows": len(read.rows),
        "to_register": sum(each.run_id not in seen for each in planned),
        "already_there": sum(each.run_id in seen for each in planned),
        "held_back": len(findings.held_back),
        "resolved": findings.count(resolved=True),
        "unresolved": findings.count(resolved=False),
    }
    if as_json:
        click.echo(json.dumps(numbers))
        return
    words = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in numbers.items())
    click.echo(words)


def _outcome(written: Written, as_json: bool) -> None:
    numbers = {name: len(ids) for name, ids in asdict(written).items()}
    if as_json:
        click.echo(json.dumps(numbers))
        return
    click.echo(", ".join(f"{number} {name}" for name, number in numbers.items()))


def _say(text: str, as_json: bool) -> None:
    if not as_json:
        click.echo(text)
