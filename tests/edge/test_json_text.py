"""The JSON reader: its two ways of looking at a text agree, and neither can be brought down."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from livebox.json_scan import MAX_DEPTH, MAX_FINDINGS, MAX_INTEGER, MAX_POINTER, explain
from livebox.json_text import JsonRefused, read

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
NUMBERS = st.integers(-MAX_INTEGER, MAX_INTEGER) | st.floats(
    allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15
)
VALUES: Any = st.recursive(
    st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_what_is_allowed_is_read_as_it_was_written(value: Any, ascii_only: bool, indent: int | None) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    assert read(raw) == value
    assert explain(raw) == []


# Pieces that make nearly JSON, and now and then JSON.
PIECES = [
    *'{}[]:,"\\ \n\t-.0123456789eE+',
    *('"a"', '"b":', "null", "true", "false", "NaN", "Infinity", "1e999", "9007199254740992", "-0.0", "0.5", "1e2"),
    *("\\u0000", "\\ud83c", "\\udf78", "\\ud83c\\udf78", "\\n", "\x00", "ä", "🍸", "//", "'", "\ufeff"),
]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@example('{"a":1,"b":{"a":1,"a":2}}')
@example('{"a":"\\ud83c\\ud83c\\udf78"}')
@example('{"a" \n: 1 , "a"\t:2}')
@example('{"a":"\\":","b":1}')
@example('{"a":["x\\\\u0000"]}')
def test_the_fast_and_the_careful_way_agree(text: str) -> None:
    raw = text.encode()
    findings = explain(raw)
    assert len(findings) <= MAX_FINDINGS
    if findings:
        with pytest.raises(JsonRefused) as refused:
            read(raw)
        assert refused.value.findings == findings
    else:
        assert read(raw) == json.loads(raw)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        read(raw)
    except JsonRefused as refused:
        json.dumps([finding._asdict() for finding in refused.findings]).encode()


@given(VALUES, st.data())
def test_a_null_is_found_wherever_it_is(value: Any, data: st.DataObject) -> None:
    pointer = ""
    document: Any = None
    for _ in range(data.draw(st.integers(1, 10))):
        if data.draw(st.booleans()):
            name = data.draw(TEXTS)
            document, pointer = {name: document}, f"/{name.replace('~', '~0').replace('/', '~1')}{pointer}"
        else:
            document, pointer = [value, document], f"/1{pointer}"
    with pytest.raises(JsonRefused) as refused:
        read(json.dumps(document).encode())
    assert refused.value.readable
    if len(pointer) <= MAX_POINTER:
        assert ("null_not_allowed", pointer) in [found[:2] for found in refused.value.findings]


def test_depth_ends_where_it_says() -> None:
    for opening, inner, closing in (("[", "", "]"), ('{"a":', "1", "}"), ('[{"b":', "2", "}]")):
        levels = MAX_DEPTH // len([mark for mark in opening if mark in "[{"])
        assert read((opening * levels + inner + closing * levels).encode()) is not None
        with pytest.raises(JsonRefused) as refused:
            read((opening * (levels + 1) + (inner or "1") + closing * (levels + 1)).encode())
        assert refused.value.findings[0].code == "too_deep"


@pytest.mark.parametrize("depth", [100, 1000, 20_000, 400_000])
def test_no_depth_brings_it_down(depth: int) -> None:
    """Not in a thread with a small stack either."""
    caught: list[str] = []

    def work() -> None:
        for raw in (b"[" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b'[{"a":' * depth):
            try:
                read(raw)
            except JsonRefused as refused:
                caught.append(refused.findings[0].code)

    threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(0)
    assert caught == ["too_deep"] * 3
    assert sys.getrecursionlimit() < 20_000


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("-0", 0),
        ("1e2", 100),
        ("1.0", 1),
        ("1E-1", 0.1),
        ("9007199254740991", MAX_INTEGER),
        ("-9007199254740991.0", -MAX_INTEGER),
        ("9007199254740991e0", MAX_INTEGER),
        ("1e-999", 0),
        ("0.1e1", 1),
        ("123456789012345.5", 123456789012345.5),
    ],
)
def test_numbers_are_what_they_mean(literal: str, value: float) -> None:
    found = read(literal.encode())
    assert found == value
    assert type(found) is type(value)


def test_a_fractional_negative_zero_is_no_integer() -> None:
    assert isinstance(read(b"-0.0"), float)


@pytest.mark.parametrize("literal", ["9007199254740992", "-9007199254740992.0", "1e16", "1e999", "-1e999", "1" * 400])
def test_numbers_that_others_would_round_are_refused(literal: str) -> None:
    with pytest.raises(JsonRefused) as refused:
        read(f'{{"a":[{literal}]}}'.encode())
    assert [found[:2] for found in refused.value.findings] == [("invalid_number", "/a/0")]


@pytest.mark.parametrize("text", ['{"a":["x\\u0000"]}', '{"a":["\\ud83c"]}', '{"a":["\\udf78\\ud83c"]}'])
def test_characters_that_the_database_refuses_are_refused(text: str) -> None:
    with pytest.raises(JsonRefused) as refused:
        read(text.encode())
    assert [found[:2] for found in refused.value.findings] == [("invalid_text", "/a/0")]
    assert read(b'{"a":["x\\\\u0000"]}') == {"a": ["x\\u0000"]}


def test_all_findings_are_told_up_to_a_bound() -> None:
    with pytest.raises(JsonRefused) as refused:
        read(b'{"a":null,"b":"\\u0000","c":1e999,"d":[null]}')
    assert [found.pointer for found in refused.value.findings] == ["/a", "/b", "/c", "/d/0"]
    with pytest.raises(JsonRefused) as refused:
        read(b"[" + b"null," * 5000 + b"null]")
    assert len(refused.value.findings) == MAX_FINDINGS


def test_a_pointer_stays_short() -> None:
    with pytest.raises(JsonRefused) as refused:
        read(b'{"a":{"' + b"x" * 100_000 + b'":null}}')
    assert refused.value.findings[0].pointer == "/a"


@pytest.mark.parametrize("size", [10, 100_000])
def test_large_texts_are_read_in_one_piece(size: int) -> None:
    document = {"text": "ä🍸" * size, "list": list(range(size))}
    assert read(json.dumps(document, ensure_ascii=False).encode()) == document
