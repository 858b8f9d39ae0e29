"""Registered runs on the page: they belong to no thread, and people see them in "Running now"."""

from __future__ import annotations

from livebox.world import OWNER
from tests.browser.conftest import BROWSER, Sit, box, in_state
from tests.fixtures.stage import Stage
from tests.fixtures.wire import fresh

pytestmark = BROWSER


async def test_a_registered_run_is_watched_and_cancelled(sit: Sit, stage: Stage) -> None:
    run = stage.registered(agents=["texter"], user_id="alex", intent="Weekly report")
    other = stage.registered(agents=["texter"], intent="Nothing of Alex")
    page = await sit("alex", "running")
    await in_state(page, "running", run["id"])
    await page.shows("Weekly report", box(run=run["id"]))
    assert other["id"] not in await page.js("document.body.outerHTML")
    body = {"kind": "tool", "name": "read_folder", "title": "Read the folder"}
    stage.as_("texter").call("recordRunStep", body, run_id=run["id"], step_id=fresh()).ok()
    spent = {"amount_micros": 4200, "currency": "EUR"}
    stage.as_("lotse").call("recordSpend", spent, run_id=run["id"], entry_id=fresh()).ok()
    await page.shows("Read the folder", box(run=run["id"]))
    await page.shows("EUR 0.0042", box(run=run["id"]))
    assert await page.js(f"document.querySelector({box('.to-thread', run['id'])!r}).hidden"), (
        "there is no thread to open"
    )
    await page.click(box(".cancel", run["id"]))
    await in_state(page, "cancelled", run["id"])
    ended = stage.as_(OWNER).call("getRun", run_id=run["id"]).ok()
    assert (ended["state"], ended["cancel"]["requested_by"]) == ("cancelled", stage.id("alex"))
