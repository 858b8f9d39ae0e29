"""A run from end to end over the public contract, each answer held against it."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import closing
from datetime import datetime
from typing import Any

import jwt
import pytest

from tests.fixtures.database import connect
from tests.fixtures.server import Clients, Got

TOKEN = "Livebox-Invocation"


def fresh() -> str:
    return str(uuid.uuid4())


async def ask(clients: Clients, who: str = "alex", place: str = "Support/General") -> dict[str, Any]:
    """A message in a thread of its own that opened a run."""
    channel = clients.world.channels[place]
    thread = (await clients["owner"].post(f"/v1/channels/{channel}/threads", {"title": "A thread"})).json["id"]
    request = {"body": "hello", "client_msg_id": fresh(), "mentions": [clients.world.principals["lotse"]]}
    got = await clients[who].post(f"/v1/threads/{thread}/messages", request)
    assert (got.status, got.json["trigger_state"]) == (201, "received")
    return dict(got.json)


async def claim(clients: Clients, claim_id: str | None = None, limit: int = 1) -> Got:
    got = await clients["lotse"].post("/v1/invocations/claim", {"claim_id": claim_id or fresh(), "limit": limit})
    assert got.status == 200
    return got


class Held:
    """A claimed run as its agent uses it."""

    def __init__(self, clients: Clients, item: dict[str, Any]) -> None:
        self._client = clients["lotse"]
        self.id: str = item["run"]["id"]
        self.path = f"/v1/runs/{self.id}"
        self.headers = {TOKEN: item["token"]}

    async def send(self, method: str, path: str, body: Any = None, **more: Any) -> Got:
        return await self._client.request(method, self.path + path, json=body, headers=self.headers, **more)


async def held(clients: Clients) -> Held:
    """The oldest run that waits, after one more was asked for."""
    await ask(clients)
    return Held(clients, (await claim(clients)).json["items"][0])


async def test_whole_run(clients: Clients) -> None:
    message = await ask(clients)
    item = (await claim(clients)).json["items"][0]
    while item["run"]["triggering_message_id"] != message["id"]:  # of tests before
        item = (await claim(clients)).json["items"][0]
    work = Held(clients, item)
    started = await work.send("POST", "/start", {"model": "example-model"})
    assert (started.status, started.json["state"], started.headers["ETag"]) == (200, "running", '"2"')
    step = fresh()
    for status in (None, "completed"):
        if status is None:
            got = await work.send("PUT", f"/steps/{step}", {"kind": "tool", "name": "read"})
        else:
            got = await work.send("PATCH", f"/steps/{step}", {"status": status, "detail": {"files": 3}})
        assert got.status == 200
    ended = await work.send("POST", "/finish", {"state": "completed", "summary": "three files"})
    assert (ended.status, ended.json["state"], ended.json["steps"][step]["detail"]) == (200, "completed", {"files": 3})
    shown = await clients["alex"].get(work.path)
    assert shown.json == ended.json
    again = await clients["alex"].get(work.path, headers={"If-None-Match": shown.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    stored = await clients["alex"].get(f"/v1/messages/{message['id']}")
    assert (stored.json["trigger_state"], stored.json["version"]) == ("done", 5)


async def test_repeated_claim_gets_the_same_bytes(clients: Clients) -> None:
    await ask(clients)
    claim_id = fresh()
    first, again = await claim(clients, claim_id, 100), await claim(clients, claim_id, 100)
    assert first.body == again.body
    assert first.json["claim_id"] == claim_id


async def test_token_is_signed_with_a_published_key_and_says_what_it_is_for(clients: Clients) -> None:
    await ask(clients)
    claimed = (await claim(clients)).json
    item = claimed["items"][0]
    keys = {key["kid"]: key for key in (await clients[None].get("/.well-known/jwks.json")).json["keys"]}
    header = jwt.get_unverified_header(item["token"])
    assert header["alg"] == "EdDSA"
    key = jwt.PyJWK(keys[header["kid"]])
    claims = jwt.decode(item["token"], key, algorithms=["EdDSA"], audience=item["run"]["id"])
    assert claims["claim_id"] == claimed["claim_id"]
    assert claims["sub"] == clients.world.principals["lotse"]
    assert datetime.fromisoformat(item["expires_at"]).timestamp() == claims["exp"]
    assert claims["exp"] - claims["iat"] == clients.live.settings.integer("invocation.ttl")


async def test_token_stands_in_no_row(clients: Clients) -> None:
    work = await held(clients)
    token = work.headers[TOKEN]
    await work.send("POST", "/start")
    await work.send("POST", "/finish", {"state": "completed"})
    with closing(connect(clients.live.dsn)) as connection, connection.cursor() as cursor:
        for table in ("runs", "events", "lane_batches", "messages", "idempotency_keys"):
            cursor.execute(
                f"SELECT count(*) FROM livebox.{table} t WHERE t::text LIKE %s", (f"%{token.split('.')[2]}%",)
            )
            assert cursor.fetchone() == (0,), table


@pytest.mark.parametrize("header", [None, "", "x", "a.b.c"])
async def test_control_needs_the_token(clients: Clients, header: str | None) -> None:
    work = await held(clients)
    work.headers = {} if header is None else {TOKEN: header}
    for method, path, body in (
        ("POST", "/start", None),
        ("POST", "/finish", {"state": "completed"}),
        ("PUT", f"/steps/{fresh()}", {"kind": "tool", "name": "x"}),
        ("PATCH", f"/steps/{fresh()}", {"title": "x"}),
    ):
        got = await work.send(method, path, body)
        assert (got.status, got.code) == (401, "invalid_token")


async def test_twenty_starts_are_one(clients: Clients) -> None:
    work = await held(clients)
    answers = await asyncio.gather(*[work.send("POST", "/start") for _ in range(20)])
    assert {(got.status, got.json["version"]) for got in answers} == {(200, 2)}


@pytest.mark.parametrize("options", [{}, {"data": b"", "headers": {"Content-Type": "application/json"}}, {"json": {}}])
async def test_cancel_without_a_body(clients: Clients, options: dict[str, Any]) -> None:
    message = await ask(clients)
    (run,) = (await clients["alex"].get(f"/v1/threads/{message['thread_id']}/runs")).json["items"]
    got = await clients["alex"].request("POST", f"/v1/runs/{run['id']}/cancel", **options)
    assert (got.status, got.json["state"], got.json["cancel"]["outcome"]) == (200, "cancelled", "before_start")


@pytest.mark.parametrize("body", [{"state": "completed"}, {"reason": "x"}, {"version": 1}])
async def test_cancel_takes_no_members(clients: Clients, body: dict[str, Any]) -> None:
    work = await held(clients)
    got = await clients["alex"].post(f"{work.path}/cancel", body)
    assert (got.status, got.json["errors"][0]["code"]) == (400, "unknown_field")
    assert (await clients["alex"].get(work.path)).json["state"] == "queued"


async def test_cancel_of_a_running_run_is_accepted(clients: Clients) -> None:
    work = await held(clients)
    await work.send("POST", "/start")
    asked = await clients["alex"].post(f"{work.path}/cancel")
    assert (asked.status, asked.json["state"]) == (202, "running")
    ended = await work.send("POST", "/finish", {"state": "cancelled"})
    assert (ended.json["state"], ended.json["cancel"]["outcome"]) == ("cancelled", "acknowledged")
    assert (await clients["alex"].post(f"{work.path}/cancel")).status == 200
    late = await work.send("POST", "/finish", {"state": "completed"})
    assert (late.status, late.code, late.json["current"]["state"]) == (409, "run_ended", "cancelled")
    assert late.json["current"]["changed_by"] == clients.world.principals["lotse"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"state": "completed", "summary": "a\u0000b"}, "/summary"),
        ({"state": "completed", "summary": ["x"]}, "/summary"),
        ({"state": "completed", "summary": ""}, "/summary"),
        ({"state": "failed", "reason": "\u200b"}, "/reason"),
        ({"state": "failed", "reason": ""}, "/reason"),
        ({"state": "failed"}, "/reason"),
        ({"state": "queued"}, "/state"),
        ({"state": "completed", "cost": {"amount_micros": -1, "currency": "EUR", "is_estimate": True}}, "/cost/amount_micros"),
        ({"state": "completed", "version": 7}, "/version"),
    ],
)  # fmt: skip
async def test_bad_end_leaves_the_run_running(clients: Clients, body: dict[str, Any], pointer: str) -> None:
    work = await held(clients)
    await work.send("POST", "/start")
    got = await work.send("POST", "/finish", body)
    assert (got.status, got.json["errors"][0]["pointer"]) == (400, pointer)
    assert (await clients["alex"].get(work.path)).json["state"] == "running"
    assert (await work.send("POST", "/finish", {"state": "completed"})).status == 200


async def test_bad_end_as_text_is_refused_too(clients: Clients) -> None:
    work = await held(clients)
    await work.send("POST", "/start")
    for data in (b'"done"', b"[]", b"done", b"{"):
        got = await clients["lotse"].request("POST", f"{work.path}/finish", data=data, headers=work.headers)
        assert got.status == 400
    assert (await work.send("POST", "/finish", {"state": "failed", "reason": "runtime_error"})).status == 200


async def test_adapter_reason_over_http(clients: Clients) -> None:
    work = await held(clients)
    await work.send("POST", "/start")
    got = await work.send("POST", "/finish", {"state": "failed", "reason": "a\u202eb"})
    (step,) = got.json["steps"].values()
    assert (got.json["state_reason"], step["name"], step["detail"]) == ("adapter_error", "adapter_reason", {})


async def test_too_large_detail_names_its_key(clients: Clients) -> None:
    work = await held(clients)
    await work.send("POST", "/start")
    large = {"text": "x" * clients.live.settings.integer("run.step_detail_max_bytes")}
    got = await work.send("PUT", f"/steps/{fresh()}", {"kind": "tool", "name": "read", "detail": large})
    (error,) = got.json["errors"]
    assert (got.status, error["code"], error["pointer"]) == (400, "too_long", "/detail")
    assert "run.step_detail_max_bytes" in error["message"]


async def test_metrics_tell_of_runs_without_ids(clients: Clients) -> None:
    work = await held(clients)
    await work.send("POST", "/start")
    await work.send("POST", "/finish", {"state": "failed", "reason": "runtime_error"})
    text = (await clients[None].get("/metrics", check=False)).body.decode()
    assert 'livebox_run_finished_total{reason="runtime_error",state="failed"}' in text
    assert "livebox_run_start_latency" in text
    assert work.id not in text
    assert not [name for name in clients.world.principals.values() if name in text]


async def test_page_of_active_runs(clients: Clients) -> None:
    for _ in range(3):
        await ask(clients)
    seen: list[str] = []
    path = "/v1/active-runs?limit=2"
    cursor = ""
    while True:
        page = (await clients["alex"].get(path + cursor)).json
        seen += [item["id"] for item in page["items"]]
        if "next_cursor" not in page:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert len(seen) == len(set(seen)) >= 3
    every = (await clients["alex"].get("/v1/active-runs?limit=200")).json["items"]
    assert [item["id"] for item in every] == seen
    other = await clients["owner"].get(path + cursor) if cursor else None
    assert other is None or (other.status, other.code) == (400, "cursor_invalid")
