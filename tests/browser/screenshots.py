"""Takes the pictures of docs/images: of the page, of a real server and a real agent at work.

    python -m tests.browser.screenshots

It starts `livebox demo`, signs in as Alex with the token that it prints, and asks Lotse once more.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser.chromium import Chromium, Page, Program, program

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"
PACE = "2"
"""Seconds that the agent rests between its phases: time for the pictures."""


def main() -> int:
    """Exit status 0 when all pictures were taken."""
    if program() is None:
        print("Chromium is not installed", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LIVEBOX_", "DATABASE_URL"))}
    command = [sys.executable, "-m", "livebox", "demo", "--pace", PACE]
    demo = subprocess.Popen(command, cwd=ROOT, env=clean, stdout=subprocess.PIPE, text=True)
    try:
        url, token = _invitation(demo)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Program(Path(folder)) as running:
            asyncio.run(_pictures(running, url, token))
    finally:
        demo.send_signal(signal.SIGINT)
        demo.communicate()
    return 0


def _invitation(demo: subprocess.Popen[str]) -> tuple[str, str]:
    """Where the demo's server is, and Alex's token, from the lines that it prints at its end."""
    assert demo.stdout is not None
    for line in demo.stdout:
        if found := re.search(r"curl \S+ (http://[^/\s]+)/\S* .*Bearer ([^'\s]+)'", line):
            return found[1], found[2]
    raise SystemExit("the demo ended before it invited anybody")


async def _pictures(running: Program, url: str, token: str) -> None:
    async with Chromium(running) as browser:
        page = await browser.page(1100, 820)
        await page.prefer_less_motion()
        await page.goto(f"{url}/#token={token}")
        await page.shows("Live", "#status")
        await _click_text(page, "nav a", "General")
        await page.until("document.querySelectorAll('.message .chip').length > 1")
        await _taken(page, "page-thread")
        await page.click("#message")
        await page.type("@lotse what is in this folder?")
        await page.press("Enter", "Ctrl")
        await page.until("document.querySelectorAll('.thread .plan [data-state=done]').length > 2")
        await page.until("document.querySelector('.thread .box .tool')?.checkVisibility()")
        await _taken(page, "page-live")
        await page.prefer(prefers_color_scheme="dark")
        await page.resize(390, 820)
        await page.js("window.scrollTo(0, 0)")
        await _taken(page, "page-narrow")
        await page.resize(1100, 820)
        await page.js("location.hash = '/running'")
        await page.until("document.querySelector('.running .plan [data-state=in_progress]')")
        await _taken(page, "page-running")
        await page.prefer(prefers_color_scheme="light")
        await page.js("history.back()")
        await page.until("document.querySelector('.thread .box')?.dataset.state === 'completed'")
        await page.until("document.querySelector('.message[data-origin=agent]')")
        await page.js("window.scrollTo(0, 0)")
        await _taken(page, "page-ended")
        await page.clean()


async def _click_text(page: Page, selector: str, text: str) -> None:
    """Click the first element that says just this."""
    await page.until(f"[...document.querySelectorAll('{selector}')].some((each) => each.textContent === '{text}')")
    await page.js(f"[...document.querySelectorAll('{selector}')].find((each) => each.textContent === '{text}').click()")


async def _taken(page: Page, name: str) -> None:
    picture = await page.screenshot()
    (IMAGES / f"{name}.png").write_bytes(picture)
    print(f"docs/images/{name}.png {len(picture) // 1024} KiB")


if __name__ == "__main__":
    sys.exit(main())
