"""People and adapters that go on through every end of the server: each request is repeated until it is answered.

What the server acknowledged is kept, to be held against what is there in the end.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import aiohttp

BUSY: Final = (429, 503)
PAUSE: Final = 0.05
"""Seconds until a client that was told to come later comes again."""
RECENT: Final = 12
"""So many of the newest threads and runs are still talked about."""


class Got(NamedTuple):
    """An answer that settles a request."""

    status: int
    body: Any


def new_id(chance: random.Random) -> str:
    """An id that a client chooses."""
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


class GaveUp(Exception):
    """The client went away before it was answered: nobody knows whether its request was carried out."""


@dataclass
class Ledger:
    """What clients sent, and what they were told of it."""

    threads: dict[str, str] = field(default_factory=dict)  # title -> id
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)  # client_msg_id -> the first answer
    unsettled: set[str] = field(default_factory=set)  # client_msg_ids and summaries of those who gave up
    started: dict[str, str] = field(default_factory=dict)  # run -> started_at
    steps: dict[str, str] = field(default_factory=dict)  # step -> run
    taken: set[tuple[str, str]] = field(default_factory=set)  # run, message
    finished: dict[str, tuple[str, str]] = field(default_factory=dict)  # run -> state, summary
    refused: set[str] = field(default_factory=set)  # summaries of ends that were refused
    cancelled: set[str] = field(default_factory=set)
    cancelling: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)


class Crowd:
    """All clients, on whichever server is there now. `seed` fixes what each of them wants."""

    def __init__(self, session: aiohttp.ClientSession, seed: int, channel: str, agent_id: str) -> None:
        self.session = session
        self.seed = seed
        self.channel = channel
        self.agent_id = agent_id
        self.ledger = Ledger()
        self.threads: list[str] = []
        self.runs: list[str] = []
        self._moments = 0
        self._goal = 0
        self._reached = asyncio.Event()
        self.going = True
        self._url = ""
        self._there = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, people: list[str], adapters: list[str]) -> None:
        """One client for each token."""
        for number, token in enumerate(people):
            self._tasks.append(asyncio.create_task(Person(self, f"person {number}", token).live()))
        for number, token in enumerate(adapters):
            self._tasks.append(asyncio.create_task(Adapter(self, f"adapter {number}", token).live()))

    def at(self, url: str) -> None:
        """The server is there."""
        self._url = url
        self._there.set()

    def nowhere(self) -> None:
        """The server goes away now."""
        self._there.clear()

    async def moves_on(self, moments: int) -> None:
        """So many more requests go out or are answered; fails with a client that failed."""
        self._goal = self._moments + moments
        self._reached.clear()
        moved = asyncio.create_task(self._reached.wait())
        await asyncio.wait([moved, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        moved.cancel()
        for task in self._tasks:
            if task.done():
                task.result()
                raise AssertionError("a client left")

    async def leave(self) -> None:
        """Everybody finishes what they are at, and goes."""
        self.going = False
        await asyncio.gather(*self._tasks)

    def end(self) -> None:
        """Whoever is still there stops where they are."""
        for task in self._tasks:
            task.cancel()

    async def ask(
        self,
        method: str,
        path: str,
        token: str,
        body: Any = None,
        *,
        patient: bool = True,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Got:
        """The answer that settles it, whatever happens to the server in between."""
        sent = {**headers, "Authorization": f"Bearer {token}"}
        while True:
            await self._there.wait()
            self._moved()
            try:
                async with self.session.request(method, self._url + path, json=body, headers=sent) as answer:
                    content = await answer.json(content_type=None)
                    status = answer.status
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
                if not patient:
                    raise GaveUp from None
                await asyncio.sleep(0)
                continue
            self._moved()
            self.ledger.answers[f"{status} {content.get('code', '')}".strip()] += 1
            if status in BUSY:
                await asyncio.sleep(PAUSE)
                continue
            assert status < 500, (method, path, content)
            return Got(status, content)

    def _moved(self) -> None:
        self._moments += 1
        if self._moments >= self._goal:
            self._reached.set()


class Person:
    """Opens threads, says things there, some of them twice, and cancels runs."""

    def __init__(self, crowd: Crowd, name: str, token: str) -> None:
        self.crowd = crowd
        self.ledger = crowd.ledger
        self.random = random.Random(f"{crowd.seed} {name}")
        self.token = token

    async def live(self) -> None:
        """Until the crowd leaves."""
        while self.crowd.going:
            wants = self.random.random()
            if not self.crowd.threads or wants < 0.25:
                await self.opens()
            elif wants < 0.75:
                await self.says()
            elif wants < 0.85:
                await self.says_again()
            elif self.crowd.runs:
                await self.cancels()

    async def opens(self) -> None:
        """A thread of their own."""
        title = f"report-{self.random.getrandbits(64):x}"
        path = f"/v1/channels/{self.crowd.channel}/threads"
        got = await self.crowd.ask("POST", path, self.token, {"title": title}, headers={"Idempotency-Key": title})
        assert got.status == 201, got
        self.ledger.threads[title] = got.body["id"]
        self.crowd.threads.append(got.body["id"])

    async def says(self) -> None:
        """Something in one of the newest threads; sometimes they do not wait for the answer."""
        thread = self.random.choice(self.crowd.threads[-RECENT:])
        key = new_id(self.random)
        request: dict[str, Any] = {"body": "Which files changed?", "client_msg_id": key}
        if self.random.random() < 0.5:
            request["mentions"] = [self.crowd.agent_id]
        patient = self.random.random() < 0.9
        try:
            got = await self.crowd.ask("POST", f"/v1/threads/{thread}/messages", self.token, request, patient=patient)
        except GaveUp:
            self.ledger.unsettled.add(key)
            return
        assert got.status == 201, got
        self.ledger.messages[key] = {**got.body, "request": request, "by": self.token}

    async def says_again(self) -> None:
        """Somebody doubts that a message arrived."""
        if not self.ledger.messages:
            return
        first = self.random.choice(list(self.ledger.messages.values())[-100:])
        path = f"/v1/threads/{first['thread_id']}/messages"
        got = await self.crowd.ask("POST", path, first["by"], first["request"])
        assert (got.status, got.body["id"]) == (201, first["id"])

    async def cancels(self) -> None:
        """One of the newest runs."""
        run = self.random.choice(self.crowd.runs[-RECENT:])
        got = await self.crowd.ask("POST", f"/v1/runs/{run}/cancel", self.token, {})
        if got.status == 200:
            assert got.body["state"] == "cancelled"
            self.ledger.cancelled.add(run)
        elif got.status == 202:
            self.ledger.cancelling.add(run)
        else:
            assert got.body["code"] in ("run_ended", "forbidden"), got


class Lost(Exception):
    """The run is no longer this adapter's."""


