"""One neutral shape for every unit of agent work: how each owner's own record becomes an `AgentRunSnapshot`.

Pure functions, one for each owner: a registered run (`fleet`), a run that a message opened (`task`), the sub-agents
(`direct`), workflows (`workflow`) and background jobs (`core_job`) in the document of a run, and what somebody else
owns and publishes (`published`). A record is what the database holds for good, `live` what is said this second.
What is held for good outranks what is said: live may only refine what the record still has under way. What is not
known is not there: no null, no empty list, no zero that pretends to be a fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NotRequired, TypedDict, cast

from generated.models import (
    LiveSnapshot,
    LiveUnit,
    PublishedSnapshot,
    SnapshotOutcome,
    SnapshotSource,
    UnitState,
)
from handlers import wording
from handlers.shape import Shape, Side, Unit

KINDS: Final[Mapping[str, SnapshotSource]] = {"jobs": "core_job", "subagents": "direct", "workflows": "workflow"}
"""Members of a run document that hold units, in the order of lists; their names are the kind in a unit's id."""

_WAITING: Final[Mapping[str, UnitState]] = {
    "model": "waiting_model",
    "provider_retry": "waiting_model",
    "rate_limit": "waiting_model",
    "tool": "waiting_tool",
    "child": "waiting_tool",
}
_REFINES: Final[Mapping[UnitState, frozenset[UnitState]]] = {
    "queued": frozenset({"initializing", "stopping"}),
    "initializing": frozenset({"paused", "stopping"}),
    "running": frozenset({"waiting_model", "waiting_tool", "waiting_input", "paused", "stopping"}),
    "waiting_input": frozenset({"stopping"}),
}
_OUTCOMES: Final[Mapping[str, SnapshotOutcome]] = {
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "stale": "interrupted",
    "budget_exhausted": "budget_exhausted",
}
_LIMITS: Final = ("token_budget", "max_steps")
_USED: Final = ("tokens_used", "steps_taken", "duration_ms")


class StepRecord(TypedDict):
    """The row of a step that a unit names. `with_run`: the end of the run closed it."""

    status: Literal["running", "completed", "failed", "cancelled"]
    title: NotRequired[str]
    parent_step_id: NotRequired[str]
    ended_at_ms: NotRequired[int]
    duration_ms: NotRequired[int]
    with_run: NotRequired[bool]


class RunRecord(TypedDict):
    """The row of a run, the members of its saved document that say something here, and the steps its units name.

    `step_count`: steps recorded or, where that is more, counted by its reporters, as its budget counts them.
    `spent_tokens` are those of its ledger. `compacted`: its oldest finished steps are no rows of their own any more.
    """

    id: str
    registered: bool
    state: str
    claimed: bool
    cancel_asked: bool
    step_count: int
    state_reason: NotRequired[str]
    ended_at_ms: NotRequired[int]
    duration_ms: NotRequired[int]
    summary: NotRequired[str]
    halt_reason: NotRequired[str]
    parent_run_id: NotRequired[str]
    token_budget: NotRequired[int]
    max_steps: NotRequired[int]
    spent_tokens: NotRequired[int]
    compacted: NotRequired[bool]
    document: NotRequired[Mapping[str, Any]]
    steps: NotRequired[Mapping[str, StepRecord]]


class PublishedRecord(TypedDict):
    """What somebody published of a unit that they own."""

    snapshot_id: str
    durable: PublishedSnapshot
    live: NotRequired[LiveSnapshot]


def refined(state: UnitState, live: UnitState | None) -> tuple[UnitState, Side]:
    """The state to show of one that is held for good and one that is said, and the side it is from."""
    return (live, "live") if live is not None and live in _REFINES.get(state, ()) else (state, "durable")


# runs


def task(record: RunRecord, live: Mapping[str, Any] | None = None) -> Unit:
    """A run that a message opened. `live` is the newest content of its document, where that is not the saved one."""
    return _run(record, live, "task")


def fleet(record: RunRecord, live: Mapping[str, Any] | None = None) -> Unit:
    """A registered run."""
    return _run(record, live, "fleet")


def units(record: RunRecord, live: Mapping[str, Any] | None = None) -> Iterator[Unit]:
    """A run and the units in its document, in the order of lists: itself, then by kind and key."""
    yield (fleet if record["registered"] else task)(record, live)
    document = _content(record, live)
    above = _by_step(record, document)
    for kind, map_one in (("jobs", core_job), ("subagents", direct), ("workflows", workflow)):
        for key, entry in sorted(document.get(kind, {}).items()):
            step = record.get("steps", {}).get(entry.get("step_id", ""))
            parent = above.get(step.get("parent_step_id", "")) if step else None
            unit = map_one(record, key, entry, step, parent)
            if unit is not None:
                yield unit


def _run(record: RunRecord, live: Mapping[str, Any] | None, source: SnapshotSource) -> Unit:
    ended = "ended_at_ms" in record
    document = _content(record, live)
    content: Side = "durable" if ended else "live"
    built = Shape(record["id"], source)
    built.put("parent", record.get("parent_run_id"))
    if ended:
        built.end(_outcome(record), record["ended_at_ms"], _detail(record))
    else:
        built.state(*_active_state(record, document))
    built.count("token_budget", record.get("token_budget"))
    if "spent_tokens" in record:
        built.count("tokens_used", record["spent_tokens"])
    else:
        metrics = document.get("metrics", {})
        if "input_tokens" in metrics and "output_tokens" in metrics:
            built.count("tokens_used", metrics["input_tokens"] + metrics["output_tokens"], content)
    built.count("steps_taken", record["step_count"] or None)
    built.count("max_steps", record.get("max_steps"))
    built.count("duration_ms", record.get("duration_ms"))
    built.refs([document.get("refs", {})[key] for key in sorted(document.get("refs", {}))], content)
    return built.unit()


