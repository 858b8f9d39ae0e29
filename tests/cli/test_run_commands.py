"""`livebox run` and `livebox say` against a real server: what they print, and how they end."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from livebox.cli import main
from livebox.client import Rest
from livebox.keys import KEYS
from tests.fixtures.server import Live
from tests.fixtures.stage import Held, Stage

Run = Callable[..., Result]
GENERAL = "Support/General"


@pytest.fixture
def run(live: Live, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `livebox` in this process as a principal of the world, with `LIVEBOX_URL` and `LIVEBOX_TOKEN` set."""
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)
    runner = CliRunner()

    def invoke(*arguments: str, by: str = "alex", text: str | None = None) -> Result:
        variables = {"LIVEBOX_URL": live.url, "LIVEBOX_TOKEN": live.tokens[by]}
        return runner.invoke(main, arguments, env=variables, input=text, catch_exceptions=False)

    return invoke


@pytest.fixture
def agent(stage: Stage) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Finishes the next run of Lotse's, in a thread, as soon as it is there."""
    threads: list[threading.Thread] = []

    def finish(end: dict[str, Any]) -> None:
        def work() -> None:
            while True:
                body = {"claim_id": str(uuid.uuid4()), "limit": 1}
                items = stage.as_("lotse").call("claimInvocations", body).ok()["items"]
                if items:
                    break
            held = Held(items[0]["run"], items[0]["token"])
            stage.as_("lotse").call("startRun", {}, headers=held.headers, run_id=held.id).ok()
            stage.step(held, status="completed", title="Looking around", detail={"todos": 2})
            stage.as_("lotse").call("finishRun", end, headers=held.headers, run_id=held.id).ok()

        threads.append(threading.Thread(target=work))
        threads[-1].start()

    yield finish
    for thread in threads:
        thread.join(30)


def rows(result: Result) -> dict[str, list[str]]:
    """The lines of the output by their first column."""
    return {line.split("\t")[0]: line.split("\t")[1:] for line in result.output.splitlines()}


def end(stage: Stage, held: Held, **request: Any) -> None:
    stage.as_("lotse").call("finishRun", request, headers=held.headers, run_id=held.id).ok()


def test_ls_lists_what_is_active_and_may_be_seen(run: Run, stage: Stage) -> None:
    queued, running = stage.queued()["id"], stage.running().id
    listed = rows(run("run", "ls"))
    assert listed[queued][0] == "queued"
    assert listed[running][0] == "running"
    assert running not in rows(run("run", "ls", "--state", "queued"))
    assert queued not in rows(run("run", "ls", by="sam"))
    assert set(rows(run("run", "ls", "--agent", stage.id("lotse")))) >= {queued, running}
    assert rows(run("run", "ls", "--agent", stage.id("texter"))) == {}


