"""What is played is no proof: answers of the mock and of stubs count for nothing in the coverage of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.fixtures.received import KEPT, Frame, Response


@contextmanager
def unseen() -> Iterator[tuple[list[Response], list[Frame]]]:
    """Takes away what is received while the block runs; afterwards it is in the lists that this gives."""
    before = len(KEPT.responses), len(KEPT.frames), len(KEPT.closes)
    responses: list[Response] = []
    frames: list[Frame] = []
    try:
        yield responses, frames
    finally:
        responses += [KEPT.responses.pop() for _ in range(len(KEPT.responses) - before[0])][::-1]
        frames += [KEPT.frames.pop() for _ in range(len(KEPT.frames) - before[1])][::-1]
        for _ in range(len(KEPT.closes) - before[2]):
            KEPT.closes.pop()
