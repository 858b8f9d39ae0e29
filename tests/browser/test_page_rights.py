"""Who may not see something sees nothing of it, and who loses a right loses the sight; nothing written becomes markup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.chromium import Page
from tests.browser.conftest import BROWSER, Agent, Sit, at_version, box, claim, in_state
from tests.fixtures.server import Live
from tests.fixtures.stage import Stage
from tests.fixtures.wire import fresh

pytestmark = BROWSER

Running = Callable[..., Agent]

GONE = "This thread is not here, or you may not see it."


async def test_who_has_no_right_sees_nothing(sit: Sit, running: Running) -> None:
    lotse = running()
    lotse.patch(headline="For Escalation only")
    page = await sit("sam", lotse.thread)
    await page.shows(GONE)
    assert await page.js("document.querySelectorAll('.box, .message, textarea').length") in (0, 1)
    assert not await page.js("document.querySelector('textarea').checkVisibility()")
    absent = await sit("sam", f"thread/{fresh_thread()}")
    await absent.shows(GONE)
    assert await page.text("main") == await absent.text("main"), "hidden and absent look alike"
    await page.js("location.hash = '/running'")
    await page.shows("Running now", "h1")
    lotse.patch(headline="Still for Escalation only")
    lotse.finish()
    shown = await page.text()
    assert "Escalation" not in shown
    assert "Engineering" not in shown
    await page.shows("Marketing", "nav")
    for each in (page, absent):
        each.errors[:] = [line for line in each.errors if "404" not in line]


def fresh_thread() -> str:
    """An id of the right kind that is nobody's."""
    random = fresh()
    return f"{random[:14]}7{random[15:]}"


async def test_a_right_that_is_taken_away_takes_the_box_with_it(sit: Sit, stage: Stage, running: Running) -> None:
    person = stage.principal()
    grant = stage.grant(person, "read", channel_id=stage.world.channels["Support/Escalation"])
    lotse = running()
    page = await sit(person, lotse.thread, token=stage.live.issue(person))
    overview = await sit(person, token=stage.live.issue(person))
    version = lotse.patch(headline="Seen once")
    await at_version(page, version)
    await at_version(overview, version, lotse.id)
    stage.as_("owner").call("revokeAccess", grant_id=grant["id"]).ok()
    lotse.patch(headline="Not seen")
    await page.shows(GONE)
    await overview.until(f'!document.querySelector("{box(run=lotse.id)}")')
    for each in (page, overview):
        left = await each.js("document.documentElement.textContent")
        assert "Seen once" not in left
        assert "Not seen" not in left
    stage.grant(person, "read", channel_id=stage.world.channels["Support/Escalation"])
    await page.shows("Not seen", box())
    for each in (page, overview):
        each.errors[:] = [line for line in each.errors if "404" not in line]


MARKUP = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script><b class=injected>bold</b>"
EVIL = f"{MARKUP} [x](javascript:window.hacked=1) &lt;i&gt; ${{window.hacked=1}}"


async def test_markup_stays_text_wherever_people_and_agents_write(sit: Sit, stage: Stage, live: Live) -> None:
    space = stage.space(f"S {MARKUP}"[:200])
    channel = stage.channel(space["id"], name=f"C {MARKUP}", operator_agent_id=stage.id("lotse"))
    person = stage.principal(display_name=f"P {MARKUP}")
    stage.grant(person, "trigger", space_id=space["id"])
    thread = stage.thread(channel["id"], by=person, title=f"T {MARKUP}")
    stage.message(thread, person, EVIL, ["lotse"])
    run = stage.as_("owner").call("listThreadRuns", thread_id=thread).ok()["items"][0]
    lotse = Agent(stage, claim(stage, run["id"]))
    lotse.step(name=f"N {MARKUP}", title=f"T {MARKUP}")
    unit = {"u": {"name": f"U {MARKUP}", "state": "running", "headline": f"H {MARKUP}"}}
    version = lotse.patch(
        headline=f"H {MARKUP}",
        text={"content": f"{EVIL}\n\n# {EVIL}\n\n- {EVIL}\n\n```\n{EVIL}\n```\n> {EVIL}", "format": "markdown"},
        tool={"name": f"N {MARKUP}", "title": f"T {MARKUP}", "detail": EVIL},
        plan={"items": {"constructor_": {"ordinal": 1, "title": MARKUP, "status": "pending"}}},
        subagents=unit,
        workflows=unit,
        jobs=unit,
        metrics={"last_api_retry": {"attempt": 1, "reason": f"R {MARKUP}", "at": "2026-11-02T09:30:00Z"}},
        refs={"r": {"kind": "gate", "reference": f"R {MARKUP}", "label": f"L {MARKUP}"}},
    )
    token = live.issue(person)
    page = await sit(person, f"thread/{thread}", token=token)
    await at_version(page, version)
    await harmless(page)
    assert (await page.text()).count("<b class=injected>bold</b>") > 20
    stage.as_("lotse").call("createMessage", {"body": EVIL, "client_msg_id": fresh()}, thread_id=thread).ok()
    await page.until("document.querySelector('.message[data-origin=agent]')")
    lotse.call("awaitRunInput", {"prompt": EVIL, "choices": {"a": f"A {MARKUP}", "__proto___": MARKUP}})
    await in_state(page, "waiting_input")
    await harmless(page)
    await page.js("location.hash = '/running'")
    await page.until("document.querySelector('.running .box')")
    await harmless(page)
    stage.as_(person).call("cancelRun", {}, run_id=run["id"]).ok()
    await page.js("history.back()")
    await in_state(page, "cancelled")
    await page.click(box("summary"))
    await harmless(page)


async def harmless(page: Page) -> None:
    """Nothing of the markup became an element, and no link leads anywhere but to the web or within the page."""
    assert await page.js(
        "window.hacked === undefined && document.querySelectorAll('img, .injected, body script, iframe').length === 0"
    )
    assert await page.js("[...document.links].every((link) => /^https?:/.test(link.protocol))")


@pytest.mark.parametrize("way", ["form", "address"])
async def test_the_token_stays_in_this_tab_and_out_of_the_address(
    sit: Sit, live: Live, way: str, chromium: Any
) -> None:
    token = live.issue("alex")
    if way == "address":
        page = await sit("alex", token=token)
    else:
        page = await chromium.page()
        await page.goto(live.url)
        assert await page.js("document.activeElement.id") == "token"
        await page.type(token)
        await page.press("Enter")
        await page.shows("Live", "#status")
    assert token not in await page.js("location.href + document.documentElement.outerHTML + document.cookie")
    assert await page.js(f"Object.values(localStorage).join().includes({token!r})") is False
    history = await page.send("Page.getNavigationHistory")
    assert token not in history["entries"][history["currentIndex"]]["url"]
    await page.reload()
    await page.shows("Live", "#status")
    await page.click("#sign-out")
    await page.shows("Sign in", "h1#sign-in-heading")
    assert await page.js("sessionStorage.length") == 0
    await page.reload()
    await page.shows("Sign in", "h1#sign-in-heading")
    await page.clean()


async def test_a_token_that_was_never_good_is_said(chromium: Any, live: Live) -> None:
    page = await chromium.page()
    await page.goto(live.url)
    await page.type("lbx_nothing")
    await page.press("Enter")
    await page.shows("The server does not take this token.", "#sign-in-error")
    assert await page.js("sessionStorage.length") == 0
    await page.clean(forgiven="401")
