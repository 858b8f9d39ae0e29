"""Parents before their children, and those that have none to come after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livebox.importing.findings import Findings
from livebox.importing.reconciliation import Planned


def ordered(planned: Sequence[Planned], there: Iterable[str], findings: Findings) -> list[Planned]:
    """`planned` so that each stands behind its parent. `there` are runs that the server has.

    Without what cannot be written: runs in a circle, those whose parent is missing or held back, and all below them.
    """
    known, runs = set(there), {each.run_id: each for each in planned}
    position = {each.run_id: place for place, each in enumerate(planned)}
    done: dict[str, bool] = {}
    result: list[Planned] = []
    for each in planned:
        chain = _unsettled(each, runs, done)
        if chain and (parent := runs[chain[-1]].parent) is not None and parent in chain:
            _circle(chain, parent, runs, done, findings)
        for run_id in reversed(chain):
            run = runs[run_id]
            if run_id in done:
                continue
            done[run_id] = _ready(run, runs, done, known, findings)
            if done[run_id]:
                result.append(run)
                if run.parent in position and position[run.parent] > position[run_id]:
                    findings.add("parent_after_child", f"parent {run.parent}", run_id, run.where)
    return result


def _unsettled(run: Planned, runs: dict[str, Planned], done: dict[str, bool]) -> list[str]:
    """The run and those above it that are not decided yet, from below to above."""
    chain: list[str] = []
    seen: set[str] = set()
    at: Planned | None = run
    while at is not None and at.run_id not in done and at.run_id not in seen:
        chain.append(at.run_id)
        seen.add(at.run_id)
        at = runs.get(at.parent) if at.parent is not None else None
    return chain


def _circle(chain: list[str], first: str, runs: dict[str, Planned], done: dict[str, bool], findings: Findings) -> None:
    members = chain[chain.index(first) :]
    for run_id in members:
        findings.add("parent_cycle", " -> ".join([*members, first]), run_id, runs[run_id].where)
        done[run_id] = False


def _ready(run: Planned, runs: dict[str, Planned], done: dict[str, bool], there: set[str], findings: Findings) -> bool:
    if run.parent is None or done.get(run.parent, False):
        return True
    if run.parent in there and run.parent not in runs:
        return True
    held = run.parent in runs or run.parent in findings.held_back
    kind, word = ("parent_held_back", "is not written") if held else ("parent_missing", "is nowhere")
    findings.add(kind, f"parent {run.parent} {word}", run.run_id, run.where)
    return False
