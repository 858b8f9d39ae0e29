"""The REST side of the mock: connexion serves the contract in OpenAPI 3.0 and answers with its examples.

What connexion refuses is refused, and what OpenAPI 3.0 cannot say is refused too. What it says about it is not what
production says, so the words come from the generated readers.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import generated
from generated.operations import OPERATIONS, Operation
from generated.problems import PROBLEMS
from generated.routes import PATHS
from livebox import responses
from livebox.bodies import Bodies
from livebox.edge import Incoming, not_allowed
from livebox.log import logger
from livebox.mock.asgi import Answered, App, ask, scope_of
from livebox.mock.judge import Judge, Whole
from livebox.mock.prefer import MAX_DETAIL, PREFER, Example, choose, examples, wanted
from livebox.responses import PROBLEM_JSON, Envelope, Refusal, Reply, problem, refused
from livebox.router import Router

with warnings.catch_warnings():  # connexion loads a test client, which warns about its own dependencies
    warnings.simplefilter("ignore")
    from connexion.apps.asynchronous import AsyncApp
    from connexion.context import request as asked
    from connexion.mock import MockResolver
    from connexion.options import SwaggerUIOptions
    from connexion.validators.json import JSONRequestBodyValidator

DOCUMENT: Final = Path(generated.__file__).parent / "openapi30.json"
EXTENSION: Final = "livebox.mock"
_EMPTY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_OWN: Final = frozenset({"request-id", "etag", "content-type"})
_CODES: Final = {400: "validation_failed", 401: "invalid_token", 404: "not_found", 413: "body_too_large",
                 415: "unsupported_media_type"}  # fmt: skip

_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*").fullmatch

_log = logger("mock")


def anybody(token: str) -> dict[str, str] | None:
    """Whose token this is: the mock takes any that has the form of one (RFC 6750)."""
    return {"sub": token} if _TOKEN(token) else None


class Body(JSONRequestBodyValidator):  # type: ignore[misc]
    """connexion's reading of a body, but for one that may be absent and is: connexion takes that for a null."""

    _absent = False

    async def _parse(self, stream: AsyncIterator[bytes], scope: Any) -> Any:
        raw = b"".join([part async for part in stream])
        self._absent = not raw

        async def again() -> AsyncIterator[bytes]:
            yield raw

        return await super()._parse(again(), scope)

    def _validate(self, body: Any) -> Any:
        return None if self._absent and not self._required else super()._validate(body)


class Share:
    """What the resolver tells the server about one request, and the other way round."""

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope
        self.example: Example | None = None
        self.refusal: Refusal | None = None
        self.applied = ""


class Resolver(MockResolver):  # type: ignore[misc]
    """Answers every operation with the example that the client prefers."""

    def __init__(self) -> None:
        super().__init__(mock_all=True)

    async def mock_operation(self, operation: Any, *_: Any, **__: Any) -> tuple[Any, int, dict[str, str]]:
        """The value, status and headers of one answer."""
        share: Share = asked.scope["extensions"][EXTENSION]
        prefers = wanted(asked.headers.getlist(PREFER))
        name = operation.operation_id
        known = examples(operation.responses, OPERATIONS[name].problem_codes)
        try:
            example = choose(name, known, prefers)
        except Refusal as refusal:
            share.refusal = refusal
            return {}, refusal_status(refusal), {"Content-Type": PROBLEM_JSON}
        share.applied = ", ".join(
            f"{name}={value}" for name, value in prefers._asdict().items() if value and value.isascii()
        )
        headers = _headers(example)
        since = asked.headers.get("If-None-Match")
        conditional = since and example.status == HTTPStatus.OK and "304" in operation.responses
        if conditional and "ETag" in headers and responses.is_current(since, headers["ETag"].strip('"')):
            example = Example(HTTPStatus.NOT_MODIFIED, "", "", None, {})
        share.example = example
        if example.status in _EMPTY:
            return None, example.status, {**headers, "Content-Type": PROBLEM_JSON}
        value = example.value
        if example.media == PROBLEM_JSON:
            value = {**value, "instance": share.envelope.instance, "request_id": share.envelope.request_id}
        return value, example.status, {**headers, "Content-Type": example.media}


def refusal_status(refusal: Refusal) -> int:
    """The status that a refusal has."""
    return int(PROBLEMS[refusal.code][0])


