"""kill -9 of the server or of the agent while work is handed over: each run is done, and done once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from typing import Any

import aiohttp
import pytest

from tests.faults.agents import Crew
from tests.fixtures.serving import Serving, Spawn
from tests.fixtures.waiting import eventually

ROUNDS = 4
RUNS = 4  # of each round
QUICK = {
    "LIVEBOX_RUN_CLAIM_LEASE": "1",
    "LIVEBOX_GATEWAY_ACK_TIMEOUT": "0.3",
    "LIVEBOX_GATEWAY_POLL_INTERVAL": "0.1",
    "LIVEBOX_RUN_LIFE_FLUSH_INTERVAL": "0.1",
}


class Agent:
    """An agent that connects again and again, and works on what it is handed. `forget` is its own kill -9.

    `deaf`: it takes nothing that it is handed, so that nothing is acknowledged.
    """

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.handed: Counter[str] = Counter()
        self.started: Counter[str] = Counter()
        self.deaf = False
        self._known: set[str] = set()
        self._working: set[asyncio.Task[None]] = set()
        self._task = asyncio.create_task(self._run())

    async def forget(self) -> None:
        """It dies, with all that it knew and did."""
        for task in (self._task, *self._working):
            task.cancel()
        await asyncio.gather(self._task, *self._working, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with (
                    aiohttp.ClientSession() as client,
                    client.ws_connect(f"{self.crew.server.url}/v1/gateway") as ws,
                ):
                    hello = {"type": "hello", "token": self.crew.agent, "capabilities": {"invocations": 3}}
                    await ws.send_json(hello)
                    async for message in ws:
                        await self._take(ws, json.loads(message.data))
            await asyncio.sleep(0.05)

    async def _take(self, ws: Any, frame: dict[str, Any]) -> None:
        if frame["type"] != "agent.invocation":
            return
        run_id = frame["invocation"]["run"]["id"]
        self.handed[run_id] += 1
        if self.deaf:
            return
        await ws.send_json({"type": "ack", "work": "invocation", "run_id": run_id})
        if frame["claim_id"] not in self._known:  # it may come twice, and is told by its claim then
            self._known.add(frame["claim_id"])
            task = asyncio.create_task(self._work(run_id, frame["invocation"]["token"]))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    async def _work(self, run_id: str, token: str) -> None:
        if await self._call(run_id, "start", {}, token):
            self.started[run_id] += 1
            await asyncio.sleep(random.uniform(0, 0.05))
            await self._call(run_id, "finish", {"state": "completed"}, token)

    async def _call(self, run_id: str, what: str, body: dict[str, Any], token: str) -> bool:
        """Done, or refused; what nobody answers is asked again."""
        headers = {"Authorization": f"Bearer {self.crew.agent}", "Livebox-Invocation": token}
        while True:
            url = f"{self.crew.server.url}/v1/runs/{run_id}/{what}"
            try:
                async with aiohttp.ClientSession(headers=headers) as client, client.post(url, json=body) as answer:
                    if answer.status < 500:
                        return answer.status == 200
            except (aiohttp.ClientError, OSError):
                pass
            await asyncio.sleep(0.05)


def all_done(crew: Crew, runs: list[str]) -> bool:
    return {crew.state(run)[0] for run in runs} == {"completed"}


async def started(spawn: Spawn, dsn: str) -> Serving:
    return await asyncio.to_thread(lambda: spawn(DATABASE_URL=dsn, **QUICK).ready())


@pytest.mark.timeout(600)
async def test_a_server_that_is_killed_while_it_hands_out_work(spawn: Spawn, database_dsn: str) -> None:
    crew = await asyncio.to_thread(Crew, await started(spawn, database_dsn), database_dsn)
    agent = Agent(crew)
    runs: list[str] = []
    for _ in range(ROUNDS):
        agent.deaf = random.random() < 0.5
        before = agent.handed.total()  # one that takes nothing has room for no more than what it was handed already
        runs += [(await asyncio.to_thread(crew.queued))[0] for _ in range(RUNS)]
        await eventually(lambda before=before: agent.handed.total() > before, "work")
        crew.server.process.kill()
        await asyncio.to_thread(crew.server.process.communicate)
        agent.deaf = False
        crew.server = await started(spawn, database_dsn)
    await eventually(lambda: all_done(crew, runs), "the end of all runs")
    assert agent.started == Counter(runs)
    assert crew.sql("SELECT count(*) FROM livebox.runs") == [(len(runs),)]
    await agent.forget()


@pytest.mark.timeout(600)
async def test_an_agent_that_is_killed_while_it_is_handed_work(spawn: Spawn, database_dsn: str) -> None:
    """What it had not acknowledged goes to its successor."""
    crew = await asyncio.to_thread(Crew, await started(spawn, database_dsn), database_dsn)
    runs: list[str] = []
    handed: Counter[str] = Counter()
    for _ in range(ROUNDS):
        agent = Agent(crew)
        agent.deaf = True
        made = [(await asyncio.to_thread(crew.queued))[0] for _ in range(RUNS)]
        runs += made
        await eventually(lambda agent=agent: sum(agent.handed.values()), "work")
        await agent.forget()
        handed += agent.handed
    last = Agent(crew)
    await eventually(lambda: all_done(crew, runs), "the end of all runs")
    assert last.started == Counter(runs)
    assert handed
    await last.forget()
    assert crew.server.end()[0] == 0
