"""Agents by id or by handle. The contract finds principals by id, so only the handles of operators are known."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

import click

from generated.models import Channel
from livebox.client import Rest


async def agent_ids(rest: Rest, names: Sequence[str], channels: Iterable[Channel] | None = None) -> list[str]:
    """The ids of agents that are named by id, or by handle with or without @, in order.

    Raises BadParameter for a handle that operates no channel which one may see.
    """
    named = [name.removeprefix("@") for name in names]
    handles = {} if all(is_id(name) for name in named) else await operators(rest, channels)
    for name in named:
        if not is_id(name) and name not in handles:
            known = f" (known: {', '.join(sorted(handles))})" if handles else ""
            raise click.BadParameter(
                f"no agent of that handle operates a channel that you may see: {name}{known}; give its id"
            )
    return [name if is_id(name) else handles[name] for name in named]


async def operators(rest: Rest, channels: Iterable[Channel] | None = None) -> dict[str, str]:
    """The ids of the agents that operate a channel which one may see, by handle."""
    seen = channels if channels is not None else [channel async for channel in rest.list_channels()]
    ids = {channel["operator_agent_id"] for channel in seen if "operator_agent_id" in channel}
    return {(await rest.get_principal(agent_id))["handle"]: agent_id for agent_id in sorted(ids)}


def is_id(text: str) -> bool:
    """Whether it is an id as the contract writes them."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
