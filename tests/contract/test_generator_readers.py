"""Parameters: read exactly as the contract says, and refused with the name of the one that is wrong."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from aiohttp.web_urldispatcher import MatchInfoError, UrlDispatcher
from multidict import CIMultiDict
from yarl import URL

from tests.contract.small_contract import generate, import_generated

ID = "01933b7e-0000-7000-8000-000000000001"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleType]:
    root = tmp_path_factory.mktemp("small")
    return import_generated(root, generate(root)[1])


def read(
    small: dict[str, ModuleType], operation: str, path: str, headers: Any = (), **match: str
) -> tuple[Any, list[Any]]:
    """The parameters and, as (code, name), the errors of a request."""
    request = make_mocked_request("GET", "/", headers=CIMultiDict(headers))
    request._rel_url = URL(path, encoded=True)  # as the server's parser leaves it
    request._match_info = match  # type: ignore[assignment]
    parameters, errors = small["parameters"].READERS[operation](request)
    assert all(error.where == "parameter" and error.message for error in errors)
    return parameters, [(error.code, error.name) for error in errors]


def query(small: dict[str, ModuleType], text: str) -> tuple[Any, list[Any]]:
    """The same for listThings with its required parameter given."""
    parameters, errors = read(small, "listThings", f"/v1/things?order=asc&{text}")
    assert parameters.pop("order") == "asc"
    return parameters, errors


def test_a_path_parameter(small: dict[str, ModuleType]) -> None:
    assert read(small, "getThing", "/", thing_id=ID) == ({"thing_id": ID}, [])


@pytest.mark.parametrize(
    "value", [ID.upper(), ID[:-1], f"{ID}0", f"{ID}\n", f" {ID}", "", "x", f"{ID[:-1]}\u0661", "\0", "\udcff", "%00"]
)
def test_a_malformed_id_is_named(small: dict[str, ModuleType], value: str) -> None:
    parameters, errors = read(small, "getThing", "/", thing_id=value)
    assert "thing_id" not in parameters
    assert errors in ([("malformed_id", "thing_id")], [("invalid_text", "thing_id")])


def test_defaults_and_absence(small: dict[str, ModuleType]) -> None:
    assert read(small, "listThings", "/v1/things?order=desc") == ({"limit": 20, "order": "desc"}, [])
    assert read(small, "listThings", "/v1/things") == ({"limit": 20}, [("required", "order")])
    assert read(small, "listThings", "/v1/things?&&") == ({"limit": 20}, [("required", "order")])


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("100", 100), ("42", 42)])
def test_integers(small: dict[str, ModuleType], text: str, value: int) -> None:
    assert query(small, f"limit={text}") == ({"limit": value}, [])


@pytest.mark.parametrize(
    "text",
    ["", "+1", "%2B1", "%201", "1%20", "01", "-01", "-0", "1.0", "1e1", "0x1", "1_0", "%D9%A1", "%C2%B2", "one", "1,2"],
)
def test_what_is_no_integer(small: dict[str, ModuleType], text: str) -> None:
    assert query(small, f"limit={text}") == ({}, [("wrong_type", "limit")])


@pytest.mark.parametrize("text", ["0", "101", "-1", "9007199254740993", "9" * 30])
def test_an_integer_out_of_range(small: dict[str, ModuleType], text: str) -> None:
    assert query(small, f"limit={text}") == ({}, [("out_of_range", "limit")])


def test_booleans(small: dict[str, ModuleType]) -> None:
    assert query(small, "explain=true")[0]["explain"] is True
    assert query(small, "explain=false")[0]["explain"] is False
    for text in ("", "1", "0", "True", "TRUE", "yes", "on", "%20true"):
        parameters, errors = query(small, f"explain={text}")
        assert "explain" not in parameters
        assert errors == [("wrong_type", "explain")]


def test_lists_are_separated_by_commas(small: dict[str, ModuleType]) -> None:
    assert query(small, "state=a")[0]["state"] == ["a"]
    assert query(small, "state=a,b")[0]["state"] == query(small, "state=a%2Cb")[0]["state"] == ["a", "b"]
    assert query(small, "state=")[0]["state"] == []
    assert query(small, "sizes=0,9")[0]["sizes"] == [0, 9]
    assert query(small, "state=a,c")[1] == [("not_allowed_value", "state")]
    assert query(small, "state=a,a")[1] == [("duplicate_item", "state")]
    assert query(small, "state=a,b,c")[1] == [("too_many", "state")]
    assert query(small, "state=a,")[1] == [("not_allowed_value", "state")]
    assert query(small, "sizes=1,x")[1] == query(small, "sizes=1,,2")[1] == [("wrong_type", "sizes")]
    assert query(small, "sizes=10")[1] == [("out_of_range", "sizes")]


def test_texts(small: dict[str, ModuleType]) -> None:
    assert query(small, "name=a+b%20%C3%BC")[0]["name"] == "a b ü"
    assert query(small, "name=%2B")[0]["name"] == "+"
    assert query(small, "name=")[1] == [("blank", "name")]
    assert query(small, "name=" + "x" * 11)[1] == [("too_long", "name")]


@pytest.mark.parametrize("value", ["%00", "a%0Ab", "%7F", "%C2%85", "%FF", "%C3", "%", "%4", "%zz", "%ED%A0%80"])
def test_text_that_cannot_be_one(small: dict[str, ModuleType], value: str) -> None:
    assert query(small, f"name={value}") == ({"limit": 20}, [("invalid_text", "name")])


def test_times(small: dict[str, ModuleType]) -> None:
    assert query(small, "since=2026-11-02T09:30:00%2B05:30")[0]["since"] == "2026-11-02T09:30:00+05:30"
    for text in ("2026-11-02T09:30:00", "1672295751103", "2026-11-02", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z"):
        assert query(small, f"since={text}")[1] == [("bad_time", "since")]


def test_a_parameter_stands_once(small: dict[str, ModuleType]) -> None:
    assert query(small, "name=a&name=a")[1] == [("repeated_parameter", "name")]
    assert query(small, "name=a&n%61me=b")[1] == [("repeated_parameter", "name")]


def test_what_no_operation_takes(small: dict[str, ModuleType]) -> None:
    assert query(small, "other=1")[1] == [("unknown_parameter", "other")]
    assert query(small, "Limit=1")[1] == [("unknown_parameter", "Limit")]
    assert query(small, "%00=1")[1] == [("unknown_parameter", "%00")]
    assert read(small, "getHealth", "/health?a=1&b=")[1] == [("unknown_parameter", "a"), ("unknown_parameter", "b")]
    many = "&".join(f"p{number}=" for number in range(500))
    assert len(read(small, "getHealth", f"/health?{many}")[1]) == 20


def test_headers(small: dict[str, ModuleType]) -> None:
    def create(*headers: tuple[str, str]) -> tuple[Any, list[Any]]:
        return read(small, "createThing", "/v1/things", headers)

    assert create(("idempotency-key", "k 1")) == ({"idempotency_key": "k 1"}, [])
    assert create()[1] == [("required", "Idempotency-Key")]
    assert create(("Idempotency-Key", "k"), ("Idempotency-Key", "k"))[1] == [("repeated_parameter", "Idempotency-Key")]
    assert create(("Idempotency-Key", "x" * 21))[1] == [("too_long", "Idempotency-Key")]
    assert create(("Idempotency-Key", ""))[1] == [("blank", "Idempotency-Key")]
    for value in ("a\tb", "\x7f", "\x85"):
        assert create(("Idempotency-Key", value))[1] == [("invalid_text", "Idempotency-Key")]
    assert not small["queries"].is_text("\udcff")  # a byte that is not UTF-8, as the parser leaves it


def test_a_list_header_may_have_several_lines(small: dict[str, ModuleType]) -> None:
    headers = (("If-None-Match", '"1"'), ("if-none-match", 'W/"2"'))
    assert read(small, "getThing", "/", headers, thing_id=ID)[0]["if_none_match"] == '"1", W/"2"'


async def test_routes_reach_their_operation(small: dict[str, ModuleType]) -> None:
    router = UrlDispatcher()
    small["routes"].add_routes(router, lambda operation: _named(operation.id))

    async def found(method: str, path: str) -> str:
        match = await router.resolve(make_mocked_request(method, path))
        if isinstance(match, MatchInfoError):
            return f"{match.http_exception.status}"
        return match.handler.__name__

    assert await found("GET", f"/v1/things/{ID}") == await found("HEAD", f"/v1/things/{ID}") == "getThing"
    assert await found("PUT", f"/v1/things/{ID}") == "putThing"
    assert await found("POST", "/v1/things") == "createThing"
    assert await found("DELETE", "/v1/things") == await found("OPTIONS", "/health") == "405"
    assert await found("GET", "/v1/other") == await found("GET", "/v1/things/") == "404"


def _named(name: str) -> Any:
    async def handler(request: Any) -> Any: ...

    handler.__name__ = name
    return handler
