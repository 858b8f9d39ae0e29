"""The gateway reference: the channel, every frame in both directions, how sessions end, and every schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from livebox.reference.markup import code, example, inline, page, prose, table, tag
from livebox.reference.schemas import anchor, whole

FILE = "gateway.html"
Json = Mapping[str, Any]
_SENDERS = (("receive", "What a client sends", "client"), ("send", "What the server sends", "server"))


def gateway_page(document: Json) -> str:
    """The page of one AsyncAPI document whose references are all local; the same for the same document."""
    frames = {action: list(_frames(document, action)) for action, _, _ in _SENDERS}
    schemas: Json = document["components"]["schemas"]
    groups = [
        (title, [(_anchor(message["name"], sender), message["name"]) for _, message in frames[action]])
        for action, title, sender in _SENDERS
    ]
    groups.append(("Sessions", [("closes", "Close codes")]))
    groups.append(("Schemas", [(anchor(name), name) for name in schemas]))
    title = f"{document['info']['title']} {document['info']['version']}: reference"
    return page(FILE, title, groups, _body(title, document, frames, schemas))


def _body(title: str, document: Json, frames: Mapping[str, list[tuple[Json, Json]]], schemas: Json) -> Iterator[str]:
    yield tag("h1", escape(title))
    yield prose(document["info"]["description"])
    for channel in document["channels"].values():
        yield tag("p", tag("strong", "Channel"), " ", code(channel["address"]), ": ", inline(channel["description"]))
    for action, heading, sender in _SENDERS:
        yield tag("h2", heading)
        for operation, message in frames[action]:
            identity = _anchor(message["name"], sender)
            yield tag("section", *_frame(identity, operation, message), aria_labelledby=identity)
    yield tag("h2", "Close codes", id="closes")
    yield tag("p", "From 4000 to 4499: connect again. From 4500 on it would end in the same way.")
    rows = (
        (code(number), code(close["name"]), "yes" if close["reconnect"] else "no", inline(close["meaning"]))
        for number, close in document["x-close-codes"].items()
    )
    yield table("Close codes", ("code", "name", "connect again", "meaning"), rows)
    yield tag("h2", "Schemas")
    for name, schema in schemas.items():
        yield tag("section", tag("h3", escape(name), id=anchor(name)), whole(schema), aria_labelledby=anchor(name))


def _frame(identity: str, operation: Json, message: Json) -> Iterator[str]:
    name = str(message["payload"]["$ref"]).rpartition("/")[2]
    yield tag("h3", code(message["name"]), " ", inline(message["title"]), id=identity)
    yield tag("p", inline(operation["summary"]), " ", inline(message["summary"]))
    yield tag("p", "Payload: ", tag("a", escape(name), href=f"#{anchor(name)}"))
    for entry in message["examples"]:
        yield example(entry["name"], entry["payload"], str(message["name"]))


def _frames(document: Json, action: str) -> Iterator[tuple[Json, Json]]:
    """The operations of one action with their messages."""
    for operation in document["operations"].values():
        if operation["action"] == action:
            for entry in operation["messages"]:
                yield operation, _follow(document, entry)


def _follow(document: Json, node: Json) -> Json:
    while "$ref" in node:
        found: Any = document
        for token in str(node["$ref"]).split("/")[1:]:
            found = found[token.replace("~1", "/").replace("~0", "~")]
        node = found
    return node


def _anchor(name: str, sender: str) -> str:
    return f"{sender}-{name}"
