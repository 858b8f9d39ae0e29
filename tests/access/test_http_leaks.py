"""What goes wrong inside stays inside: no problem tells of SQL, code, paths or names of ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from generated.operations import OPERATIONS
from livebox.world import OWNER
from tests.fixtures.scenarios import SCENARIOS
from tests.fixtures.server import Live
from tests.fixtures.stage import Stage
from tests.fixtures.wire import INSIDE, Broken, absent, check

IN_SQL = [operation.id for operation in OPERATIONS.values() if operation.security != "public"]
TOLD = {"type", "title", "status", "code", "instance", "request_id"}


@pytest.fixture(scope="module")
def broken(stage: Stage) -> Iterator[Stage]:
    """The module's server, whose SQL functions a test may break; each mends what it broke."""
    with capture_logs():  # which would draw each of these errors at length
        yield stage


@pytest.mark.parametrize("operation", IN_SQL)
def test_an_error_of_the_database_is_an_error_and_no_more(broken: Stage, operation: str) -> None:
    ask = SCENARIOS[operation][0](broken)
    wire = broken.as_(ask.by)
    # The beat of the scenario says that a request to cancel was seen, which is written by a function of its own.
    function = "beat_run" if operation == "heartbeatRun" else OPERATIONS[operation].function
    broken.sql(f"ALTER FUNCTION livebox.{function}(jsonb, jsonb) RENAME TO {function}_aside")
    try:
        gone = ask.at(wire)
        broken.sql(
            f"CREATE FUNCTION livebox.{function}(jsonb, jsonb) RETURNS livebox.answer LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'duplicate key in /usr/lib: SELECT secret FROM livebox.access_tokens'"
            " USING DETAIL = 'Key (token)', HINT = 'look into app.py', CONSTRAINT = 'runs_pkey'; END $$"
        )
        raised = ask.at(wire)
    finally:
        broken.sql(f"DROP FUNCTION IF EXISTS livebox.{function}(jsonb, jsonb)")
        broken.sql(f"ALTER FUNCTION livebox.{function}_aside(jsonb, jsonb) RENAME TO {function}")
    for answer in (gone, raised):
        answer.refused(500, "internal_error")
        assert set(answer.body) == TOLD  # and the client looked for words from the inside
    again = ask.at(wire)
    assert again.status == ask.expected, "one broken request has spoilt what came after it"


@pytest.mark.parametrize("code", ["23505", "23503", "23514", "40001", "40P01", "22003", "22P02", "P0001", "42501"])
def test_no_sqlstate_becomes_a_story(broken: Stage, code: str) -> None:
    broken.sql("ALTER FUNCTION livebox.create_space(jsonb, jsonb) RENAME TO create_space_aside")
    try:
        broken.sql(
            "CREATE FUNCTION livebox.create_space(jsonb, jsonb) RETURNS livebox.answer LANGUAGE plpgsql AS $$ BEGIN"
            f" RAISE EXCEPTION 'violates constraint spaces_pkey' USING ERRCODE = '{code}'; END $$"
        )
        answer = broken.as_(OWNER).call("createSpace", {"name": "X"})
    finally:
        broken.sql("DROP FUNCTION livebox.create_space(jsonb, jsonb)")
        broken.sql("ALTER FUNCTION livebox.create_space_aside(jsonb, jsonb) RENAME TO create_space")
    assert answer.status in (500, 503)
    assert set(answer.body) <= TOLD | {"retry_after_ms"}
    broken.as_(OWNER).call("createSpace", {"name": "X"}).ok()


def test_what_is_told_depends_on_no_language(stage: Stage) -> None:
    thread_id = absent()
    bodies = []
    for language in ("de", "zh-Hans", "*", "en;q=0.1"):
        answer = stage.as_("alex").call("getThread", headers={"Accept-Language": language}, thread_id=thread_id)
        bodies.append({**answer.refused(404, "not_found").body, "request_id": ""})
    assert bodies == [bodies[0]] * 4


@pytest.mark.parametrize(
    "text",
    [
        'relation "livebox.runs" does not exist',
        "SELECT * FROM x",
        "File /usr/lib/python3.11/x",
        "psycopg2.errors.UniqueViolation",
        'duplicate key value violates unique constraint "runs_pkey"',
        "Traceback (most recent call last)",
        "connection to 127.0.0.1 refused",
        "<Object at 0x7f00aa11bb22>",
    ],
)
def test_the_search_finds_what_it_is_for(text: str) -> None:
    assert INSIDE.search(text)


def test_the_client_looks(own_live: Live) -> None:
    """The checks that all these tests rest on: each turns red when it should."""
    stage = Stage(own_live)
    answer = stage.as_("alex").call("listSpaces")
    good = (answer.status, answer.headers, answer.raw)
    check("GET", "/v1/spaces", *good)
    refused = stage.as_("").call("listSpaces")
    problem = (refused.status, refused.headers, refused.raw)
    wrong = {
        "null": (200, answer.headers, b'{"items": [{"x": null}]}'),
        "NaN": (200, answer.headers, b'{"items": [NaN]}'),
        "twice": (200, answer.headers, b'{"items": [], "items": []}'),
        "great": (200, answer.headers, b'{"items": [9007199254740992]}'),
        "unknown member": (200, answer.headers, b'{"items": [], "more": 1}'),
        "undeclared status": (418, answer.headers, answer.raw),
        "no request id": (200, {k: v for k, v in answer.headers.items() if k != "request-id"}, answer.raw),
        "no WWW-Authenticate": (401, {k: v for k, v in refused.headers.items() if k != "www-authenticate"}, problem[2]),
        "undeclared code": (404, refused.headers, refused.raw.replace(b"invalid_token", b"main_thread")),
        "another title": (401, refused.headers, refused.raw.replace(b"The token", b"A token")),
        "a story": (401, refused.headers, refused.raw[:-1] + b',"detail":"SELECT x FROM y"}'),
    }
    for name, (status, headers, raw) in wrong.items():
        try:
            check("GET", "/v1/spaces", status, headers, raw)
        except Broken:
            continue
        pytest.fail(name)
    stage.close()
