"""What an agent shows: it fits the contract whatever the author gives, and says when it changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from generated.validators import checker
from livebox.client.draft import Draft

UGLY = "One\x00\ntwo\u202ethree \ud800" + "x" * 400


class Changes:
    """Counts changes."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> None:
        self.number += 1


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def draft(changes: Changes) -> Draft:
    return Draft({"state": "running", "version": 4}, changes, text_max=20)


def whole(draft: Draft) -> dict[str, Any]:
    """A run document with what the draft shows."""
    return {
        "schema": "run_document.v1",
        "id": "01933b7e-0000-7000-8000-000000000051",
        "agent_id": "01933b7e-0000-7000-8000-000000000011",
        "state": "running",
        "version": 4,
        "trigger_kind": "message",
        "queued_at": "2026-11-02T09:30:00.000000Z",
        "step_count": 0,
        **draft.snapshot(),
    }


def test_everything_it_shows_is_in_the_contract(draft: Draft) -> None:
    draft.headline = UGLY
    draft.waiting_on = "model"
    draft.text.append(UGLY)
    draft.text.set(UGLY, "markdown")
    draft.tool(UGLY, title=UGLY, progress=0.5, detail=UGLY * 10)
    draft.plan.item("one", UGLY)
    draft.plan.item("two", status="done")
    draft.subagent("s", "waiting_model", name=UGLY, headline=UGLY, tokens_used=3)
    draft.workflow("w", progress=0.5)
    draft.job("j", "queued")
    draft.metrics(context_used_percent=10.5, tool_calls=2)
    draft.metrics(tool_calls=3)
    draft.reference("r", "artifact", "reports/42", UGLY)
    assert checker("/schemas/Run")(whole(draft)) == []
    shown: Any = draft.document
    assert shown["metrics"] == {"context_used_percent": 10.5, "tool_calls": 3}
    assert shown["plan"]["items"]["two"] == {"ordinal": 2, "title": "two", "status": "done"}
    assert shown["text"] == {"content": "x" * 20, "format": "markdown"}


def test_what_is_taken_away_is_gone(draft: Draft) -> None:
    draft.headline = "Now"
    draft.tool("read")
    draft.no_tool("another")
    assert "tool" in draft.snapshot()
    draft.no_tool("read")
    draft.headline = None
    draft.plan.item("one")
    draft.plan.remove("one")
    draft.subagent("s")
    draft.forget("subagents", "s")
    draft.text.append("x")
    draft.text.clear()
    draft.waiting_on = "tool"
    draft.waiting_on = None
    assert draft.snapshot() == {}


def test_changes_are_said_and_nothing_else(draft: Draft, changes: Changes) -> None:
    draft.headline = "Now"
    assert changes.number == 1
    draft.waiting_on = None
    draft.no_tool()
    draft.plan.clear()
    draft.plan.remove("x")
    draft.text.clear()
    draft.forget("jobs", "x")
    assert changes.number == 1


def test_a_tool_keeps_its_start_while_it_goes_on(draft: Draft) -> None:
    draft.tool("read", title="Reading")
    begun = draft.snapshot()["tool"]["started_at"]
    draft.tool("read", progress=0.5)
    assert draft.snapshot()["tool"] == {"name": "read", "title": "Reading", "started_at": begun, "progress": 0.5}
    draft.tool("write")
    assert "title" not in draft.snapshot()["tool"]


def test_the_end_of_a_text_is_kept_between_characters(draft: Draft) -> None:
    draft.text.set("ä" * 30)
    assert str(draft.text) == "ä" * 10
    draft.text.append("x")
    assert str(draft.text) == "ä" * 9 + "x"


def test_it_can_be_edited_at_will(draft: Draft, changes: Changes) -> None:
    draft.edit(lambda live: live.update(headline="Edited", subagents={}))
    assert draft.snapshot() == {"headline": "Edited"}
    assert (draft.headline, changes.number) == ("Edited", 1)
    draft.text.append("still")
    assert draft.snapshot()["text"]["content"] == "still"


def test_what_is_no_json_is_refused_where_it_is_given(draft: Draft) -> None:
    draft.headline = "Kept"
    with pytest.raises(TypeError):
        draft.edit(lambda live: live.update(plan=object()))
    assert draft.snapshot() == {"headline": "Kept"}


def test_it_begins_with_what_the_run_shows() -> None:
    run = {"state": "running", "version": 4, "headline": "Before", "plan": {"items": {}}}
    draft = Draft(run, lambda: None)
    draft.plan.item("one")
    assert draft.headline == "Before"
    assert run["plan"] == {"items": {}}


@pytest.mark.parametrize("value", [object(), "\ud800"], ids=["object", "half a character"])
def test_what_is_no_json_is_refused_wherever_it_is_given(draft: Draft, changes: Changes, value: Any) -> None:
    """Kept, it would keep all that comes later from being sent."""
    ways: list[Callable[[], None]] = [
        lambda: draft.metrics(tool_calls=value),
        lambda: draft.subagent("r1", "running", step_id=value),
        lambda: draft.job("j1", value),
        lambda: draft.reference("report", "artifact", value),
        lambda: draft.tool("read", progress=value),
    ]
    for change in ways:
        with pytest.raises((TypeError, ValueError)):
            change()
    assert (draft.snapshot(), changes.number) == ({}, 0)
