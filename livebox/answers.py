"""Which response the answer of an operation makes: its status, ETag, next page, or problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from db import Answer
from generated.operations import Operation
from handlers.context import NOT_READY
from livebox import responses, telemetry
from livebox.context import Context
from livebox.log import logger
from livebox.responses import Envelope, Reply, problem
from livebox.service import DOCUMENT

_log = logger("edge")


def respond(
    envelope: Envelope, operation: Operation, answer: Answer, parameters: Mapping[str, Any], context: Context
) -> Reply:
    """The response that an answer makes."""
    status = responses.STATUS.get(answer.code)
    if status is None:
        return _refused(envelope, operation, answer)
    body = answer.body or b""
    if answer.cursor is not None:
        body = responses.with_member(body, "next_cursor", context.seal(answer.cursor))
    tag = _tag(answer)
    if not tag:
        return Reply(envelope, status, _media(operation) if body else "", body)
    more = {"ETag": f'"{tag}"'}
    asked = parameters.get("if_none_match")
    if asked is not None and responses.is_current(asked, tag):
        return Reply(envelope, 304, more=more)
    return Reply(envelope, status, _media(operation), body, more)


def _tag(answer: Answer) -> str:
    if answer.version is not None:
        return str(answer.version)
    return answer.resource_id or "" if answer.resource_kind == DOCUMENT else ""


def _refused(envelope: Envelope, operation: Operation, answer: Answer) -> Reply:
    if answer.code == NOT_READY:
        return Reply(envelope, 503, responses.JSON, answer.body or b"", {"Retry-After": "1"})
    if answer.code not in operation.problem_codes:
        _log.error("undeclared_problem", operation=operation.id, code=answer.code)
        return problem(envelope, "internal_error")
    return problem(envelope, answer.code, extra=responses.members(answer.body))


def _media(operation: Operation) -> str:
    return telemetry.CONTENT_TYPE if operation.media == "text/plain" else operation.media
