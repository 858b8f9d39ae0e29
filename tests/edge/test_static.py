"""The page's files: which there are, with which headers, and that nothing else is ever sent."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import livebox
from livebox.file import MEDIA
from livebox.static import page
from tests.fixtures.server import Clients

WEB = Path(livebox.__file__).parent / "web"
PATHS = {"/" if file.name == "index.html" else f"/web/{file.name}": file for file in WEB.iterdir() if file.is_file()}


def test_all_of_the_folder_is_served_and_nothing_else() -> None:
    assert {path for path, _ in page()} == set(PATHS)
    assert {file.suffix for file in PATHS.values()} <= set(MEDIA)


@pytest.mark.parametrize("path", sorted(PATHS))
async def test_a_file_comes_with_its_type_and_policy(clients: Clients, path: str) -> None:
    got = await clients[None].get(path, check=False)
    assert (got.status, got.body) == (200, PATHS[path].read_bytes())
    assert got.headers["Content-Type"] == MEDIA[PATHS[path].suffix]
    policy = got.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self'; ")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Referrer-Policy"] == "no-referrer"
    assert got.headers["Cache-Control"] == "private, no-cache"
    assert len(got.headers["Request-Id"]) == 36


async def test_who_has_a_file_already_is_told_so(clients: Clients) -> None:
    got = await clients[None].get("/web/main.js", check=False)
    tag = got.headers["ETag"]
    assert tag == f'"{hashlib.sha256(got.body).hexdigest()[:32]}"'
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = await clients[None].get("/web/main.js", headers={"If-None-Match": known}, check=False)
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    other = await clients[None].get("/web/main.js", headers={"If-None-Match": '"other"'}, check=False)
    assert other.status == 200


async def test_head_is_get_without_a_body(clients: Clients) -> None:
    for path in PATHS:
        whole = await clients[None].get(path, check=False)
        head = await clients[None].request("HEAD", path, check=False)
        assert (head.status, head.body) == (200, b"")
        for name in ("Content-Length", "Content-Type", "ETag", "Content-Security-Policy"):
            assert head.headers[name] == whole.headers[name], name


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_a_file_takes_no_other_method(clients: Clients, method: str) -> None:
    for path in ("/", "/web/main.js"):
        got = await clients[None].request(method, path)
        assert (got.status, got.code, got.headers["Allow"]) == (405, "method_not_allowed", "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        "/web",
        "/web/",
        "/web/index.html",
        "/web/nothing.js",
        "/web/MAIN.JS",
        "/web/main.js/",
        "/web/../keys.py",
        "/web/%2e%2e/keys.py",
        "/web/..%2fkeys.py",
        "/web/%00main.js",
        "/index.html",
        "/main.js",
    ],
)
async def test_anything_else_is_not_found(clients: Clients, path: str) -> None:
    got = await clients[None].get(path)
    assert (got.status, got.code) == (404, "not_found")


def test_the_page_asks_nobody_else_and_has_no_script_or_style_in_itself() -> None:
    for path, file in PATHS.items():
        text = file.read_text()
        for address in re.findall(r"https?://[^\s\"'`)]+", text):
            assert address.startswith("http://www.w3.org/"), f"{path} names {address}"
        assert "innerHTML" not in text
        assert "outerHTML" not in text
        assert "document.write" not in text
        assert "eval(" not in text
    index = PATHS["/"].read_text()
    assert not re.search(r"<style|\son\w+=|\sstyle=|javascript:", index)
    assert all(script.strip() == "" for script in re.findall(r"<script[^>]*>(.*?)</script>", index, re.DOTALL))


def test_modules_import_only_their_neighbours_and_all_are_used() -> None:
    imported = {"main.js"}
    for file in WEB.glob("*.js"):
        for name in re.findall(r'^(?:import|\} from).*?"([^"]+)";$', file.read_text(), re.MULTILINE):
            assert re.fullmatch(r"\./[a-z]+\.js", name), f"{file.name} imports {name}"
            imported.add(name[2:])
    modules = {file.name for file in WEB.glob("*.js")}
    assert imported == modules
    # Asked for together, they come in one turn instead of one for each level of imports.
    preloaded = re.findall(r'<link rel="modulepreload" href="web/([^"]+)">', PATHS["/"].read_text())
    assert preloaded == sorted(modules - {"main.js"})
