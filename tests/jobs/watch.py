"""A stage whose clock is moved by hand, and the jobs that watch over its runs, called one turn at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from db import SYSTEM, Answer, Database
from livebox.jobs.availability import Availability
from livebox.jobs.life import REAP_LIMITS, Life
from livebox.jobs.reaper import Reaper
from livebox.key import Value
from livebox.settings import Settings
from tests.runs.stage import Stage, Work

NOON: Final = datetime(2026, 11, 2, 12, tzinfo=UTC)
DELIVERY: Final = 300
CANCEL: Final = 30
STALL: Final = 400
STALE: Final = 120
INTERRUPT: Final = 50
GAP: Final = 60
MOMENT: Final = 0.001
"""The least that lies before a deadline."""
CHOSEN: Final[dict[str, Value]] = {
    "run.delivery_timeout": DELIVERY,
    "run.cancel_timeout": CANCEL,
    "run.interrupt_grace": INTERRUPT,
    "run.stall_after": STALL,
    "run.stale_after": STALE,
    "service.gap": GAP,
}


class Watch:
    """`now` is in seconds since everything began; the service has been there without a gap unless `away`."""

    def __init__(self, stage: Stage, **chosen: Value) -> None:
        self.stage = stage
        self.settings = Settings.load({}, CHOSEN | {name.replace("__", "."): value for name, value in chosen.items()})
        self.life = Life(stage.db, self.settings)
        self.reaper = Reaper(stage.db, self.settings, self.life)
        self.availability = Availability(stage.db, self.settings)
        self.now = 0.0
        stage.sql("CREATE TABLE IF NOT EXISTS public.hands (at timestamptz)")
        stage.sql("INSERT INTO public.hands VALUES (%s)", NOON)
        stage.sql(
            "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE "
            "AS $$ SELECT at FROM public.hands $$"
        )
        stage.sql("UPDATE livebox.service SET available_since = %s, touched_at = %s", NOON - timedelta(days=1), NOON)

    def at(self, seconds: float, *, away: bool = False) -> None:
        """Moves the clock; other processes touched the service all the time unless it was away."""
        self.now = seconds
        self.stage.sql("UPDATE public.hands SET at = %s", self.time(seconds))
        if not away:
            self.stage.sql("UPDATE livebox.service SET touched_at = livebox.clock()")

    def time(self, seconds: float) -> datetime:
        """A moment, in seconds since everything began."""
        return NOON + timedelta(seconds=seconds)

    def another(self, database: Database) -> Reaper:
        """The reaper of another process."""
        return Reaper(database, self.settings, Life(database, self.settings))

    async def reap(self, run: str, database: Database | None = None) -> Answer:
        """Judges one run."""
        args = {"run_id": run, "limits": self.settings.limits(REAP_LIMITS)}
        return await (database or self.stage.db).lane.submit("reap_run", SYSTEM, args)

    async def sign(self, work: Work, *, progress: bool = False, database: Database | None = None) -> None:
        """A sign of life that another process heard and wrote at once."""
        row = {"run_id": work.run_id, "age": 0, "progress": progress}
        await (database or self.stage.db).writer.save("save_signs_of_life", [row])

    async def session(self, work: Work, *, open: bool, age: float = 0, claim: str = "") -> str:
        """A gateway session of the run's holder opens or closes, as a process writes it: what became of that."""
        row = {"run_id": work.run_id, "claim_id": claim or work.invocation["claim_id"], "open": open, "age": age}
        (result,) = await self.stage.db.writer.save("save_presence", [row])
        return str(result["outcome"])

    async def asks(self, work: Work) -> None:
        """The run waits for input."""
        outcome = await self.stage.control("await_run_input", work, {"prompt": "Which one?"})
        assert outcome.code == "ok", outcome

    def row(self, run: str) -> dict[str, Any]:
        """The row of a run."""
        return self.stage.sql("SELECT * FROM livebox.runs WHERE id = %s", run)[0]

    def end(self, run: str) -> tuple[str, str | None]:
        """State and reason of a run."""
        row = self.row(run)
        return row["state"], row["state_reason"]

    async def holds_until(self, run: str, seconds: float, end: tuple[str, str]) -> None:
        """Nothing happens to the run just before the moment; at the moment it ends like that."""
        before = self.row(run)
        self.at(seconds - MOMENT)
        await self.reaper.sweep()
        assert self.row(run) == before
        self.at(seconds)
        await self.reaper.sweep()
        assert self.end(run) == end