def _headers(example: Example) -> dict[str, str]:
    """The declared headers with their examples; an ETag is the version of what is shown."""
    found = {name: str(header["example"]) for name, header in example.headers.items() if name != "Request-Id"}
    if "ETag" in found and isinstance(example.value, dict) and "version" in example.value:
        found["ETag"] = f'"{example.value["version"]}"'
    return found


def application(document: dict[str, Any]) -> App:
    """connexion's application for a document in OpenAPI 3.0. It takes any token."""
    logging.getLogger("connexion").setLevel(logging.CRITICAL)  # it tells each refusal, which the client hears anyway
    schemes = document["components"]["securitySchemes"]
    here = f"{__name__}.{anybody.__name__}"
    keys = {"http": ("x-bearerInfoFunc", here), "apiKey": ("x-apikeyInfoFunc", here)}
    known = {name: {**scheme, **dict([keys[scheme["type"]]])} for name, scheme in schemes.items()}
    app = AsyncApp(
        __name__,
        strict_validation=True,
        swagger_ui_options=SwaggerUIOptions(swagger_ui=False, serve_spec=False),
        validator_map={"body": {responses.JSON: Body}},
    )
    components = {**document["components"], "securitySchemes": known}
    app.add_api({**document, "components": components}, resolver=Resolver())
    made: App = app
    return made


class Rest:
    """Answers the requests of REST."""

    def __init__(self, bodies: Bodies) -> None:
        self._app = application(json.loads(DOCUMENT.read_bytes()))
        self._bodies = bodies
        self._judge = Judge(bodies)
        self._router: Router[str] = Router()
        for path, methods in PATHS.items():
            for method in methods:
                self._router.add(path, method, path)

    async def answer(self, request: Incoming, envelope: Envelope) -> Reply:
        """The response to one request."""
        share = Share(envelope)
        routing: dict[str, Any] = {}
        raw, refusal = await self._arriving(request)
        scope = scope_of(request, raw, {EXTENSION: share, "connexion_routing": routing})
        answered = await ask(self._app, scope, raw)
        operation = OPERATIONS.get(routing.get("operation_id") or "")
        if operation is None:
            lost = self.lost(request.method, request.rel_url.raw_path, envelope)
            return lost or problem(envelope, "not_found")
        refusal = refusal or await self._refusal(request, raw, operation)
        if answered.status == HTTPStatus.UNAUTHORIZED and share.example is None and not (refusal and _late(request)):
            return problem(envelope, "invalid_token")
        if refusal is not None:
            return refused(envelope, refusal)
        return self._shown(answered, envelope, share)

    async def _arriving(self, request: Incoming) -> tuple[bytes, Refusal | None]:
        """The body, or why there is none."""
        try:
            return await self._bodies.bytes_of(request) if request.body_exists else b"", None
        except Refusal as refusal:
            return b"", refusal

    async def _refusal(self, request: Incoming, raw: bytes, operation: Operation) -> Refusal | None:
        found = self._router.find(request.rel_url.raw_path)
        return await self._judge.refusal(Whole(request, raw, found[1] if found else {}), operation)

    def lost(self, method: str, path: str, envelope: Envelope) -> Reply | None:
        """The response where no operation is asked for; None where one is."""
        found = self._router.find(path)
        if found is None:
            return problem(envelope, "not_found")
        return None if method in found[0] else not_allowed(envelope, found[0])

    def _shown(self, answered: Answered, envelope: Envelope, share: Share) -> Reply:
        if share.refusal is not None:
            return refused(envelope, share.refusal)
        if share.example is None:  # connexion refused what production takes
            told = _CODES.get(answered.status, "internal_error")
            _log.warning("refused_by_connexion", path=envelope.instance, status=answered.status)
            return problem(envelope, told, detail=_detail(answered))
        more = {
            name: value for name, value in answered.headers.items() if name.lower() not in _OWN | {"content-length"}
        }
        if "ETag" in answered.headers:
            more["ETag"] = answered.headers["ETag"]
        if share.applied:
            more["Preference-Applied"] = share.applied
        if share.example.status in _EMPTY:
            return Reply(envelope, answered.status, more=more)
        return Reply(envelope, answered.status, share.example.media, answered.body, more)


def _late(request: Incoming) -> bool:
    """Is it the invocation token that is missing? Production asks for that after it has read the request."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return kind.lower() == "bearer" and bool(token.strip())


def _detail(answered: Answered) -> str:
    try:
        return str(json.loads(answered.body)["detail"])[:MAX_DETAIL]
    except (ValueError, KeyError, TypeError):
        return ""
