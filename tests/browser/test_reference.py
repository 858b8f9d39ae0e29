"""The reference in a real browser: Swagger UI tries operations with a token, and our own pages are for everybody."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from tests.browser.chromium import Chromium, Page
from tests.browser.conftest import BROWSER
from tests.browser.test_page_reach import AXE, checked, too_wide
from tests.fixtures.server import Live

pytestmark = BROWSER

Open = Callable[[str], Awaitable[Page]]
PAGES = ("docs/rest.html", "docs/gateway.html")
ASKED = "JSON.stringify(performance.getEntriesByType('resource').map((entry) => entry.name))"
BLOCKS = "JSON.stringify([...document.querySelectorAll('.opblock')].map((block) => block.id.split('-').pop()))"
TAGS = "JSON.stringify([...document.querySelectorAll('.opblock-tag')].map((tag) => tag.dataset.tag))"
KEPT = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
# Sections are alike: a few of each kind are looked at as closely as all of them.
FEW = """
    document.querySelectorAll('main > section').forEach((one, index) => { if (index % 15) one.remove(); });
    document.querySelectorAll('.contents li').forEach((one, index) => { if (index % 15) one.remove(); });
    document.querySelectorAll('details').forEach((one) => { one.open = true; });
"""


@pytest_asyncio.fixture
async def reading(chromium: Chromium, live: Live) -> AsyncIterator[Open]:
    """Opens a path of the server; in the end no page complains, and none has asked anybody but the server."""
    pages: list[Page] = []

    async def opened(path: str) -> Page:
        page = await chromium.page()
        pages.append(page)
        await page.goto(f"{live.url}/{path}")
        return page

    yield opened
    for page in pages:
        await page.clean(forgiven=r"status of 401")  # the browser notes that the server has refused
        asked = json.loads(await page.js(ASKED))
        assert asked
        assert [url for url in asked if not url.startswith((f"{live.url}/", "data:"))] == []


async def press(page: Page, selector: str) -> None:
    """Click what may stand below the window."""
    await page.until(f"document.querySelector({json.dumps(selector)})")
    await page.js(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
    await page.click(selector)


async def tried(page: Page, block: str) -> str:
    """Execute the operation that is open; gives the status that is shown."""
    await press(page, f"{block} .execute")
    status = f"{block} .live-responses-table tbody .response-col_status"
    await page.until(f"document.querySelector({json.dumps(status)})")
    return (await page.text(status)).split()[0]


async def test_an_operation_is_tried_with_a_token(reading: Open, live: Live) -> None:
    page = await reading("docs")
    await page.shows("structure", "#swagger-ui")
    contract = json.loads(await page.js("fetch('openapi.json').then((answer) => answer.text())"))
    assert json.loads(await page.js(TAGS)) == [tag["name"] for tag in contract["tags"]]
    await press(page, "#operations-tag-structure")
    await page.shows("/v1/spaces", "#swagger-ui")
    operations = [one for item in contract["paths"].values() for one in item.values() if isinstance(one, dict)]
    wanted = [operation["operationId"] for operation in operations if operation["tags"] == ["structure"]]
    assert sorted(json.loads(await page.js(BLOCKS))) == sorted(wanted)

    block = "[id$='-listSpaces'].opblock"
    await press(page, f"{block} .opblock-summary-control")
    assert await tried(page, block) == "401"
    await press(page, f"{block} .btn-clear")
    await press(page, ".auth-wrapper .authorize")
    await page.click("#auth-bearer-value")
    await page.type(live.tokens["alex"])
    await page.click(".modal-ux .auth-btn-wrapper .authorize")
    await page.click(".modal-ux .btn-done")
    assert await tried(page, block) == "200"
    answer = await page.text(f"{block} .live-responses-table tbody .response-col_description")
    assert '"items"' in answer
    assert "request-id" in answer
    assert await page.js(KEPT) == '[{},{},""]', "the token is kept nowhere"


@pytest.mark.parametrize("path", PAGES)
async def test_our_own_pages_are_for_everybody(reading: Open, path: str) -> None:
    page = await reading(path)
    for width in (320, 768):
        await page.resize(width)
        assert await too_wide(page) == []
    lost = "[...document.querySelectorAll('a[href^=\"#\"]')].filter((a) => !document.getElementById(a.hash.slice(1)))"
    assert await page.js(f"{lost}.map((a) => a.hash)") == []
    names = "[...document.querySelectorAll('[id]')].map((one) => one.id)"
    assert await page.js(f"{names}.length - new Set({names}).size") == 0, "an id stands for one thing"
    if AXE.is_file():
        await page.js(FEW)
        for theme in ("light", "dark"):
            await page.prefer(prefers_color_scheme=theme)
            await checked(page, f"{path}, {theme}")
    await page.resize(1100)
    await page.click("header nav a:not([aria-current])")
    await page.until(f"document.readyState === 'complete' && !location.pathname.endsWith({json.dumps(path)})")
