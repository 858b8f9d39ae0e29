"""Who looks at what: the runs whose live content a session gets, from the first document to the last patch.

What a session may look at is said by one statement (`livebox.focus`). What changes after it - rights, places, new runs
of a thread - is applied here in the order of the log, and a change that comes while that statement is under way has it
asked again. A session gets a run's document first and then every frame after it: it is attached in the same step in
which its document is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from db import Database
from livebox.gateway.feed import FeedEvent
from livebox.gateway.outlet import Outlet
from livebox.live.plane import Plane

if TYPE_CHECKING:
    from livebox.gateway.session import Session

_OF_PLACES: Final = frozenset({"thread.moved", "thread.deleted"})


class Look(NamedTuple):
    """Where a run is that is looked at; `named` when it was asked for by its own id, not by its thread's."""

    thread_id: str | None
    channel_id: str | None
    named: bool


class Refused(Exception):
    """The caller may do nothing any more; `code` says why."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


class Focus:
    """The watchers of threads and runs. `sees(principal, channel)` asks the view of rights that the log has come to."""

    def __init__(
        self,
        database: Database,
        plane: Plane,
        sees: Callable[[str, str | None], bool],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        outlet: Callable[[str], Outlet],
    ) -> None:
        self._database = database
        self._plane = plane
        self._sees = sees
        self._spawn = spawn
        self._outlet = outlet
        self._by_thread: defaultdict[str, set[Session]] = defaultdict(set)
        self.outlets: dict[str, Outlet] = {}
        self._looking: set[Session] = set()
        self._asking: list[Session] = []

    def __len__(self) -> int:
        """How many sessions look at a run, each counted once for each run."""
        return sum(len(outlet.sessions) for outlet in self.outlets.values())

    def watchers(self, run_id: str) -> Iterable[Session]:
        """Who gets the frames of a run."""
        outlet = self.outlets.get(run_id)
        return () if outlet is None else outlet.sessions

    def settle(self, run_id: str) -> None:
        """Send what has gathered of a run: what follows comes after it."""
        outlet = self.outlets.get(run_id)
        if outlet is not None:
            outlet.settle()

    async def replace(self, session: Session, thread_ids: list[str], run_ids: list[str]) -> None:
        """Have a session look at these and at nothing else. Raises Refused, and `db.DatabaseError`."""
        async with session.focusing:
            session.focused += 1
            await self._replace(session, thread_ids, run_ids)

    async def _replace(self, session: Session, thread_ids: list[str], run_ids: list[str]) -> None:
        found = await self._ask(session, thread_ids, run_ids)
        threads = {row["thread_id"]: row["channel_id"] for row in found["threads"]}
        runs = {
            row["run_id"]: Look(row["thread_id"], row["channel_id"], False)
            for row in found["threads"]
            if "run_id" in row
        }
        runs |= {row["run_id"]: Look(row.get("thread_id"), row.get("channel_id"), True) for row in found["runs"]}
        for thread_id in [*session.threads]:
            if thread_id not in threads:
                self._drop_thread(session, thread_id)
        for run_id in [*session.runs]:
            if run_id not in runs:
                self.drop(session, run_id)
        self._looking.add(session)
        session.threads = threads
        for thread_id in threads:
            self._by_thread[thread_id].add(session)
        session.runs = runs
        for run_id in [*runs]:  # what is lost meanwhile is taken out of it
            await self._attach(session, run_id)

    async def again(self, session: Session) -> None:
        """Ask anew what it looks at: what happened meanwhile is not known."""
        async with session.focusing:
            named = [run_id for run_id, look in session.runs.items() if look.named]
            await self._replace(session, [*session.threads], named)

    async def _ask(
        self, session: Session, thread_ids: list[str], run_ids: list[str]
    ) -> dict[str, list[dict[str, str]]]:
        """What of these the session may look at. Its `focusing` is held: one question at a time can be overtaken."""
        self._asking.append(session)
        session.asked = frozenset(thread_ids)
        try:
            while True:
                session.outdated = False
                args = {"thread_ids": thread_ids, "run_ids": run_ids}
                answer = await self._database.readers.call("focus", session.caller, args)
                if answer.code != "ok" or answer.body is None:
                    raise Refused(answer.code)
                if not session.outdated:
                    return msgspec.json.decode(answer.body, type=dict[str, list[dict[str, str]]])
        finally:
            self._asking.remove(session)

    async def _attach(self, session: Session, run_id: str) -> None:
        """Sends the document of a run that the session looks at and, from there on, its frames."""
        if run_id in session.documents or run_id not in session.runs or session.gone:
            return
        document = await self._plane.open(run_id)
        if document is None:
            session.runs.pop(run_id, None)
            return
        if run_id in session.documents or run_id not in session.runs:
            self._plane.release(run_id)
            return
        session.documents[run_id] = document
        outlet = self.outlets.get(run_id)
        if outlet is None:
            outlet = self.outlets[run_id] = self._outlet(run_id)
        outlet.settle()
        outlet.sessions.add(session)
        session.send_document(document)

    def drop(self, session: Session, run_id: str, *, withdraw: bool = True) -> None:
        """Have a session not look at a run: from here on nothing of it is sent, nor (`withdraw`) what has gathered."""
        session.runs.pop(run_id, None)
        session.stale.discard(run_id)
        if session.documents.pop(run_id, None) is None:
            return
        if withdraw:
            session.connection.withdraw(run_id)
        sessions = self.outlets[run_id].sessions
        sessions.discard(session)
        if not sessions:
            del self.outlets[run_id]
        self._plane.release(run_id)

    def _drop_thread(self, session: Session, thread_id: str) -> None:
        session.threads.pop(thread_id, None)
        _discard(self._by_thread, thread_id, session)

    def leave(self, session: Session) -> None:
        """The session is over."""
        self._looking.discard(session)
        for thread_id in [*session.threads]:
            self._drop_thread(session, thread_id)
        for run_id in [*session.runs, *session.documents]:
            self.drop(session, run_id)

    def changed(self, session: Session) -> None:
        """The rights of the session's principal changed: what it may not see any more ends now."""
        session.outdated = True
        for thread_id, channel_id in [*session.threads.items()]:
            if not self._sees(session.principal_id, channel_id):
                self._drop_thread(session, thread_id)
        unplaced = [run_id for run_id, look in session.runs.items() if look.channel_id is None]
        for run_id, look in [*session.runs.items()]:
            if look.channel_id is None or not self._sees(session.principal_id, look.channel_id):
                self.drop(session, run_id)
        if unplaced:
            self._spawn(self._look_again(session, unplaced, session.focused))

    async def _look_again(self, session: Session, run_ids: list[str], focused: int) -> None:
        """Runs without a thread have no channel to go by: the database says who still sees them."""
        async with session.focusing:
            if session.focused != focused:  # it looks at something else by now
                return
            found = await self._ask(session, [], run_ids)
            for row in found["runs"]:
                session.runs.setdefault(row["run_id"], Look(row.get("thread_id"), row.get("channel_id"), True))
                await self._attach(session, row["run_id"])

    def apply(self, event: FeedEvent) -> None:
        """What an event changes of places and runs; the rights are at this event already."""
        if event.type in _OF_PLACES:
            for session in self._asking:
                session.outdated = True
            if event.thread_id is not None:
                self._placed(event.thread_id, event.channel_id if event.type == "thread.moved" else None)
        elif event.type == "run.state_changed" and event.thread_id is not None:
            for session in self._asking:
                if event.thread_id in session.asked:
                    session.outdated = True
            for session in [*self._by_thread.get(event.thread_id, ())]:
                if event.resource_id not in session.runs:
                    self._begun(session, event.thread_id, event.resource_id)

    def _placed(self, thread_id: str, channel_id: str | None) -> None:
        """A thread is somewhere else now, or nowhere."""
        for session in [*self._by_thread.get(thread_id, ())]:
            if channel_id is not None and self._sees(session.principal_id, channel_id):
                session.threads[thread_id] = channel_id
            else:
                self._drop_thread(session, thread_id)
        for session in self._looking:
            for run_id, look in [*session.runs.items()]:
                if look.thread_id != thread_id:
                    continue
                if channel_id is not None and self._sees(session.principal_id, channel_id):
                    session.runs[run_id] = look._replace(channel_id=channel_id)
                else:
                    self.drop(session, run_id)

    def _begun(self, session: Session, thread_id: str, run_id: str) -> None:
        """A thread that is looked at has a new run; the ones before it are history."""
        for earlier, look in [*session.runs.items()]:
            document = session.documents.get(earlier)
            over = document is not None and not document.active and earlier not in session.stale
            if over and look.thread_id == thread_id and not look.named:
                self.outlets[earlier].settle()  # how it ended is still theirs to see
                self.drop(session, earlier, withdraw=False)
        session.runs[run_id] = Look(thread_id, session.threads[thread_id], False)
        self._spawn(self._attach(session, run_id))


def _discard(index: defaultdict[str, set[Session]], key: str, session: Session) -> None:
    watching = index.get(key)
    if watching is not None:
        watching.discard(session)
        if not watching:
            del index[key]
