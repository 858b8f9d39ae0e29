"""An adapter: what connects an agent to Livebox. It takes runs, gives each to the author's work, and ends each once."""

from __future__ import annotations

import asyncio
import logging
import signal
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from generated.models import Invocation, StartRunRequest
from livebox.client.gateway import Gateway
from livebox.client.handle import RunHandle
from livebox.client.pauses import Pauses
from livebox.client.problems import AdapterError, GatewayAbsent, GatewayLost, Problem, Unreachable
from livebox.client.rest import Rest
from livebox.client.working import Pace, Result, Work, Working

PATIENCE: Final = 120.0  # seconds that a request is repeated while the server is away
LEAVE_GRACE: Final = 8.0  # seconds that an adapter which leaves takes to end its runs
_OUTCAST: Final = frozenset({"invalid_token", "token_expired", "forbidden"})  # the last one is for who is no agent

_log = logging.getLogger("livebox.client")


class Adapter:
    """Takes the runs of one agent and works on them. Subclass it and write `work`, or decorate a function:

        adapter = Adapter(url, token, model="counter")

        @adapter.on_invocation
        async def work(run: RunHandle) -> str:
            return f"You wrote {len(run.prompt.split())} words."

        asyncio.run(adapter.serve())

    What `work` gives is the summary of the completed run. An exception ends it as failed (`WorkFailed` with words for
    people), a request to cancel as cancelled, `leave` or a signal as failed: each run that was begun is ended exactly
    once, also when the server was away meanwhile.

    `concurrency` runs go at once. `name` is what people read where it says why it failed. `model`, and what else
    `start` holds, is told when a run starts. Where there is no gateway it asks for work every `poll` seconds.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        concurrency: int = 1,
        name: str = "The agent",
        model: str | None = None,
        start: StartRunRequest | None = None,
        pace: Pace | None = None,
        patience: float = PATIENCE,
        timeout: float = 20.0,
        poll: float = 1.0,
        use_gateway: bool = True,
    ) -> None:
        self._url = url
        self._rest = Rest(url, token, patience=patience, timeout=timeout)
        self._gateway = (
            Gateway(url, token, invocations=concurrency, resume=False, timeout=timeout) if use_gateway else None
        )
        self._concurrency = concurrency
        self._name = name
        self._start: StartRunRequest = dict(start or {})  # type: ignore[assignment]
        if model is not None:
            self._start["model"] = model
        self._pace = pace or Pace()
        self._poll = poll
        self._leaving = asyncio.Event()
        self._running: dict[str, tuple[Working, asyncio.Task[None]]] = {}
        self._next: dict[str, Invocation] = {}  # of runs whose last holder here has not come to its end
        self._room = asyncio.Event()
        self._work: Work | None = None
        self.abandoned = 0
        """How many runs could not be ended when it left: the server did not answer."""
        self._watched: dict[str, bool] = {}
        self._acks: set[asyncio.Task[None]] = set()

    @property
    def working(self) -> int:
        """How many runs it works on now."""
        return len(self._running)

    def on_invocation(self, work: Work) -> Work:
        """Decorates the coroutine function that works on a run."""
        self._work = work
        return work

    async def work(self, run: RunHandle) -> Result:
        """Work on one run; to be overridden where `on_invocation` is not used."""
        if self._work is None:
            raise NotImplementedError("write `work`, or decorate a function with `on_invocation`")
        return await self._work(run)

    def leave(self) -> None:
        """Take no more work, end the runs, and return from `serve`."""
        self._leaving.set()

    async def serve(self, *, signals: bool = False) -> None:
        """Work until `leave` is called, with `signals` also until SIGTERM or SIGINT.

        Raises GatewayRefused or Problem when the server does not know this agent, AdapterError when the token is no
        agent's. When it is cancelled the runs are left as they are, as by a crash.
        """
        if signals:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.leave)
        async with self._rest:
            if self._gateway is not None:
                self._listen(self._gateway)
                self._gateway.open()
            taking = asyncio.create_task(self._take())
            leaving = asyncio.create_task(self._leaving.wait())
            try:
                await asyncio.wait({taking, leaving}, return_when=asyncio.FIRST_COMPLETED)
                await self._end_runs()
                if taking.done():
                    taking.result()
            finally:
                await self._stop(taking, leaving)

    def run(self) -> None:
        """`serve` in an event loop of its own, until a signal."""
        asyncio.run(self.serve(signals=True))

    async def _end_runs(self) -> None:
        self._leaving.set()
        for working, _ in list(self._running.values()):
            working.leave()
        tasks = [task for _, task in self._running.values()]
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=LEAVE_GRACE)
            self.abandoned = len(left)

    async def _stop(self, *tasks: asyncio.Task[Any]) -> None:
        every = [*tasks, *(task for _, task in self._running.values())]
        for task in every:
            task.cancel()
        await asyncio.wait(every, timeout=2.0)
        if self._gateway is not None:
            await self._gateway.close()

    # work that comes over the gateway

    def _listen(self, gateway: Gateway) -> None:
        def to_run(act: Callable[[Working, dict[str, Any]], object]) -> Callable[[dict[str, Any]], None]:
            def heard(frame: dict[str, Any]) -> None:
                running = self._running.get(frame["run_id"])
                if running is not None:
                    act(running[0], frame)

            return heard

        gateway.listen("agent.invocation", self._invoked)
        gateway.listen("run.cancel_requested", to_run(lambda working, _: working.cancel_requested()))
        gateway.listen("run.followup", to_run(lambda working, frame: working.followup(frame)))
        gateway.listen("run.watched", self._watch)
        gateway.listen("ready", lambda _: self._session_began())

    def _watch(self, frame: dict[str, Any]) -> None:
        running = self._running.get(frame["run_id"])
        if running is not None:
            running[0].watch(frame["watched"])
        else:  # it may come before the invocation itself
            self._watched[frame["run_id"]] = frame["watched"]

    def _session_began(self) -> None:
        self._watched.clear()
        for working, _ in self._running.values():
            working.session_began()

    def _invoked(self, frame: dict[str, Any]) -> None:
        invocation: Invocation = frame["invocation"]
        if self._leaving.is_set():
            return  # not acknowledged, it goes to another session
        self._begin(invocation)
        ack = {
            "type": "ack",
            "work": "invocation",
            "run_id": invocation["run"]["id"],
            "invocation": invocation["token"],
        }
        acknowledging = asyncio.create_task(self._acknowledge(ack))
        self._acks.add(acknowledging)
        acknowledging.add_done_callback(self._acks.discard)

    async def _acknowledge(self, ack: dict[str, Any]) -> None:
        """Where it does not arrive the run is handed out again, and known here."""
        if self._gateway is not None:
            with suppress(GatewayLost, Problem):
                await self._gateway.request(ack)

    # work that is asked for

    async def _take(self) -> None:
        """Take work until the server does not know this agent: by the gateway, or by asking where there is none."""
        while True:
            if self._gateway is None:
                await self._claim(None)
                continue
            try:
                principal = (await self._gateway.connected())["principal"]
                if principal["kind"] != "agent":
                    who = f"{principal['handle']}, a {principal['kind']}"
                    raise AdapterError(f"this token is of {who}; an adapter needs the token of an agent")
                await self._over(self._gateway)
            except GatewayAbsent:
                await self._claim(self._gateway)
            if self._gateway.refusal is not None:
                raise self._gateway.refusal

    async def _over(self, gateway: Gateway) -> None:
        """Wait until the gateway's session ends."""
        ended = asyncio.Event()
        ends = [gateway.listen("lost", lambda _: ended.set()), gateway.listen("refused", lambda _: ended.set())]
        try:
            if gateway.ready is not None:
                await ended.wait()
        finally:
            for end in ends:
                end()

    async def _claim(self, gateway: Gateway | None) -> None:
        """Ask for work over REST, as long as there is no gateway."""
        pauses = Pauses(longest=max(self._poll, 1.0) * 5)
        missed = False
        claim_id = str(uuid.uuid4())
        while gateway is None or gateway.absent:
            free = self._concurrency - len(self._running)
            if free <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            try:
                claimed = await self._rest.claim_invocations(claim_id, limit=min(free, 100))
            except Unreachable as error:
                if not missed:
                    _log.warning("%s; trying again", error)
                missed = True
                continue  # with the same claim: its answer may be what was lost
            except Problem as problem:
                if problem.code in _OUTCAST:
                    raise
                _log.warning("could not take work at %s: %s", self._url, problem)
                await asyncio.sleep(pauses.next(problem.retry_after))
                continue
            claim_id = str(uuid.uuid4())
            missed = False
            pauses.reset()
            for invocation in claimed["items"]:
                self._begin(invocation)
            if not claimed["items"]:
                await asyncio.sleep(self._poll)

    def _begin(self, invocation: Invocation) -> None:
        """Begin to work on a run, or go on with the newer token of one that was handed out again.

        What lost the run has to come to its end before it can begin anew.
        """
        run_id = invocation["run"]["id"]
        known = self._running.get(run_id)
        if known is not None:
            if known[0].lost:
                self._next[run_id] = invocation
            else:
                known[0].again(invocation)
            return
        working = Working(self._rest, self._gateway, invocation, start=self._start, pace=self._pace, name=self._name)
        watched = self._watched.pop(run_id, None)
        if watched is not None:
            working.watch(watched)
        task = asyncio.create_task(working.go(self.work))
        self._running[run_id] = (working, task)
        task.add_done_callback(lambda _: self._done(run_id))
        _log.info("run %s: begun", run_id)

    def _done(self, run_id: str) -> None:
        _, task = self._running.pop(run_id)
        self._room.set()
        if not task.cancelled() and task.exception() is not None:
            _log.error("run %s: not ended", run_id, exc_info=task.exception())
        again = self._next.pop(run_id, None)
        if again is not None and not self._leaving.is_set():
            self._begin(again)
