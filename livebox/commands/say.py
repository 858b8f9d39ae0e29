"""`livebox say`: post a message, and watch the run that it opens."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from generated.models import Channel, Message, Run
from livebox.client import Livebox, Rest
from livebox.commands._agents import agent_ids
from livebox.commands._server import Server, server_options
from livebox.demo.follow import watch
from livebox.demo.view import view


class Said(NamedTuple):
    """The posted message, and the run that it opened when that was waited for."""

    message: Message
    run: Run | None


@click.command("say")
@click.argument("text")
@click.option("--to", "place", metavar="PLACE", help="Where: Space/Channel, or the id of a channel: its main thread.")
@click.option("--thread", metavar="ID", help="Where: a thread.")
@click.option(
    "--mention",
    "mentions",
    metavar="AGENT",
    multiple=True,
    help="An agent that the message is for: its id, or its handle when it operates a channel that you may see.",
)
@click.option("--follow", "following", is_flag=True, help="Watch the run that it opens; status 1 unless it completed.")
@click.option("--client-msg-id", metavar="UUID", help="An id of your own: the same one never posts twice.")
@server_options
def command(
    text: str,
    place: str | None,
    thread: str | None,
    mentions: tuple[str, ...],
    following: bool,
    client_msg_id: str | None,
    url: str | None,
    token_file: Path | None,
) -> None:
    """Post TEXT ("-": standard input) in a thread, and say what came of it.

    Needs a token: LIVEBOX_TOKEN or --token-file. Prints the id of the message, and its trigger state when it asked an
    agent for work.
    """
    if (place is None) == (thread is None):
        raise click.UsageError("say where: either --to or --thread")
    body = sys.stdin.read() if text == "-" else text

    async def said(rest: Livebox) -> Said:
        channels = [channel async for channel in rest.list_channels()] if place or mentions else []
        where = thread or (await _channel(rest, channels, place or ""))["main_thread_id"]
        agents = await agent_ids(rest, mentions, channels)
        message = await rest.create_message(where, body, mentions=agents, client_msg_id=client_msg_id)
        _print(message)
        if not following or message.get("trigger_state", "failed") == "failed":
            return Said(message, None)
        run = await rest.find_run(message)
        return Said(message, await watch(rest, run, view(Console(highlight=False), "The run")) if run else None)

    message, run = Server(url, token_file).run(said)
    if message.get("trigger_state") == "failed":
        sys.exit(1)
    if following and (run is None or run["state"] != "completed"):
        if run is None:
            click.echo("it opened no run", err=True)
        sys.exit(1)


async def _channel(rest: Rest, channels: Sequence[Channel], place: str) -> Channel:
    """The channel of that id or `Space/Channel` name. Raises BadParameter when there is none, or more than one."""
    space, _, name = place.rpartition("/")
    spaces = {found["id"] async for found in rest.list_spaces() if found["name"] == space} if space else set()
    found = [
        channel
        for channel in channels
        if channel["id"] == place or (channel.get("name") == name and channel.get("space_id") in spaces)
    ]
    if len(found) != 1:
        what = "there is no such channel that you may see" if not found else "more than one channel is called that"
        raise click.BadParameter(f"{what}: {place}", param_hint="--to")
    return found[0]


def _print(message: Message) -> None:
    reason = message.get("trigger_state_reason")
    state = message.get("trigger_state", "")
    click.echo(f"message\t{message['id']}" + (f"\t{state}" if state else "") + (f"\t{reason}" if reason else ""))
