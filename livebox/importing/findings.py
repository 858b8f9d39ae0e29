"""What is told about the two files: each thing that did not hang together, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

#: What is resolved, and how.
RESOLVED: Final[Mapping[str, str]] = {
    "wiped_dimensions": "The run row lost dimensions, or has others: those of the registration hold.",
    "leaf_agent": "The run row names who reported last: the entry agent is that of the registration.",
    "later_start": "The run row starts at another time: that of the registration holds.",
    "start_from_row": "Only the run row has a start: it is taken.",
    "one_agents_steps": "The run row counts for one agent only: its steps and its cost are kept as that agent's.",
    "reporter_added": "The run row names an agent that the registration does not: it may report as well.",
    "no_registration": "There is a run row and no registration: nothing is created.",
    "no_run_row": "There is a registration and no run row: it is registered as it is asked for.",
    "parent_after_child": "The parent stands behind its child: it is registered first.",
    "duplicate_line": "The same line stands twice: it counts once.",
    "overwritten_row": "A later row of the same agent takes the place of this one.",
    "conflicting_ends": "Rows end the run in different ways: that of the entry agent holds, else the last.",
    "end_without_reason": "It failed and nobody said why: it says that this was not recorded.",
    "tokens_without_cost": "Tokens without a cost cannot be spend: they are kept in the event of the import.",
    "dimension_as_text": "Dimensions are texts: a number is written as one, an absent value is left out.",
    "time_without_offset": "A time without an offset is taken as UTC.",
    "foreign_id": "The id is no UUID: one is derived from it, and it is kept as external_id where there is none.",
    "unknown_member": "The format has no such member: it is left out.",
    "moved_on": "The run has gone on since, on the server: it stays as it is there.",
}

#: What nobody but a person can resolve. The runs concerned, and those below them, are not written.
UNRESOLVED: Final[Mapping[str, str]] = {
    "bad_json": "The line is no JSON object.",
    "bad_value": "A value is missing, of another type, negative, too large or too long.",
    "bad_currency": "A cost needs a currency of three capital letters, the same one for the whole run.",
    "unknown_status": "The status is none of a run: say what it means with --status.",
    "end_unclear": "It has an end and a status that is none.",
    "unknown_agent": "No agent of that name is known: say which one it is with --agent.",
    "conflicting_registrations": "Two registrations of one run say different things.",
    "external_id_twice": "Two runs have the same external id.",
    "parent_missing": "The parent is neither in the file nor on the server.",
    "parent_cycle": "Runs are each other's parents.",
    "parent_held_back": "A run above it is not written.",
    "maybe_unreadable": "It has no run row, but there are run rows that cannot be read: one may be its.",
    "differs_on_server": "The server has this run, registered as something else.",
    "ended_otherwise": "The run has ended on the server, in another way.",
    "refused": "The server refuses it.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One of the kinds above: of which run, in which line (`runs.jsonl:12`, empty for none), and in words what."""

    kind: str
    text: str
    run_id: str = ""
    where: str = ""

    @property
    def resolved(self) -> bool:
        """Whether the import can go on with it."""
        return self.kind in RESOLVED


@dataclass(slots=True)
class Findings:
    """All of them in the order in which they were found, and the runs that are held back by one."""

    all: list[Finding] = field(default_factory=list)
    held_back: set[str] = field(default_factory=set)

    def add(self, kind: str, text: str, run_id: str = "", where: str = "") -> None:
        """One more; an unresolved one holds its run back."""
        finding = Finding(kind, text, run_id, where)
        self.all.append(finding)
        if not finding.resolved and run_id:
            self.held_back.add(run_id)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.all)

    def count(self, *, resolved: bool) -> int:
        """How many are, or are not, resolved."""
        return sum(finding.resolved is resolved for finding in self.all)
