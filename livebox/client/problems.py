"""What can go wrong with a request: a refusal that the server explains, or no answer at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from generated.models import FieldError, RunPosition

#: `code` of an answer that is no problem document, as something between us and the server may give.
UNEXPECTED = "unexpected_answer"


class Problem(Exception):
    """The server refused the request (RFC 9457).

    `code` is what programs look at: one of the operation's problem codes. `status` is the HTTP status, `errors` names
    each wrong value, `current` says where a run is that could not go where it was asked to, `retry_after` is in
    seconds.
    """

    def __init__(self, status: int, document: Mapping[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.code: str = document.get("code", UNEXPECTED)
        self.title: str = document.get("title", f"HTTP status {status}")
        self.detail: str | None = document.get("detail")
        self.errors: Sequence[FieldError] = document.get("errors", ())
        self.current: RunPosition | None = document.get("current")
        self.request_id: str | None = document.get("request_id")
        self.retry_after = retry_after
        super().__init__(str(self))

    def __str__(self) -> str:
        wrong = "; ".join(
            f"{error.get('pointer') or error.get('parameter') or 'the request'}: {error['message']}"
            for error in self.errors
        )
        where = f"the run is {self.current['state']}" if self.current else ""
        return ": ".join(part for part in (self.title, self.detail or "", where, wrong) if part) + f" ({self.code})"


class Unreachable(ConnectionError):
    """No answer came within the client's patience. Whether the request was carried out is not known; a repeat tells."""
