"""Records of every owner of agent work, by hand and by chance."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from handlers.shape import STATES
from handlers.units import KINDS, PublishedRecord, RunRecord

RUN: Final = "0193a000-0000-7000-8000-0000000000d1"
STEP: Final = "0193a000-0000-4000-8000-0000000000e1"
ENDED_AT: Final = 1_762_076_400_000
REASONS: Final = {
    "failed": ("runtime_error", "stale", "interrupted", "budget_exhausted"),
    "cancelled": ("user_cancelled", "cancel_timeout"),
}


def run(state: str = "running", *, registered: bool = False, **more: Any) -> RunRecord:
    """The record of a run, ended where its state says so."""
    record: dict[str, Any] = {
        "id": RUN,
        "registered": registered,
        "state": state,
        "claimed": state != "queued",
        "cancel_asked": False,
        "step_count": 0,
    }
    if state in ("completed", "failed", "cancelled"):
        record["ended_at_ms"] = ENDED_AT
    if state in REASONS:
        record["state_reason"] = REASONS[state][0]
    return {**record, **more}  # type: ignore[typeddict-item]  # made of members of RunRecord


def unit(state: str = "running", **more: Any) -> dict[str, Any]:
    """A unit in the document of a run."""
    return {"name": "reader", "state": state, **more}


def published(state: str = "running", live: dict[str, Any] | None = None, **more: Any) -> PublishedRecord:
    """A unit that somebody else owns."""
    durable: dict[str, Any] = {"source": "workflow", "state": state, **more}
    if state == "terminal":
        durable.setdefault("terminal", {"outcome": "completed"})
    record: dict[str, Any] = {"snapshot_id": "nightly/2026-11-02", "durable": durable}
    return {**record, **({"live": live} if live else {})}  # type: ignore[typeddict-item]


# by chance

COUNTS: Final = st.integers(0, 2**53 - 1)
STEPS: Final = st.sampled_from([f"0193a000-0000-4000-8000-00000000000{n}" for n in range(4)])
KEYS: Final = st.text("ab0-_", min_size=1, max_size=3)
STATE: Final = st.sampled_from(STATES)
TEXTS: Final = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "12 files.",
            "The folder\ndoes not exist.",
            "Authorization: Bearer abcdefgh12345678",
            "password=hunter2",
            "<think>I should</think>Done",
            "2026-11-02T10:00:00Z ERROR no",
            "x" * 500,
        ]
    ),
)
NAMES: Final = st.one_of(
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20),
    st.sampled_from(["reports/1", "/etc/passwd", "a/../b", "C:\\x", "~/x", "https://u:p@h/x"]),
)


def mapping(required: dict[str, Any] | None = None, **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required or {}, optional=optional)


REFS: Final = mapping(
    {"kind": st.sampled_from(["artifact", "gate", "receipt", "approval"]), "reference": NAMES},
    label=TEXTS.filter(bool),
)
UNITS: Final = st.dictionaries(
    KEYS, mapping({"name": st.just("reader"), "state": STATE}, tokens_used=COUNTS, step_id=STEPS), max_size=4
)
DOCUMENTS: Final = mapping(
    waiting_on=st.sampled_from(["model", "tool", "child", "provider_retry", "rate_limit"]),
    metrics=mapping(input_tokens=COUNTS, output_tokens=COUNTS),
    refs=st.dictionaries(KEYS, REFS, max_size=3),
    **dict.fromkeys(KINDS, UNITS),
)


@st.composite
def steps(draw: st.DrawFn, *, ended: bool) -> dict[str, Any]:
    """The row of a step; in a run that has ended none is running."""
    status = draw(st.sampled_from(["completed", "failed", "cancelled"] + ([] if ended else ["running"])))
    row: dict[str, Any] = {"status": status}
    if status != "running":
        row |= {"ended_at_ms": ENDED_AT, "duration_ms": draw(COUNTS)}
        if ended and draw(st.booleans()):
            row["with_run"] = True
    return {**row, **draw(mapping(title=TEXTS, parent_step_id=STEPS))}


@st.composite
def runs(draw: st.DrawFn) -> RunRecord:
    """A run of either kind, with whatever its document says."""
    state = draw(st.sampled_from(["queued", "running", "waiting_input", "completed", "failed", "cancelled"]))
    ended = state in ("completed", "failed", "cancelled")
    more = draw(
        mapping(
            {"registered": st.booleans(), "claimed": st.booleans(), "step_count": COUNTS},
            summary=TEXTS,
            halt_reason=TEXTS,
            parent_run_id=st.just(STEP),
            token_budget=COUNTS,
            max_steps=COUNTS,
            spent_tokens=COUNTS,
            compacted=st.booleans(),
            document=DOCUMENTS,
        )
    )
    more["steps"] = {draw(STEPS): draw(steps(ended=ended)) for _ in range(draw(st.integers(0, 3)))}
    if state == "running":
        more["cancel_asked"] = draw(st.booleans())
    if ended:
        more["duration_ms"] = draw(COUNTS)
    if state in REASONS:
        more["state_reason"] = draw(st.sampled_from(REASONS[state]))
    registered = more.pop("registered")
    return run(state, registered=registered, **more)


BUDGETS: Final = mapping(
    token_budget=COUNTS, tokens_used=COUNTS, steps_taken=COUNTS, max_steps=COUNTS, duration_ms=COUNTS
)


@st.composite
def publications(draw: st.DrawFn) -> PublishedRecord:
    """A unit of another owner, with whatever is said live."""
    more = draw(
        mapping(
            budget=BUDGETS, parent=st.just(RUN), refs=st.lists(REFS, min_size=1, max_size=3), source=st.just("direct")
        )
    )
    state = draw(STATE)
    if state == "terminal":
        outcomes = st.sampled_from(["completed", "failed", "cancelled", "interrupted", "budget_exhausted"])
        more["terminal"] = draw(mapping({"outcome": outcomes}, ended_at_ms=COUNTS, detail=TEXTS))
    live = draw(mapping(state=STATE, budget=BUDGETS, refs=st.lists(REFS, min_size=1, max_size=3)))
    return published(state, live, **more)
