"""Everything that can be done with runs, in any order: the database does what the model says, and so does its log."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, closing
from typing import Any, ClassVar, Final, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from db import Database
from db.embedded import Server
from livebox.world import World
from tests.fixtures.database import connect, fresh_database
from tests.fixtures.replay import LAWS
from tests.jobs.watch import NOON, Watch
from tests.runs.changes import follow, grant, move, must, status
from tests.runs.conftest import READERS
from tests.runs.run_model import ESCALATION, GENERAL, LIFE, Model, Run, Token
from tests.runs.stage import Outcome, Stage, Work

STEPS: Final = 50
THREADS: Final = 4
PEOPLE: Final = ("alex", "owner", "robin")
AGENTS: Final = ("lotse", "texter")
CAN_BE_DISABLED: Final = ("alex", "robin", *AGENTS)
DONE: Final = ("ok", "created", "accepted")
NEWEST: Final = 6
"""So many of the newest runs and tokens are still used."""

STATE: Final = """
SELECT jsonb_build_object(
    'runs', (SELECT coalesce(jsonb_object_agg(r.triggering_message_id, jsonb_build_array(r.state, r.state_reason, a.handle,
                 p.handle, r.claim_id, CASE WHEN r.claim_id IS NOT NULL THEN r.invocation_jti END, r.renewed_from_jti,
                 extract(epoch FROM r.holder_seen_at - %(noon)s), r.started_claim_id,
                 extract(epoch FROM r.cancel_requested_at - %(noon)s), r.cancel_acknowledged_at IS NOT NULL, r.cancel_outcome,
                 r.step_count, (SELECT coalesce(jsonb_agg(jsonb_build_array(
                                     f.message_id, f.state, extract(epoch FROM f.answers_since - %(noon)s)) ORDER BY f.position), '[]')
                                  FROM livebox.run_followups f WHERE f.run_id = r.id))), '{}')
               FROM livebox.runs r JOIN livebox.principals a ON a.id = r.agent_id JOIN livebox.principals p ON p.id = r.triggered_by),
    'triggers', (SELECT coalesce(jsonb_object_agg(m.id, jsonb_build_array(m.trigger_state, m.trigger_state_reason)), '{}')
                   FROM livebox.messages m WHERE m.origin = 'human'),
    'ids', (SELECT coalesce(jsonb_object_agg(r.triggering_message_id, r.id), '{}') FROM livebox.runs r))::text
