"""What a handler may use while it answers one request."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from db import SUCCESS, Answer, Caller, Database
from generated.field_errors import FieldError
from generated.operations import Operation
from livebox import responses
from livebox.cursors import Cursors
from livebox.gateway.feed import Feed
from livebox.invocations import Invocation, Invocations
from livebox.jobs.life import Life
from livebox.live.patch import PatchRefused
from livebox.live.plane import Plane
from livebox.live.request import patch_request
from livebox.responses import Refusal
from livebox.service import Service
from livebox.settings import Settings
from livebox.telemetry import Telemetry

# What says how a request is carried, not what it asks for: left out of the hash of its content.
_CARRIAGE: Final = frozenset({"idempotency_key", "invocation", "if_match", "if_none_match"})

FEED_PATIENCE: Final = 5.0
"""Seconds a change of rights waits for open sessions to have it; after that they show nothing live until they do."""

_canonical: Final = msgspec.json.Encoder(order="deterministic").encode


class Arrived(NamedTuple):
    """What was found wrong with a body that is judged late, and how many bytes it had."""

    errors: list[FieldError]
    size: int


class Plant:
    """What all requests of one server share. `plane` and `feed` are set by who makes them."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        telemetry: Telemetry,
        service: Service,
        cursors: Cursors,
        invocations: Invocations,
        life: Life,
    ) -> None:
        self.settings = settings
        self.database = database
        self.telemetry = telemetry
        self.service = service
        self.cursors = cursors
        self.invocations = invocations
        self.life = life
        self.plane: Plane
        self.feed: Feed | None = None
        self.page_size_default = settings.integer("api.page_size_default")
        self.page_size_max = settings.integer("api.page_size_max")

    async def refuse_registered(self, caller: Caller, run_id: str) -> None:
        """Refuse run control of a registered run, which has no invocation tokens, to who may read it.

        For requests whose token is missing or no good: they are told that before they are told of the token.
        """
        answer = await self.database.readers.call("registered_refusal", caller, {"run_id": run_id})
        if answer.code == "run_is_registered":
            raise Refusal(answer.code, extra=responses.members(answer.body))


