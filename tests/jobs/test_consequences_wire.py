"""A whole server ends what a change concerns at once, and one that was killed in the middle is followed by another."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from db import instance
from db.embedded import Server
from livebox.world import OWNER
from tests.fixtures.database import connect, fresh_database
from tests.fixtures.server import live_server
from tests.fixtures.serving import Spawn
from tests.fixtures.stage import Stage
from tests.fixtures.waiting import eventually
from tests.fixtures.world import WorldCopy
from tests.jobs.queue import fill

ENDED = "SELECT state_reason FROM livebox.runs WHERE id = %s AND state = 'cancelled'"


async def test_a_server_ends_at_once_what_a_change_concerns(world_copy: WorldCopy, tmp_path: Path) -> None:
    """Nobody looks for an hour: the change itself wakes the job."""
    with live_server(world_copy, tmp_path, jobs__reap_interval=3600) as live:
        stage = Stage(live)
        owner, lotse = stage.as_(OWNER), stage.as_("lotse")
        first, second, third = stage.running(), stage.running(by=OWNER), stage.waiting(by=OWNER)

        alex = stage.id("alex")
        owner.call("updatePrincipal", {"status": "disabled"}, principal_id=alex).ok()
        assert await eventually(lambda: stage.sql(ENDED, first.id), "the end") == [("user_disabled",)]
        run = owner.call("getRun", run_id=first.id).ok()
        assert (run["state"], run["state_reason"]) == ("cancelled", "user_disabled")
        told = lotse.call("heartbeatRun", {}, headers=first.headers, run_id=first.id).refused(409, "run_ended")
        assert (told.body["current"]["state"], "changed_by" in told.body["current"]) == ("cancelled", False)

        owner.call("deleteThread", thread_id=second.run["thread_id"]).ok()
        assert await eventually(lambda: stage.sql(ENDED, second.id), "the end") == [("thread_deleted",)]
        owner.call("getRun", run_id=second.id).refused(404, "not_found")
        told = lotse.call("heartbeatRun", {}, headers=second.headers, run_id=second.id).refused(409, "run_ended")
        assert "current" not in told.body

        channel_id = third.run["channel_id"]
        owner.call("updateChannel", {"read_only": True}, channel_id=channel_id).ok()
        assert await eventually(lambda: stage.sql(ENDED, third.id), "the end") == [("channel_read_only",)]
        lotse.call("resumeRun", headers=third.headers, run_id=third.id).refused(409, "run_ended")
        assert [run["id"] for run in owner.call("listActiveRuns").ok()["items"]] == []
        stage.close()


@pytest.mark.timeout(240)
async def test_a_server_that_is_killed_in_the_middle_is_followed_by_another(
    server: Server, template: str, tmp_path: Path, spawn: Spawn
) -> None:
    with fresh_database(server, template) as dsn, closing(connect(dsn)) as sql, sql.cursor() as cursor:

        def ask(statement: str) -> list[Any]:
            cursor.execute(statement)
            return list(cursor.fetchall())

        assert instance.create_owner(dsn, OWNER, "Owner") is not None
        variables = {"DATABASE_URL": dsn, "LIVEBOX_DATA": str(tmp_path), "LIVEBOX_JOBS_CHUNK": "2"}
        first = spawn(**variables).ready()
        first.command("world")
        token = first.command("token", "issue", OWNER)
        alex = first.command("world", "--id", "principal:alex")
        fill(dsn, 9)
        runs = [run for (run,) in ask("SELECT id::text FROM livebox.runs ORDER BY queued_at, id")]
        with closing(connect(dsn)) as holder, holder.cursor() as hold:
            hold.execute("BEGIN")
            hold.execute("SELECT FROM livebox.runs WHERE id = %s FOR UPDATE", (runs[4],))
            disable = urllib.request.Request(  # noqa: S310 - http, our own server
                f"{first.url}/v1/principals/{alex}", b'{"status": "disabled"}', {"Content-Type": "application/json"}, method="PATCH"
            )  # fmt: skip
            assert first.send(disable, token)["status"] == "disabled"
            # It comes to the fifth, and no further.
            ended = "SELECT id::text FROM livebox.runs WHERE state_reason = 'user_disabled' ORDER BY queued_at, id"
            await eventually(lambda: [run for (run,) in ask(ended)] == runs[:4], "the first four ends")
            first.process.kill()
            first.process.communicate()
            assert ask("SELECT reason FROM livebox.pending_consequences") == [("user_disabled",)]

        second = spawn(**variables, LIVEBOX_JOBS_REAP_INTERVAL="1").ready()
        await eventually(lambda: ask("SELECT count(*) FROM livebox.pending_consequences") == [(0,)], "the last end")
        assert [run for (run,) in ask(ended)] == runs
        events = ask("SELECT resource_id, payload::text FROM livebox.events WHERE type = 'run.state_changed'")
        assert Counter(run for run, _ in events) == Counter(runs)
        assert {json.loads(payload)["run"]["state_reason"] for _, payload in events} == {"user_disabled"}
        assert second.end()[0] == 0
