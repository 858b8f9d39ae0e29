"""Following the run that a message opened: the log tells each state, the run document what happens between them."""

from __future__ import annotations

import asyncio
from typing import Final

from generated.models import Run
from livebox.client import ENDED, Livebox, Rest
from livebox.demo.view import View

LOOK_EVERY: Final = 0.05  # seconds


async def follow(rest: Rest, message_id: str, after: int, view: View) -> tuple[list[str], Run]:
    """Show the run that the message opened until it has ended; the states it went through, and the ended run.

    `after` is a position in the log from before the message.
    """
    try:
        states, run = await _follow(rest, message_id, after, view)
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


async def _follow(rest: Rest, message_id: str, after: int, view: View) -> tuple[list[str], Run]:
    states: list[str] = []
    run: Run | None = None
    while True:
        page = await rest.list_events(after)
        after = page["next_after"]
        for event in page["items"]:
            if event["type"] != "run.state_changed" or event["payload"].get("triggering_message_id") != message_id:
                continue
            changed = event["payload"]["run"]
            if run is None or changed["state"] in ENDED:  # so that the last steps are seen before the end
                run = await rest.get_run(changed["id"])
                view.run(run)
            states.append(changed["state"])
            view.state(changed["state"])
        if run is not None and states[-1] in ENDED:
            return states, run
        if run is not None:
            newer = await rest.get_run_if_changed(run["id"], run["version"])
            if newer is not None:
                run = newer
                view.run(run)
        await asyncio.sleep(LOOK_EVERY)
