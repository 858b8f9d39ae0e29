"""Bodies: each violation gives its code and the RFC 6901 pointer of the place where the request is wrong."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.contract.small_contract import generate, import_generated

ID = "01933b7e-0000-7000-8000-000000000001"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleType]:
    root = tmp_path_factory.mktemp("small")
    return import_generated(root, generate(root)[1])


def errors(small: dict[str, ModuleType], **members: Any) -> list[tuple[str, str]]:
    """(code, pointer) of what is wrong with a thing."""
    found = small["validators"].BODY_ERRORS["putThing"]({"name": "n", **members})
    assert all(error.where == "pointer" and error.message for error in found)
    return [(error.code, error.name) for error in found]


VALID: list[dict[str, Any]] = [
    {},
    {"id": ID, "at": "2026-11-02T09:30:00.123456789+05:30", "kind": "a", "tag": "z", "count": 0, "share": 1},
    {"count": 2**53 - 1, "share": 0.5, "flags": [True, False], "code": "abcd"},
    {"parts": {"a/b~": {"size": 1, "parts": [{"size": 2}]}}},
    {
        "shape": {"kind": "circle", "radius": 1},
        "owner": {"name": "x"},
        "event": {"type": "made", "payload": {"size": 1}},
    },
]


@pytest.mark.parametrize("members", VALID)
def test_what_is_valid_has_no_errors(small: dict[str, ModuleType], members: dict[str, Any]) -> None:
    assert errors(small, **members) == []


WRONG: list[tuple[str, Any, str, str]] = [
    ("name", None, "null_not_allowed", "/name"),
    ("kind", None, "null_not_allowed", "/kind"),
    ("tag", None, "null_not_allowed", "/tag"),
    ("shape", None, "null_not_allowed", "/shape"),
    ("flags", [None], "null_not_allowed", "/flags/0"),
    ("parts", {"a": {"parts": [{"size": None}]}}, "null_not_allowed", "/parts/a/parts/0/size"),
    ("other", 1, "unknown_field", "/other"),
    ("a/b~c", 1, "unknown_field", "/a~1b~0c"),
    ("nothing", {"other": 1}, "unknown_field", "/nothing/other"),
    ("parts", {"a/b": {"other": 1, "size": 1}}, "unknown_field", "/parts/a~1b/other"),
    ("event", {"type": "made", "payload": {"size": 1}, "more": 1}, "unknown_field", "/event/more"),
    ("name", 5, "wrong_type", "/name"),
    ("count", "1", "wrong_type", "/count"),
    ("count", 1.0, "wrong_type", "/count"),
    ("count", -0.0, "wrong_type", "/count"),
    ("count", 1.5, "wrong_type", "/count"),
    ("count", True, "wrong_type", "/count"),
    ("share", "0.5", "wrong_type", "/share"),
    ("flags", {}, "wrong_type", "/flags"),
    ("shape", 5, "wrong_type", "/shape"),
    ("id", ID.upper().replace("0", "A"), "malformed_id", "/id"),
    ("id", ID + "\n", "malformed_id", "/id"),
    ("id", "", "malformed_id", "/id"),
    ("at", "2026-11-02T09:30:00", "bad_time", "/at"),
    ("at", "2026-02-30T09:30:00Z", "bad_time", "/at"),
    ("at", "2026-11-02T09:30:00.1234567891Z", "bad_time", "/at"),
    ("at", "2026-11-02 09:30:00Z", "bad_time", "/at"),
    ("at", "2026-11-02T24:00:00Z", "bad_time", "/at"),
    ("at", "2026-11-02T09:30:00+24:00", "bad_time", "/at"),
    ("at", "0000-01-01T00:00:00Z", "bad_time", "/at"),
    ("at", "2026-11-02T09:30:00Z\n", "bad_time", "/at"),
    ("kind", "c", "not_allowed_value", "/kind"),
    ("tag", "y", "not_allowed_value", "/tag"),
    ("code", "AB", "not_allowed_value", "/code"),
    ("count", -1, "out_of_range", "/count"),
    ("count", 2**53, "out_of_range", "/count"),
    ("count", 10**30, "out_of_range", "/count"),
    ("share", 0, "out_of_range", "/share"),
    ("share", 1.1, "out_of_range", "/share"),
    ("name", "x" * 21, "too_long", "/name"),
    ("name", "\u202e" * 21, "too_long", "/name"),
    ("name", "", "blank", "/name"),
    ("name", " \t", "blank", "/name"),
    ("name", "\u00a0\u3000\u200b", "blank", "/name"),
    ("name", "a\u202eb", "invalid_text", "/name"),
    ("name", "a\0b", "invalid_text", "/name"),
    ("name", "\ud800", "invalid_text", ""),
    ("flags", [True, False, True], "too_many", "/flags"),
    ("flags", [], "too_few", "/flags"),
    ("flags", [True, True], "duplicate_item", "/flags"),
    ("parts", {"a": {"size": 1}, "b": {"size": 1}, "c": {"size": 1}}, "too_many", "/parts"),
    ("parts", {"a": {}}, "too_few", "/parts/a"),
    ("parts", {"A": {"size": 1}}, "pattern_mismatch", "/parts/A"),
    ("parts", {"abcdefghi": {"size": 1}}, "too_long", "/parts/abcdefghi"),
    ("shape", {}, "required", "/shape/kind"),
    ("shape", {"kind": "line"}, "not_allowed_value", "/shape/kind"),
    ("shape", {"kind": "square"}, "required", "/shape/side"),
    ("shape", {"kind": "square", "side": "1"}, "wrong_type", "/shape/side"),
    ("shape", {"kind": "circle", "radius": 1, "side": 1}, "unknown_field", "/shape/side"),
    ("owner", {"name": "a", "id": "b"}, "invalid_value", "/owner"),
    ("event", {"type": "made", "payload": {}}, "too_few", "/event/payload"),
    ("event", {"type": "other", "payload": {"size": 1}}, "not_allowed_value", "/event/type"),
]


@pytest.mark.parametrize(("member", "value", "code", "pointer"), WRONG)
def test_each_violation_names_its_place(
    small: dict[str, ModuleType], member: str, value: Any, code: str, pointer: str
) -> None:
    assert errors(small, **{member: value}) == [(code, pointer)]


def test_every_wrong_place_is_told(small: dict[str, ModuleType]) -> None:
    found = small["validators"].BODY_ERRORS["putThing"]({"kind": "c", "zz": 1, "count": -1, "parts": {"a": {"b": 1}}})
    assert {(error.code, error.name) for error in found} == {
        ("required", "/name"), ("not_allowed_value", "/kind"), ("unknown_field", "/zz"), ("out_of_range", "/count"),
        ("unknown_field", "/parts/a/b"),
    }  # fmt: skip


@pytest.mark.parametrize("value", [5, "x", [], True, 1.5])
def test_a_body_of_another_type(small: dict[str, ModuleType], value: Any) -> None:
    found = small["validators"].BODY_ERRORS["putThing"](value)
    assert [(error.code, error.name) for error in found] == [("wrong_type", "")]


def test_a_null_body(small: dict[str, ModuleType]) -> None:
    found = small["validators"].BODY_ERRORS["putThing"](None)
    assert [(error.code, error.name) for error in found] == [("null_not_allowed", "")]


def test_the_number_of_errors_and_the_length_of_pointers_are_bounded(small: dict[str, ModuleType]) -> None:
    body = {f"x{number}": 1 for number in range(1000)} | {"y" * 100_000: 1}
    found = small["validators"].BODY_ERRORS["putThing"](body)
    assert len(found) == 20
    found = small["validators"].BODY_ERRORS["putThing"]({"name": "n", "y" * 100_000: 1})
    assert len(found[0].name) == 4000


def test_a_part_of_a_body_is_told_with_its_place(small: dict[str, ModuleType]) -> None:
    found = small["validators"].checker("/schemas/Part")({"size": -1}, "/ops/0/value")
    assert [(error.code, error.name) for error in found] == [("out_of_range", "/ops/0/value/size")]
    with pytest.raises(KeyError):
        small["validators"].checker("/schemas/Nothing")


def test_responses(small: dict[str, ModuleType]) -> None:
    response_errors = small["validators"].response_errors
    assert response_errors("getThing", 200, {"name": "n"}) == []
    assert [error.code for error in response_errors("getThing", 200, {})] == ["required"]
    assert [error.code for error in response_errors("getThing", 418, {})] == ["invalid_value"]


def test_each_code_has_its_sentence(small: dict[str, ModuleType]) -> None:
    told = {code for _, _, code, _ in WRONG}
    assert told <= set(small["field_errors"].MESSAGES)
    schema_codes = set(small["field_errors"]._CODES.values()) - {"too_short"}
    assert schema_codes <= told | {"required"}
