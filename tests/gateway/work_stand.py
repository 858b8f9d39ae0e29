"""Sessions of agents that are no sockets, and the part of a server that hands them work."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from db import Caller, Database
from livebox.context import Plant
from livebox.cursors import Cursors
from livebox.gateway.feed import Feed
from livebox.gateway.frames import Frame
from livebox.gateway.work import Work
from livebox.invocations import Invocation, Invocations
from livebox.jobs.life import Life
from livebox.key import Value
from livebox.service import Service
from livebox.settings import Settings
from livebox.telemetry import Telemetry
from tests.fixtures.waiting import eventually
from tests.runs.stage import LIMITS, Stage
from tests.runs.stage import Work as Held

Row = dict[str, Any]
KEY = Ed25519PrivateKey.generate()


class Device:
    """A session of an agent, as `work` sees it. `got` are the frames that it was sent."""

    def __init__(self, stand: Stand, agent: str, invocations: int | None) -> None:
        self._stand = stand
        self.agent = agent
        self.principal_id = stand.stage.id(agent)
        self.kind = "agent"
        self.caller: Caller = stand.stage.caller(agent)
        self.invocations = invocations
        self.held: dict[str, Invocation] = {}
        self.gone = False
        self.got: list[Row] = []

    def send(self, frame: Frame) -> None:
        assert not self.gone
        data = frame.data
        head = {126: 4, 127: 10}.get(data[1], 2)
        self.got.append(json.loads(data[head:]))

    def hold(self, invocation: Invocation) -> None:
        new = self.held.get(invocation.run_id) != invocation
        self.held[invocation.run_id] = invocation
        if new:
            self._stand.work.holds(self, invocation.run_id)

    def release(self, run_id: str) -> None:
        self.held.pop(run_id, None)

    def close(self) -> None:
        self.gone = True
        self._stand.work.ended(self)

    def ack(self, work: str, run_id: str, **more: str) -> None:
        self._stand.work.acknowledged(self, {"type": "ack", "work": work, "run_id": run_id, **more})

    def frames(self, kind: str) -> list[Row]:
        """What it got of a kind."""
        return [frame for frame in self.got if frame["type"] == kind]

    def runs(self) -> list[str]:
        """The runs that it was handed."""
        return [frame["invocation"]["run"]["id"] for frame in self.frames("agent.invocation")]

    def taken(self, number: int = 0) -> Held:
        """A run that it was handed, to do something with."""
        frame = self.frames("agent.invocation")[number]
        run_id = frame["invocation"]["run"]["id"]
        invocation = self._stand.plant.invocations.verify(frame["invocation"]["token"], run_id)
        return Held(self.agent, dict(invocation.claims()), frame["invocation"])


class Stand:
    """One process that hands out work. `turn` does what it does by itself when it is started."""

    def __init__(self, stage: Stage, database: Database | None = None, **chosen: Value) -> None:
        settings = Settings.load(
            {},
            {"run.claim_lease": LIMITS["run.claim_lease"], "gateway.poll_interval": 60, "gateway.ack_timeout": 600}
            | {name.replace("__", "."): value for name, value in chosen.items()},
        )
        self.stage = stage
        self.database = database or stage.db
        telemetry, invocations = Telemetry([]), Invocations([KEY])
        service = Service(self.database, telemetry, invocations)
        life = Life(self.database, settings)
        self.plant = Plant(settings, self.database, telemetry, service, Cursors(bytes(32)), invocations, life)
        self.work = Work(self.plant)
        self.feed = Feed(self.database, settings)
        self.feed.on_event = self.work.heard

    def device(self, agent: str = "lotse", invocations: int | None = None) -> Device:
        """A session begins."""
        made = Device(self, agent, invocations)
        self.work.begun(made)
        return made

    async def turn(self) -> None:
        """What the log tells, then one turn."""
        (row,) = self.stage.sql("SELECT livebox.last_seq() AS top")
        assert await self.feed.reached(row["top"], 30)
        await self.work.turn()


@asynccontextmanager
async def standing(
    stage: Stage, database: Database | None = None, *, started: bool = False, **chosen: Value
) -> AsyncIterator[Stand]:
    """A stand whose feed follows the log; `started`: it hands out work by itself."""
    stand = Stand(stage, database, **chosen)
    await stand.feed.start()
    if started:
        stand.work.start()
        stand.database.lane.on_commit = stand.feed.wake
    try:
        yield stand
    finally:
        await stand.work.stop()
        await stand.feed.stop()
        stand.plant.telemetry.close()


async def got(device: Device, kind: str, condition: Callable[[Row], bool] = lambda _: True) -> Row:
    """The first frame of a kind that meets the condition, when it comes."""

    def found() -> Row | None:
        return next(filter(condition, device.frames(kind)), None)

    frame: Row = await eventually(found, kind)
    return frame