class Context:
    """One request's view of the plant; implements `handlers.context.Context`.

    `caller` is nobody only where the contract asks for no authentication. `position` is the opened cursor and
    `invocation` the verified invocation token, where the request has them.
    """

    __slots__ = ("_arrived", "_caller", "_invocation", "_operation", "_parameters", "_plant", "_position")

    def __init__(
        self,
        plant: Plant,
        operation: Operation,
        caller: Caller,
        parameters: Mapping[str, Any],
        position: Mapping[str, Any] | None = None,
        invocation: Invocation | None = None,
        arrived: Arrived | None = None,
    ) -> None:
        self._plant = plant
        self._operation = operation
        self._caller = caller
        self._parameters = parameters
        self._position = position
        self._invocation = invocation
        self._arrived = arrived

    @property
    def invocations(self) -> Invocations:
        """Makes invocation tokens."""
        return self._plant.invocations

    @property
    def service(self) -> Service:
        """What the process knows about itself."""
        return self._plant.service

    @property
    def limit(self) -> int:
        """How many entries a page of this request has at most."""
        return int(min(self._parameters.get("limit", self._plant.page_size_default), self._plant.page_size_max))

    @property
    def position(self) -> Mapping[str, Any] | None:
        """Where a page of this request goes on: its opened cursor."""
        return self._position

    def alive(self, run_id: str, *, progress: bool = False) -> None:
        """The holder of the run gave a sign of life just now; with `progress` its work moved."""
        self._plant.life.alive(run_id, progress=progress)

    def seal(self, position: Mapping[str, Any]) -> str:
        """A cursor for a position in a list of this operation, good for this caller and these filters only."""
        return self._plant.cursors.seal(position, self._operation.id, self._caller.principal, self._parameters)

    async def read(self, operation: str, parameters: Mapping[str, Any], *, limits: tuple[str, ...] = ()) -> Answer:
        """Call the reading SQL function `operation`; `limits` names the configuration keys that it needs."""
        answer = await self._plant.database.readers.call(operation, self._caller, self._args(parameters, limits))
        if answer.effects and answer.code in SUCCESS:
            self._plant.telemetry.record(answer.effects)
        return answer

    async def write(
        self,
        operation: str,
        parameters: Mapping[str, Any],
        body: Mapping[str, Any] | None = None,
        *,
        limits: tuple[str, ...] = (),
    ) -> Answer:
        """Run the writing SQL function `operation` in the lane. The answer is committed."""
        args = self._args(parameters, limits)
        if self._operation.has_body or self._operation.idempotent:
            digest = request_hash(self._operation.id, parameters, body)
            args["request_hash"] = digest
            key = args.pop("idempotency_key", None)
            if key is not None:
                args["idempotency"] = {"key": key, "hash": digest}
        if body is not None:
            args["body"] = body
        # What a write did is counted by the lane, once per commit, also when nobody waits for the answer any more.
        lane, feed = self._plant.database.lane, self._plant.feed
        if "run_id" in args:
            async with self._plant.plane.raising(args["run_id"]) as live:
                if live:
                    args["live"] = live
                return await lane.submit(operation, self._caller, args)
        answer = await lane.submit(operation, self._caller, args)
        if feed is not None and self._operation.module == "structure" and answer.code in SUCCESS:
            # Rights that were taken are taken from open sessions too before anybody hears that they are.
            await feed.reached(lane.log_seq, FEED_PATIENCE)
        return answer

    async def patch(self, parameters: Mapping[str, Any], body: Mapping[str, Any] | None) -> Answer:
        """Apply a patch to the live content of a run; `handlers.context.Context` says the rest."""
        assert self._invocation is not None and self._arrived is not None  # noqa: S101, PT018  # the edge reads both
        run_id = parameters["run_id"]
        request = patch_request(body, self._arrived.errors, self._arrived.size)
        try:
            version = await self._plant.plane.patch(self._caller, run_id, self._invocation, request)
        except PatchRefused as refused:
            if not (refused.errors or refused.detail or refused.wait):
                return Answer(refused.code, msgspec.json.encode(refused.extra) if refused.extra else None)
            raise Refusal(
                refused.code, refused.errors, detail=refused.detail, wait=refused.wait, extra=refused.extra
            ) from None
        return Answer("ok", msgspec.json.encode({"run_id": run_id, "version": version}))

    async def shown(self, run_id: str, answer: Answer, read: Callable[[], Awaitable[Answer]]) -> Answer:
        """The run as this process serves it, where that is newer than the row that was `read`."""
        plane = self._plant.plane
        for _ in range(2):
            live = next((effect for effect in answer.effects if effect["kind"] == "run.live"), None)
            if live is None or live["owner"] != plane.owner or answer.version is None or answer.body is None:
                break
            if (entry := await plane.shown(run_id, live["epoch"], answer.version)) is not None:
                return answer._replace(body=entry.shown(msgspec.json.decode(answer.body)), version=entry.version)
            if plane.serves(run_id):
                break
            # It was saved and left since it was read.
            answer = await read()
        return answer

    def live_content(self, run_id: str, owner: str, epoch: int) -> Mapping[str, Any] | None:
        """What agents patched of a run that this process, its row's `owner`, serves; None where another does."""
        plane = self._plant.plane
        return plane.content(run_id, epoch) if owner == plane.owner else None

    def _args(self, parameters: Mapping[str, Any], limits: tuple[str, ...]) -> dict[str, Any]:
        args = dict(parameters)
        args.pop("if_none_match", None)
        if self._operation.cursor:
            args.pop("cursor", None)
            if self._position is not None:
                args["cursor"] = self._position
        if self._operation.kind == "read":
            args["limit"] = self.limit
        if self._invocation is not None:
            args["invocation"] = self._invocation.claims()
        if limits:
            args["limits"] = self._plant.settings.limits(limits)
        return args


def request_hash(operation: str, parameters: Mapping[str, Any], body: object) -> str:
    """The SHA-256, in hex, of what a request asks for: its operation, its path and query, its body with members sorted.

    Two spellings of one request (order of members, percent-encoding, 1.0 for 1) have one hash.
    """
    asked = {name: value for name, value in parameters.items() if name not in _CARRIAGE}
    return hashlib.sha256(_canonical([operation, asked, body] if body is not None else [operation, asked])).hexdigest()
