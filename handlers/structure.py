"""Spaces, channels, threads, principals, groups, grants, and the audit log."""

from __future__ import annotations

from db import Answer
from generated.models import (
    CreateChannelRequest,
    CreateGroupRequest,
    CreatePrincipalRequest,
    CreateSpaceRequest,
    CreateThreadRequest,
    GrantAccessRequest,
    MoveThreadRequest,
    UpdateChannelRequest,
    UpdatePrincipalRequest,
)
from generated.parameters import (
    AddGroupMemberParameters,
    CreateChannelParameters,
    CreateGroupParameters,
    CreatePrincipalParameters,
    CreateSpaceParameters,
    CreateThreadParameters,
    DeleteThreadParameters,
    GetPrincipalParameters,
    GetThreadParameters,
    GrantAccessParameters,
    ListAuditEntriesParameters,
    ListChannelsParameters,
    ListSpacesParameters,
    ListThreadsParameters,
    MoveThreadParameters,
    RemoveGroupMemberParameters,
    RevokeAccessParameters,
    UpdateChannelParameters,
    UpdatePrincipalParameters,
)
from handlers.context import Context


async def list_spaces(context: Context, parameters: ListSpacesParameters) -> Answer:
    """A page of the spaces the caller may see."""
    return await context.read("list_spaces", parameters)


async def create_space(context: Context, parameters: CreateSpaceParameters, body: CreateSpaceRequest) -> Answer:
    """A new space."""
    return await context.write("create_space", parameters, body)


async def list_channels(context: Context, parameters: ListChannelsParameters) -> Answer:
    """A page of the channels the caller may see."""
    return await context.read("list_channels", parameters)


async def create_channel(context: Context, parameters: CreateChannelParameters, body: CreateChannelRequest) -> Answer:
    """A new channel of a space, or a direct-message channel, with its main thread."""
    return await context.write("create_channel", parameters, body)


async def update_channel(context: Context, parameters: UpdateChannelParameters, body: UpdateChannelRequest) -> Answer:
    """Changes a channel's name, switches or operator."""
    return await context.write("update_channel", parameters, body)


async def create_thread(context: Context, parameters: CreateThreadParameters, body: CreateThreadRequest) -> Answer:
    """A new thread of a channel."""
    return await context.write("create_thread", parameters, body)


async def list_threads(context: Context, parameters: ListThreadsParameters) -> Answer:
    """A page of the threads the caller may see."""
    return await context.read("list_threads", parameters)


async def get_thread(context: Context, parameters: GetThreadParameters) -> Answer:
    """One thread."""
    return await context.read("get_thread", parameters)


async def delete_thread(context: Context, parameters: DeleteThreadParameters) -> Answer:
    """Takes a thread away, and with it all that hangs on it."""
    return await context.write("delete_thread", parameters, limits=("event.body_max_bytes",))


async def move_thread(context: Context, parameters: MoveThreadParameters, body: MoveThreadRequest) -> Answer:
    """Puts a thread into another channel; who may read it follows."""
    return await context.write("move_thread", parameters, body)


async def create_principal(
    context: Context, parameters: CreatePrincipalParameters, body: CreatePrincipalRequest
) -> Answer:
    """A new person, agent or service."""
    return await context.write("create_principal", parameters, body)


async def get_principal(context: Context, parameters: GetPrincipalParameters) -> Answer:
    """One principal."""
    return await context.read("get_principal", parameters)


async def update_principal(
    context: Context, parameters: UpdatePrincipalParameters, body: UpdatePrincipalRequest
) -> Answer:
    """Changes, disables or enables a principal."""
    return await context.write("update_principal", parameters, body)


async def create_group(context: Context, parameters: CreateGroupParameters, body: CreateGroupRequest) -> Answer:
    """A new group."""
    return await context.write("create_group", parameters, body)


async def add_group_member(context: Context, parameters: AddGroupMemberParameters) -> Answer:
    """Puts a principal into a group."""
    return await context.write("add_group_member", parameters)


async def remove_group_member(context: Context, parameters: RemoveGroupMemberParameters) -> Answer:
    """Takes a principal out of a group."""
    return await context.write("remove_group_member", parameters)


async def grant_access(context: Context, parameters: GrantAccessParameters, body: GrantAccessRequest) -> Answer:
    """Gives a principal or a group a level on a space or a channel."""
    return await context.write("grant_access", parameters, body)


async def revoke_access(context: Context, parameters: RevokeAccessParameters) -> Answer:
    """Takes a grant back."""
    return await context.write("revoke_access", parameters)


async def list_audit_entries(context: Context, parameters: ListAuditEntriesParameters) -> Answer:
    """A page of what was denied to whom."""
    return await context.read("list_audit_entries", parameters)
