"""What a server process has for live documents, without its sockets: a lane of its own, a plane, and who looks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, Self

from db import Answer, Caller, Database
from generated.validators import checker
from livebox.invocations import Invocation
from livebox.jobs.life import Life
from livebox.key import Value
from livebox.live.difference import VOLATILE
from livebox.live.entry import Entry
from livebox.live.owner import new_owner
from livebox.live.patch import PatchRefused
from livebox.live.plane import Plane, Request
from livebox.settings import Settings
from livebox.telemetry import Telemetry
from tests.live.documents import rfc6902
from tests.runs.stage import LIMITS, Stage, Work

QUICK: Mapping[str, Value] = {
    "run.checkpoint_interval": 0.05,
    "gateway.poll_interval": 0.05,
    "run.live_lease": 1,
    "run.patch_rate": 1e6,
    "run.patch_burst": 10**6,
}


class Process:
    """One process. `neighbours` hear its pokes; those of a process that is `deaf` are lost on the way to it."""

    def __init__(self, stage: Stage, **overrides: Value) -> None:
        self.stage = stage
        self.settings = Settings.load(
            {}, {**QUICK, **{name.replace("__", "."): value for name, value in overrides.items()}}
        )
        self.telemetry = Telemetry([])
        self.database = Database(stage.dsn, on_effects=self._committed)
        self.life = Life(self.database, self.settings)
        self.ahead = 0.0
        self.plane = Plane(
            self.database, self.settings, self.life, self.telemetry, new_owner(), lambda: time.time() + self.ahead
        )
        self.plane.on_frame = self._frame
        self.plane.on_end = lambda entry: self.ended.append(entry.run_id)
        self.plane.on_poke = self._poke
        self.neighbours: list[Process] = []
        self.deaf = False
        self.ended: list[str] = []
        self.devices: dict[str, list[Device]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        await self.database.start()
        await self.plane.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """SIGTERM."""
        await self.plane.stop()
        await self.database.stop()
        self.telemetry.close()

    async def die(self) -> None:
        """kill -9: nothing is saved any more, and nobody says that it is there."""
        for loop in (*self.plane._loops, *self.plane._keeper._loops):
            await loop.stop()
        self.plane._entries.clear()
        for neighbour in self.neighbours:
            neighbour.neighbours.remove(self)

    # --- what agents and people do ----------------------------------------------------------------------------------

    async def patch(self, work: Work, base: int, *ops: dict[str, Any], quick: bool = False) -> int:
        """patchRun, or with `quick` the way of the gateway: in memory when that can be."""
        caller = self.stage.caller(work.agent)
        invocation = Invocation(agent_id=caller.principal, **work.invocation)
        request = Request(base, ops, len(json.dumps(ops)))
        if quick and (version := self.plane.patch_now(caller, work.run_id, invocation, request)) is not None:
            return version
        return await self.plane.patch(caller, work.run_id, invocation, request)

    async def tried(self, work: Work, base: int, *ops: dict[str, Any], quick: bool = False) -> int | PatchRefused:
        """The same, with a refusal as an answer."""
        try:
            return await self.patch(work, base, *ops, quick=quick)
        except PatchRefused as refused:
            return refused

    async def control(self, operation: str, work: Work, body: Mapping[str, Any] | None = None, **args: Any) -> Answer:
        """An operation of run control, as the edge of this process has it done."""
        given = {"run_id": work.run_id, "invocation": work.invocation, "limits": LIMITS, **args}
        if body is not None:
            given["body"] = dict(body)
        return await self.write(operation, self.stage.caller(work.agent), given)

    async def write(self, operation: str, caller: Caller, args: dict[str, Any]) -> Answer:
        """A writing operation, as the edge of this process has it done."""
        async with self.plane.raising(args["run_id"]) as live:
            if live:
                args["live"] = live
            return await self.database.lane.submit(operation, caller, args)

    async def get_run(self, run_id: str, who: str = "owner") -> dict[str, Any]:
        """getRun, as the edge of this process shows it."""
        caller = self.stage.caller(who)
        for _ in range(2):
            answer = await self.database.readers.call("get_run", caller, {"run_id": run_id})
            assert answer.body is not None, answer
            assert answer.version is not None
            live = next((effect for effect in answer.effects if effect["kind"] == "run.live"), None)
            run = json.loads(answer.body)
            if live is None or live["owner"] != self.plane.owner:
                break
            entry = await self.plane.shown(run_id, live["epoch"], answer.version)
            if entry is not None:
                run = json.loads(entry.shown(run))
                break
            if self.plane.serves(run_id):
                break
        assert checker("/schemas/Run")(run) == []
        return dict(run)

    async def look(self, run_id: str) -> Device:
        """A device of this process begins to look at the run."""
        entry = await self.plane.open(run_id)
        assert entry is not None
        device = Device(json.loads(entry.encode()))
        self.devices.setdefault(run_id, []).append(device)
        return device

    def leave(self, run_id: str, device: Device) -> None:
        """It looks no more."""
        self.devices[run_id].remove(device)
        self.plane.release(run_id)

    def _frame(self, entry: Entry, frame: bytes) -> None:
        for device in self.devices.get(entry.run_id, ()):
            device.take(json.loads(frame))

    def _committed(self, effects: list[dict[str, Any]]) -> None:
        self.plane.committed(effects)

    def _poke(self, kind: str, run_ids: list[str]) -> None:
        for neighbour in self.neighbours:
            if neighbour.deaf:
                continue
            if kind == "runs":
                neighbour.plane.raised(run_ids)
            elif kind == "watching":
                neighbour.plane.watching(run_ids)
            else:
                task = asyncio.ensure_future(neighbour.plane.handover(run_ids))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)


class Device:
    """What somebody sees who looks at a run: the document it got first, and every frame after it."""

    def __init__(self, run: dict[str, Any]) -> None:
        self.run = run
        self.versions = [run["version"]]

    def take(self, frame: dict[str, Any]) -> None:
        """Apply one frame; fails the test when it does not lead on from what the device has."""
        assert checker(f"/messages/{frame['type']}")(frame) == []
        if frame["type"] == "run.document":
            assert frame["run"]["version"] >= self.run["version"]
            self.run = frame["run"]
        else:
            assert frame["base_version"] == self.run["version"], "a gap"
            assert frame["version"] > frame["base_version"]
            self.run = {**rfc6902(self.run, frame["ops"]), "version": frame["version"]}
        assert checker("/schemas/Run")(self.run) == []
        self.versions.append(self.run["version"])


def quiet(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run without what moves by itself; its version is in it."""
    return {name: value for name, value in run.items() if name == "version" or name not in VOLATILE}


def headline(text: str) -> dict[str, Any]:
    """An operation that sets the headline."""
    return {"op": "add", "path": "/headline", "value": text}