def test_ls_lists_the_runs_of_a_thread_with_their_ends(run: Run, stage: Stage) -> None:
    held = stage.running()
    end(stage, held, state="failed", reason="runtime_error", summary="It broke.")
    (line,) = run("run", "ls", "--thread", held.run["thread_id"]).output.splitlines()
    assert line.split("\t")[:3] == [held.id, "failed", "runtime_error"]
    assert run("run", "ls", "--thread", held.run["thread_id"], "--state", "completed").output == ""
    (document,) = map(json.loads, run("run", "ls", "--thread", held.run["thread_id"], "--json").output.splitlines())
    assert (document["id"], document["state"]) == (held.id, "failed")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "ls", "--thread", "x", "--agent", "y"),
        ("run", "ls", "--state", "completed"),
        ("run", "ls", "--state", "nonsense"),
        ("run", "show"),
        ("run", "ls", "--url", "ftp://example.com"),
        ("run", "ls", "--url", "example.com"),
        ("run", "ls", "--token-file", "/nonexistent/token"),
        ("say", "hello"),
        ("say", "hello", "--to", GENERAL, "--thread", "x"),
        ("say", "hello", "--to", "Support/Nowhere"),
        ("say", "hello", "--to", "Marketing/General"),
        ("say", "hello", "--to", GENERAL, "--mention", "nobody"),
    ],
)
def test_wrong_usage_is_status_2(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output


def test_a_missing_token_is_said_and_a_token_file_is_one(run: Run, live: Live, tmp_path: Path) -> None:
    runner = CliRunner()
    missing = runner.invoke(main, ["run", "ls"], env={"LIVEBOX_URL": live.url, "LIVEBOX_TOKEN": ""})
    assert missing.exit_code == 2
    assert "LIVEBOX_TOKEN" in missing.output
    file = tmp_path / "token"
    file.write_text(live.tokens["alex"] + "\n")
    given = runner.invoke(
        main,
        ["run", "ls", "--token-file", str(file), "--url", live.url + "/"],
        env={"LIVEBOX_URL": "", "LIVEBOX_TOKEN": ""},
    )
    assert given.exit_code == 0, given.output


def test_a_wrong_token_is_one_line_that_does_not_show_it(live: Live) -> None:
    env = {"LIVEBOX_URL": live.url, "LIVEBOX_TOKEN": "lbx_secret"}
    result = CliRunner().invoke(main, ["run", "ls"], env=env)
    assert result.exit_code == 1
    assert result.output == "Error: The token is missing or not valid (invalid_token)\n"


def test_no_server_is_one_line(run: Run, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livebox.commands._server.PATIENCE", 0.1)
    result = run("run", "ls", "--url", f"http://127.0.0.1:{unused_tcp_port}")
    assert result.exit_code == 1
    assert result.output == (
        f"Error: no answer from http://127.0.0.1:{unused_tcp_port}: "
        "connection refused; is `livebox serve` running there?\n"
    )


def test_show_prints_the_run_and_its_steps(run: Run, stage: Stage) -> None:
    held = stage.running()
    stage.step(held, title="Reading a [bold]folder[/bold]", status="completed", detail={"todos": 1})
    end(stage, held, state="completed", summary="Two\nlines \x1b[31mred")
    result = run("run", "show", held.id)
    assert result.exit_code == 0
    shown = rows(result)
    assert shown["state"] == ["completed"]
    assert shown["summary"] == ["Two lines �[31mred"]
    assert shown["1"][0] == "completed"
    assert shown["1"][2].endswith("[bold]folder[/bold]: 1 TODO")
    assert json.loads(run("run", "show", held.id, "--json").output)["state"] == "completed"


def test_show_of_what_may_not_be_seen_is_as_of_what_is_not_there(run: Run, stage: Stage) -> None:
    hidden = run("run", "show", stage.queued()["id"], by="sam")
    absent = run("run", "show", "01933b7e-0000-7000-8000-000000000051", by="sam")
    malformed = run("run", "show", "../spaces")
    assert (hidden.exit_code, hidden.output) == (absent.exit_code, absent.output)
    assert hidden.output == "Error: Nothing that you may see is here (not_found)\n"
    assert malformed.exit_code == 1
    assert "run_id" in malformed.output


@pytest.mark.parametrize(
    ("request_", "status"),
    [({"state": "completed", "summary": "Done."}, 0), ({"state": "failed", "reason": "runtime_error"}, 1)],
)
def test_follow_stays_until_the_end_and_its_status_tells_which(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch, request_: dict[str, Any], status: int
) -> None:
    held = stage.running()
    get_run = Rest.get_run

    async def get_run_before_the_end(self: Rest, run_id: str) -> Any:
        found = await get_run(self, run_id)
        await asyncio.to_thread(end, stage, held, **request_)
        return found

    monkeypatch.setattr(Rest, "get_run", get_run_before_the_end)
    result = run("run", "show", held.id, "--follow", "--json")
    documents = [json.loads(line) for line in result.output.splitlines()]
    assert [document["state"] for document in documents] == ["running", request_["state"]]
    assert result.exit_code == status


def test_cancel_of_a_queued_run_ends_it_and_again_says_the_same(run: Run, stage: Stage) -> None:
    run_id = stage.queued()["id"]
    for _ in range(2):
        result = run("run", "cancel", run_id)
        assert (result.exit_code, result.output) == (0, "cancelled\n")


def test_cancel_of_a_running_run_asks_its_agent(run: Run, stage: Stage) -> None:
    held = stage.running()
    result = run("run", "cancel", held.id)
    assert result.exit_code == 0
    assert result.output == "asked: the run is running until its agent ends it\n"
    assert rows(run("run", "show", held.id))["cancel"][0].startswith("asked for 2")
    end(stage, held, state="cancelled")
    assert run("run", "cancel", held.id, "--wait").output == "cancelled\n"


def test_cancel_of_an_ended_run_fails_and_says_how_it_ended(run: Run, stage: Stage) -> None:
    held = stage.finished()
    result = run("run", "cancel", held.id)
    assert result.exit_code == 1
    assert result.output == "Error: The run has ended: the run is completed (run_ended)\n"


def test_cancel_without_the_right_is_refused(run: Run, stage: Stage) -> None:
    result = run("run", "cancel", stage.queued()["id"], by="robin")
    assert result.exit_code == 1
    assert "(forbidden)" in result.output


def test_cancel_waits_for_an_agent_that_finishes_first(run: Run, stage: Stage) -> None:
    held = stage.running()
    with ending_when(stage, held, "cancel"):
        result = run("run", "cancel", held.id, "--wait")
    assert (result.exit_code, result.output) == (1, "Error: the run ended otherwise first: it is completed\n")


def test_say_posts_by_place_and_by_thread(run: Run, stage: Stage) -> None:
    thread = stage.thread(GENERAL)
    for where in (("--thread", thread), ("--to", GENERAL), ("--to", stage.world.channels[GENERAL])):
        result = run("say", "Good morning", *where, by="owner")
        assert result.exit_code == 0, result.output
        (line,) = result.output.splitlines()
        message = stage.as_("owner").call("getMessage", message_id=line.split("\t")[1]).ok()
        assert message["body"] == "Good morning"
    assert message["thread_id"] == stage.world.threads[GENERAL]


def test_say_reads_standard_input(run: Run, stage: Stage) -> None:
    result = run("say", "-", "--thread", stage.thread(GENERAL), text="two\nlines", by="owner")
    message_id = result.output.split("\t")[1].strip()
    assert stage.as_("owner").call("getMessage", message_id=message_id).ok()["body"] == "two\nlines"


@pytest.mark.parametrize("mention", ["lotse", "@lotse", "the id"])
def test_say_mentions_by_handle_and_by_id(run: Run, stage: Stage, mention: str) -> None:
    mention = stage.id("lotse") if mention == "the id" else mention
    result = run("say", "What is new?", "--to", GENERAL, "--mention", mention)
    assert result.exit_code == 0
    message_id, state = result.output.strip().split("\t")[1:]
    assert state == "received"
    message = stage.as_("alex").call("getMessage", message_id=message_id).ok()
    assert message["mentions"] == [stage.id("lotse")]


def test_say_tells_why_a_message_opened_no_run(run: Run, stage: Stage) -> None:
    result = run("say", "Help!", "--to", "Support/Escalation", "--mention", "lotse", by="robin")
    assert result.exit_code == 1
    assert result.output.strip().split("\t")[2:] == ["failed", "no_trigger_right"]


def test_say_refused_by_the_server_is_one_line(run: Run, stage: Stage) -> None:
    thread = stage.thread(GENERAL)
    assert "(forbidden)" in run("say", "hello", "--thread", thread, by="sam").output
    blank = run("say", " ", "--thread", thread)
    assert blank.exit_code == 1
    assert "/body" in blank.output


def test_say_twice_with_the_same_id_posts_once(run: Run, stage: Stage) -> None:
    arguments = ("say", "once", "--thread", stage.thread(GENERAL), "--client-msg-id", str(uuid.uuid4()))
    first, second = run(*arguments, by="owner"), run(*arguments, by="owner")
    assert first.output.split("\t")[1] == second.output.split("\t")[1]
    assert "(idempotency_key_reused)" in run(arguments[0], "twice", *arguments[2:], by="owner").output


def test_say_follows_the_run_to_its_end(run: Run, stage: Stage, agent: Callable[[dict[str, Any]], None]) -> None:
    claim_all(stage)
    agent({"state": "completed", "summary": "All is well."})
    result = run("say", "How are things?", "--to", GENERAL, "--mention", "lotse", "--follow")
    assert result.exit_code == 0, result.output
    lines = [line.strip() for line in result.output.splitlines()]
    assert lines[-2] == "completed"
    assert "✓ Looking around: 2 TODOs" in lines
    assert lines[-1].startswith("✓ The run completed in ")
    assert lines[-1].endswith(", 1 step: All is well.")


def test_say_follow_of_a_failed_run_is_status_1(
    run: Run, stage: Stage, agent: Callable[[dict[str, Any]], None]
) -> None:
    claim_all(stage)
    agent({"state": "failed", "reason": "runtime_error", "summary": "It broke."})
    result = run("say", "How are things?", "--to", GENERAL, "--mention", "lotse", "--follow")
    assert result.exit_code == 1
    assert "✗ The run failed (runtime_error)" in result.output


def test_say_follow_joins_the_run_that_goes_on(run: Run, stage: Stage) -> None:
    held = stage.running()
    with ending_when(stage, held, "followups"):
        result = run("say", "And this too", "--thread", held.run["thread_id"], "--follow")
    assert "The run completed" in result.output


def test_say_follow_where_nobody_answers_says_so(run: Run, stage: Stage) -> None:
    channel = stage.channel()
    result = run("say", "Hello?", "--thread", channel["main_thread_id"], "--follow", by="owner")
    assert result.exit_code == 1
    assert "it opened no run" in result.output


@contextmanager
def ending_when(stage: Stage, held: Held, member: str) -> Iterator[None]:
    """Completes the run, in a thread, as soon as its document has this member."""

    def work() -> None:
        while not stage.as_("lotse").call("getRun", run_id=held.id).ok().get(member):
            pass
        end(stage, held, state="completed")

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join(30)


def claim_all(stage: Stage) -> None:
    """Take what other tests left queued, so that the next run is the one that is waited for."""
    while stage.as_("lotse").call("claimInvocations", {"claim_id": str(uuid.uuid4()), "limit": 100}).ok()["items"]:
        pass