class Adapter:
    """Takes runs, works on them and ends them; sometimes it just walks away."""

    def __init__(self, crowd: Crowd, name: str, token: str) -> None:
        self.crowd = crowd
        self.ledger = crowd.ledger
        self.random = random.Random(f"{crowd.seed} {name}")
        self.token = token
        self.run = ""
        self.invocation = ""

    async def live(self) -> None:
        """Until the crowd leaves."""
        while self.crowd.going:
            body = {"claim_id": new_id(self.random), "limit": 2}
            got = await self.crowd.ask("POST", "/v1/invocations/claim", self.token, body)
            assert got.status == 200, got
            for item in got.body["items"]:
                self.run, self.invocation = item["run"]["id"], item["token"]
                self.crowd.runs.append(self.run)
                try:
                    await self.works(item["kind"])
                except Lost:
                    continue

    async def works(self, kind: str) -> None:
        """From the start to the end of one run."""
        if kind == "start":
            started = await self.does("POST", "start", {})
            self.ledger.started[self.run] = started["started_at"]
        else:
            await self.takes()
            await self.does("POST", "resume", {})
        acts: list[Callable[[], Any]] = [self.records, self.renews, self.beats, self.takes, self.asks]
        for act in self.random.choices(acts, [6, 2, 2, 3, 1], k=self.random.randint(0, 4)):
            await act()
        if self.random.random() < 0.9:
            await self.finishes()

    async def does(self, method: str, action: str, body: Any, *, patient: bool = True) -> Any:
        """A step of run control: what it answers; Lost when it is refused."""
        path = f"/v1/runs/{self.run}/{action}"
        got = await self.crowd.ask(
            method, path, self.token, body, patient=patient, headers={"Livebox-Invocation": self.invocation}
        )
        if got.status == 409:
            raise Lost
        assert got.status == 200, (action, got)
        return got.body

    async def records(self) -> None:
        """A step under an id of its own."""
        step = new_id(self.random)
        await self.does("PUT", f"steps/{step}", {"kind": "tool", "name": "read"})
        self.ledger.steps[step] = self.run

    async def renews(self) -> None:
        """The next token."""
        self.invocation = (await self.does("POST", "renew-token", {}))["token"]

    async def beats(self) -> None:
        """A sign of life, and that a request to cancel was seen."""
        await self.does("POST", "heartbeat", self.random.choice([{}, {"cancel_seen": True}]))

    async def takes(self) -> None:
        """What was said meanwhile."""
        got = await self.crowd.ask("GET", f"/v1/runs/{self.run}/followups", self.token)
        assert got.status == 200, got
        for item in got.body["items"]:
            if item["followup"]["state"] == "pending":
                message = item["followup"]["message_id"]
                await self.does("POST", f"followups/{message}/ack", {})
                self.ledger.taken.add((self.run, message))

    async def asks(self) -> None:
        """A question; half of the time somebody else will hear the answer."""
        await self.takes()
        await self.does("POST", "await-input", {"prompt": "Which one?"})
        if self.random.random() < 0.5:
            raise Lost
        await self.does("POST", "resume", {})

    async def finishes(self) -> None:
        """One end that nobody else reports; sometimes the adapter does not wait for the answer."""
        summary = f"e-{self.random.getrandbits(64):x}"
        body = {"state": "completed", "summary": summary}
        if self.random.random() < 0.3:
            body |= {"state": "failed", "reason": "runtime_error"}
        try:
            ended = await self.does("POST", "finish", body, patient=self.random.random() < 0.9)
        except GaveUp:
            self.ledger.unsettled.add(summary)
        except Lost:
            self.ledger.refused.add(summary)
            raise
        else:
            self.ledger.finished[self.run] = ended["state"], summary
