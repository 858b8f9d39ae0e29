"""What people and agents write in threads."""

from __future__ import annotations

from db import Answer
from generated.models import CreateMessageRequest, EditMessageRequest
from generated.parameters import (
    CreateMessageParameters,
    DeleteMessageParameters,
    EditMessageParameters,
    GetMessageParameters,
    ListThreadMessagesParameters,
)
from handlers.context import Context

EVENT = ("event.body_max_bytes",)


async def list_thread_messages(context: Context, parameters: ListThreadMessagesParameters) -> Answer:
    """A page of a thread's messages."""
    return await context.read("list_thread_messages", parameters)


async def create_message(context: Context, parameters: CreateMessageParameters, body: CreateMessageRequest) -> Answer:
    """Stores a message and decides in the same transaction whether it opens a run."""
    return await context.write("create_message", parameters, body, limits=(*EVENT, "run.followups_max"))


async def get_message(context: Context, parameters: GetMessageParameters) -> Answer:
    """One message."""
    return await context.read("get_message", parameters)


async def edit_message(context: Context, parameters: EditMessageParameters, body: EditMessageRequest) -> Answer:
    """Replaces the text of the caller's own message."""
    return await context.write("edit_message", parameters, body, limits=EVENT)


async def delete_message(context: Context, parameters: DeleteMessageParameters) -> Answer:
    """Leaves a tombstone in the message's place."""
    return await context.write("delete_message", parameters, limits=EVENT)
