"""What people see of a run while it goes: each member of its document, its question, its cancel, and its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.browser.conftest import BROWSER, Agent, Sit, at_version, box, in_state
from tests.fixtures.stage import Stage

pytestmark = BROWSER

Running = Callable[..., Agent]

MEMBERS: dict[str, Any] = {
    "headline": "Counting lines by language",
    "text": {"content": "# Found\n\n- **12** files\n- and more", "format": "markdown"},
    "waiting_on": "rate_limit",
    "tool": {"name": "count_lines", "title": "Counting lines", "progress": 0.42, "detail": "app/main.py"},
    "plan": {
        "items": {
            "z": {"ordinal": 1, "title": "Find the files", "status": "done"},
            "a": {"ordinal": 2, "title": "Count their lines", "status": "in_progress"},
            "m": {"ordinal": 3, "title": "Say what was found", "status": "pending"},
        }
    },
    "subagents": {"r": {"name": "Reader", "state": "waiting_model", "headline": "Thinking", "tokens_used": 1200}},
    "workflows": {"w": {"name": "Nightly", "state": "paused"}},
    "jobs": {"j": {"name": "Index", "state": "running", "progress": 0.5}},
    "metrics": {
        "context_used_percent": 37,
        "input_tokens": 12345,
        "output_tokens": 678,
        "tool_calls": 9,
        "cost": {"amount_micros": 4200, "currency": "EUR", "is_estimate": True},
        "last_api_retry": {"attempt": 2, "max_attempts": 5, "reason": "overloaded", "at": "2026-11-02T09:30:00Z"},
    },
    "refs": {"f": {"kind": "artifact", "reference": "report/1", "label": "Report"}},
}
SHOWN = (
    "Lotse · Working",
    "Counting lines by language",
    "Waiting for the provider's rate limit",
    "Counting lines (count_lines)",
    "42 %",
    "app/main.py",
    "Plan: 1 of 3 done",
    "Reader waiting for the model",
    "Thinking · 1,200 tokens",
    "Nightly paused",
    "Index working",
    "37 %",
    "12,345",
    "about EUR 0.0042",
    "try 2 of 5): overloaded",
    "Report: report/1 (artifact)",
    "Read the folder",
)


async def test_each_member_of_the_document_is_shown_as_it_comes_and_goes(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    await in_state(page, "running")
    lotse.step(title="Read the folder")
    await at_version(page, lotse.patch(**MEMBERS))
    shown = await page.text(box())
    assert [text for text in SHOWN[:-1] if text not in shown] == []
    assert SHOWN[-1] not in shown, "the steps are folded while there is a plan"
    await page.click(box("[aria-label=Steps] summary"))
    await page.shows(SHOWN[-1], box())
    plan = await page.js("[...document.querySelectorAll('.plan .title')].map((item) => item.textContent)")
    assert plan == ["Find the files", "Count their lines", "Say what was found"]
    assert await page.js("document.querySelector('.context meter').value") == 37
    assert await page.js("document.querySelector('.text strong').textContent") == "Found"
    await at_version(page, lotse.ops(*({"op": "remove", "path": f"/{name}"} for name in MEMBERS)))
    shown = await page.text(box())
    assert [text for text in SHOWN[1:-1] if text in shown] == []


async def test_time_goes_on_by_the_server_clock_whatever_the_device_thinks(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    await page.js("{ const real = Date.now; Date.now = () => real() + 7_200_000; }")
    await page.send(
        "Page.addScriptToEvaluateOnNewDocument", source="{ const real = Date.now; Date.now = () => real() + 7200000; }"
    )
    await page.reload()
    await in_state(page, "running")
    first = await page.text(box(".ticking"))
    assert "min" not in first
    assert "h" not in first
    await page.until(f"document.querySelector('.box .ticking').textContent !== {first!r}")


async def test_the_end_is_one_line_that_opens_again_with_all_its_steps(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    for number in range(3):
        lotse.step(title=f"Step {number}", status="completed")
    await at_version(page, lotse.patch(**MEMBERS))
    assert await page.js("document.querySelector('.box details').open")
    lotse.finish(cost={"amount_micros": 4300, "currency": "EUR", "is_estimate": False})
    await in_state(page, "completed")
    assert not await page.js("document.querySelector('.box details').open")
    line = await page.text(box())
    assert "Lotse completed in" in line
    assert "3 steps · EUR 0.0043 · 12 files." in line
    assert "Counting lines" not in line
    await page.resize(320)
    height, one = await page.js(
        "(() => { const head = document.querySelector('.box summary'); const high = () => head.getBoundingClientRect().height;"
        " const now = high(); head.replaceChildren('x'); return [now, high()]; })()"
    )
    assert height == one, "it is one line on any screen"
    await page.resize(1100)
    await page.reload()
    await in_state(page, "completed")
    await page.click(box("summary"))
    await page.shows("Step 2")
    shown = await page.text(box())
    assert "Duration" in shown
    assert "Find the files" in shown, "the last document is kept"
    assert "Waiting for" not in shown
    # Who comes later sees the same line.
    await page.reload()
    await in_state(page, "completed")
    assert await page.text(box()) == line


async def test_a_failure_says_why(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    lotse.finish("failed", reason="runtime_error", summary="The folder does not exist.")
    await in_state(page, "failed")
    await page.shows("Lotse failed in", box())
    await page.click(box("summary"))
    await page.shows("Reason: the agent ran into an error.", box())


async def test_two_browsers_on_one_run_show_the_same(sit: Sit, running: Running) -> None:
    lotse = running()
    pages = [await sit("alex", lotse.thread), await sit("owner", lotse.thread)]
    for number in range(30):
        version = lotse.patch(headline=f"Part {number}", metrics={"tool_calls": number})
    lotse.step(title="Read the folder")
    version = lotse.patch(**MEMBERS)
    shown = []
    for page in pages:
        await at_version(page, version)
        await page.js("document.querySelectorAll('.box .ticking, .box .foot').forEach((part) => part.remove())")
        shown.append(await page.text(box()))
    assert shown[0] == shown[1]
    assert lotse.read()["version"] == version


async def test_two_tabs_of_one_person_are_fine(sit: Sit, running: Running, chromium: Any, live: Any) -> None:
    lotse = running()
    first = await sit("alex", lotse.thread)
    second = await chromium.twin(first, f"{live.url}/#token={live.tokens['alex']}&{lotse.thread.replace('/', '=')}")
    await second.shows("Live", "#status")
    version = lotse.patch(headline="Both see it")
    for page in (first, second):
        await at_version(page, version)
        await page.shows("Both see it", box())
    await second.clean()


async def test_running_now_shows_all_of_them_live_and_keeps_what_ends_as_a_line(sit: Sit, running: Running) -> None:
    one, two = running(), running(place="Support/General")
    page = await sit("alex")
    await in_state(page, "running", one.id)
    await at_version(page, one.patch(headline="First of two"), one.id)
    await at_version(page, two.patch(headline="Second of two"), two.id)
    await page.shows("Support / General", ".running")
    one.finish()
    await in_state(page, "completed", one.id)
    place = f"[...document.querySelectorAll(\".running .place a\")].some((link) => link.hash === '#/{one.thread}')"
    assert await page.js(place), "the closed line leads to its thread"
    listed = f"document.querySelector(\"nav .threads a[href='#/{one.thread}']\")?.nextElementSibling.hidden"
    await page.until(f"{listed} === true")
    three = running(by="owner")
    await in_state(page, "running", three.id)
    await page.click(box("a.to-thread", two.id))
    await page.until(f"location.hash === '#/{two.thread}'")
    await page.shows("Second of two", box(run=two.id))
    two.finish()
    three.finish()


async def test_a_choice_answers_the_question(sit: Sit, running: Running, stage: Stage) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    lotse.call("awaitRunInput", {"prompt": "Which week?", "choices": {"this": "This week", "last": "The last one"}})
    await in_state(page, "waiting_input")
    await page.shows("Which week?", ".question")
    await page.click(".question [data-choice=last]")
    await page.shows("You answered: The last one", ".question")
    await page.shows("The last one", ".messages")
    await page.shows("Alex: The last one", ".followups")
    owner = await sit("owner", lotse.thread)
    await owner.shows("Answered: The last one", ".question")
    assert await owner.js("[...document.querySelectorAll('.question button')].every((button) => button.disabled)")
    followups = stage.as_("lotse").call("listRunFollowups", headers=lotse.held.headers, run_id=lotse.id).ok()
    assert [item["message"]["body"] for item in followups["items"]] == ["The last one"]
    lotse.call("ackFollowup", message_id=followups["items"][0]["message"]["id"])
    lotse.call("resumeRun")
    await in_state(page, "running")
    assert not await page.js("document.querySelector('.question').checkVisibility()")
    await page.shows("Asked: Which week?\nAnswered: The last one", box())


async def test_who_may_not_make_agents_work_sees_the_question_and_cannot_answer(sit: Sit, running: Running) -> None:
    lotse = running()
    lotse.call("awaitRunInput", {"prompt": "Which week?", "choices": {"this": "This week"}})
    page = await sit("robin", lotse.thread)
    await page.shows("Only those who may make agents work here can answer.", ".question")
    assert await page.js("document.querySelector('.question button').disabled")
    assert not await page.js("document.querySelector('.cancel').checkVisibility()")


async def test_a_cancel_is_told_as_it_is_from_the_request_to_the_end(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    await page.click(box(".cancel"))
    await page.shows("Lotse has not answered yet. It is ended at", ".receipt")
    assert not await page.js("document.querySelector('.cancel').checkVisibility()")
    lotse.call("heartbeatRun", {"cancel_seen": True})
    await page.shows("Lotse has heard it and is stopping.", ".receipt")
    lotse.finish("cancelled")
    await in_state(page, "cancelled")
    await page.click(box("summary"))
    await page.shows("The agent stopped, as it was asked to.", ".receipt")


async def test_a_cancel_that_came_too_late_says_so(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    await page.click(box(".cancel"))
    await page.shows("has not answered yet", ".receipt")
    lotse.finish()
    await in_state(page, "completed")
    await page.click(box("summary"))
    await page.shows("The run completed before the cancel reached it.", ".receipt")


async def test_a_run_that_has_not_begun_ends_at_once(sit: Sit, stage: Stage) -> None:
    run = stage.queued()
    page = await sit("alex", f"thread/{run['thread_id']}")
    await page.click(box(".cancel"))
    await in_state(page, "cancelled")


async def test_a_message_with_a_mention_opens_a_run_and_leads_to_it(sit: Sit, stage: Stage) -> None:
    thread = stage.world.threads["Support/General"]
    page = await sit("alex", f"thread/{thread}")
    await page.click("#message")
    await page.type("@lotse, which files changed? @nobody")
    await page.shows("Mentions Lotse. @nobody: nobody is known here by that name.", "#asks")
    await page.press("Enter", "Ctrl")
    await page.until(f"location.hash.startsWith('#/thread/') && location.hash !== '#/thread/{thread}'")
    await in_state(page, "queued")
    await page.shows("Grew from: @lotse, which files changed?")
    run = await page.js("document.querySelector('.box').dataset.run")
    await page.click(".parent a")
    await page.shows("Waits for the agent", ".messages")
    stage.as_("alex").call("cancelRun", {}, run_id=run).ok()
    await page.shows("Cancelled: a person cancelled it", ".messages")


async def test_a_message_whose_answer_is_lost_is_sent_again_and_stored_once(sit: Sit, stage: Stage) -> None:
    thread = stage.thread()
    page = await sit("robin", f"thread/{thread}")
    # The first request gets through, and its answer does not come back.
    await page.js(
        "{ const real = window.fetch; let lost = 0; window.fetch = async (url, options) => {"
        " const answer = await real(url, options);"
        " if (options.method === 'POST' && lost++ === 0) throw new TypeError('lost'); return answer; } }"
    )
    await page.click("#message")
    await page.type("Good morning")
    await page.click(".composer button[type=submit]")
    await page.until("!document.querySelector('.pending').checkVisibility()")
    await page.shows("Good morning", ".messages")
    await page.until("document.querySelectorAll('.message').length === 1")
    stored = stage.as_("owner").call("listThreadMessages", thread_id=thread).ok()["items"]
    assert [message["body"] for message in stored] == ["Good morning"]


async def test_a_message_that_is_refused_can_be_changed(sit: Sit, stage: Stage) -> None:
    channel = stage.channel(stage.world.spaces["Support"])
    thread = stage.thread(channel["id"])
    page = await sit("alex", f"thread/{thread}")
    await page.click("#message")
    await page.js("document.querySelector('#message').value = 'x'.repeat(20001)")
    await page.press("Enter", "Ctrl")
    await page.shows("Not sent: The server does not take this text.", ".pending")
    await page.click(".pending li button:last-child")
    await page.until("document.activeElement.id === 'message' && document.activeElement.value.length === 20001")
    await page.until("!document.querySelector('.pending').checkVisibility()")
    page.errors.clear()  # the refusal is a line of the browser's own


async def test_older_messages_are_read_when_asked_for(sit: Sit, stage: Stage) -> None:
    thread = stage.thread()
    for number in range(60):
        stage.message(thread, text=f"Line {number}")
    page = await sit("robin", f"thread/{thread}")
    await page.until("document.querySelectorAll('.message').length === 50")
    await page.click(".thread > button")
    await page.until("document.querySelectorAll('.message').length === 60")
    texts = await page.js("[...document.querySelectorAll('.message .text')].map((text) => text.textContent)")
    assert texts == [f"Line {number}" for number in range(60)]
    assert not await page.js("document.querySelector('.thread > button').checkVisibility()")


async def test_a_long_message_is_shown_whole_though_its_event_is_cut(sit: Sit, stage: Stage) -> None:
    thread = stage.thread()
    page = await sit("robin", f"thread/{thread}")
    message = stage.message(thread, text="long " * 1500 + "to its end")
    await page.shows("to its end", ".messages")
    body = {"body": "longer " * 1500 + "to its other end"}
    stage.as_("robin").call("editMessage", body, message_id=message["id"]).ok()
    await page.shows("to its other end", ".messages")
    await page.shows("(edited)", ".messages")
    stage.as_("robin").call("deleteMessage", message_id=message["id"]).ok()
    await page.shows("This message was deleted.", ".messages")


async def test_an_answer_that_is_chosen_again_after_a_lost_one_is_given_once(sit: Sit, running: Running) -> None:
    lotse = running()
    lotse.call("awaitRunInput", {"prompt": "Which week?", "choices": {"this": "This week"}})
    page = await sit("alex", lotse.thread)
    await page.js(
        "{ const real = window.fetch; let lost = 0; window.fetch = async (url, options) => {"
        " const answer = await real(url, options);"
        " if (options.method === 'POST' && lost++ === 0) throw new TypeError('lost'); return answer; } }"
    )
    await page.click(".question button")
    await page.until("document.querySelectorAll('.message').length === 2")
    await page.shows("Answered: This week", ".question")
    followups = lotse.read()["followups"]
    assert len(followups) == 1
