"""For everybody: keyboard alone, a screen reader, dark and light, little motion, and narrow screens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.browser.chromium import Page
from tests.browser.conftest import BROWSER, Agent, Sit, at_version, box, claim, in_state
from tests.browser.test_page_live import MEMBERS
from tests.fixtures.stage import Stage
from tests.fixtures.wire import fresh

pytestmark = BROWSER

Running = Callable[..., Agent]

AXE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"
WIDTHS = (320, 390, 768)
LONG = "Averylongwordwithoutanyplacetobreak" * 5


@pytest_asyncio.fixture
async def busy(sit: Sit, running: Running, stage: Stage) -> AsyncIterator[tuple[Page, Agent]]:
    """A thread with everything in it: a box that shows all, ended boxes, messages of people and agents, a follow-up."""
    ended = running()
    ended.finish("failed", reason="runtime_error")
    thread = ended.held.run["thread_id"]
    stage.message(thread, "alex", f"{LONG} @lotse", ["lotse"])
    run = next(run for run in runs_of(stage, thread) if run["state"] == "queued")
    lotse = Agent(stage, claim(stage, run["id"]))
    lotse.step(title="Read the folder")
    stage.message(thread, "alex", "And last week?", ["lotse"])
    code = f"```\n{LONG}\n```\n\n{LONG}"
    stage.as_("lotse").call("createMessage", {"body": code, "client_msg_id": fresh()}, thread_id=thread).ok()
    version = lotse.patch(**{**MEMBERS, "headline": LONG, "text": {"content": code, "format": "markdown"}})
    page = await sit("alex", f"thread/{thread}")
    await at_version(page, version, lotse.id)
    await in_state(page, "failed", ended.id)
    yield page, lotse
    lotse.finish()


def runs_of(stage: Stage, thread: str) -> Any:
    """The runs of a thread, newest first."""
    return stage.as_("owner").call("listThreadRuns", thread_id=thread).ok()["items"]


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed (npm install)")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_serious(busy: tuple[Page, Agent], theme: str) -> None:
    page, lotse = busy
    await page.prefer(prefers_color_scheme=theme)
    await checked(page, "a thread")
    await page.click(box("summary"))
    await checked(page, "an ended run, opened")
    await page.click(box(".cancel", lotse.id))
    await page.shows("has not answered yet", box(".receipt", lotse.id))
    await page.offline(True)
    await page.shows("Connection lost", ".away")
    await checked(page, "no connection")
    await page.offline(False)
    await page.shows("Live", "#status")
    await page.js("location.hash = '/running'")
    await page.until("document.querySelector('.running .box')")
    await checked(page, "running now")
    await page.resize(320)
    await page.click("#menu")
    await checked(page, "the menu on a narrow screen")
    page.errors.clear()
    await page.click("#sign-out")
    await page.shows("Sign in", "h1")
    await checked(page, "signing in")


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed (npm install)")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_serious_in_a_question(sit: Sit, running: Running, theme: str) -> None:
    lotse = running()
    lotse.call("awaitRunInput", {"prompt": "Which week?", "choices": {"a": "This", "b": "The last one"}})
    for who in ("alex", "robin"):
        page = await sit(who, lotse.thread)
        await page.prefer(prefers_color_scheme=theme)
        await page.shows("Which week?", ".question")
        await checked(page, f"a question, as {who}")


async def checked(page: Page, where: str) -> None:
    """Fail with what axe finds serious or critical."""
    if not await page.js("Boolean(window.axe)"):
        await page.js(AXE.read_text() + ";true")
    # Animations are ended: what is half transparent for a moment has no contrast of its own.
    await page.prefer_less_motion()
    found = await page.js(
        "axe.run(document, {resultTypes: ['violations']}).then((result) => JSON.stringify(result.violations))"
    )
    wrong = [
        f"{finding['id']}: {finding['help']}: {[node['html'][:160] for node in finding['nodes']][:3]}"
        for finding in json.loads(found)
        if finding["impact"] in ("serious", "critical")
    ]
    assert wrong == [], where


async def test_nothing_is_wider_than_the_screen(busy: tuple[Page, Agent]) -> None:
    page, _ = busy
    await page.click(box("summary"))
    for width in WIDTHS:
        await page.resize(width)
        assert await too_wide(page) == []
    await page.resize(320)
    await page.click("#menu")
    assert await too_wide(page) == []
    await page.click(".running-link a")
    await page.until("document.querySelector('.running .box')")
    assert await too_wide(page) == []
    assert not await page.js("document.querySelector('#nav').checkVisibility()"), "the menu closes behind who used it"
    await page.click("#sign-out")
    assert await too_wide(page) == []


async def too_wide(page: Page) -> Any:
    """What reaches beyond the right edge, but for what scrolls by itself."""
    return await page.js(
        "document.documentElement.scrollWidth <= innerWidth ? [] :"
        " [...document.querySelectorAll('body *')].filter((part) => part.getBoundingClientRect().right > innerWidth + 1)"
        ".map((part) => part.outerHTML.slice(0, 100))"
    )


async def test_the_keyboard_is_enough(sit: Sit, running: Running, stage: Stage, chromium: Any, live: Any) -> None:
    lotse = running()
    lotse.call("awaitRunInput", {"prompt": "Which week?", "choices": {"this": "This week"}})
    page = await chromium.page()
    await page.goto(live.url)
    await page.type(live.tokens["alex"])
    await page.press("Enter")
    await page.shows("Live", "#status")
    await in_state(page, "waiting_input", lotse.id)
    # the skip link is first, and leads past the list
    await page.js("document.activeElement.blur(); window.scrollTo(0, 0)")
    await page.press("Tab")
    assert await focused(page) == "Skip to the content"
    assert await page.js("document.activeElement.getBoundingClientRect().top >= 0")
    await page.press("Enter")
    assert await page.js("document.activeElement.id") == "main"
    # to the run's box, and from there to its thread
    await tab_to(page, f".box[data-run='{lotse.id}'] a.to-thread")
    assert await page.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    await page.press("Enter")
    await page.until(f"location.hash === '#/{lotse.thread}'")
    await page.until("document.activeElement.tagName === 'H1'")
    # answer
    await tab_to(page, "[data-choice=this]")
    await page.press("Space")
    await page.shows("You answered: This week", ".question")
    await page.until("document.activeElement.tagName === 'SUMMARY'")
    # close and open the box
    await page.press("Enter")
    assert not await page.js("document.querySelector('.box details').open")
    await page.press("Enter")
    # cancel; the focus stays where it makes sense
    await tab_to(page, ".cancel")
    await page.press("Enter")
    await in_state(page, "cancelled")
    await page.until("document.activeElement.tagName === 'SUMMARY'")
    # write and send
    await tab_to(page, "#message")
    await page.type("Thank you")
    await tab_to(page, ".composer button[type=submit]")
    await page.press("Enter")
    await page.shows("Thank you", ".messages")
    await page.clean()


async def test_a_box_that_closes_gives_its_focus_to_its_line(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    await in_state(page, "running")
    await page.js("document.querySelector('.cancel').focus()")
    lotse.finish()
    await in_state(page, "completed")
    assert await page.js("document.activeElement.tagName") == "SUMMARY"


async def test_the_list_and_the_connection_stay_in_view(sit: Sit, stage: Stage) -> None:
    thread = stage.thread()
    for number in range(40):
        stage.message(thread, text=f"Line {number}")
    page = await sit("robin", f"thread/{thread}")
    await page.shows("Line 39", ".messages")
    seen = (
        "['#status', '.running-link a'].every((part) => { const { top, bottom } = document.querySelector(part)"
        ".getBoundingClientRect(); return top >= 0 && bottom <= innerHeight; })"
    )
    await page.js("window.scrollTo(0, document.documentElement.scrollHeight)")
    await page.until("window.scrollY > 500")
    assert await page.js(seen)
    await page.resize(320)
    await page.js("window.scrollTo(0, document.documentElement.scrollHeight)")
    await page.click("#menu")
    await page.until(seen)


async def tab_to(page: Page, selector: str) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(40):
        await page.press("Tab")
        if await page.js(f"document.activeElement.matches({json.dumps(selector)})"):
            return
    raise AssertionError(f"{selector} cannot be reached with the keyboard")


async def focused(page: Page) -> str:
    """The text of what has the focus."""
    return str(await page.js("document.activeElement.textContent"))


async def test_a_screen_reader_is_told_changes_of_state_and_is_not_flooded(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    await in_state(page, "running")
    await page.js(
        "window.told = []; new MutationObserver(() => window.told.push(document.querySelector('#announcements').textContent))"
        ".observe(document.querySelector('#announcements'), {childList: true, characterData: true, subtree: true})"
    )
    for number in range(50):
        version = lotse.patch(headline=f"Part {number}")
    await at_version(page, version)
    lotse.finish("failed", reason="runtime_error")
    await page.until("window.told.length > 0")
    assert await page.js("window.told") == ["Lotse: Failed, the agent ran into an error."]
    live_regions = "document.querySelectorAll('.box [aria-live], .box [role=status], .box [role=log]').length"
    assert await page.js(live_regions) == 0


async def test_landmarks_and_headings(busy: tuple[Page, Agent]) -> None:
    page, _ = busy
    assert await page.js(
        "[document.querySelectorAll('main').length, document.querySelectorAll('nav[aria-label]').length]"
    ) == [1, 1]
    assert await page.js("[...document.querySelectorAll('h1')].filter((each) => each.checkVisibility()).length") == 1
    assert await page.js("document.title") == f"{await page.text('main h1')} · Livebox"
    assert await page.js("document.documentElement.lang") == "en"


async def test_whatever_can_be_used_or_measures_something_has_a_name(busy: tuple[Page, Agent]) -> None:
    page, _ = busy
    wanted = {"button", "link", "textbox", "meter", "progressbar", "DisclosureTriangle", "article", "list"}
    seen, nameless = set(), []
    for node in (await page.send("Accessibility.getFullAXTree"))["nodes"]:
        role = node.get("role", {}).get("value")
        if role in wanted and not node["ignored"]:
            seen.add(role)
            if role != "list" and not node.get("name", {}).get("value"):
                nameless.append((role, node))
    assert nameless == []
    assert {"button", "link", "textbox", "meter", "progressbar", "article"} <= seen


async def test_colours_follow_the_system_until_somebody_chooses(sit: Sit) -> None:
    page = await sit("alex")
    back = "getComputedStyle(document.documentElement).backgroundColor"
    await page.prefer(prefers_color_scheme="light")
    light = await page.js(back)
    await page.prefer(prefers_color_scheme="dark")
    dark = await page.js(back)
    assert light != dark
    await page.click("#theme")
    await page.shows("Theme: light", "#theme")
    assert await page.js(back) == light
    await page.click("#theme")
    await page.prefer(prefers_color_scheme="light")
    assert await page.js(back) == dark
    await page.reload()
    assert await page.js(back) == dark
    await page.click("#theme")
    assert await page.js(back) == light


async def test_who_wants_less_motion_gets_none(sit: Sit, running: Running) -> None:
    lotse = running()
    page = await sit("alex", lotse.thread)
    await in_state(page, "running")
    assert await page.js("document.getAnimations().length") > 0
    await page.prefer_less_motion()
    assert await page.js("document.getAnimations().length") == 0
