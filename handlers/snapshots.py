"""Every unit of agent work in one neutral shape: what the database holds is fetched page by page and mapped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from db import Answer
from generated.models import AgentRunSnapshot, PutAgentRunSnapshotRequest
from generated.parameters import (
    ListAgentRunSnapshotsParameters,
    ListRunSnapshotsParameters,
    PutAgentRunSnapshotParameters,
)
from handlers import publishing
from handlers.context import Context
from handlers.shape import Unit, is_active
from handlers.units import KINDS, PublishedRecord, RunRecord, published, units

_TREE: Final = ("registered.tree_max",)
_encode: Final = msgspec.json.encode

Wanted = Callable[[AgentRunSnapshot], bool]
Place = Mapping[str, Any]
Record = dict[str, Any]


async def list_agent_run_snapshots(context: Context, parameters: ListAgentRunSnapshotsParameters) -> Answer:
    """A page of all units that the caller may see."""

    def wanted(snapshot: AgentRunSnapshot) -> bool:
        return (
            parameters.get("source", snapshot["source"]) == snapshot["source"]
            and parameters.get("active", is_active(snapshot["state"])) == is_active(snapshot["state"])
            and parameters.get("parent", snapshot.get("parent")) == snapshot.get("parent")
        )

    return await _page(context, "list_agent_run_snapshots", parameters, wanted)


async def list_run_snapshots(context: Context, parameters: ListRunSnapshotsParameters) -> Answer:
    """A page of the tree under one run."""
    return await _page(context, "list_run_snapshots", parameters, lambda snapshot: True)


async def put_agent_run_snapshot(
    context: Context, parameters: PutAgentRunSnapshotParameters, body: PutAgentRunSnapshotRequest
) -> Answer:
    """Publishes a unit of the caller."""
    if found := publishing.findings(parameters["snapshot_id"], body):
        errors = [{"code": error.code, error.where: error.name, "message": error.message} for error in found]
        return Answer("validation_failed", _encode({"errors": errors}))
    answer = await context.write("put_agent_run_snapshot", parameters, publishing.kept(body))
    if answer.code != "ok" or answer.body is None:
        return answer
    return answer._replace(body=_encode(published(msgspec.json.decode(answer.body)).snapshot))


async def _page(
    context: Context,
    operation: str,
    parameters: ListAgentRunSnapshotsParameters | ListRunSnapshotsParameters,
    wanted: Wanted,
) -> Answer:
    """As many units as a page takes. Records are fetched many at a time; a run is several units, or none."""
    explain = parameters.get("explain", False)
    place = context.position
    asked: dict[str, Any] = {**parameters, "scanned": 0}
    items: list[AgentRunSnapshot] = []
    while True:
        if place is not None:
            asked["place"] = place
        answer = await context.read(operation, asked, limits=_TREE)
        if answer.code != "ok" or answer.body is None:
            return answer
        batch = msgspec.json.decode(answer.body)
        live, after = await _live(context, batch["items"]), place
        for record in batch["items"]:
            for here, unit in _units(record, live, after):
                if wanted(unit.snapshot):
                    if len(items) == context.limit:
                        return _answer(items, place)
                    items.append(unit.explained() if explain else unit.snapshot)
                place = here
            # A run may have hundreds of units, and a page looks at thousands of runs: others get their turn in between.
            await asyncio.sleep(0)
        if answer.cursor is None:
            return _answer(items, None)
        place = answer.cursor
        asked["scanned"] = batch["scanned"]
        if batch["scanned"] >= batch["scan_max"]:
            return _answer(items, place)


def _units(record: Record, live: Mapping[str, Mapping[str, Any]], after: Place | None) -> Iterator[tuple[Place, Unit]]:
    """The units of a record with their places, in order, from behind a place on."""
    inside = after if after is not None and "kind" in after else {"id": ""}
    at = {"at": record["at"], "id": record["id"]}
    if "durable" in record:
        yield at, published(cast("PublishedRecord", record))
        return
    for unit in units(cast("RunRecord", record), live.get(record["id"])):
        if inside["id"] != record["id"] or (unit.kind, unit.key) > (inside["kind"], inside["key"]):
            yield {**at, "kind": unit.kind, "key": unit.key}, unit


async def _live(context: Context, records: list[Record]) -> dict[str, Mapping[str, Any]]:
    """What was patched of the runs that this process serves, by run.

    Steps that it names and the saved document does not are fetched too, for all runs at once: whether they have ended
    is for the database to say.
    """
    found, named = {}, {}
    for record in records:
        if "serving" not in record:
            continue
        content = context.live_content(record["id"], **record["serving"])
        if content is None:
            continue
        found[record["id"]] = content
        entries = [entry for kind in KINDS for entry in content.get(kind, {}).values()]
        steps = {entry["step_id"] for entry in entries if "step_id" in entry} - record.get("steps", {}).keys()
        if steps:
            named[record["id"]] = sorted(steps)
    if named:
        answer = await context.read("snapshot_steps", {"named": named})
        for run_id, steps_of_run in msgspec.json.decode(answer.body or b"{}").items() if answer.code == "ok" else ():
            record = next(record for record in records if record["id"] == run_id)
            record["steps"] = {**record.get("steps", {}), **steps_of_run}
    return found


def _answer(items: list[AgentRunSnapshot], place: Place | None) -> Answer:
    return Answer("ok", _encode({"items": items}), cursor=None if place is None else dict(place))
