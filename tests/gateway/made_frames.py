"""Frames of clients made from the schemas of asyncapi.yaml, and what can be broken in one of them.

What is made keeps to the contract. Members that name something (`run_id`, `token`, `base_version`) are mostly a `Spot`,
which whoever sends the frame fills with something that is there. New frames and members need no code here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

import generated
from generated.gateway_messages import MESSAGES
from generated.patchable_paths import PATCHABLE, PatchNode
from generated.validators import checker
from tests.contract.instances import at, broken
from tests.gateway.raw_socket import BINARY, TEXT

Json = dict[str, Any]
Sent = tuple[int, bytes]
"""Opcode and payload of a WebSocket message."""

DOCUMENT: Final = json.loads((Path(generated.__file__).parent / "asyncapi.json").read_bytes())
KINDS: Final = [name for name, found in MESSAGES.items() if found.sender == "client"]
SCHEMAS: Final[Mapping[str, Json]] = {
    found["name"]: at(DOCUMENT, found["payload"]["$ref"]) for found in DOCUMENT["components"]["messages"].values()
}
FITS: Final = {kind: checker(MESSAGES[kind].schema) for kind in KINDS}
SPOTS: Final = frozenset(
    {"run_id", "thread_id", "message_id", "token", "invocation", "base_version", "resume_after", "step_id"}
)
PICKS: Final = 4
"""How many things of a kind there are to choose from."""
SHORT: Final = 12


class Spot(NamedTuple):
    """A member that is to be filled: by its name, and which of several."""

    name: str
    pick: int


def value_of(schema: Json, name: str = "") -> st.SearchStrategy[Any]:
    """Values that fit a schema; `name` is that of the member."""
    if name in SPOTS:
        spots = st.builds(Spot, st.just(name), st.integers(-4, PICKS - 1).map(lambda pick: max(pick, 0)))
        return st.one_of(spots, spots, spots, spots, _plain(schema, name))
    return _plain(schema, name)


def _plain(schema: Json, name: str) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        if schema["$ref"].endswith("/PatchOp"):
            return patch_op()
        return _plain(at(DOCUMENT, schema["$ref"]), name)
    if "const" in schema or "enum" in schema:
        return st.sampled_from([schema["const"]] if "const" in schema else schema["enum"])
    if "allOf" in schema:
        parts = [_plain(part, name) for part in schema["allOf"]]
        return st.tuples(*parts).map(lambda found: {key: value for part in found for key, value in part.items()})
    if branches := schema.get("oneOf", schema.get("anyOf")):
        return st.one_of([_plain(branch, name) for branch in branches])
    return _TYPES[schema["type"]](schema, name) if "type" in schema else anything()


def _text(schema: Json, _: str) -> st.SearchStrategy[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", SHORT)
    characters = st.characters(codec="utf-8", exclude_characters="\x00")
    if "pattern" in schema:
        found = st.from_regex(schema["pattern"], fullmatch=True, alphabet=st.characters(codec="utf-8"))
        return found.filter(lambda text: least <= len(text) <= most)
    if schema.get("format") == "date-time":
        return st.datetimes().map(lambda time: time.isoformat() + "Z")
    return st.text(characters, min_size=least, max_size=max(least, min(most, SHORT)))


def _whole(schema: Json, _: str) -> st.SearchStrategy[int]:
    least, most = schema.get("minimum", -(2**53) + 1), schema.get("maximum", 2**53 - 1)
    return st.one_of(st.integers(least, min(most, least + 9)), st.integers(least, most))


def _list(schema: Json, name: str) -> st.SearchStrategy[list[Any]]:
    least = schema.get("minItems", 0)
    items = value_of(schema["items"], name.removesuffix("s"))
    key = repr if schema.get("uniqueItems") else None
    return st.lists(items, min_size=least, max_size=min(schema.get("maxItems", 3), least + 3), unique_by=key)


def _object(schema: Json, _: str) -> st.SearchStrategy[Json]:
    members = {name: value_of(member, name) for name, member in schema.get("properties", {}).items()}
    required = set(schema.get("required", ()))
    rest = schema.get("additionalProperties")
    if not members and isinstance(rest, dict):
        names = schema.get("propertyNames", {"type": "string", "maxLength": SHORT})
        return st.dictionaries(_plain(names, ""), _plain(rest, ""), max_size=2)
    return st.fixed_dictionaries(
        {name: member for name, member in members.items() if name in required},
        optional={name: member for name, member in members.items() if name not in required},
    )


_TYPES: Final[Mapping[str, Callable[[Json, str], st.SearchStrategy[Any]]]] = {
    "string": _text,
    "integer": _whole,
    "number": lambda schema, _: st.floats(schema.get("minimum", -1e9), schema.get("maximum", 1e9)),
    "boolean": lambda *_: st.booleans(),
    "array": _list,
    "object": _object,
}


def anything() -> st.SearchStrategy[Any]:
    """Any JSON but null."""
    plain = st.one_of(st.booleans(), st.integers(-9, 9), st.text(st.characters(codec="utf-8"), max_size=SHORT))
    return st.recursive(plain, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner))


@st.composite
def patch_op(draw: st.DrawFn) -> Json:
    """One operation on a place that may be patched, with a value that fits it; now and then on any place."""
    path, nodes, each = "", dict(PATCHABLE), None
    node: PatchNode | None = None
    while nodes or each is not None:
        if nodes:
            name = draw(st.sampled_from(sorted(nodes)))
            node = nodes[name]
        else:
            name, node = draw(st.sampled_from(["a", "b", "0", "-"])), each
        assert node is not None
        path, nodes, each = f"{path}/{name}", node.members, node.each
        if draw(st.booleans()):
            break
    assert node is not None
    path = draw(st.sampled_from([path] * 9 + ["/state", "/version", "", "/headline/", "/~2", path + "/more"]))
    op = draw(st.sampled_from(["add", "add", "add", "replace", "remove", "move"]))
    if op == "remove":
        return {"op": op, "path": path}
    return {"op": op, "path": path, "value": draw(_plain({"$ref": f"#/components{node.schema}"}, ""))}


FRAMES: Final = {kind: value_of(SCHEMAS[kind]) for kind in KINDS}
"""For each type the frames of it."""


def filled(value: Any, fill: Callable[[Spot], Any]) -> Any:
    """A frame whose spots are filled."""
    if isinstance(value, Spot):
        return fill(value)
    if isinstance(value, dict):
        return {key: filled(inner, fill) for key, inner in value.items()}
    return [filled(inner, fill) for inner in value] if isinstance(value, list) else value


# What can happen to a frame. Each gets randomness, and the frame as it was.

JUNK: Final[list[Any]] = [
    None, True, 0, -1, 1.5, 1e308, 2**53, "", " ", "\x00", "\ud800", "x" * 5000, "../..", "-", [], {}, [[]], {"a": {}},
    "01933b7e-0000-7000-8000-00000000abcd", "__proto__", "/ops/0", "/headline", "é\u202e", [0] * 200,
]  # fmt: skip


def text_of(value: Any) -> bytes:
    """JSON, as far as it is some."""
    return json.dumps(value).encode()


def _constraint(random: Random, frame: Json) -> Sent:
    """One constraint of the schema: a type, a missing or another member, a null, a length, a pattern."""
    found = list(broken(SCHEMAS[frame["type"]], frame))
    return TEXT, text_of(random.choice(found))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document but the root."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def _junk(random: Random, frame: Json) -> Sent:
    """Anything anywhere."""
    value = json.loads(json.dumps(frame))
    path = random.choice(places(value))
    target = value
    for key in path[:-1]:
        target = target[key]
    if random.randrange(3) == 0 and isinstance(target, dict):
        target[random.choice(["more", "type", "id", "", "a/b", "ops", "token"])] = random.choice(JUNK)
    elif random.randrange(4) == 0:
        del target[path[-1]]
    else:
        target[path[-1]] = random.choice(JUNK)
    return TEXT, text_of(value)


def _null(random: Random, frame: Json) -> Sent:
    """A null anywhere but in the id."""
    value = json.loads(json.dumps(frame))
    path = random.choice([path for path in places({**value, "more": {}}) if path != ("id",)])
    target = value.setdefault("more", {}) if path[0] == "more" else value
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = None
    return TEXT, text_of(value)


def _spliced(text: bytes, more: bytes) -> bytes:
    """The text of an object with members more, at its end."""
    return text[:-1] + b"," + more + b"}"


def _deep(random: Random, frame: Json) -> Sent:
    depth = random.choice([62, 63, 64, 65, 1000, 4000])
    return TEXT, _spliced(text_of(frame), b'"more":' + b"[" * depth + b"]" * depth)


def _twice(random: Random, frame: Json) -> Sent:
    name, value = random.choice(list(frame.items()))
    return TEXT, _spliced(text_of(frame), text_of({name: random.choice([value, value, *JUNK[:3]])})[1:-1])


def _huge(random: Random, frame: Json) -> Sent:
    number = random.choice(
        [b"9007199254740993", b"1e400", b"-9223372036854775809", b"9" * 400, b"1e2", b"-0.0", b"NaN"]
    )
    name = random.choice([*frame, "more"])
    return TEXT, _spliced(text_of(frame), text_of(name) + b":" + number)


def _cut(random: Random, frame: Json) -> Sent:
    text = text_of(frame)
    return TEXT, text[: random.randrange(len(text))]


def _bytes(random: Random, frame: Json) -> Sent:
    text = text_of(frame)
    at_ = random.randrange(len(text))
    return TEXT, text[:at_] + bytes([random.choice([0, 0x22, 0x5C, 0x7F, 0xC0, 0xED, 0xFF])]) + text[at_:]


def _long(random: Random, frame: Json) -> Sent:
    return TEXT, _spliced(text_of(frame), b'"more":"' + b"x" * random.choice([3000, 17000]) + b'"')


def _none(random: Random, _: Json) -> Sent:
    return TEXT, text_of(random.choice(JUNK))


BREAKERS: Final[Mapping[str, Callable[[Random, Json], Sent]]] = {
    "constraint": _constraint,
    "junk": _junk,
    "null": _null,
    "deep": _deep,
    "twice": _twice,
    "huge": _huge,
    "cut": _cut,
    "bytes": _bytes,
    "long": _long,
    "no frame": _none,
    "binary": lambda _, frame: (BINARY, text_of(frame)),
}
