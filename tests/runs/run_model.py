"""What runs are meant to do, in plain Python: it says what each operation answers and what is so afterwards.

It knows no versions, no events and no SQL; times are seconds since everything began. Runs are known by the message that
opened them, because their ids are the server's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.jobs.watch import CANCEL, DELIVERY, STALE
from tests.runs.stage import LIMITS

GENERAL, ESCALATION = "Support/General", "Support/Escalation"
OPERATOR: Final = "lotse"
LEVELS: Final = {
    "owner": {GENERAL: 4, ESCALATION: 4},
    "alex": {GENERAL: 3, ESCALATION: 3},
    "robin": {GENERAL: 0, ESCALATION: 3},
}
GUESTS: Final = {GENERAL: (OPERATOR,), ESCALATION: (OPERATOR, "texter")}
"""Who may be made to work where."""
LEASE: Final = LIMITS["run.claim_lease"]
HOLDER: Final = LIMITS["run.holder_grace"]
RENEW: Final = LIMITS["run.renew_grace"]
LIFE: Final = LIMITS["invocation.ttl"]
LOST: Final = ("stale", "interrupted", "adapter_error")
"""Ends that lose what an agent had taken into its work."""
SHOWN: Final = {"completed": "done"}


@dataclass
class Followup:
    message: str
    author: str
    state: str = "pending"
    answers_since: float | None = None


@dataclass
class Token:
    """What a work's token says."""

    agent: str
    run: str  # the message that opened it
    jti: str
    claim: str
    expires: float


@dataclass
class Run:
    message: str
    thread: str
    agent: str
    person: str
    queued_at: float
    id: str = ""
    state: str = "queued"
    reason: str | None = None
    claim: str | None = None
    claimed_at: float = 0
    issued_at: float = 0
    jti: str | None = None
    renewed_from: str | None = None
    holder_seen: float | None = None
    heard: float = 0
    started_claim: str | None = None
    awaited: tuple[str, str | None] | None = None  # claim and question that a repeat may ask again
    resumed: tuple[str, str | None] | None = None
    question: str | None = None  # the name of the one that it waits with
    questions: list[str] = field(default_factory=list)
    finished: tuple[str, str] | None = None  # claim and what it reported
    cancel_at: float | None = None
    cancel_seen: bool = False
    outcome: str | None = None
    steps: int = 0
    followups: list[Followup] = field(default_factory=list)

    @property
    def active(self) -> bool:
        return self.state in ("queued", "running", "waiting_input")

    def pending(self) -> list[Followup]:
        return [one for one in self.followups if one.state == "pending"]

    def answers(self) -> list[float]:
        """Since when there are answers to the question that it waits with."""
        return [one.answers_since for one in self.followups if one.answers_since is not None]

    def goes_on(self) -> None:
        """Whatever was answered has been heard."""
        for one in self.followups:
            one.answers_since = None

    def shown(self) -> list[Any]:
        """What the database is asked for, in that order."""
        return [
            self.state, self.reason, self.agent, self.person, self.claim, self.jti if self.claim else None,
            self.renewed_from, self.holder_seen, self.started_claim, self.cancel_at, self.cancel_seen, self.outcome,
            self.steps, [[one.message, one.state, one.answers_since] for one in self.followups],
        ]  # fmt: skip


