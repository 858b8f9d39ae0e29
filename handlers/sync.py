"""A consistent snapshot, and the ordered log of what happened after it."""

from __future__ import annotations

import json

from db import Answer
from generated.parameters import GetSnapshotParameters, ListEventsParameters
from handlers.context import Context

LISTS = ("snapshot.channels_max", "snapshot.threads_max", "snapshot.messages_max", "snapshot.active_runs_max")


async def get_snapshot(context: Context, parameters: GetSnapshotParameters) -> Answer:
    """What the caller may see at one moment; each list that goes on has a cursor of its own in `next_cursors`."""
    answer = await context.read("get_snapshot", parameters, limits=(*LISTS, "event.body_max_bytes"))
    if not answer.cursor or answer.body is None:
        return answer
    cursors = {name: context.seal(position) for name, position in answer.cursor.items()}
    body = answer.body.rstrip()[:-1] + b',"next_cursors":' + json.dumps(cursors).encode() + b"}"
    return answer._replace(body=body, cursor=None)


async def list_events(context: Context, parameters: ListEventsParameters) -> Answer:
    """Events after a point in the log, by the rights of now."""
    return await context.read("list_events", parameters)
