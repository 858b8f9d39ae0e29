"""HTML as text, with everything that is not markup escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>{title}</title>
  <link rel="icon" href="icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="reference.css">
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header><p class="brand">Livebox</p><nav aria-label="Pages">{pages}</nav></header>
<div class="columns">
<nav class="contents" aria-label="Contents">
{contents}
</nav>
<main id="main" tabindex="-1">
{body}
</main>
</div>
</body>
</html>
"""
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
PAGES = (("rest.html", "REST"), ("gateway.html", "Gateway"))


def tag(name: str, *content: str, **attributes: str) -> str:
    """An element; its content is markup already. A trailing underscore of an attribute is dropped."""
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{given}>{''.join(content)}</{name}>"


def code(text: object) -> str:
    """A piece of code in a line."""
    return tag("code", escape(str(text)))


def inline(text: str) -> str:
    """A line with `code` and **bold**."""
    made, end = [], 0
    for match in _INLINE.finditer(text):
        made.append(escape(text[end : match.start()], quote=False))
        made.append(code(match[1]) if match[1] is not None else tag("strong", escape(match[2])))
        end = match.end()
    return "".join(made) + escape(text[end:], quote=False)


def prose(text: str) -> str:
    """Paragraphs and lists, as descriptions are written."""
    blocks = [block for block in re.split(r"\n\s*\n", text.strip()) if block.strip()]
    return "\n".join(_block(block) for block in blocks)


def _block(block: str) -> str:
    if not block.startswith("- "):
        return tag("p", inline(" ".join(block.split())))
    items = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
    return tag("ul", *(tag("li", inline(" ".join(item.split()))) for item in items))


def table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table whose first column names its rows; empty where it has no rows."""
    lines = [_row(list(row)) for row in rows]
    if not lines:
        return ""
    head = tag("tr", *(tag("th", escape(name), scope="col") for name in heads))
    whole = tag("table", tag("caption", escape(caption)), tag("thead", head), "<tbody>", *lines, "</tbody>")
    # A wide table is moved on its own, by keyboard too.
    return tag("div", whole, class_="wide", tabindex="0", role="region", aria_label=caption)


def _row(cells: list[str]) -> str:
    return tag("tr", tag("th", cells[0], scope="row"), *(tag("td", cell) for cell in cells[1:]))


def example(name: str, value: Any, label: str) -> str:
    """A JSON value that can be folded open. `label` says of what, for those who do not see where it stands."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    shown = tag("pre", code(text), tabindex="0", role="region", aria_label=f"{label}: {name}")
    return tag("details", tag("summary", "Example: ", escape(name)), shown)


def contents(groups: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> Iterator[str]:
    """Lists of links: headings, each with (anchor, text)."""
    for title, links in groups:
        yield tag("h2", escape(title))
        yield tag("ul", *(tag("li", tag("a", escape(text), href=f"#{anchor}")) for anchor, text in links))


def page(name: str, title: str, groups: Iterable[tuple[str, Iterable[tuple[str, str]]]], body: Iterable[str]) -> str:
    """A whole page; `name` is its file."""
    links = [
        tag("a", text, href=file, **({"aria_current": "page"} if file == name else {})) for file, text in PAGES
    ]  # fmt: skip
    return _PAGE.format(
        title=escape(title), pages=" ".join(links), contents="\n".join(contents(groups)), body="\n".join(body)
    )
