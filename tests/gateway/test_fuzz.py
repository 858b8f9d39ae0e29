"""Bytes of all kinds: whole and cut frames of the WebSocket protocol that no client library would send.

Whatever comes, the connection ends, and who is there already is served. Frames that are JSON are in
`test_fuzz_sessions`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

import pytest
from hypothesis import strategies as st

from tests.fixtures.fuzzing import Budget
from tests.fixtures.server import Live
from tests.gateway.raw_socket import BINARY, CONTINUATION, PING, TEXT, frame, raw

TRIES: Final = 60


async def play(live: Live, random: Random) -> None:
    """Some bytes by a stranger, beside somebody who is served."""
    async with raw(live) as stranger, raw(live) as other:
        other.say("hello", token=live.tokens["alex"])
        await other.first("ready")
        for _ in range(random.randrange(1, 8)):
            sent = frame(
                random.randbytes(random.randrange(300)),
                random.choice([TEXT, TEXT, BINARY, CONTINUATION, PING, 3, 8, 11]),
                fin=random.random() < 0.8,
                rsv=random.choice([0, 0, 0, 1, 4]),
                mask=random.random() < 0.9,
            )
            cut = random.randrange(len(sent)) if random.random() < 0.2 else len(sent)
            stranger.writer.write(sent[:cut])
        with suppress(OSError):  # it may be over already
            stranger.writer.write_eof()
        with suppress(ConnectionError):
            assert await stranger.over()
        other.say("ping", id="1")
        assert (await other.first("pong"))["reply_to"] == "1"


# The server's thread uses what hypothesis takes for a strategy's own randomness.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
def test_bytes_of_any_kind_hurt_nobody(live: Live, fuzzing: Budget) -> None:
    strategy = st.randoms(use_true_random=False)
    fuzzing.explore(strategy, TRIES, lambda random: asyncio.run(play(live, random)))
