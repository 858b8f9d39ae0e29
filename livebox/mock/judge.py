"""What production would say to a request: the generated readers and the edge's rules for bodies, without the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from aiohttp import web
from multidict import CIMultiDictProxy
from yarl import URL

from generated.field_errors import FieldError
from generated.operations import Operation
from generated.parameters import READERS
from generated.validators import BODY_ERRORS, checker
from handlers import publishing
from livebox.bodies import Bodies
from livebox.edge import PATCH, Incoming, code_of
from livebox.live import patch
from livebox.live.patch import PatchRefused
from livebox.live.request import patch_request
from livebox.responses import Refusal

_UNIT: Final = "putAgentRunSnapshot"
"""Its members have to go together in ways that a schema does not say."""


class Whole:
    """A request whose body has arrived, so that it can be read more than once."""

    def __init__(self, request: Incoming, raw: bytes, match_info: Mapping[str, str]) -> None:
        self.headers: CIMultiDictProxy[str] = request.headers
        self.rel_url: URL = request.rel_url
        self.match_info = match_info
        self.raw = raw
        self.body_exists = bool(raw)
        self.content = self

    def is_eof(self) -> bool:
        """Nothing more will come."""
        return True

    def read_nowait(self) -> bytes:
        """The whole body."""
        return self.raw


class Judge:
    """Judges requests as production does, as far as that needs no database."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies

    async def refusal(self, request: Whole, operation: Operation) -> Refusal | None:
        """What the request gets, None when it keeps the contract."""
        try:
            errors = await self._errors(request, operation)
        except Refusal as refusal:
            return refusal
        return Refusal(code_of(operation, errors), errors) if errors else None

    async def _errors(self, request: Whole, operation: Operation) -> list[FieldError]:
        parameters, errors = READERS[operation.id](request)
        arrived = cast(web.BaseRequest, request)
        check = BODY_ERRORS.get(operation.id)
        if check is None:
            return errors + (await self._bodies.refuse(arrived) if request.body_exists else [])
        if operation.id == PATCH:
            body, wrong, size = await self._bodies.read_late(arrived, operation, check)
            return errors + patch_errors(body, wrong, size)
        body, wrong = await self._bodies.read(arrived, operation, check)
        errors += wrong
        if operation.id == _UNIT and not errors:
            return publishing.findings(cast(dict[str, Any], parameters)["snapshot_id"], body)
        return errors


def patch_errors(body: Any, found: list[FieldError], size: int) -> list[FieldError]:
    """What is wrong with a patch, whatever the document is like that it is made for."""
    asked = patch_request(body, found, size)
    if asked.errors:
        return [*asked.errors, *asked.late]
    try:
        steps = patch.read(asked.ops)
    except PatchRefused as refused:
        return list(refused.errors)
    wrong = [*asked.late]
    for index, step in enumerate(steps):
        if step.op != "remove":
            value_errors = checker(step.place.nodes[-1].schema)(step.value)
            wrong += [error._replace(name=f"/ops/{index}/value{error.name}") for error in value_errors]
    return wrong
