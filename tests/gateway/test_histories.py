"""Random histories of a run and of several devices: what each device shows is what the server serves, or nothing.

After each step every device that looks and may look has the run at the version of getRun and equal to it; a device that
does not look, or may not, has not got a byte of it since.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import aiohttp
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from livebox.world import OWNER
from tests.fixtures.server import Live
from tests.fixtures.stage import Held, Stage
from tests.gateway.device import Device, Devices, by_run
from tests.gateway.test_focus import still

DEVICES: Final = 4
KEYS: Final = st.sampled_from(["a", "b", "0", "-", "01"])
TEXTS: Final = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20)

VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "/headline": TEXTS,
    "/text": st.fixed_dictionaries({"content": TEXTS}),
    "/metrics": st.fixed_dictionaries(
        {}, optional={"tool_calls": st.integers(0, 9), "input_tokens": st.integers(0, 99)}
    ),
}
KEYED: Final[dict[str, st.SearchStrategy[Any]]] = {
    "/plan/items/": st.fixed_dictionaries(
        {"ordinal": st.integers(0, 9), "title": TEXTS, "status": st.sampled_from(["pending", "in_progress", "done"])}
    ),
    "/refs/": st.fixed_dictionaries({"kind": st.just("artifact"), "reference": TEXTS}),
}


@st.composite
def ops(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Operations of a patch; some of them will not fit the document."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        keyed = draw(st.booleans())
        where = draw(st.sampled_from([*KEYED] if keyed else [*VALUES]))
        path = where + draw(KEYS) if keyed else where
        op = draw(st.sampled_from(["add", "add", "replace", "remove"]))
        found.append(
            {"op": op, "path": path}
            if op == "remove"
            else {"op": op, "path": path, "value": draw((KEYED if keyed else VALUES)[where])}
        )
    return found


NUMBERS: Final = st.integers(0, DEVICES - 1)
STEPS: Final = st.one_of(
    st.tuples(st.just("patch"), ops()),
    st.tuples(st.just("patch"), ops()),
    st.tuples(st.just("step"), st.none()),
    st.tuples(st.just("ask and go on"), st.none()),
    st.tuples(st.just("follow up"), st.none()),
    st.tuples(st.just("cancel"), st.none()),
    st.tuples(st.just("look"), st.tuples(NUMBERS, st.sampled_from(["thread", "run", "both"]))),
    st.tuples(st.just("look away"), NUMBERS),
    st.tuples(st.just("drop"), NUMBERS),
    st.tuples(st.just("revoke"), NUMBERS),
    st.tuples(st.just("grant"), NUMBERS),
    st.tuples(st.just("finish"), st.none()),
)


class History:
    """One run, its agent and some devices, each of a person of its own."""

    def __init__(self, stage: Stage, devices: Devices) -> None:
        self.stage = stage
        self.devices = devices
        self.held: Held = stage.running()
        self.place = stage.world.channels["Support/Escalation"]
        self.people = [stage.principal() for _ in range(DEVICES)]
        self.grants: list[str] = []
        self.here: list[Device] = []
        self.looking = [False] * DEVICES
        self.allowed = [True] * DEVICES
        self.quiet = [0] * DEVICES

    async def begin(self) -> None:
        """Everybody comes; everybody may look, nobody does."""
        for handle in self.people:
            self.stage.live.tokens[handle] = self.stage.live.issue(handle)
            self.grants.append(self.stage.grant(handle, "read", channel_id=self.place)["id"])
            self.here.append(await self.devices.enter(handle))
        self.agent = await self.devices.enter("lotse", capabilities={"invocations": 0})

    async def do(self, step: str, what: Any) -> None:
        """One step, and what must be so after it."""
        await getattr(self, step.replace(" ", "_"))(what)
        await self.check()

    async def patch(self, operations: list[dict[str, Any]]) -> None:
        version = self.served()["version"]
        await self.agent.ask(
            "run.update", run_id=self.held.id, invocation=self.held.token, base_version=version, ops=operations
        )

    def call(self, handle: str, operation: str, body: dict[str, Any]) -> None:
        headers = self.held.headers if handle == "lotse" else {}
        self.stage.as_(handle).call(operation, body, headers=headers, run_id=self.held.id)

    async def step(self, _: None) -> None:
        if not self.over():
            self.stage.step(self.held)

    async def ask_and_go_on(self, _: None) -> None:
        self.call("lotse", "awaitRunInput", {"prompt": "Which week?"})
        self.call("lotse", "resumeRun", {})

    async def follow_up(self, _: None) -> None:
        if not self.over():
            self.stage.message(self.held.run["thread_id"], "alex", "And last week?")

    async def cancel(self, _: None) -> None:
        self.call("alex", "cancelRun", {})

    async def finish(self, _: None) -> None:
        self.call("lotse", "finishRun", {"state": "completed"})

    async def look(self, what: tuple[int, str]) -> None:
        number, how = what
        focus: dict[str, Any] = {}
        if how != "run":
            focus["thread_ids"] = [self.held.run["thread_id"]]
        if how != "thread":
            focus["run_ids"] = [self.held.id]
        answer = await self.here[number].ask("focus", **focus)
        seen = self.allowed[number]
        assert answer["thread_ids"] == (focus.get("thread_ids", []) if seen else [])
        assert answer["run_ids"] == (focus.get("run_ids", []) if seen else [])
        # By its thread an ended run is not looked at.
        self.looking[number] = seen and (how != "thread" or not self.over())
        if not self.looking[number]:
            self._hush(number)

    async def look_away(self, number: int) -> None:
        await self.here[number].ask("focus")
        self.looking[number] = False
        self._hush(number)

    async def drop(self, number: int) -> None:
        transport: Any = self.here[number].socket._response.connection.transport  # type: ignore[union-attr]
        transport.abort()
        self.here[number] = await self.devices.enter(self.people[number])
        self.looking[number] = False
        self._hush(number)

    async def revoke(self, number: int) -> None:
        if self.allowed[number]:
            self.stage.as_(OWNER).call("revokeAccess", grant_id=self.grants[number]).ok()
            await self.here[number].settled()
            self.allowed[number] = self.looking[number] = False
            self._hush(number)

    async def grant(self, number: int) -> None:
        if not self.allowed[number]:
            self.grants[number] = self.stage.grant(self.people[number], "read", channel_id=self.place)["id"]
            self.allowed[number] = True

    def _hush(self, number: int) -> None:
        self.quiet[number] = len(self.here[number].frames)

    def served(self) -> dict[str, Any]:
        return still(self.stage.as_(OWNER).call("getRun", run_id=self.held.id).ok())

    def over(self) -> bool:
        """Has the run ended?"""
        return self.served()["state"] not in ("queued", "running", "waiting_input")

    async def check(self) -> None:
        wanted = self.served()
        for number, device in enumerate(self.here):
            if self.looking[number]:
                await device.until(
                    lambda device=device: device.documents[self.held.id]["version"] >= wanted["version"], "the version"
                )
                assert still(device.documents[self.held.id]) == wanted
            else:
                await device.settled()
                assert not by_run(device.frames[self.quiet[number] :])
            if not self.allowed[number]:
                later = [frame for frame in device.frames[self.quiet[number] :] if frame["type"] == "event"]
                assert self.held.run["thread_id"] not in str(later)
            assert not device.gaps


@pytest.fixture(scope="module")
def stage(live: Live) -> Any:
    stage = Stage(live)
    yield stage
    stage.close()


# A failing history is told as it is: making it shorter takes minutes, since each one is played on a real server.
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)
@given(steps=st.lists(STEPS, min_size=4, max_size=14))
def test_devices_show_what_is_served_or_nothing(stage: Stage, steps: list[tuple[str, Any]]) -> None:
    async def play() -> None:
        async with aiohttp.ClientSession() as session:
            devices = Devices(session, stage.live)
            history = History(stage, devices)
            await history.begin()
            for step, what in steps:
                await history.do(step, what)
            await devices.close()

    asyncio.run(play())
