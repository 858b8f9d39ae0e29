"""Structured log lines: JSON, or for people on a terminal. Every line carries the request's and trace's ids.

Secrets never reach a line: members with telling names and values that look like a token or a password are masked.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, TextIO

import structlog

MASK: Final = "********"

_SECRET_NAME = re.compile(r"authorization|cookie|credential|invocation|password|secret|token", re.IGNORECASE)
_SECRET_VALUE: Final = (
    (re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]+"), rf"\1{MASK}"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), MASK),  # a JWT
    (re.compile(r"\blbx_[\w-]{8,}"), MASK),  # a local token
    (re.compile(r"(://[^:/@\s]*:)[^@\s]*@"), rf"\1{MASK}@"),
    (re.compile(r"(?i)\b(password=)('[^']*'|\S+)"), rf"\1{MASK}"),
)
# Facts of the SQL layer become a line only in this shape, so that no id or content can ride along.
_FACT_NAME = re.compile(r"[a-z][a-z_.]{0,63}", re.ASCII)
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


_REQUEST: Final[ContextVar[tuple[str, str] | None]] = ContextVar("request", default=None)


def about(request_id: str, trace_id: str) -> None:
    """Say which request all lines of this task are about from now on. Called for each request, so it is cheap."""
    _REQUEST.set((request_id, trace_id))


def configure(level: str = "info", form: str = "auto", stream: TextIO | None = None) -> None:
    """Set up logging for this process: `level` and `form` as the keys `log.level` and `log.format` declare them.

    The standard library's loggers (aiohttp, asyncio) go the same way.
    """
    out = stream or sys.stderr
    people = form == "console" or (form == "auto" and out.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        _about,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        _masked,
    ]
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=out.isatty(), timestamp_key="at")
        if people
        else structlog.processors.JSONRenderer(sort_keys=True)
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(_LEVELS[level], logging.WARNING))


def logger(noun: str) -> structlog.typing.FilteringBoundLogger:
    """The logger of one part of Livebox."""
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger(part=noun)
    return bound


def fact(effect: Mapping[str, Any]) -> None:
    """Log a fact that the SQL layer reported: its event name and reason code, nothing else of it."""
    event, reason = str(effect.get("event", "")), str(effect.get("reason", ""))
    details = {"reason": reason} if _FACT_NAME.fullmatch(reason) else {}
    level = _LEVELS.get(str(effect.get("level")), logging.ERROR)
    logger("database").log(level, event if _FACT_NAME.fullmatch(event) else "unnamed_fact", **details)


def _about(_logger: object, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    found = _REQUEST.get()
    if found is not None:
        line.setdefault("request_id", found[0])
        line.setdefault("trace_id", found[1])
    return line


def _masked(_logger: object, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {name: MASK if _SECRET_NAME.search(name) else _clean(value) for name, value in line.items()}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        for pattern, replacement in _SECRET_VALUE:
            value = pattern.sub(replacement, value)
        return value
    if isinstance(value, Mapping):
        return {name: MASK if _SECRET_NAME.search(str(name)) else _clean(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value
