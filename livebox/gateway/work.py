"""Work for agents over the gateway: runs to take, requests to cancel, follow-ups.

All of it comes from rows, asked for when the log tells of something and every `gateway.poll_interval`: a push that was
lost is made again, by whichever process the agent is connected to then. A run is claimed for one session by the same
operation as over REST, under a claim of its own; if the session does not acknowledge it in time, or goes, the same
claim is given to the next session of the agent. What it is told twice it knows by run, claim and message.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from db import Caller, DatabaseError
from generated.operations import OPERATIONS
from handlers import run_control
from livebox.context import Context, Plant
from livebox.gateway import frames
from livebox.gateway.feed import FeedEvent
from livebox.gateway.frames import Frame
from livebox.invocations import Invocation
from livebox.jobs.loop import Loop
from livebox.live.entry import ACTIVE
from livebox.log import logger

TOGETHER: Final = 64
"""Most runs that are claimed in one turn."""
UNSAID: Final = 1
"""How many runs a session takes at once that did not say."""

_LIMITS: Final = ("run.claim_lease", "run.holder_grace", "service.gap")
_AT_WORK: Final = frozenset({"queued", "running"})
"""States in which a run counts against what its session takes: one that waits for people does not."""
_CLAIM: Final = OPERATIONS["claimInvocations"]

_log = logger("work")


class AgentSession(Protocol):
    """A session of an agent. `invocations`: how many runs it takes at once, if it said."""

    principal_id: str
    kind: str
    caller: Caller
    invocations: int | None
    held: dict[str, Invocation]

    @property
    def gone(self) -> bool:
        """It is over or about to be."""
        ...

    def send(self, frame: Frame) -> None:
        """Send what must arrive."""
        ...

    def hold(self, invocation: Invocation) -> None:
        """It works on a run."""
        ...

    def release(self, run_id: str) -> None:
        """It works on a run no longer."""
        ...


class Given(NamedTuple):
    """A claim that is not acknowledged. `session` is None while nobody has it; `since` is when it was claimed first."""

    claim_id: str
    agent_id: str
    run_id: str
    session: AgentSession | None
    sent: float
    since: float


class Told(NamedTuple):
    """When what was told to which session; `sent` is infinite once it was acknowledged."""

    session: AgentSession
    sent: float


class Waiting(msgspec.Struct):
    """What `livebox.personal_work` says."""

    claimable: dict[str, int]
    cancels: list[dict[str, Any]]
    held: list[dict[str, str]]
    followups: list[dict[str, Any]]


class Work(Loop):
    """Told of sessions by the hub and of events by the feed; one turn hands out all that waits."""

    def __init__(self, plant: Plant, *, on_turn: Callable[[str, bool], None] | None = None) -> None:
        super().__init__("work", plant.settings.number("gateway.poll_interval"), self.turn, on_turn=on_turn)
        self._plant = plant
        self._patience = plant.settings.number("gateway.ack_timeout")
        self._lease = plant.settings.number("run.claim_lease")
        self._limits = plant.settings.limits(_LIMITS)
        self._agents: dict[str, list[AgentSession]] = {}
        self._given: dict[str, Given] = {}
        self._states: dict[str, str] = {}
        self._told: dict[tuple[str, ...], Told] = {}

    # what happens

    def begun(self, session: AgentSession) -> None:
        """A session has begun."""
        if session.kind == "agent":
            self._agents.setdefault(session.principal_id, []).append(session)
            self.wake()

    def told(self, session: AgentSession) -> None:
        """It said anew how many runs it takes."""
        self.wake()

    def holds(self, session: AgentSession, run_id: str) -> None:
        """It works on a run from now on: what waits for that run goes there."""
        self._states.setdefault(run_id, "running")
        self.wake()

    def acknowledged(self, session: AgentSession, frame: Mapping[str, Any]) -> None:
        """It has its personal work."""
        if frame["work"] == "invocation":
            self._arrived(session.principal_id, frame["run_id"])
            self.wake()
            return
        key = (frame["work"], frame["run_id"], *([frame["message_id"]] if "message_id" in frame else []))
        if key in self._told:
            self._told[key] = Told(session, float("inf"))

    def ended(self, session: AgentSession) -> None:
        """It is over: what it has not acknowledged goes to the next."""
        mine = self._agents.get(session.principal_id, [])
        if session in mine:
            mine.remove(session)
            if not mine:
                del self._agents[session.principal_id]
        for given in [given for given in self._given.values() if given.session is session]:
            self._given[given.claim_id] = given._replace(session=None)
        self._told = {key: told for key, told in self._told.items() if told.session is not session}
        self.wake()

    def heard(self, event: FeedEvent) -> None:
        """An event of the log: it may mean work."""
        if event.resource_kind == "run":
            run = event.payload["run"]
            if event.type == "run.state_changed":
                self._moved(run["id"], run["agent_id"], run["state"])
            if run["agent_id"] in self._agents:
                self.wake()
        elif event.resource_kind == "message" and event.payload["message"].get("trigger_state") == "received":
            self.wake()

    def _moved(self, run_id: str, agent_id: str, state: str) -> None:
        if state != "queued":  # whoever starts it has it, and nobody needs it who hears that it is over
            self._arrived(agent_id, run_id)
        if run_id in self._states:
            self._states[run_id] = state
        if state not in ACTIVE:
            self._states.pop(run_id, None)
            self._release(run_id, self._agents.get(agent_id, ()))

    def _arrived(self, agent_id: str, run_id: str) -> None:
        for given in [*self._given.values()]:
            if given.run_id == run_id and given.agent_id == agent_id:
                del self._given[given.claim_id]

    def _release(self, run_id: str, sessions: Iterable[AgentSession]) -> None:
        for session in sessions:
            if run_id in session.held:
                session.release(run_id)
        for key in [key for key in self._told if key[1] == run_id]:
            del self._told[key]

    # what is handed out

    async def turn(self) -> None:
        """Hand out what waits. Raises `db.DatabaseError`; the next turn goes on."""
        if not self._agents and not self._given:
            return
        await self._pass_on()
        asked = [(session, hold) for session in self._sessions() for hold in session.held.values()]
        args = {
            "agents": [*self._agents],
            "room": {agent: room for agent in self._agents if (room := self._room(agent)) > 0},
            "held": [{"run_id": hold.run_id, "claim_id": hold.claim_id} for _, hold in asked],
            "limits": self._limits,
        }
        answer = await self._plant.database.readers.call("personal_work", None, args)
        waiting = msgspec.json.decode(answer.body or b"", type=Waiting)
        self._compare(asked, waiting)
        for cancel in waiting.cancels:
            self._ask_to_cancel(cancel)
        for followup in waiting.followups:
            self._tell_followup(followup)
        await self._claim(waiting.claimable)

    def _sessions(self) -> Iterable[AgentSession]:
        return chain.from_iterable(self._agents.values())

    def _compare(self, asked: list[tuple[AgentSession, Invocation]], waiting: Waiting) -> None:
        """Forgets what is not held any more of what was asked about, and what was told of it."""
        still = {(row["run_id"], row["claim_id"]): row["state"] for row in waiting.held}
        for session, hold in asked:
            state = still.get((hold.run_id, hold.claim_id))
            if state is not None:
                self._states[hold.run_id] = state
            elif session.held.get(hold.run_id) is hold:
                session.release(hold.run_id)
        known = {run_id for session in self._sessions() for run_id in session.held}
        self._states = {run_id: state for run_id, state in self._states.items() if run_id in known}
        told_of = known | {row["run_id"] for row in waiting.cancels}
        self._told = {key: told for key, told in self._told.items() if key[1] in told_of}

    def _holder(self, agent_id: str, run_id: str) -> AgentSession | None:
        """The session that holds a run, the newest of several."""
        for session in reversed(self._agents.get(agent_id, [])):
            if run_id in session.held and not session.gone:
                return session
        return None

    def _ask_to_cancel(self, row: dict[str, Any]) -> None:
        sessions = [session for session in self._agents.get(row["agent_id"], []) if not session.gone]
        target = self._holder(row["agent_id"], row["run_id"]) or (sessions[-1] if sessions else None)
        if target is not None:
            members = {"run_id": row["run_id"], "cancel": row["cancel"]}
            done = "acknowledged_at" in row["cancel"]
            self._tell(("cancel", row["run_id"]), target, "run.cancel_requested", members, done=done)

    def _tell_followup(self, row: dict[str, Any]) -> None:
        holders = [session for session in self._sessions() if row["run_id"] in session.held and not session.gone]
        if holders:  # of the present claim: who held it under another was found out just before
            members = {name: value for name, value in row.items() if name != "claim_id"}
            self._tell(("followup", row["run_id"], row["followup"]["message_id"]), holders[-1], "run.followup", members)

    def _tell(
        self, key: tuple[str, ...], target: AgentSession, kind: str, members: dict[str, Any], *, done: bool = False
    ) -> None:
        """Once to each session that it is for; again while it is not acknowledged."""
        now = asyncio.get_running_loop().time()
        told = self._told.get(key)
        if told is not None and told.session is target and (done or now - told.sent < self._patience):
            return
        self._told[key] = Told(target, now)
        target.send(frames.made(kind, members))

    # runs

    def _load(self, session: AgentSession, besides: str = "") -> int:
        """How many runs a session works on; `besides` one."""
        mine = {run_id for run_id in session.held if self._states.get(run_id, "running") in _AT_WORK}
        mine |= {given.run_id for given in self._given.values() if given.session is session}
        return len(mine - {besides})

    def _takes(self, session: AgentSession, besides: str = "") -> int:
        """How many more runs a session takes."""
        most = UNSAID if session.invocations is None else session.invocations
        return 0 if session.gone else max(0, most - self._load(session, besides))

    def _room(self, agent_id: str) -> int:
        return min(TOGETHER, sum(self._takes(session) for session in self._agents[agent_id]))

    async def _claim(self, claimable: dict[str, int]) -> None:
        """Claims runs for sessions that have room, those with the most first."""
        chosen: list[AgentSession] = []
        for agent_id, count in claimable.items():
            room = {id(session): (self._takes(session), session) for session in self._agents.get(agent_id, [])}
            for _ in range(min(count, TOGETHER)):
                left, session = max(room.values(), key=lambda one: one[0], default=(0, None))
                if session is None or left < 1:
                    break
                room[id(session)] = (left - 1, session)
                chosen.append(session)
        now = asyncio.get_running_loop().time()
        claims = [self._hand(session, str(uuid.uuid4()), now) for session in chosen[:TOGETHER]]
        _first_error(await asyncio.gather(*claims, return_exceptions=True))

    async def _pass_on(self) -> None:
        """Gives what was not acknowledged to the next session. Nobody there: its lease ends by itself."""
        now = asyncio.get_running_loop().time()
        claims = []
        for given in [*self._given.values()]:
            if given.session is not None and not given.session.gone and now - given.sent < self._patience:
                continue
            target = self._next(given)
            if target is not None:
                del self._given[given.claim_id]
                if given.session is not None and given.session is not target:
                    given.session.release(given.run_id)
                claims.append(self._hand(target, given.claim_id, given.since))
            elif now - given.since > self._lease:
                del self._given[given.claim_id]
        _first_error(await asyncio.gather(*claims, return_exceptions=True))

    def _next(self, given: Given) -> AgentSession | None:
        """The session after the one that had it, of those with room."""
        sessions = self._agents.get(given.agent_id, [])
        start = sessions.index(given.session) + 1 if given.session in sessions else 0
        return next(
            (session for session in sessions[start:] + sessions[:start] if self._takes(session, given.run_id) > 0), None
        )

    async def _hand(self, session: AgentSession, claim_id: str, since: float) -> None:
        """Claims a run for a session, or the same again, and sends it there."""
        given = Given(claim_id, session.principal_id, "", None, since, since)
        context = Context(self._plant, _CLAIM, session.caller, {})
        try:
            answer = await run_control.claim_invocations(context, {}, {"claim_id": claim_id, "limit": 1})
        except DatabaseError:
            self._given[claim_id] = given  # perhaps it was done
            raise
        if answer.code != "ok" or answer.body is None:
            return
        for item in msgspec.json.decode(answer.body)["items"]:
            run = item["run"]
            if run["state"] == "running":  # somebody has begun under this claim, and so has what this would say
                continue
            given = given._replace(run_id=run["id"])
            self._given[claim_id] = given
            if session.gone:
                self.wake()
                continue
            self._given[claim_id] = given._replace(session=session, sent=asyncio.get_running_loop().time())
            self._states[run["id"]] = run["state"]
            session.hold(self._plant.invocations.verify(item["token"], run["id"]))
            session.send(frames.made("agent.invocation", {"claim_id": claim_id, "invocation": item}))


def _first_error(outcomes: Iterable[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
