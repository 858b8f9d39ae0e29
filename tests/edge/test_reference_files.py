"""The reference as files: what is served, with which headers, and that it tells of the whole contract."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from generated.gateway_messages import CLOSES, MESSAGES
from generated.operations import OPERATIONS
from generated.problems import PROBLEMS
from livebox.file import MEDIA, File
from livebox.reference import files as reference
from livebox.reference.gateway import gateway_page
from livebox.reference.markup import inline, prose, table
from livebox.reference.pages import STATIC
from livebox.reference.rest import Rest
from tests.fixtures.server import Clients

ROOT = Path(__file__).parents[2]
PATHS = {
    path: path.rpartition("/")[2] if path.count("/") > 1 else "index.html"
    for path, _ in reference.files()
    if path != "/docs/"
}
INDEX = (ROOT / "livebox/reference/index.html").read_text(encoding="utf-8")


def test_all_that_the_pages_load_is_served() -> None:
    for name in ("index.html", *(name for name in STATIC if name.endswith(".html"))):
        text = INDEX if name == "index.html" else (ROOT / "docs/reference" / name).read_text(encoding="utf-8")
        base = "/" if name == "index.html" else "/docs/"
        loaded = re.findall(r'(?:href|src)="([^"#]+)"', text)
        assert loaded
        assert {base + target for target in loaded} <= set(PATHS), name
        assert "://" not in text.replace("http://json-schema.org", ""), "nothing is asked of anybody else"
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?! defer src)", text), name


@pytest.mark.parametrize("path", sorted(PATHS))
async def test_a_file_comes_with_its_type_and_policy(clients: Clients, path: str) -> None:
    got = await clients[None].get(path, check=False)
    assert got.status == 200
    assert got.headers["Content-Type"] == MEDIA["." + PATHS[path].rpartition(".")[2]]
    policy = got.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert ("script-src 'self'" in policy) == (path == "/docs")
    for never in ("base-uri", "form-action", "frame-ancestors", "object-src"):
        assert f"{never} 'none'" in policy
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Cache-Control"] == "private, no-cache"
    known = got.headers["ETag"]
    again = await clients[None].get(path, headers={"If-None-Match": known}, check=False)
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", known)
    head = await clients[None].request("HEAD", path, check=False)
    assert (head.status, head.body, head.headers["ETag"]) == (200, b"", known)
    post = await clients[None].request("POST", path, check=False)
    assert (post.status, post.code) == (405, "method_not_allowed")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_slash_too_many_leads_to_the_page(clients: Clients, method: str) -> None:
    got = await clients[None].request(method, "/docs/", headers={"If-None-Match": "*"}, check=False)
    assert (got.status, got.body, got.headers["Location"]) == (308, b"", "../docs")
    assert "ETag" not in got.headers


@pytest.mark.parametrize("name", STATIC)
async def test_a_server_shows_what_stands_in_docs(clients: Clients, name: str) -> None:
    got = await clients[None].get(f"/docs/{name}", check=False)
    assert got.body == (ROOT / "docs/reference" / name).read_bytes()


@pytest.mark.parametrize(
    "path", ["/docs//", "/docs/swagger.html", "/docs/..%2fopenapi.yaml", "/docs/swagger-ui.css.map"]
)
async def test_nothing_else_is_there(clients: Clients, path: str) -> None:
    got = await clients[None].get(path, check=False)
    assert (got.status, got.code) == (404, "not_found")


@pytest.mark.parametrize("name", ["swagger-ui.css", "swagger-ui-bundle.js"])
async def test_swagger_ui_is_the_one_that_was_looked_at(clients: Clients, name: str) -> None:
    """A browser refuses other bytes than those that the page names, so a new version needs its new hashes there."""
    wanted = re.search(rf'"docs/{re.escape(name)}" integrity="sha384-([^"]+)"', INDEX)
    assert wanted
    got = await clients[None].get(f"/docs/{name}", check=False)
    assert base64.b64encode(hashlib.sha384(got.body).digest()).decode() == wanted[1]


def test_without_its_package_a_server_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "PACKAGE", "no_such_package")
    with pytest.raises(ModuleNotFoundError, match="no_such_package is not installed"):
        list(reference.files())


def test_a_file_is_made_once_and_not_before_it_is_asked_for() -> None:
    asked: list[int] = []
    file = File("text/html", lambda: b"%d" % (asked.append(1) or len(asked)))
    assert asked == []
    file.ready()
    file.ready()
    assert asked == [1]


def test_the_rest_page_tells_of_every_operation_code_and_schema() -> None:
    page = (ROOT / "docs/reference/rest.html").read_text(encoding="utf-8")
    for operation in OPERATIONS.values():
        section = page.partition(f'<section aria-labelledby="{operation.id}">')[2].partition("</section>")[0]
        assert f'<h3 id="{operation.id}">' in section
        assert f"<strong>{operation.method}</strong> <code>{operation.path}</code>" in section
        codes = section.partition("Problem codes of this operation")[2]
        assert set(re.findall(r'<th scope="row"><code>([a-z_]+)', codes)) == set(operation.problem_codes)
    assert set(
        re.findall(r'<th scope="row"><code>([a-z_]+)', page.partition('id="problems"')[2].partition("<section")[0])
    ) == set(PROBLEMS)
    schemas = json.loads((ROOT / "generated/openapi.json").read_bytes())["components"]["schemas"]
    assert set(re.findall(r'<h3 id="schema-([A-Za-z]+)">', page)) == set(schemas)


def test_the_gateway_page_tells_of_every_frame_with_examples_and_of_every_close_code() -> None:
    page = (ROOT / "docs/reference/gateway.html").read_text(encoding="utf-8")
    for message in MESSAGES.values():
        identity = f"{message.sender}-{message.name}"
        section = page.partition(f'<section aria-labelledby="{identity}">')[2].partition("</section>")[0]
        assert f"<code>{message.name}</code>" in section
        assert "<summary>Example: " in section
    closes = page.partition('id="closes"')[2].partition("<section")[0]
    assert set(map(int, re.findall(r'<th scope="row"><code>(\d+)', closes))) == {
        close.code for close in CLOSES.values()
    }


@pytest.mark.parametrize("name", ["openapi", "asyncapi"])
def test_no_text_of_a_contract_becomes_markup(name: str) -> None:
    kept = {"$ref", "action", "name", "tags", "x-problem-codes"}  # what others refer to

    def hostile(node: Any, key: str = "") -> Any:
        if isinstance(node, dict):
            return {inner: hostile(value, inner) for inner, value in node.items()}
        if isinstance(node, list):
            return [hostile(value, key) for value in node]
        return f"{node}<b onclick='\">&" if isinstance(node, str) and key not in kept else node

    document = hostile(json.loads((ROOT / f"generated/{name}.json").read_bytes()))
    page = gateway_page(document) if name == "asyncapi" else Rest(document).page()
    assert "&lt;b onclick=" in page
    assert "<b" not in page.replace("<body>", "")


def test_markup_escapes_what_is_no_markup() -> None:
    assert inline("a < b & `<i>` **x<y**") == "a &lt; b &amp; <code>&lt;i&gt;</code> <strong>x&lt;y</strong>"
    assert prose("One\ntwo.\n\n- a\n- b\n  c\n") == "<p>One two.</p>\n<ul><li>a</li><li>b c</li></ul>"
    assert table("Empty", ("a",), []) == ""
