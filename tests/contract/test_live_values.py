"""Numbers, times and texts at the edges of what JSON can say, over the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from livebox.world import OWNER
from tests.fixtures.stage import Held, Stage
from tests.fixtures.wire import Answered, fresh

MAX = 2**53 - 1


def finish(stage: Stage, held: Held, members: str) -> Answered:
    """Ends a run as completed with more members, as JSON text."""
    raw = '{"state": "completed"' + (", " + members if members else "") + "}"
    return stage.as_("lotse").call("finishRun", headers=held.headers, raw=raw.encode(), run_id=held.id)


def cost(amount: str) -> str:
    return f'"cost": {{"amount_micros": {amount}, "currency": "EUR", "is_estimate": false}}'


def percent(number: str) -> str:
    return f'"metrics": {{"context_used_percent": {number}}}'


@pytest.fixture(scope="module")
def held(stage: Stage) -> Held:
    """One run for everything that is refused."""
    return stage.running()


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1E400", "0x10", "01", "1.", ".5"]
)
@pytest.mark.parametrize(
    "member", [cost, percent, '"metrics": {{"input_tokens": {}}}'.format, '"nonsense": [{}]'.format]
)
def test_numbers_that_are_none(stage: Stage, held: Held, number: str, member: Any) -> None:
    answer = finish(stage, held, member(number))
    assert answer.status == 400
    assert answer.code in ("invalid_json", "validation_failed")
    assert answer.errors()
    assert stage.as_("alex").call("getRun", run_id=held.id).ok()["state"] == "running"


@pytest.mark.parametrize(
    ("amount", "code"),
    [
        ("-1", "out_of_range"),
        ("-0.5", "wrong_type"),
        ("0.5", "wrong_type"),
        ('"1"', "wrong_type"),
        ("true", "wrong_type"),
        ("[1]", "wrong_type"),
        (str(MAX + 1), "invalid_number"),
        (str(2**63), "invalid_number"),
        ("1e308", "invalid_number"),
        ("1" * 400, "invalid_number"),
    ],
)
def test_money_is_a_whole_number_from_zero_on(stage: Stage, held: Held, amount: str, code: str) -> None:
    answer = finish(stage, held, cost(amount)).refused(400, "validation_failed")
    assert answer.errors() == [(code, "/cost/amount_micros")]


@pytest.mark.parametrize(("written", "kept"), [("-0", 0), ("0", 0), ("1e2", 100), ("4200.0", 4200), (str(MAX), MAX)])
def test_money_comes_back_exactly(stage: Stage, written: str, kept: int) -> None:
    run = finish(stage, stage.running(), cost(written)).ok()
    assert run["cost"] == {"amount_micros": kept, "currency": "EUR", "is_estimate": False}
    summary = stage.as_("alex").call("listThreadRuns", thread_id=run["thread_id"]).ok()["items"][0]
    assert summary["cost"] == run["cost"]


def test_what_a_step_keeps_comes_back_as_it_was(stage: Stage, held: Held) -> None:
    detail = {
        "numbers": [0, -1, MAX, -MAX, 1.5, -2.25e-7, 0.1 / 3],
        "yes": True,
        "": "an empty name",
        "a/b~c": {"0": [], "-": {}},
        "text": "\u202e\u2066 \u00e9 e\u0301 \U0001f378 \ufeff \u2028",
        "deep": [[[[[[["x"]]]]]]],
    }
    step = stage.step(held, detail=detail)
    assert step["detail"] == detail
    shown = stage.as_("alex").call("getRun", run_id=held.id).ok()["steps"][step["id"]]
    assert shown["detail"] == detail


# Times


def retry(at: str) -> str:
    return f'"metrics": {{"last_api_retry": {{"attempt": 1, "reason": "busy", "at": {json.dumps(at)}}}}}'


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-02T09:30:00",
        "2026-11-02",
        "2026-11-02 09:30:00Z junk",
        "2026-13-02T09:30:00Z",
        "2026-02-30T09:30:00Z",
        "2026-11-02T25:30:00Z",
        "2026-11-02T09:30:00+25:00",
        "2026-11-02T09:30:00.1234567890Z",
        "10000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-10:00",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "-0001-01-01T00:00:00Z",
        "1672295751103",
        "yesterday",
        "",
    ],
)
def test_times_that_are_none(stage: Stage, held: Held, time: str) -> None:
    answer = finish(stage, held, retry(time)).refused(400, "validation_failed")
    assert answer.errors() == [("bad_time", "/metrics/last_api_retry/at")]


@pytest.mark.parametrize(
    ("time", "utc"),
    [
        ("2026-11-02T09:30:00Z", "2026-11-02T09:30:00.000000Z"),
        ("2026-11-02T15:00:00+05:30", "2026-11-02T09:30:00.000000Z"),
        ("2026-11-02T09:30:00-00:00", "2026-11-02T09:30:00.000000Z"),
        ("2026-11-01T23:30:00.5-10:00", "2026-11-02T09:30:00.500000Z"),
        ("2026-11-02t09:30:00.123456z", "2026-11-02T09:30:00.123456Z"),
        ("2026-11-02T09:30:00.123456789Z", "2026-11-02T09:30:00.123457Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000000Z"),
        ("0001-01-02T00:00:00+14:00", "0001-01-01T10:00:00.000000Z"),
        ("2026-11-01T10:19:00.25-23:11", "2026-11-02T09:30:00.250000Z"),
        ("2026-11-03T09:29:00+23:59", "2026-11-02T09:30:00.000000Z"),
    ],
)
def test_times_come_out_in_utc(stage: Stage, time: str, utc: str) -> None:
    run = finish(stage, stage.running(), retry(time)).ok()
    assert run["metrics"]["last_api_retry"]["at"] == utc


# Texts


def say(stage: Stage, thread_id: str, text: str) -> Answered:
    """Posts a message whose body is this piece of JSON."""
    raw = f'{{"body": {text}, "client_msg_id": "{fresh()}"}}'
    return stage.as_("robin").call("createMessage", raw=raw.encode("utf-8", "surrogatepass"), thread_id=thread_id)


def test_an_escaped_pair_is_the_character(stage: Stage) -> None:
    thread_id = stage.thread()
    bodies = [say(stage, thread_id, text).ok()["body"] for text in ('"\\ud83c\\udf78 x"', '"\U0001f378 x"')]
    assert bodies == ["\U0001f378 x"] * 2
    assert stage.sql("SELECT DISTINCT body, length(body) FROM livebox.messages WHERE thread_id = %s", thread_id) == [
        ("\U0001f378 x", 3)
    ]
    # Lengths are counted in characters, however they are written.
    assert say(stage, thread_id, '"' + "\\ud83c\\udf78" * 20000 + '"').status == 201
    answer = say(stage, thread_id, '"' + "\U0001f378" * 20001 + '"').refused(400, "validation_failed")
    assert answer.errors() == [("too_long", "/body")]


@pytest.mark.parametrize(
    "text", ['"\\ud83c"', '"\\udf78"', '"\\udf78\\ud83c"', '"a\\ud83cb"', '"a\\u0000b"', '"\\ud83c\\u0041"']
)
def test_half_pairs_and_nul_are_refused_where_they_stand(stage: Stage, text: str) -> None:
    answer = say(stage, stage.thread(), text).refused(400, "validation_failed")
    assert answer.errors() == [("invalid_text", "/body")]
    for raw in (b'{"name": "\xed\xa0\xbc"}', b'{"name": "\xff\xfe"}', b'{"name": "a\x00b"}', b'{"na\xc3": 1}'):
        stage.as_(OWNER).call("createSpace", raw=raw).refused(400, "invalid_json")


@pytest.mark.parametrize(
    "text", ["a\u202eb", "\u2066a\u2069", "a\u200fb", "a\u061cb", "a\u0007b", "a\u0085b", "a\nb", "a\u2028b"]
)
def test_names_and_titles_keep_their_direction_and_their_line(stage: Stage, text: str) -> None:
    answer = stage.as_(OWNER).call("createSpace", {"name": text}).refused(400, "validation_failed")
    assert answer.errors() == [("invalid_text", "/name")]
    channel_id = stage.world.channels["Support/Escalation"]
    answer = stage.as_("robin").call("createThread", {"title": text}, channel_id=channel_id)
    assert answer.refused(400, "validation_failed").errors() == [("invalid_text", "/title")]
    # A message is what a person wrote, whatever it is.
    assert say(stage, stage.thread(), json.dumps(text)).ok()["body"] == text


@pytest.mark.parametrize("text", ["", " ", "\t", "\u200b", "\u00a0", "\u3000", "\u2003\u200a \u205f", "\ufeff", "\r\n"])
def test_blank_is_nothing(stage: Stage, held: Held, text: str) -> None:
    found = {
        "/name": stage.as_(OWNER).call("createSpace", {"name": text}),
        "/display_name": stage.as_(OWNER).call(
            "createPrincipal", {"kind": "person", "handle": f"p{fresh()}", "display_name": text}
        ),
        "/body": say(stage, stage.world.threads["Support/Escalation"], json.dumps(text)),
        "/reason": stage.as_("lotse").call(
            "finishRun", {"state": "failed", "reason": text}, headers=held.headers, run_id=held.id
        ),
    }
    for pointer, answer in found.items():
        assert answer.refused(400, "validation_failed").errors() == [("blank", pointer)], pointer


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "M\u00fcller",
        "\u0645\u0631\u062d\u0628\u0627",
        "\u4f60\u597d",
        "e\u0301",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        " x ",
    ],
)
def test_names_come_back_as_they_were(stage: Stage, text: str) -> None:
    made = stage.as_(OWNER).call("createSpace", {"name": text}).ok()
    assert made["name"] == text
