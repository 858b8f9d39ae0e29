"""What breaks the contract: bytes that are no frame, texts that are no JSON, JSON that is none of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from generated.gateway_messages import CLOSES
from tests.fixtures.server import Clients, Live, live_server
from tests.fixtures.stage import Stage
from tests.fixtures.world import WorldCopy
from tests.gateway.device import CHECKERS, Devices
from tests.gateway.raw_socket import BINARY, CONTINUATION, PING, PONG, TEXT, entered, frame, problem_of, raw

LIMIT = 4096
VIOLATIONS = 4
SOME_ID = "01933b7e-0000-7000-8000-00000000abcd"


@pytest.fixture(scope="module")
def live(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_server(
        module_world_copy,
        tmp_path_factory.mktemp("data"),
        gateway__max_frame_bytes=LIMIT,
        gateway__max_violations=VIOLATIONS,
    ) as live:
        yield live


def nested(depth: int) -> bytes:
    """A frame whose deepest value is so many levels down, the frame itself being the first."""
    return b'{"type":"ping","more":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


# the text of a frame -> the code of its problem, and its errors
FRAMES: dict[str, tuple[bytes, str, list[tuple[str, str]]]] = {
    "no JSON": (b"bar", "invalid_json", [("malformed_json", "")]),
    "empty": (b"", "invalid_json", [("malformed_json", "")]),
    "two documents": (b'{"type":"ping"}{"type":"ping"}', "invalid_json", [("malformed_json", "")]),
    "byte order mark": (b'\xef\xbb\xbf{"type":"ping"}', "invalid_json", [("malformed_json", "")]),
    "NaN": (b'{"type":"ping","id":NaN}', "invalid_json", [("malformed_json", "/id")]),
    "an array": (b"[1]", "validation_failed", [("wrong_type", "")]),
    "a text": (b'"ping"', "validation_failed", [("wrong_type", "")]),
    "no type": (b"{}", "validation_failed", [("required", "/type")]),
    "a type that is no text": (b'{"type":5}', "validation_failed", [("wrong_type", "/type")]),
    "an unknown type": (b'{"type":"shout"}', "validation_failed", [("not_allowed_value", "/type")]),
    "a frame of the server's": (b'{"type":"pong"}', "validation_failed", [("not_allowed_value", "/type")]),
    "an unknown member": (b'{"type":"ping","loud":true}', "validation_failed", [("unknown_field", "/loud")]),
    "a null": (b'{"type":"ping","id":null}', "validation_failed", [("null_not_allowed", "/id")]),
    "a null in a value": (
        b'{"type":"run.update","run_id":"%s","base_version":1,"ops":[{"op":"add","path":"/refs/a",'
        b'"value":{"label":[null]}}]}' % SOME_ID.encode(),
        "validation_failed",
        [("null_not_allowed", "/ops/0/value/label/0")],
    ),
    "a null that a later member hides": (
        b'{"type":"ping","id":null,"id":"1"}',
        "validation_failed",
        [("null_not_allowed", "/id")],
    ),
    "NUL": (b'{"type":"ping","id":"a\\u0000"}', "validation_failed", [("invalid_text", "/id")]),
    "half a surrogate pair": (b'{"type":"ping","id":"\\ud83c"}', "validation_failed", [("invalid_text", "/id")]),
    "a number that others round": (
        b'{"type":"hello","token":"x","resume_after":9007199254740993}',
        "validation_failed",
        [("invalid_number", "/resume_after")],
    ),
    "65 levels": (nested(65), "invalid_json", [("too_deep", "/more" + "/0" * 63)]),
    "64 levels": (nested(64), "validation_failed", [("unknown_field", "/more")]),
    "1000 levels": (nested(1000), "invalid_json", [("too_deep", "/more" + "/0" * 63)]),
    "an id that is none": (
        b'{"type":"focus","thread_ids":["x"]}',
        "validation_failed",
        [("malformed_id", "/thread_ids/0")],
    ),
}


@pytest.mark.parametrize("what", FRAMES)
async def test_an_error_says_what_is_wrong_and_where(live: Live, what: str) -> None:
    text, code, errors = FRAMES[what]
    async with entered(live, "alex") as alex:
        alex.send(text)
        answer = await alex.first("error")
        assert not CHECKERS["error"](answer)
        assert problem_of(answer) == (code, errors)
        alex.say("ping", id="still here")
        assert (await alex.first("pong"))["reply_to"] == "still here"


async def test_the_answer_names_the_frame_where_that_can_be_read(live: Live) -> None:
    async with entered(live, "alex") as alex:
        alex.send(b'{"type":"shout","id":"17"}')
        assert (await alex.first("error"))["reply_to"] == "17"
        alex.send(b'{"type":"ping","id":"a\\u00e4"}')
        assert "reply_to" not in await alex.first("error")


@pytest.mark.parametrize("value", [b"null", b'{"a":[null]}', b"9007199254740993", b'"a\\u0000"'])
async def test_the_answer_names_a_frame_with_a_value_that_is_never_taken(live: Live, value: bytes) -> None:
    async with entered(live, "alex") as alex:
        alex.send(b'{"type":"ping","id":"18","more":%s}' % value)
        assert (await alex.first("error"))["reply_to"] == "18"


async def test_the_last_of_two_members_counts(live: Live) -> None:
    async with entered(live, "alex") as alex:
        alex.send(b'{"type":"shout","type":"ping","id":"1","id":"2"}')
        assert (await alex.first("pong"))["reply_to"] == "2"


async def test_many_members_that_stand_twice_hide_nothing(live: Live) -> None:
    twice = b",".join(b'"id":"%d"' % number for number in range(100))
    async with entered(live, "alex") as alex:
        alex.send(b'{"type":"ping",%s}' % twice)
        assert (await alex.first("pong"))["reply_to"] == "99"
        alex.send(b'{"type":"ping",%s,"more":null}' % twice)
        assert problem_of(await alex.first("error")) == ("validation_failed", [("null_not_allowed", "/more")])


async def test_too_many_bad_frames_end_the_session(live: Live) -> None:
    async with entered(live, "alex") as alex:
        for _ in range(VIOLATIONS):
            alex.send(b"no")
        assert await alex.closed() == CLOSES["bad_frames"].code
        errors = [found.json for found in alex.got if found.opcode == TEXT and found.json["type"] == "error"]
        assert len(errors) == VIOLATIONS
        assert await alex.over()


async def test_good_frames_between_bad_ones_are_answered(live: Live) -> None:
    async with entered(live, "alex") as alex:
        for number in range(VIOLATIONS - 1):
            alex.send(b"no")
            alex.say("ping", id=str(number))
            assert (await alex.first("pong"))["reply_to"] == str(number)


def sized(length: int) -> bytes:
    """A legal frame of exactly so many bytes."""
    text = msgspec.json.encode({"type": "ping", "id": "1"})
    return text + b" " * (length - len(text))


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT])
@pytest.mark.parametrize("pieces", [1, 3])
async def test_a_frame_up_to_the_limit_is_taken(live: Live, length: int, pieces: int) -> None:
    async with entered(live, "alex") as alex:
        send_pieces(alex, sized(length), pieces)
        assert (await alex.first("pong"))["reply_to"] == "1"


@pytest.mark.parametrize("length", [LIMIT + 1, LIMIT + 2])
@pytest.mark.parametrize("pieces", [1, 3])
async def test_a_frame_above_the_limit_ends_the_session(live: Live, length: int, pieces: int) -> None:
    async with entered(live, "alex") as alex:
        send_pieces(alex, sized(length), pieces)
        assert await alex.closed() == CLOSES["frame_too_large"].code
        assert not [found for found in alex.got if found.opcode == TEXT and found.json["type"] == "pong"]


async def test_the_code_arrives_also_while_the_rest_is_still_being_sent(live: Live) -> None:
    for _ in range(5):
        async with entered(live, "alex") as alex:
            alex.writer.transport.set_write_buffer_limits(0)
            alex.writer.write(frame(b" " * (8 << 20)))
            await alex.writer.drain()
            assert await alex.closed() == CLOSES["frame_too_large"].code


async def test_a_length_alone_is_enough_to_refuse(live: Live) -> None:
    for length in (b"\x00\x00\x00\x01\x00\x00\x00\x00", b"\x7f" + b"\xff" * 7, b"\xff" * 8):
        async with entered(live, "alex") as alex:
            alex.writer.write(b"\x81\xff" + length + b"mask")
            assert await alex.closed() in (CLOSES["frame_too_large"].code, CLOSES["protocol_error"].code)


def send_pieces(connection: Any, payload: bytes, pieces: int) -> None:
    """The payload as one message of so many frames."""
    step = -(-len(payload) // pieces)
    parts = [payload[start : start + step] for start in range(0, len(payload), step)]
    for index, part in enumerate(parts):
        connection.send(part, TEXT if index == 0 else CONTINUATION, fin=index == len(parts) - 1)


CLOSING: dict[str, tuple[bytes, str]] = {
    "binary": (frame(b'{"type":"ping"}', BINARY), "unsupported_data"),
    "bad UTF-8": (frame(b"\xff\xfe"), "invalid_text"),
    "bad UTF-8 in a text": (frame(b'{"type":"ping","id":"\xff"}'), "invalid_text"),
    "a surrogate as bytes": (frame(b'{"type":"ping","id":"\xed\xa0\x80"}'), "invalid_text"),
    "an opcode of nobody": (frame(b"x", 3), "protocol_error"),
    "a compressed bomb": (frame(b"x" * 1000, rsv=4), "protocol_error"),
    "a reserved bit": (frame(b'{"type":"ping"}', rsv=1), "protocol_error"),
    "a piece of nothing": (frame(b"x", CONTINUATION), "protocol_error"),
    "a ping in pieces": (frame(b"x", PING, fin=False), "protocol_error"),
    "a ping that is too long": (frame(b"x" * 126, PING), "protocol_error"),
}


@pytest.mark.parametrize("what", CLOSING)
async def test_what_is_no_frame_of_ours_ends_the_session_and_no_other(live: Live, what: str, devices: Devices) -> None:
    sent, how = CLOSING[what]
    sam = await devices.enter("sam")
    async with entered(live, "alex") as alex:
        alex.writer.write(sent)
        assert await alex.closed() == CLOSES[how].code
        assert await alex.over()
    assert (await sam.ask("ping"))["type"] == "pong"


async def test_a_character_may_be_split_over_pieces(live: Live) -> None:
    async with entered(live, "alex") as alex:
        text = '{"type":"shout","id":"1","x":"\U0001f378"}'.encode()
        cut = text.index(b"\xf0") + 2
        alex.send(text[:cut], fin=False)
        alex.send(b"between", PING)
        alex.send(text[cut:], CONTINUATION)
        assert (await alex.next()).opcode == PONG
        assert (await alex.first("error"))["problem"]["errors"][0]["pointer"] == "/type"


async def test_compression_is_never_agreed_on(live: Live) -> None:
    async with raw(live, Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits") as connection:
        connection.say("hello", id="1", token=live.tokens["alex"])
        await connection.first("ready")


async def test_the_first_frame_is_hello(live: Live) -> None:
    async with raw(live) as connection:
        connection.say("ping", id="1")
        answer = await connection.first("error")
        assert problem_of(answer) == ("validation_failed", [("not_allowed_value", "/type")])
        connection.say("hello", id="2", token=live.tokens["alex"])
        assert (await connection.first("ready"))["reply_to"] == "2"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"])
async def test_other_methods_are_refused(clients: Clients, method: str) -> None:
    got = await clients[None].request(method, "/v1/gateway")
    assert got.status == 405
    assert got.headers["Allow"] == "GET"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Upgrade": "h2c", "Connection": "Upgrade"},
        {"Upgrade": "websocket", "Connection": "Upgrade"},
        {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "12", "Sec-WebSocket-Key": "x"},
        {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "x"},
    ],
)
async def test_a_request_without_upgrade_is_told_so(clients: Clients, headers: dict[str, str]) -> None:
    got = await clients["alex"].request("GET", "/v1/gateway", headers=headers)
    assert (got.status, got.code) == (426, "upgrade_required")
    assert got.headers["Upgrade"] == "websocket"


async def test_a_bad_patch_reads_as_over_rest(live: Live, stage: Stage, devices: Devices) -> None:
    held = stage.running()
    lotse = await devices.enter("lotse")
    problem = await lotse.refused("run.update", run_id=held.id, invocation=held.token, base_version=0, ops=[])
    assert problem["code"] == "validation_failed"
    assert {error["pointer"] for error in problem["errors"]} == {"/base_version", "/ops"}
