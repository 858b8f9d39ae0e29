"""The way of one request: who, how often, with what; then its handler; then the response.

Everything that the contract says of all operations happens here, so that no handler has to remember it. There is one
function per stage and no chain of middleware: a request passes each stage once, and what does not concern its
operation was left out when the server started.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from aiohttp import hdrs, web
from multidict import istr

from db import SUCCESS, Answer, Caller, DatabaseError
from generated.field_errors import FieldError
from generated.operations import Operation
from generated.parameters import READERS
from generated.routes import PATHS, ROUTES
from generated.validators import BODY_ERRORS
from livebox import responses
from livebox.answers import respond
from livebox.auth import INVALID, Authenticator, Unauthenticated
from livebox.bodies import Bodies
from livebox.context import Arrived, Context, Plant
from livebox.cursors import CursorInvalid
from livebox.file import File
from livebox.gateway.entrance import PATH as GATEWAY
from livebox.gateway.entrance import UPGRADE, Entrance
from livebox.invocations import Invocation, InvocationInvalid
from livebox.limits import Limit
from livebox.log import about, logger
from livebox.responses import Envelope, Refusal, Reply, problem, refused
from livebox.router import Router
from livebox.static import METHODS, files
from livebox.trace import Trace

Handler = Callable[..., Awaitable[Answer]]
ResponseCheck = Callable[[web.BaseRequest, Reply], list[str]]

INVOCATION: Final = istr("Livebox-Invocation")
NOBODY: Final = Caller("")
OTHER: Final = "other"
PATCH: Final = "patchRun"

_log = logger("edge")


class Incoming(web.BaseRequest):
    """A request with the parameters of its path, which the generated readers look for."""

    match_info: Mapping[str, str]


class Endpoint:
    """One operation, ready to be served."""

    __slots__ = ("body_errors", "handler", "limit", "operation", "read")

    def __init__(self, operation: Operation, handler: Handler, limit: Limit | None) -> None:
        self.operation = operation
        self.handler = handler
        self.limit = limit
        self.read: Callable[[Any], tuple[dict[str, Any], list[FieldError]]] = READERS[operation.id]
        self.body_errors = BODY_ERRORS.get(operation.id)


class Edge:
    """Answers requests. `attempts` limits failed authentication per peer, `limits` the rest per class and principal."""

    def __init__(
        self,
        plant: Plant,
        handlers: Mapping[str, Handler],
        authenticator: Authenticator,
        limits: Mapping[str, Limit],
        attempts: Limit,
        bodies: Bodies,
        *,
        check: ResponseCheck | None = None,
        log_requests: bool = False,
    ) -> None:
        self._plant = plant
        self._authenticator = authenticator
        self._attempts = attempts
        self._bodies = bodies
        self._check = check
        self._log_requests = log_requests
        self._telemetry = plant.telemetry
        self._metrics_token = plant.settings.text("metrics.token")
        self.entrance: Entrance | None = None
        """The gateway, where there is one."""
        self._router: Router[Endpoint | File] = Router()
        for path, file in files():
            for method in METHODS:
                self._router.add(path, method, file)
        for operation in ROUTES:
            limit = limits[operation.rate_class] if operation.rate_class else None
            endpoint = Endpoint(operation, handlers[operation.id], limit)
            for method in PATHS[operation.path]:
                if method == operation.method or (method == hdrs.METH_HEAD and operation.method == hdrs.METH_GET):
                    self._router.add(operation.path, method, endpoint)

    async def handle(self, request: Incoming) -> web.StreamResponse:
        """The response to one request, whatever becomes of it."""
        started = time.perf_counter()
        path = request.rel_url.raw_path
        if path == GATEWAY and self.entrance is not None and self.entrance.opens(request):
            return await self.entrance.serve(request)
        envelope = Envelope(
            responses.new_request_id(), Trace.of(request.headers.get(responses.TRACEPARENT)), printable(path)
        )
        about(envelope.request_id, envelope.trace.trace_id)
        name = OTHER
        found = self._router.find(path)
        if path == GATEWAY and self.entrance is not None:
            response = self._no_session(request, envelope)
        elif found is None:
            response = problem(envelope, "not_found")
        else:
            methods, request.match_info = found
            endpoint = methods.get(request.method)
            if endpoint is None:
                response = not_allowed(envelope, methods)
            elif isinstance(endpoint, File):
                return self._page(request, endpoint, envelope, started)
            else:
                name = endpoint.operation.id
                response = await self._answered(request, endpoint, envelope)
        if self._check is not None:
            response = self._checked(request, response, envelope)
        self._count(request.method, name, response, time.perf_counter() - started)
        return response

    def _page(self, request: Incoming, file: File, envelope: Envelope, started: float) -> Reply:
        response = file.answer(request, envelope)
        self._count(request.method, OTHER, response, time.perf_counter() - started)
        return response

    def refused(self, method: str, target: str) -> Reply:
        """The response to what was no HTTP request; `method` and `target` as far as they could be read."""
        path = target.partition("?")[0].partition("#")[0]
        envelope = Envelope(responses.new_request_id(), Trace.of(None), printable(path))
        found = self._router.find(path)
        if method and found is not None and method not in found[0]:
            response = not_allowed(envelope, found[0])
        elif method and path.startswith("/") and found is None:
            response = problem(envelope, "not_found")
        else:
            response = problem(envelope, "validation_failed", detail="The request is not HTTP that this server takes.")
        self._count(method, OTHER, response, 0.0)
        return response

    def failed(self, path: str, error: BaseException | None) -> Reply:
        """The response when the server fails where no request of an operation is."""
        envelope = Envelope(responses.new_request_id(), Trace.of(None), printable(path))
        _log.error("connection_failed", request_id=envelope.request_id, exc_info=error)
        response = problem(envelope, "internal_error")
        self._count("", OTHER, response, 0.0)
        return response

    def _no_session(self, request: Incoming, envelope: Envelope) -> Reply:
        """The response to what comes to the gateway and is no handshake."""
        if request.method != hdrs.METH_GET:
            return not_allowed(envelope, {hdrs.METH_GET: None})
        return problem(envelope, "upgrade_required", headers=UPGRADE)

    def _count(self, method: str, name: str, response: Reply, seconds: float) -> None:
        self._telemetry.request(name, response.status, seconds)
        if self._log_requests:
            ms = round(seconds * 1000, 2)
            ids = {"request_id": response.envelope.request_id, "trace_id": response.envelope.trace.trace_id}
            _log.info("request", method=method, operation=name, status=response.status, ms=ms, **ids)

    async def _answered(self, request: Incoming, endpoint: Endpoint, envelope: Envelope) -> Reply:
        try:
            return await self._serve(request, endpoint, envelope)
        except Refusal as refusal:
            return refused(envelope, refusal)
        except Unauthenticated as refusal:
            return problem(envelope, refusal.code)
        except DatabaseError as error:
            if error.problem == "internal_error":
                _log.error("database_refused", operation=endpoint.operation.id, exc_info=error)
            return problem(envelope, error.problem)
        except ConnectionError:
            raise  # the client went away; nobody reads an answer
        except Exception as error:
            _log.error("request_failed", operation=endpoint.operation.id, exc_info=error)
            return problem(envelope, "internal_error")

    async def _serve(self, request: Incoming, endpoint: Endpoint, envelope: Envelope) -> Reply:
        operation = endpoint.operation
        header = request.headers.get(hdrs.AUTHORIZATION)
        caller = NOBODY
        if operation.security != "public":
            known = self._authenticator.known(header) if header is not None else None
            caller = known or await self._authenticate(request, header)
            if endpoint.limit is not None and (wait := endpoint.limit.take(caller.principal)):
                raise Refusal("rate_limited", wait=wait)
        elif operation.id == "getMetrics":
            await self._admit_scrape(request, header)
        parameters, errors = endpoint.read(request)
        body = None
        if operation.id == PATCH and not errors:
            return await self._patch(request, endpoint, envelope, caller, parameters)
        if endpoint.body_errors is not None:
            body, wrong = await self._bodies.read(request, operation, endpoint.body_errors)
            errors += wrong
        elif request.body_exists:
            errors += await self._bodies.refuse(request)
        if errors:
            raise Refusal(code_of(operation, errors), errors)
        context = Context(
            self._plant,
            operation,
            caller,
            parameters,
            self._position(operation, caller, parameters) if operation.cursor else None,
            await self._shown(request, operation, caller),
        )
        if endpoint.body_errors is not None:
            answer = await endpoint.handler(context, parameters, body)
        else:
            answer = await endpoint.handler(context, parameters)
        await self._recheck(answer, header, caller)
        return respond(envelope, operation, answer, parameters, context)

    async def _recheck(self, answer: Answer, header: str | None, caller: Caller) -> None:
        """A token that was revoked or expired since it was worked out: ask which, for the answer."""
        if answer.code == INVALID and header is not None and caller.token is not None:
            self._authenticator.forget(header)
            await self._authenticator.authenticate(header)

    async def _patch(
        self, request: Incoming, endpoint: Endpoint, envelope: Envelope, caller: Caller, parameters: dict[str, Any]
    ) -> Reply:
        """A patch: whether its token holds the run is told before what is wrong with it."""
        assert endpoint.body_errors is not None  # noqa: S101  # it has a body
        body, errors, size = await self._bodies.read_late(request, endpoint.operation, endpoint.body_errors)
        arrived = Arrived(errors, size)
        invocation = await self._invocation(request, caller)
        context = Context(self._plant, endpoint.operation, caller, parameters, None, invocation, arrived)
        answer = await endpoint.handler(context, parameters, body)
        await self._recheck(answer, request.headers.get(hdrs.AUTHORIZATION), caller)
        return respond(envelope, endpoint.operation, answer, parameters, context)

    async def _authenticate(self, request: Incoming, header: str | None) -> Caller:
        peer = request.remote or ""
        if wait := self._attempts.wait(peer):
            raise Refusal("rate_limited", wait=wait)
        try:
            return await self._authenticator.authenticate(header)
        except Unauthenticated:
            self._attempts.take(peer)
            raise

    async def _admit_scrape(self, request: Incoming, header: str | None) -> None:
        """Metrics are for the machine itself, for who has their token, and for owners and services."""
        if is_loopback(request.remote) or self._authenticator.is_bearer(header, self._metrics_token):
            return
        caller = await self._authenticate(request, header)
        answer = await self._plant.database.readers.call("get_principal", caller, {"principal_id": caller.principal})
        if answer.code not in SUCCESS:
            raise Unauthenticated(INVALID)
        shown = responses.members(answer.body)
        if shown["kind"] != "service" and shown.get("role") != "owner":
            raise Refusal("forbidden")

    def _position(self, operation: Operation, caller: Caller, parameters: dict[str, Any]) -> dict[str, Any] | None:
        cursor = parameters.get("cursor")
        if cursor is None:
            return None
        try:
            return self._plant.cursors.open(cursor, operation.id, caller.principal, parameters)
        except CursorInvalid:
            error = FieldError("invalid_value", "parameter", "cursor", "was not made for this request")
            raise Refusal("cursor_invalid", [error]) from None

    async def _shown(self, request: Incoming, operation: Operation, caller: Caller) -> Invocation | None:
        """The invocation token, of operations that take one; whether it may be left out is for the database to say."""
        if operation.security == "invocation":
            return await self._invocation(request, caller)
        if operation.security == "optional_invocation" and INVOCATION in request.headers:
            return await self._invocation(request, caller)
        return None

    async def _invocation(self, request: Incoming, caller: Caller) -> Invocation:
        run_id = request.match_info["run_id"]
        try:
            return self._plant.invocations.verify(request.headers.get(INVOCATION, ""), run_id)
        except InvocationInvalid:
            await self._plant.refuse_registered(caller, run_id)
            raise Unauthenticated(INVALID) from None

    def _checked(self, request: Incoming, response: Reply, envelope: Envelope) -> Reply:
        findings = self._check(request, response) if self._check is not None else []
        if not findings:
            return response
        _log.error("response_breaks_contract", path=envelope.instance, findings=findings)
        return problem(envelope, "internal_error", detail="The response broke the contract; see the log.")


def code_of(operation: Operation, errors: list[FieldError]) -> str:
    """The problem code for what is wrong with parameters and body."""
    only_cursor = operation.cursor and all(error.where == "parameter" and error.name == "cursor" for error in errors)
    return "cursor_invalid" if only_cursor else "validation_failed"


def not_allowed(envelope: Envelope, methods: Mapping[str, object]) -> Reply:
    """405 with the methods that the path takes."""
    return problem(envelope, "method_not_allowed", headers={"Allow": ", ".join(sorted(methods))})


def printable(path: str) -> str:
    """A raw path as problems show it: ASCII, not too long."""
    if path.isascii():
        return path if len(path) <= responses.MAX_INSTANCE else path[: responses.MAX_INSTANCE]
    return quote(path.encode("utf-8", "surrogateescape"), safe="/%:@!$&'()*+,;=~")[: responses.MAX_INSTANCE]


def is_loopback(address: str | None) -> bool:
    """Is this peer the machine itself?"""
    return address is not None and (address.startswith("127.") or address in ("::1", "::ffff:127.0.0.1"))