"""
EVERYTHING: Final = " || ".join(
    f"coalesce((SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM livebox.{table} t), '')"
    for table in ("runs", "run_steps", "run_followups", "messages", "threads", "events", "principals")
)
BROKEN: Final = " UNION ALL ".join(
    f"SELECT $${law}$$, to_jsonb(broken) FROM ({statement}) broken" for law, statement in LAWS.items()
)
PREPARED: Final = {"state": STATE, "laws": BROKEN, "everything": f"SELECT {EVERYTHING}"}
"""What is asked after each step: planned once for a history, not each time."""

T = TypeVar("T")


class Machine(RuleBasedStateMachine):
    """Each history has a database of its own, whose clock goes on by a second with each step."""

    met: ClassVar[Counter[str]] = Counter()
    """How often each operation was answered with each code, over all histories."""

    def __init__(self, server: Server, template: tuple[str, World]) -> None:
        super().__init__()
        self.model = Model()
        self.tokens: list[Token] = []
        self.claims: dict[str, list[str]] = {agent: [] for agent in AGENTS}
        self.threads: list[str] = []
        self._open = ExitStack()
        name, world = template
        dsn = self._open.enter_context(fresh_database(server, name))
        self._runner = self._open.enter_context(asyncio.Runner())
        database = Database(dsn, readers=READERS)
        self.go(database.start())
        self._open.callback(lambda: self.go(database.stop()))
        world = World(
            dict(world.principals), dict(world.groups), dict(world.spaces), dict(world.channels), dict(world.threads)
        )
        self.stage = Stage(database, dsn, world)
        self._open.callback(self.stage.close)
        self.watch = Watch(self.stage)
        self._sql = self._open.enter_context(closing(connect(dsn)))
        with self._sql.cursor() as cursor:
            for called, statement in PREPARED.items():
                cursor.execute(f"PREPARE {called} AS {statement}", {"noon": NOON})
        self.before = ""
        self.draw: Callable[..., Any]

    @initialize()
    def prepare(self) -> None:
        """Threads in two channels; Robin may have agents work in one of them."""
        channel_id = self.stage.world.channels[ESCALATION]
        self.go(grant(self.stage, "trigger", principal_id=self.stage.id("robin"), channel_id=channel_id))
        for number in range(THREADS):
            self.opens((GENERAL, ESCALATION)[number % 2])

    def teardown(self) -> None:
        self._open.close()

    @rule(data=st.data())
    def acts(self, data: st.DataObject) -> None:
        """Something happens: mostly what makes sense where things are, now and then what does not."""
        self.draw = data.draw
        self.passes(1)
        held = self.held()
        weights = {
            self.says: 2 if self.alive() else 8,
            self.claims_work: 6 if any(run.claim is None for run in self.alive()) else 2,
            self.works: 14 if held else 0,
            self.meddles: 4 if self.tokens else 0,
            self.cancels: 1 if self.model.runs else 0,
            self.time_goes_by: 2,
            self.sweeps: 2,
            self.disables_or_enables: 3 if self.model.disabled else 1 if len(self.tokens) > 3 else 0,
            self.moves: 1,
            self.deletes: 1 if len(self.tokens) > 3 else 0,
        }
        self.one_of([action for action, weight in weights.items() for _ in range(weight)])()

    # --- what people do ---------------------------------------------------------------------------------------------

    def opens(self, channel: str) -> None:
        self.threads.append(self.go(self.stage.thread("owner", channel)))
        self.model.places[self.threads[-1]] = channel

    def says(self, thread: str | None = None) -> None:
        """Most messages mention nobody: answers and follow-ups."""
        thread = thread or self.one_of(self.threads[-THREADS:])
        who, mention = self.one_of(PEOPLE), self.one_of((None, None, None, *AGENTS))
        outcome = self.go(self.stage.post(who, thread, *([mention] if mention else [])))
        self.told("say", outcome, self.model.may_say(who, thread))
        if outcome.code == "created":
            self.model.said(outcome.body["id"], who, thread, mention)

    def cancels(self, run: Run | None = None) -> None:
        run = run or self.one_of(list(self.model.runs.values())[-NEWEST:])
        who = self.one_of((run.person, *PEOPLE))
        self.told("cancel", self.go(self.stage.cancel(who, run.id)), self.model.cancel(who, run))

    # --- what agents do ---------------------------------------------------------------------------------------------

    def claims_work(self, agent: str | None = None, claim: str | None = None) -> None:
        agent = agent or self.one_of([*AGENTS, *(run.agent for run in self.alive())])
        known = self.claims[agent]
        if claim:
            known.append(claim)
        elif not known or self.one_of((True, True, True, False)):
            known.append(str(uuid.uuid4()))
        limit = self.one_of((1, 2))
        outcome = self.go(self.stage.write("claim_invocations", agent, body={"claim_id": known[-1], "limit": limit}))
        code, repeated, new = self.model.claim(agent, known[-1], limit)
        self.told("claim", outcome, code)
        given = [effect for effect in outcome.effects if effect["kind"] == "invocation"]
        assert [effect["run_id"] for effect in given] == [run.id for run in [*repeated, *new]]
        for effect, run in zip(given, [*repeated, *new], strict=True):
            self.takes(agent, run, effect, new=run in new)

    def works(self) -> None:
        """An agent goes on with what it holds."""
        token = self.one_of(self.held()[-NEWEST:])
        run = self.model.runs[token.run]
        waits = bool(run.pending())
        told = run.cancel_at is not None
        every: dict[str, dict[Callable[..., None], int]] = {
            "queued": {self.starts: 6, self.beats: 1, self.renews: 1, self.finishes: 1, self.says: 1},
            "running": {
                self.records: 2, self.beats: 3 if told else 1, self.renews: 2, self.acknowledges: 6 if waits else 0,
                self.asks: 4, self.finishes: 2, self.says: 2, self.cancels: 1,
            },
            "waiting_input": {
                self.says: 2 if waits else 5, self.resumes: 3 if waits else 1, self.acknowledges: 2 if waits else 0,
                self.renews: 1, self.beats: 1, self.finishes: 1, self.cancels: 1, self.time_goes_by: 2 if waits else 0,
                self.takes_and_dies: 5 if waits else 0,
            },
        }  # fmt: skip
        weights = every[run.state]
        action = self.one_of([action for action, weight in weights.items() for _ in range(weight)])
        if action == self.says:
            self.says(run.thread)
        elif action == self.cancels:
            self.cancels(run)
        elif action == self.time_goes_by:
            self.time_goes_by()
        else:
            action(token)

    def meddles(self) -> None:
        """Any of the last tokens, whatever became of it, for anything."""
        token = self.one_of(self.tokens[-2 * NEWEST :])
        control = (
            self.starts,
            self.records,
            self.beats,
            self.renews,
            self.asks,
            self.resumes,
            self.acknowledges,
            self.finishes,
        )
        self.one_of(control)(token)

    def starts(self, token: Token) -> None:
        self.told("start", self.go(self.stage.start(self.work(token))), self.model.start(token))

    def records(self, token: Token) -> None:
        """A step, and sometimes its end."""
        step_id = str(uuid.uuid4())
        outcome = self.go(self.stage.step(self.work(token), step_id))
        self.told("step", outcome, self.model.step(token))
        if outcome.code == "ok" and self.one_of((False, True)):
            ends = self.stage.control("update_run_step", self.work(token), {"status": "completed"}, step_id=step_id)
            assert self.go(ends).code == "ok"

    def beats(self, token: Token) -> None:
        seen = self.one_of((False, True))
        body = {"cancel_seen": True} if seen else {}
        self.told("beat", self.go(self.stage.control("beat_run", self.work(token), body)), self.model.beat(token, seen))

    def renews(self, token: Token) -> None:
        outcome = self.go(self.stage.control("renew_invocation_token", self.work(token)))
        expected, new = self.model.renew(token)
        self.told("renew", outcome, expected)
        for effect in outcome.effects:
            self.takes(token.agent, self.model.runs[token.run], effect, new=new)

    def asks(self, token: Token) -> None:
        named = self.names(token, self.one_of((None, str(uuid.uuid4()))))
        body = {"question_id": named} if named else {}
        self.told("ask", self.go(self.stage.ask(self.work(token), **body)), self.model.ask(token, named))

    def resumes(self, token: Token) -> None:
        run = self.model.runs[token.run]
        named = self.names(token, self.one_of((None, run.question, run.question)))
        self.told("resume", self.go(self.stage.resume(self.work(token), named)), self.model.resume(token, named))

    def names(self, token: Token, usual: str | None) -> str | None:
        """Which question a request speaks of: now and then one of before."""
        return self.one_of((usual, usual, usual, *self.model.runs[token.run].questions[-2:]))

    def acknowledges(self, token: Token, message: str | None = None) -> None:
        own = [one.message for one in self.model.runs[token.run].followups]
        message = message or self.one_of([*own, next(iter(self.model.triggers))])
        expected, changed = self.model.ack(token, message)
        self.told("ack", self.go(self.stage.ack(self.work(token), message)), expected, changed=changed)

    def takes_and_dies(self, token: Token) -> None:
        """It takes an answer and is gone before it goes on: whoever asks for work next gets the run."""
        run = self.model.runs[token.run]
        self.acknowledges(token, run.pending()[0].message)
        self.passes(121)
        self.claims_work(token.agent, str(uuid.uuid4()))
        taken_over = run.claim != token.claim and not run.pending()
        Machine.met["taken over with its answer"] += taken_over

    def finishes(self, token: Token) -> None:
        state = self.one_of(("completed", "failed", "cancelled"))
        reason = {"reason": "runtime_error"} if state == "failed" else {}
        outcome = self.go(self.stage.finish(self.work(token), state, **reason))
        self.told("finish", outcome, self.model.finish(token, state))

    # --- what the server and the owner do ---------------------------------------------------------------------------

    def time_goes_by(self) -> None:
        self.passes(self.one_of((29, 61, 119, 121, 301)))

    def sweeps(self) -> None:
        self.go(self.watch.reaper.sweep())
        self.model.reap()

    def disables_or_enables(self) -> None:
        who = self.one_of(sorted(self.model.disabled) or CAN_BE_DISABLED)
        if who in self.model.disabled:
            self.go(status(self.stage, who, "active"))
            self.model.disabled.remove(who)
            return
        self.go(status(self.stage, who, "disabled"))
        self.go(follow(self.stage))
        self.model.disable(who)

    def moves(self) -> None:
        thread, channel = self.one_of(self.threads[-THREADS:]), self.one_of((GENERAL, ESCALATION))
        if self.model.places[thread] not in (None, channel):
            self.go(move(self.stage, thread, channel))
            self.go(follow(self.stage))
            self.model.move(thread, channel)

    def deletes(self) -> None:
        """A thread, and there is a new one in its place."""
        thread = self.one_of(self.threads[-THREADS:])
        if self.model.places[thread] is not None:
            self.go(must(self.stage, "delete_thread", thread_id=thread))
            self.model.delete(thread)
            self.opens(GENERAL)

    # --- what is always so ------------------------------------------------------------------------------------------

    @invariant()
    def database_is_the_model(self) -> None:
        found = json.loads(self.ask("EXECUTE state")[0][0])
        assert found["ids"].keys() == self.model.runs.keys()
        for message, run_id in found["ids"].items():
            self.model.runs[message].id = run_id
        assert found["runs"] == {run.message: run.shown() for run in self.model.runs.values()}
        assert found["triggers"] == {message: list(told) for message, told in self.model.triggers.items()}

    @invariant()
    def laws_hold(self) -> None:
        assert self.ask("EXECUTE laws") == []

    # --- inside -----------------------------------------------------------------------------------------------------

    def go(self, what: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(what)

    def ask(self, statement: str, **values: object) -> list[Any]:
        with self._sql.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def passes(self, seconds: float) -> None:
        """Time goes on, and whatever comes next begins here."""
        self.model.now += seconds
        self.ask(
            "WITH moved AS (UPDATE public.hands SET at = %(at)s) UPDATE livebox.service SET touched_at = %(at)s RETURNING 1",
            at=self.watch.time(self.model.now),
        )
        self.before = self.ask("EXECUTE everything")[0][0]

    def told(self, what: str, outcome: Outcome, expected: str, *, changed: bool = False) -> None:
        """The answer is the one that the model gives; a refusal has changed nothing at all."""
        assert outcome.code == expected, (what, outcome)
        Machine.met[f"{what} {expected}"] += 1
        if expected not in DONE and not changed:
            assert self.ask("EXECUTE everything")[0][0] == self.before

    def one_of(self, choices: Sequence[T]) -> T:
        chosen: T = self.draw(st.sampled_from(choices))
        return chosen

    def alive(self) -> list[Run]:
        return [run for run in self.model.runs.values() if run.active]

    def held(self) -> list[Token]:
        """Tokens that pass now."""
        return [token for token in self.tokens if self.model.refusal(token) is None]

    def takes(self, agent: str, run: Run, effect: dict[str, Any], *, new: bool) -> None:
        """A token comes into an agent's hands: one that nobody has had, or the newest of its run again."""
        if new:
            assert effect["jti"] not in {token.jti for token in self.tokens}
            run.jti = effect["jti"]
        assert effect["jti"] == run.jti
        expires = effect["expires_at"] - NOON.timestamp()
        assert expires == run.issued_at + LIFE
        self.tokens.append(Token(agent, run.message, effect["jti"], effect["claim_id"], expires))

    def work(self, token: Token) -> Work:
        """The work as its agent holds it."""
        run_id = self.model.runs[token.run].id
        expires = NOON.timestamp() + token.expires
        return Work(
            token.agent, {"run_id": run_id, "jti": token.jti, "claim_id": token.claim, "expires_at": expires}, {}
        )


@pytest.mark.long
@pytest.mark.timeout(0)
def test_any_history(server: Server, world_template: tuple[str, World], request: pytest.FixtureRequest) -> None:
    Machine.met.clear()
    run_state_machine_as_test(
        lambda: Machine(server, world_template),  # type: ignore[arg-type]
        settings=settings(
            max_examples=int(request.config.getoption("histories")),
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            print_blob=True,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert {
        "start ok",
        "ask ok",
        "resume ok",
        "ack ok",
        "finish ok",
        "renew ok",
        "cancel accepted",
    } <= Machine.met.keys()
    print(f"{Machine.met.total()} operations: {dict(sorted(Machine.met.items()))}")
