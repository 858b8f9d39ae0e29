"""Anything in any order: patches, transitions, steps, raises from elsewhere, devices, hand-overs, lost pokes and kills.

Whenever a device is told that it is up to date it has what getRun shows, no version goes back, and nothing that was
acknowledged is missing unless the process that had it was killed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any, ClassVar, Final, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from db import Database
from db.embedded import Server
from livebox.live.difference import same
from livebox.live.patch import PatchRefused
from livebox.world import World
from tests.fixtures.database import fresh_database
from tests.fixtures.waiting import eventually
from tests.live.documents import places, pointer, values
from tests.live.process import Device, Process, headline, quiet
from tests.runs.stage import Stage, Work

STEPS: Final = 40
EXAMPLES: Final = 12
PLACES: Final = places()

T = TypeVar("T")
which = st.integers(0, 1)


@st.composite
def ops(draw: Any) -> list[dict[str, Any]]:
    made = []
    for _ in range(draw(st.integers(1, 3))):
        tokens, nodes = draw(st.sampled_from(PLACES))
        op = draw(st.sampled_from(["add", "add", "replace", "remove"]))
        made.append(
            {"op": op, "path": pointer(tokens)} | ({} if op == "remove" else {"value": draw(values(nodes[-1]))})
        )
    return made


class Machine(RuleBasedStateMachine):
    """One run, worked on by its agent through two processes while a third one meddles."""

    met: ClassVar[Counter[str]] = Counter()

    def __init__(self, server: Server, template: tuple[str, World]) -> None:
        super().__init__()
        self._open = ExitStack()
        name, world = template
        dsn = self._open.enter_context(fresh_database(server, name))
        self._runner = self._open.enter_context(asyncio.Runner())
        database = Database(dsn, readers=2)
        self.go(database.start())
        self._open.callback(lambda: self.go(database.stop()))
        self.stage = Stage(database, dsn, world)
        self.processes: list[Process] = []
        self.devices: list[tuple[Process, Device]] = []
        self.work: Work
        self.message: dict[str, Any]
        self.base = 1
        self.acknowledged = 0
        self.content: dict[str, Any] | None = None

    def go(self, what: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(what)

    def teardown(self) -> None:
        for process in self.processes:
            self.go(process.stop())
        self._open.close()

    @initialize()
    def prepare(self) -> None:
        self.message, self.work = self.go(self.stage.working())
        for _ in range(2):
            self.joins()

    def joins(self) -> None:
        process = Process(self.stage, run__version_block=8, run__live_lease=0.5)
        self.go(process.database.start())
        self.go(process.plane.start())
        for other in self.processes:
            other.neighbours.append(process)
            process.neighbours.append(other)
        self.processes.append(process)

    @rule(data=st.data())
    def acts(self, data: st.DataObject) -> None:
        """Something happens; mostly patches."""
        draw = data.draw
        at = draw(which)
        actions: dict[str, tuple[int, Callable[[], None]]] = {
            "patches": (10, lambda: self.patches(at, draw(ops()), draw(st.booleans()), draw(st.integers(0, 9)))),
            "patches until taken": (4, lambda: self.patches_until_taken(at, draw(st.sampled_from(["one", "two"])))),
            "works": (5, lambda: self.works(at, draw(st.sampled_from(["step", "step", "ask", "resume", "beat"])))),
            "meddles": (3, lambda: self.somebody_else(draw(st.sampled_from(["say", "cancel", "renew"])))),
            "looks": (3, lambda: self.looks(at)),
            "leaves": (1, lambda: self.leaves(draw(st.integers(0, 3)))),
            "deaf": (1, lambda: self.pokes_are_lost(at, draw(st.booleans()))),
            "saves": (1, lambda: self.saves(at)),
            "killed": (1, lambda: self.is_killed(at)),
            "stops": (1, lambda: self.stops(at)),
            "told": (4, self.is_told),
            "finishes": (1, lambda: self.finishes(at, draw(st.integers(0, 2)))),
        }
        name = draw(st.sampled_from([name for name, (weight, _) in actions.items() for _ in range(weight)]))
        actions[name][1]()

    # --- the agent --------------------------------------------------------------------------------------------------

    def patches(self, at: int, made: list[dict[str, Any]], quick: bool, late: int) -> None:
        process = self.processes[at]
        base = self.base if late else max(1, self.base - 1)
        version = self.go(process.tried(self.work, base, *made, quick=quick))
        if isinstance(version, PatchRefused):
            self.met[version.code] += 1
            if version.code == "version_conflict":
                assert version.extra["run"]["version"] >= self.acknowledged
                self.base = version.extra["run"]["version"]
            return
        self.met["applied"] += 1
        assert version > self.acknowledged
        self.base = self.acknowledged = version
        run = self.go(process.get_run(self.work.run_id))
        assert run["version"] >= version
        self.content = members(run)

    def patches_until_taken(self, at: int, text: str) -> None:
        async def once() -> bool:
            version = await self.processes[at].tried(self.work, self.base, headline(text))
            if isinstance(version, PatchRefused):
                if version.code == "version_conflict":
                    self.base = version.extra["run"]["version"]
                return version.code == "run_ended"
            assert version > self.acknowledged
            self.met["applied"] += 1
            self.base = self.acknowledged = version
            self.content = members(await self.processes[at].get_run(self.work.run_id))
            assert self.content["headline"] == text
            return True

        for process in self.processes:
            process.deaf = False
        self.go(eventually(once, "a patch that is taken"))

    def works(self, at: int, what: str) -> None:
        process = self.processes[at]
        if what == "step":
            body = {"kind": "tool", "name": "read"}
            answer = self.go(process.control("record_run_step", self.work, body, step_id=str(uuid.uuid4())))
        elif what == "ask":
            answer = self.go(process.control("await_run_input", self.work, {"prompt": "Which?"}))
        elif what == "resume":
            answer = self.go(process.control("resume_run", self.work))
        else:
            answer = self.go(process.control("beat_run", self.work, {"cancel_seen": True}))
        self.met[f"{what} {answer.code}"] += 1

    def finishes(self, at: int, luck: int) -> None:
        if luck or not self.acknowledged:  # after the end there is little left to try
            return
        body = {"state": "completed", "metrics": {"tool_calls": 7}}
        answer = self.go(self.processes[at].control("finish_run", self.work, body))
        self.met[f"finish {answer.code}"] += 1
        if self.content is not None and answer.code == "ok":
            self.content = {**self.content, "metrics": {**self.content.get("metrics", {}), "tool_calls": 7}}

    # --- others -----------------------------------------------------------------------------------------------------

    def somebody_else(self, what: str) -> None:
        """Through a process that pokes nobody."""
        if what == "say":
            self.go(self.stage.post("alex", self.message["thread_id"], body="And?"))
        elif what == "cancel":
            self.go(self.stage.cancel("alex", self.work.run_id))
        elif self.go(self.stage.control("renew_invocation_token", self.work)).code == "ok":
            self.work = self.go(self.stage.renew(self.work))

    def looks(self, at: int) -> None:
        if len(self.devices) < 4:
            process = self.processes[at]
            self.devices.append((process, self.go(process.look(self.work.run_id))))

    def leaves(self, at: int) -> None:
        if at < len(self.devices):
            process, device = self.devices.pop(at)
            process.leave(self.work.run_id, device)

    def pokes_are_lost(self, at: int, deaf: bool) -> None:
        self.processes[at].deaf = deaf

    def saves(self, at: int) -> None:
        self.go(self.processes[at].plane._keeper.save())

    def is_killed(self, at: int) -> None:
        process = self.processes.pop(at)
        self.devices = [(where, device) for where, device in self.devices if where is not process]
        owned = process.plane.serves(self.work.run_id)
        self.go(process.die())
        self.go(process.database.stop())
        if owned:
            self.content = None
        self.joins()

    def stops(self, at: int) -> None:
        process = self.processes.pop(at)
        self.devices = [(where, device) for where, device in self.devices if where is not process]
        for neighbour in process.neighbours:
            neighbour.neighbours.remove(process)
        self.go(process.stop())
        self.joins()

    # --- what holds -------------------------------------------------------------------------------------------------

    def is_told(self) -> None:
        self.go(self._told())

    async def _told(self) -> None:
        async def calm() -> bool:
            for process in self.processes:
                await process.plane.poll()
                await process.plane.absorb_pending()
                await process.plane._keeper.save()
            shown = [await process.get_run(self.work.run_id) for process in self.processes]
            runs = [*shown, *(device.run for _, device in self.devices)]
            row = self.stage.row(self.work.run_id)
            return all(same(quiet(run), quiet(runs[0])) for run in runs) and row["version"] == runs[0]["version"]

        await eventually(calm, "everybody sees the same")
        run = await self.processes[0].get_run(self.work.run_id)
        alive = self.stage.sql("SELECT owner FROM livebox.live_owners")
        if self.content is not None:
            assert same(members(run), self.content), alive
            assert run["version"] >= self.acknowledged
        for _, device in self.devices:
            assert device.versions == sorted(device.versions)


def members(run: dict[str, Any]) -> dict[str, Any]:
    """What an agent patches of a run."""
    from livebox.live.entry import patchable_half

    return patchable_half(run)


@pytest.mark.timeout(600)
def test_any_order(server: Server, world_template: tuple[str, World]) -> None:
    Machine.met.clear()
    run_state_machine_as_test(
        lambda: Machine(server, world_template),  # type: ignore[arg-type]
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            print_blob=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert {"applied", "version_conflict", "live_elsewhere", "step ok"} <= Machine.met.keys(), Machine.met