def _active_state(record: RunRecord, document: Mapping[str, Any]) -> tuple[UnitState, Side]:
    state = cast("UnitState", record["state"])
    if record["cancel_asked"]:
        return "stopping", "durable"
    if state == "queued" and record["claimed"]:
        return "initializing", "durable"
    return refined(state, _WAITING.get(document.get("waiting_on", "")) if state == "running" else None)


def _content(record: RunRecord, live: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The document: of a run that has ended the one kept with it, whatever is said."""
    return record.get("document", {}) if live is None or "ended_at_ms" in record else live


def _outcome(record: RunRecord) -> SnapshotOutcome:
    return _OUTCOMES.get(record.get("state_reason", "")) or _OUTCOMES[record["state"]]


def _detail(record: RunRecord) -> str | None:
    """What came of a run, in one line: what its agent says, else why it was halted, else the reason in words."""
    return (
        wording.line(record.get("summary", ""))
        or wording.one_line(record.get("halt_reason", ""))
        or record.get("state_reason", "").replace("_", " ")
        or None
    )


# the units in a run's document


def direct(
    record: RunRecord, key: str, entry: LiveUnit, step: StepRecord | None = None, parent: str | None = None
) -> Unit | None:
    """A sub-agent; see `core_job`."""
    return _inside(record, "subagents", key, entry, step, parent)


def workflow(
    record: RunRecord, key: str, entry: LiveUnit, step: StepRecord | None = None, parent: str | None = None
) -> Unit | None:
    """A workflow; see `core_job`."""
    return _inside(record, "workflows", key, entry, step, parent)


def core_job(
    record: RunRecord, key: str, entry: LiveUnit, step: StepRecord | None = None, parent: str | None = None
) -> Unit | None:
    """A background job. `entry` is what the document says of it, `step` its step, `parent` the unit it is below.

    None when it has ended and nobody holds for good how: there is no such snapshot.
    """
    return _inside(record, "jobs", key, entry, step, parent)


def _inside(
    record: RunRecord, kind: str, key: str, entry: LiveUnit, step: StepRecord | None, parent: str | None
) -> Unit | None:
    over = "ended_at_ms" in record
    known: Side = "durable" if step is not None or over else "live"
    built = Shape(unit_id(record["id"], kind, key), KINDS[kind], known)
    built.put("parent", parent or record["id"], "durable" if parent else known)
    if step is not None and step["status"] != "running":
        outcome = _outcome(record) if over and step.get("with_run") else _OUTCOMES[step["status"]]
        built.end(outcome, step.get("ended_at_ms"), wording.one_line(step.get("title", "")))
        built.count("duration_ms", step.get("duration_ms"))
    elif not _known(record, entry, step):
        return None
    elif over:
        built.end(_outcome(record), record["ended_at_ms"], None)
    elif step is not None:
        built.state(*refined("running", entry["state"]))
    else:
        built.state(entry["state"], "live")
    if over or built.open:
        # Of one that ended while its run goes on only its step speaks.
        built.count("tokens_used", entry.get("tokens_used"), "durable" if over else "live")
    return built.unit(kind, key)


def _known(record: RunRecord, entry: LiveUnit, step: StepRecord | None) -> bool:
    """Whether a unit is under way, or how it ended is held for good.

    Where the oldest finished steps are no rows of their own any more, a step that is none may be one of them.
    """
    if step is not None:
        return True
    return entry["state"] != "terminal" and not ("step_id" in entry and record.get("compacted", False))


def _by_step(record: RunRecord, document: Mapping[str, Any]) -> dict[str, str]:
    """The unit that each step stands for."""
    found: dict[str, str] = {}
    for kind in KINDS:
        for key, entry in sorted(document.get(kind, {}).items()):
            if "step_id" in entry and _known(record, entry, record.get("steps", {}).get(entry["step_id"])):
                found.setdefault(entry["step_id"], unit_id(record["id"], kind, key))
    return found


def unit_id(run_id: str, kind: str, key: str) -> str:
    """The id of a unit inside a run."""
    return f"{run_id}:{kind}:{key}"


# units of other owners


def published(record: PublishedRecord) -> Unit:
    """A unit that somebody else owns, as they published it."""
    durable = record["durable"]
    live: LiveSnapshot = record.get("live", {}) if durable["state"] != "terminal" else {}
    built = Shape(record["snapshot_id"], durable["source"])
    built.put("parent", durable.get("parent"))
    if "terminal" in durable:
        terminal = durable["terminal"]
        built.end(terminal["outcome"], terminal.get("ended_at_ms"), wording.one_line(terminal.get("detail", "")))
    else:
        built.state(*refined(durable["state"], live.get("state")))
    held: Mapping[str, Any] = durable.get("budget", {})
    said: Mapping[str, Any] = live.get("budget", {})
    for name in (*_LIMITS, *_USED):
        # What was used moves on; what is allowed is not for live to say where it is held for good.
        if name in said and (name in _USED or name not in held):
            built.count(name, said[name], "live")
        else:
            built.count(name, held.get(name))
    refs = durable.get("refs", [])
    built.refs(refs)
    built.refs([ref for ref in live.get("refs", []) if ref not in refs], "live")
    return built.unit()
