"""Following the run that a message opened: the log tells each state, the run document what happens between them."""

from __future__ import annotations

import asyncio

from generated.models import Run
from livebox.client import ENDED, Livebox
from livebox.demo.view import View


async def follow(livebox: Livebox, message_id: str, after: int, view: View) -> tuple[list[str], Run]:
    """Show the run that the message opened until it has ended; the states it went through, and the ended run.

    `after` is a position in the log from before the message.
    """
    try:
        states, run = await _follow(livebox, message_id, after, view)
    finally:
        view.close()
    view.ended(run)
    return states, run


async def watch(livebox: Livebox, run: Run, view: View) -> Run:
    """Show a run until it has ended, whatever it went through before; the ended run."""
    state = ""
    try:
        async for newer in livebox.follow_run(run["id"]):
            run = newer
            view.run(run)
            if run["state"] != state:
                state = run["state"]
                view.state(state)
    finally:
        view.close()
    view.ended(run)
    return run


async def _follow(livebox: Livebox, message_id: str, after: int, view: View) -> tuple[list[str], Run]:
    """The states come from the log, which tells each of them; the document from a session that looks at the run."""
    states: list[str] = []
    showing: asyncio.Task[Run] | None = None
    try:
        async for event in livebox.events(after):
            if event["type"] != "run.state_changed" or event["payload"].get("triggering_message_id") != message_id:
                continue
            changed = event["payload"]["run"]
            if showing is None:
                showing = asyncio.create_task(_show(livebox, changed["id"], view))
            if changed["state"] in ENDED:
                run = await showing  # so that the last steps are seen before the end
                _told(changed["state"], states, view)
                return states, run
            _told(changed["state"], states, view)
        raise AssertionError("the log has no end")
    finally:
        if showing is not None:
            showing.cancel()
            await asyncio.wait({showing})


async def _show(livebox: Livebox, run_id: str, view: View) -> Run:
    async for run in livebox.follow_run(run_id):
        view.run(run)
    return run


def _told(state: str, states: list[str], view: View) -> None:
    states.append(state)
    view.state(state)