class Model:
    def __init__(self) -> None:
        self.now = 0.0
        self.disabled: set[str] = set()
        self.places: dict[str, str | None] = {}  # thread -> channel, None when it is deleted
        self.runs: dict[str, Run] = {}
        self.triggers: dict[str, tuple[str | None, str | None]] = {}

    # --- rights -----------------------------------------------------------------------------------------------------

    def level(self, who: str, thread: str) -> int:
        place = self.places[thread]
        return 0 if place is None else LEVELS[who][place]

    def denial(self, person: str, agent: str, thread: str, active: Run | None = None) -> str | None:
        place = self.places[thread]
        if person in self.disabled:
            return "user_disabled"
        if place is None:
            return "thread_deleted"
        if LEVELS[person][place] < 1:
            return "access_revoked"
        if agent in self.disabled:
            return "agent_disabled"
        if agent not in GUESTS[place]:
            return "agent_not_allowed_here"
        return "run_active_other_agent" if active and active.agent != agent else None

    def active(self, thread: str) -> Run | None:
        return next((run for run in self.runs.values() if run.thread == thread and run.active), None)

    # --- people -----------------------------------------------------------------------------------------------------

    def may_say(self, who: str, thread: str) -> str:
        if who in self.disabled:
            return "invalid_token"
        return "created" if self.level(who, thread) else "not_found"

    def said(self, message: str, who: str, thread: str, mention: str | None) -> None:
        active = self.active(thread)
        agent = mention or (active.agent if active and active.state == "waiting_input" else OPERATOR)
        denial = self.denial(who, agent, thread, active)
        if denial is None and active and len(active.pending()) >= LIMITS["run.followups_max"]:
            denial = "followup_limit"
        self.triggers[message] = ("received", None) if denial is None else ("failed", denial)
        if denial is None and active:
            since = self.now if active.state == "waiting_input" else None
            active.followups.append(Followup(message, who, answers_since=since))
        elif denial is None:
            self._open(message, thread, agent, who)

    def cancel(self, who: str, run: Run) -> str:
        if who in self.disabled:
            return "invalid_token"
        level = self.level(who, run.thread)
        if not level:
            return "not_found"
        if who != run.person and level < 4:
            return "forbidden"
        if run.state == "cancelled":
            return "ok"
        if not run.active:
            return "run_ended"
        if run.state == "running":
            if run.cancel_at is None:
                run.cancel_at = self.now
            return "accepted"
        run.cancel_at = self.now
        self._end(run, "cancelled", "user_cancelled")
        return "ok"

    # --- agents -----------------------------------------------------------------------------------------------------

    def claim(self, agent: str, claim: str, limit: int) -> tuple[str, list[Run], list[Run]]:
        """The answer, the runs that it gives again, and those that are new in this agent's hands."""
        if agent in self.disabled:
            return "invalid_token", [], []
        mine = sorted(
            (r for r in self.runs.values() if r.agent == agent and r.active), key=lambda r: (r.queued_at, r.id)
        )
        again = []
        for run in mine:
            if run.claim == claim and (run.state != "queued" or run.claimed_at + LEASE > self.now):
                denial = self.denial(run.person, agent, run.thread) if run.state == "queued" else None
                if denial:
                    self._deny(run, denial)
                else:
                    resumes = run.state == "waiting_input" or run.started_claim not in (None, claim)
                    if resumes and not self.denial(run.person, agent, run.thread):
                        for one in run.pending():
                            self._give_back(one, agent, run.thread)
                    again.append(run)
        if again:
            return "ok", again, []
        mine = [run for run in mine if run.active and (run.claim is None or run.claimed_at + LEASE <= self.now)]
        gone = [
            run for run in mine
            if run.state == "waiting_input" and run.answers() and (run.holder_seen or 0) + HOLDER <= self.now
        ]  # fmt: skip
        new: list[Run] = []
        for run in [*gone, *(run for run in mine if run.state == "queued")]:
            if len(new) == limit:
                break
            denial = self.denial(run.person, agent, run.thread)
            if denial:
                self._deny(run, denial)
                continue
            for one in run.pending() if run.state == "waiting_input" else ():
                self._give_back(one, agent, run.thread)
            if run.state == "waiting_input" and not run.answers():
                continue
            if run.claim is None:
                self.triggers[run.message] = ("queued", None)
            run.claim, run.claimed_at, run.issued_at, run.renewed_from = claim, self.now, self.now, None
            run.holder_seen = self.now
            new.append(run)
        return "ok", [], new

    def refusal(self, token: Token, grace: float = 0) -> str | None:
        """Why a token does not hold its run now."""
        run = self.runs[token.run]
        if token.agent in self.disabled:
            return "invalid_token"
        if self.places[run.thread] is None and run.reason != "thread_deleted":
            return "not_found"
        if token.expires + grace <= self.now:
            return "token_expired"
        if token.jti in (run.jti, run.renewed_from):
            return None if run.active else "run_ended"
        return "token_renewed" if token.claim == run.claim else "invocation_superseded"

    def start(self, token: Token) -> str:
        run, refused = self.runs[token.run], self.refusal(token)
        if refused:
            return refused
        if run.state != "queued":
            return "ok" if run.started_claim == token.claim else "already_started"
        self._hold(run, token)
        run.started_claim = token.claim
        self._goes(run, "running")
        return "ok"

    def step(self, token: Token) -> str:
        run, refused = self.runs[token.run], self.refusal(token)
        if refused or run.state == "queued":
            return refused or "invalid_state_transition"
        self._hold(run, token)
        run.steps += 1
        return "ok"

    def beat(self, token: Token, seen: bool) -> str:
        run, refused = self.runs[token.run], self.refusal(token)
        if refused:
            return refused
        self._hold(run, token)
        run.cancel_seen = run.cancel_seen or (seen and run.cancel_at is not None)
        return "ok"

    def renew(self, token: Token) -> tuple[str, bool]:
        """The answer, and whether the token id is a new one."""
        run, refused = self.runs[token.run], self.refusal(token, RENEW)
        if refused:
            return refused, False
        new = token.jti == run.jti
        run.renewed_from = token.jti
        run.holder_seen = run.heard = self.now
        if new:
            run.issued_at = self.now
        return "ok", new

    def ask(self, token: Token, named: str | None) -> str:
        run, refused = self.runs[token.run], self.refusal(token)
        same = run.awaited == (token.claim, named)
        if same and (refused == "run_ended" or (refused is None and run.state == "waiting_input")):
            return "ok"
        if refused:
            return refused
        if named in run.questions:
            return "ok"
        if run.state != "running":
            return "invalid_state_transition"
        if run.cancel_at is None and run.pending():
            return "followups_pending"
        self._hold(run, token)
        if run.cancel_at is not None:
            self._end(run, "cancelled", "user_cancelled", outcome="while_waiting")
        else:
            self._goes(run, "waiting_input")
        run.awaited, run.question = (token.claim, named), named
        run.questions += [named] if named else []
        return "ok"

    def resume(self, token: Token, named: str | None) -> str:
        run, refused = self.runs[token.run], self.refusal(token)
        if refused:
            return refused
        if run.state == "running" and run.resumed == (token.claim, named):
            return "ok"
        if named and named not in run.questions:
            return "validation_failed"
        if named and (run.state != "waiting_input" or named != run.question):
            return "ok"
        if run.state != "waiting_input":
            return "invalid_state_transition"
        self._hold(run, token)
        self._goes(run, "running")
        run.resumed = token.claim, named
        return "ok"

    def ack(self, token: Token, message: str) -> tuple[str, bool]:
        """The answer, and whether anything has changed."""
        run, refused = self.runs[token.run], self.refusal(token)
        if refused:
            return refused, False
        one = next((one for one in run.followups if one.message == message), None)
        if one is None:
            return "not_found", False
        if one.state != "pending":
            return ("ok" if one.state == "delivered" else "followup_closed"), False
        self._hold(run, token)
        if self._give_back(one, run.agent, run.thread):
            return "followup_closed", True
        one.state = "delivered"
        self.triggers[message] = ("followup_delivered", None)
        return "ok", True

    def finish(self, token: Token, state: str) -> str:
        run, refused = self.runs[token.run], self.refusal(token)
        if refused == "run_ended" and run.finished == (token.claim, state):
            return "ok"
        if refused:
            return refused
        reason = {"failed": "runtime_error", "cancelled": "user_cancelled"}.get(state)
        reported = state
        if state == "cancelled" and run.cancel_at is None:
            state, reason = "failed", "adapter_error"
            extra = 1  # what the adapter said is kept in a step
        else:
            extra = 0
        if state == "completed" and run.state != "running":
            return "invalid_state_transition"
        self._hold(run, token)
        run.steps += extra
        run.finished = token.claim, reported
        self._end(run, state, reason)
        return "ok"

    # --- the server -------------------------------------------------------------------------------------------------

    def reap(self) -> None:
        for run in [run for run in self.runs.values() if run.active]:
            answered = min(run.answers(), default=self.now)
            waits_since = {"queued": run.queued_at, "waiting_input": answered}.get(run.state, self.now)
            if waits_since + DELIVERY <= self.now:
                self._end(run, "failed", "agent_unavailable")
            elif run.state == "running" and run.cancel_at is not None and run.cancel_at + CANCEL <= self.now:
                self._end(run, "cancelled", "cancel_timeout")
            elif run.state == "running" and run.heard + STALE <= self.now:
                self._end(run, "failed", "stale")

    def disable(self, who: str) -> None:
        self.disabled.add(who)
        for run in [run for run in self.runs.values() if run.active]:
            if run.person == who:
                self._end(run, "cancelled", "user_disabled")
            elif run.agent == who:
                self._end(run, "cancelled", "agent_disabled")

    def move(self, thread: str, channel: str) -> None:
        self.places[thread] = channel
        run = self.active(thread)
        if run and not self.level(run.person, thread):
            self._end(run, "cancelled", "access_revoked")

    def delete(self, thread: str) -> None:
        run = self.active(thread)
        self.places[thread] = None
        if run:
            self._end(run, "cancelled", "thread_deleted")

    # --- inside -----------------------------------------------------------------------------------------------------

    def _open(self, message: str, thread: str, agent: str, person: str) -> Run:
        run = self.runs[message] = Run(message, thread, agent, person, self.now)
        self.triggers[message] = ("received", None)
        return run

    def _hold(self, run: Run, token: Token) -> None:
        run.holder_seen = run.heard = self.now
        if token.jti == run.jti:
            run.renewed_from = None

    def _goes(self, run: Run, state: str) -> None:
        run.state, run.heard, run.awaited, run.resumed = state, self.now, None, None
        run.goes_on()
        if state == "running":
            self.triggers[run.message] = ("working", None)

    def _deny(self, run: Run, denial: str) -> None:
        cancelled = ("user_disabled", "agent_disabled", "access_revoked", "channel_read_only", "thread_deleted")
        self._end(run, "cancelled" if denial in cancelled else "failed", denial)

    def _give_back(self, one: Followup, agent: str, thread: str) -> bool:
        """Returns a follow-up whose author may no longer have the agent work there."""
        denial = self.denial(one.author, agent, thread)
        if denial:
            one.state, one.answers_since = "returned", None
            self.triggers[one.message] = ("failed", denial)
        return denial is not None

    def _end(self, run: Run, state: str, reason: str | None, outcome: str | None = None) -> None:
        if run.cancel_at is not None:
            run.outcome = outcome or _outcome(run.state, state, reason)
        run.state, run.reason, run.awaited, run.resumed = state, reason, None, None
        run.goes_on()
        end = (SHOWN.get(state, state), reason)
        self.triggers[run.message] = end
        following: Run | None = None
        for one in run.followups:
            if one.state == "delivered" and reason not in LOST:
                self.triggers[one.message] = end
            elif one.state in ("pending", "delivered"):
                if following is None and reason == "agent_unavailable":
                    one.state = "returned"
                    self.triggers[one.message] = ("failed", reason)
                elif following is not None:
                    one.state = "promoted"
                    following.followups.append(Followup(one.message, one.author))
                    self.triggers[one.message] = ("received", None)
                elif not self._give_back(one, run.agent, run.thread):
                    one.state = "promoted"
                    following = self._open(one.message, run.thread, run.agent, one.author)


def _outcome(was: str, state: str, reason: str | None) -> str:
    if state != "cancelled":
        return f"lost_to_{state}"
    if reason == "cancel_timeout":
        return "forced"
    if reason != "user_cancelled":
        return "lost_to_cancelled"
    return {"queued": "before_start", "waiting_input": "while_waiting"}.get(was, "acknowledged")
