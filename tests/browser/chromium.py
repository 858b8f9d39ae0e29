"""Chromium without a window, driven over its DevTools protocol: one process, and pages that share nothing."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import aiohttp

from tests.fixtures.waiting import LIMIT

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60.0
"""Seconds that the browser may take to start, and to answer one command."""
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
# key -> (code, virtual key code, the text that it types)
_KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Space": ("Space", 32, " "),
    "Escape": ("Escape", 27, ""),
}
MODIFIERS = {"Ctrl": 2, "Shift": 8}
# What the page's own policy stops would else only be a line in the console.
_WATCH = """
    window.policyViolations = [];
    document.addEventListener("securitypolicyviolation",
      (event) => window.policyViolations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


# Whether an element can be clicked in its middle, and still at the same place two frames later.
_PLACE = """
    async (selector) => {
      const middle = () => {
        const element = document.querySelector(selector);
        if (!element?.checkVisibility() || element.disabled) return undefined;
        element.scrollIntoView({block: "center", behavior: "instant"});
        const {left, top, width, height} = element.getBoundingClientRect();
        const [x, y] = [left + width / 2, top + height / 2];
        const hit = document.elementFromPoint(x, y);
        return element === hit || element.contains(hit) ? [x, y] : undefined;
      };
      const frame = () => new Promise((done) => requestAnimationFrame(done));
      const before = middle();
      await frame();
      await frame();
      window.clickPlace = middle();
      return before !== undefined && String(before) === String(window.clickPlace);
    }
"""


# Looks for a second, so that a page that is left while it looks does not hold anybody up.
_LOOK = """
    async (is) => {
      for (let turn = 0; turn < 50; turn += 1) {
        if (await is()) return true;
        await new Promise((done) => setTimeout(done, 20));
      }
      return false;
    }
"""
# What the browser says when the page went elsewhere meanwhile.
_ELSEWHERE = ("Cannot find context", "navigated", "context was destroyed", "Promise was collected")


def program() -> str | None:
    """The path of a Chromium on this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Refused(Exception):
    """The browser refused a command, or a script threw."""


class Program:
    """The browser's process; a context manager. Its profile lies in `folder`, and `url` is where it is told what to do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = ""

    def __enter__(self) -> Self:
        path = program()
        assert path is not None
        command = [path, *_FLAGS, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := re.search(r"DevTools listening on (ws://\S+)", line):
                self.url = found[1]
                threading.Thread(target=self._process.stderr.read, daemon=True).start()
                return self
        raise AssertionError("chromium ended before it listened")

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # its own group: it starts more processes
        self._process.wait()


class Chromium:
    """A connection to the browser, an async context manager; its pages are closed with it."""

    def __init__(self, running: Program) -> None:
        self._url = running.url
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        self._contexts: list[str] = []

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        self._socket = await self._session.ws_connect(self._url, max_msg_size=0)
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        for context in self._contexts:
            await self.send("Target.disposeBrowserContext", {"browserContextId": context})
        self._reading.cancel()
        await self._socket.close()
        await self._session.close()

    async def page(self, width: int = 1100, height: int = 900) -> Page:
        """A new page with cookies and storage of its own."""
        context = (await self.send("Target.createBrowserContext"))["browserContextId"]
        self._contexts.append(context)
        target = {"url": "about:blank", "browserContextId": context}
        target_id = (await self.send("Target.createTarget", target))["targetId"]
        return await self._attached(target_id, width, height)

    async def twin(self, page: Page, url: str) -> Page:
        """Another tab beside `page`, with the same storage on the device."""
        info = (await self.send("Target.getTargetInfo", {"targetId": page.target_id}))["targetInfo"]
        target = {"url": "about:blank", "browserContextId": info["browserContextId"]}
        target_id = (await self.send("Target.createTarget", target))["targetId"]
        twin = await self._attached(target_id, page.width, page.height)
        await twin.goto(url)
        return twin

    async def send(self, method: str, parameters: dict[str, Any] | None = None, session: str = "") -> Any:
        """What a command of the protocol gives. Raises Refused."""
        number = next(self._ids)
        command: dict[str, Any] = {"id": number, "method": method, "params": parameters or {}}
        if session:
            command["sessionId"] = session
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(json.dumps(command))
        return await asyncio.wait_for(answer, PATIENCE)

    async def _attached(self, target_id: str, width: int, height: int) -> Page:
        attach = {"targetId": target_id, "flatten": True}
        session = (await self.send("Target.attachToTarget", attach))["sessionId"]
        page = Page(self, session, target_id, width, height)
        self._listeners[session] = page.heard
        await page.prepare()
        return page

    async def _read(self) -> None:
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                answer = self._answers.pop(said["id"])
                if answer.done():
                    continue
                if "error" in said:
                    answer.set_exception(Refused(said["error"]["message"]))
                else:
                    answer.set_result(said["result"])
            elif listener := self._listeners.get(said.get("sessionId", "")):
                listener(said["method"], said["params"])


class Page:
    """One tab. `errors` are the lines that the page left in the console as errors or warnings, and what it threw."""

    def __init__(self, browser: Chromium, session: str, target_id: str, width: int, height: int) -> None:
        self._browser = browser
        self._session = session
        self.target_id = target_id
        self.width = width
        self.height = height
        self.errors: list[str] = []
        self._features: dict[str, str] = {}

    async def prepare(self) -> None:
        """Listen to it, before anything is loaded."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.send(f"{domain}.enable")
        await self.send("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        await self.send("Emulation.setFocusEmulationEnabled", enabled=True)
        await self.resize(self.width)

    async def send(self, method: str, **parameters: Any) -> Any:
        """A command of the protocol for this page."""
        return await self._browser.send(method, parameters, self._session)

    def heard(self, method: str, parameters: dict[str, Any]) -> None:
        """An event of the protocol."""
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(str([argument.get("value") for argument in parameters["args"]]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            entry = parameters["entry"]
            self.errors.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")

    async def goto(self, url: str) -> None:
        """Load a page; returns when it is loaded."""
        await self.send("Page.navigate", url="about:blank")
        await self.until("location.href === 'about:blank'")
        await self.send("Page.navigate", url=url)
        await self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    async def reload(self) -> None:
        """Load it again."""
        await self.js("window.before = true")
        await self.send("Page.reload")
        await self.until("!window.before && document.readyState === 'complete'")

    async def js(self, expression: str) -> Any:
        """The value of an expression, awaited. Raises Refused when it throws."""
        got = await self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in got:
            details = got["exceptionDetails"]
            raise Refused(details.get("exception", {}).get("description") or details["text"])
        return got["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true. The page itself looks, so that waiting costs little."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            try:
                if await self.js(f"({_LOOK})(async () => {expression})"):
                    return
            except Refused as refused:
                if not any(word in str(refused) for word in _ELSEWHERE):
                    raise
                await asyncio.sleep(0.02)
        raise AssertionError(f"{expression} never came\n{await self.text()}\n{self.errors}")

    async def text(self, selector: str = "body") -> str:
        """The visible text of the first element that matches."""
        return str(await self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    async def shows(self, text: str, selector: str = "body") -> None:
        """Wait until a text is to be seen."""
        where = f"document.querySelector({json.dumps(selector)})"
        await self.until(f"({where}?.innerText ?? '').includes({json.dumps(text)})")

    async def hides(self, text: str, selector: str = "body") -> None:
        """Wait until a text is not to be seen."""
        where = f"document.querySelector({json.dumps(selector)})"
        await self.until(f"!({where}?.innerText ?? '').includes({json.dumps(text)})")

    async def click(self, selector: str) -> None:
        """Click with the mouse in the middle of an element, once it is there, rests in its place and can be clicked."""
        await self.until(f"({_PLACE})({json.dumps(selector)})")
        x, y = await self.js("window.clickPlace")
        where = {"x": x, "y": y, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, **where)

    async def press(self, key: str, *modifiers: str) -> None:
        """Press and release a key."""
        code, number, text = _KEYS[key]
        event = {"key": " " if key == "Space" else key, "code": code, "windowsVirtualKeyCode": number}
        event["modifiers"] = sum(MODIFIERS[name] for name in modifiers)
        down = {"type": "keyDown", "text": text} if text and not modifiers else {"type": "rawKeyDown"}
        await self.send("Input.dispatchKeyEvent", **down, **event)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    async def type(self, text: str) -> None:
        """Type into what has the focus."""
        await self.send("Input.insertText", text=text)

    async def resize(self, width: int, height: int = 0) -> None:
        """Make the window so wide."""
        self.width, self.height = width, height or self.height
        size = {"width": self.width, "height": self.height, "deviceScaleFactor": 1, "mobile": False}
        await self.send("Emulation.setDeviceMetricsOverride", **size)

    async def prefer(self, **features: str) -> None:
        """Media features such as `prefers_color_scheme="dark"`, beside those that were asked for before."""
        self._features |= {name.replace("_", "-"): value for name, value in features.items()}
        wanted = [{"name": name, "value": value} for name, value in self._features.items()]
        await self.send("Emulation.setEmulatedMedia", features=wanted)

    async def prefer_less_motion(self) -> None:
        """As somebody who has asked their system for less motion."""
        await self.prefer(prefers_reduced_motion="reduce")

    async def offline(self, off: bool) -> None:
        """Take the network away from the page, or give it back."""
        conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        await self.send("Network.emulateNetworkConditions", offline=off, **conditions)

    async def screenshot(self) -> bytes:
        """What is to be seen, as PNG."""
        return base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])

    async def clean(self, *, forgiven: str = "") -> None:
        """Fail when the console has an error but for those with `forgiven` in them, or the policy was violated."""
        wrong = [line for line in self.errors if not (forgiven and re.search(forgiven, line))]
        assert wrong == []
        assert await self.js("window.policyViolations") == []
