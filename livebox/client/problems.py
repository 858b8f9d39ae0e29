"""What can go wrong with a request: a refusal that the server explains, no answer at all, or a run that is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from generated.models import FieldError, Run, RunPosition

#: `code` of an answer that is no problem document, as something between us and the server may give.
UNEXPECTED: Final = "unexpected_answer"


class Problem(Exception):
    """The server refused the request (RFC 9457).

    `code` is what programs look at: one of the operation's problem codes. `status` is the HTTP status, `errors` names
    each wrong value, `current` says where a run is that could not go where it was asked to, `run` is the whole run
    where a patch met a conflict, `retry_after` is in seconds.

    Refusals that programs often have to tell apart have a class of their own, so that `except` can name them.
    """

    _named: ClassVar[dict[str, type[Problem]]] = {}

    def __init_subclass__(cls, code: str) -> None:
        super().__init_subclass__()
        Problem._named[code] = cls

    @staticmethod
    def of(status: int, document: Mapping[str, Any], retry_after: float | None = None) -> Problem:
        """The problem that a document describes, of the class that stands for its code."""
        return Problem._named.get(document.get("code", UNEXPECTED), Problem)(status, document, retry_after)

    def __init__(self, status: int, document: Mapping[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.code: str = document.get("code", UNEXPECTED)
        self.title: str = document.get("title", f"HTTP status {status}")
        self.detail: str | None = document.get("detail")
        self.errors: Sequence[FieldError] = document.get("errors", ())
        self.current: RunPosition | None = document.get("current")
        self.run: Run | None = document.get("run")
        self.request_id: str | None = document.get("request_id")
        self.retry_after = retry_after
        super().__init__(str(self))

    @classmethod
    def told(cls, document: Mapping[str, Any]) -> Problem:
        """A problem document as the gateway sends it in `error`."""
        wait = document.get("retry_after_ms")
        return cls.of(document.get("status", 500), document, None if wait is None else wait / 1000)

    def __str__(self) -> str:
        wrong = "; ".join(
            f"{error.get('pointer') or error.get('parameter') or 'the request'}: {error['message']}"
            for error in self.errors
        )
        where = f"the run is {self.current['state']}" if self.current else ""
        return ": ".join(part for part in (self.title, self.detail or "", where, wrong) if part) + f" ({self.code})"


class NotFound(Problem, code="not_found"):
    """Nothing that one may see is there: never registered, or not for one's eyes. The two look alike."""


class AlreadyRegistered(Problem, code="run_already_registered"):
    """There is a run with this id already. Nothing was changed, whatever the second registration said."""


class ExternalIdTaken(Problem, code="external_id_taken"):
    """Another run has this external id."""


class StatusNotYours(Problem, code="status_not_yours"):
    """Only the entry agent and who registered the run may end it."""


class RunEnded(Problem, code="run_ended"):
    """The run has ended; `current` says how. Only steps and spend may still come."""


class CurrencyMismatch(Problem, code="currency_mismatch"):
    """The run counts its cost in another currency, which its budget or its first entry has fixed."""


class SpendIdReused(Problem, code="spend_id_reused"):
    """The id was used for a different entry. What was recorded under it stands."""


class CostOwnedByLedger(Problem, code="cost_owned_by_ledger"):
    """The cost of the run is the sum of its recorded spend, so it cannot be reported as well."""


class SnapshotEnded(Problem, code="snapshot_terminal"):
    """The unit of work has ended and is not opened again."""


class Unreachable(ConnectionError):
    """No answer came within the client's patience. Whether the request was carried out is not known; a repeat tells."""


class GatewayLost(ConnectionError):
    """The session with the gateway ended before the answer came, or there is none just now. Another one is begun."""


class GatewayRefused(ConnectionError):
    """The gateway ended the session in a way that connecting again would only repeat: a wrong token, for example.

    `code` is the close code, `name` its name in the contract, `problem` what the server said before it closed.
    """

    def __init__(self, code: int, name: str, problem: Problem | None = None) -> None:
        self.code = code
        self.name = name
        self.problem = problem
        super().__init__(f"the gateway refused the session: {name} ({code})" + (f": {problem}" if problem else ""))


class AdapterError(Exception):
    """An adapter cannot work as it was set up: its token is that of a person, for example."""


class GatewayAbsent(ConnectionError):
    """There is no gateway at this URL: an older server, or something between that passes no WebSockets."""


class RunLost(Exception):
    """The run is no longer this holder's to work on: it has ended, or another holder has it.

    `code` is the server's (`run_ended`, `invocation_superseded`, ...), `run` the run where the server told it.
    """

    def __init__(self, code: str, run: Run | None = None) -> None:
        self.code = code
        self.run = run
        super().__init__(f"the run is lost: {code}")
