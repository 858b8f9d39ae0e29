"""What a handler may use, as Protocols. The server gives each request an object that satisfies `Context`.

A handler knows no SQL and no HTTP: it names the operation, hands over what the edge has read and checked, and gives
back an `Answer`. Pages, ETags, idempotency keys and problem documents are made from the answer at the edge.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from db import Answer

NOT_READY = "not_ready"
"""Code of an answer (getReadiness only) whose body is no problem document though its status is 503."""


class Invocations(Protocol):
    """Makes the tokens that agents hold while they work on a run."""

    def mint(
        self, *, run_id: str, agent_id: str, jti: str, claim_id: str, expires_at: float, issued_at: float | None = None
    ) -> str:
        """A signed token for one claim of one run; times in seconds of the epoch. Same arguments, same token."""
        ...


class Service(Protocol):
    """What the process knows about itself."""

    async def readiness(self) -> Answer:
        """Body `Readiness`; code ok, or NOT_READY: the database does not answer or commit, or the server stops."""
        ...

    async def metrics(self) -> Answer:
        """Prometheus text for who may read it, else a refusal."""
        ...

    def document(self, name: Literal["openapi", "asyncapi"]) -> Answer:
        """One of the two contract documents as JSON."""
        ...

    def keys(self) -> Answer:
        """Body `Jwks`: the public keys of invocation tokens."""
        ...


class Context(Protocol):
    """One request: who asks, and the ways to have its operation done."""

    @property
    def invocations(self) -> Invocations:
        """Makes invocation tokens."""
        ...

    @property
    def service(self) -> Service:
        """What the process knows about itself."""
        ...

    @property
    def limit(self) -> int:
        """How many entries a page of this request has at most."""
        ...

    @property
    def position(self) -> Mapping[str, Any] | None:
        """Where a page of this request goes on: its opened cursor."""
        ...

    async def read(self, operation: str, parameters: Mapping[str, Any], *, limits: tuple[str, ...] = ()) -> Answer:
        """Runs a reading SQL function as the caller. `limits` are configuration keys that it is given the values of."""
        ...

    async def write(
        self,
        operation: str,
        parameters: Mapping[str, Any],
        body: Mapping[str, Any] | None = None,
        *,
        limits: tuple[str, ...] = (),
    ) -> Answer:
        """Runs a writing SQL function as the caller, through the write lane. The answer is committed."""
        ...

    async def patch(self, parameters: Mapping[str, Any], body: Mapping[str, Any] | None) -> Answer:
        """Applies a patch to the live content of the run in `parameters`: body `Patched`, or the refusal."""
        ...

    async def shown(self, run_id: str, answer: Answer, read: Callable[[], Awaitable[Answer]]) -> Answer:
        """The run of `answer` as the server shows it: with what was patched since its row was saved.

        `read` reads the row once more.
        """
        ...

    def live_content(self, run_id: str, owner: str, epoch: int) -> Mapping[str, Any] | None:
        """What agents patched of a run that this process, its row's `owner`, serves; None where another does."""
        ...

    def alive(self, run_id: str, *, progress: bool = False) -> None:
        """The holder of the run gave a sign of life just now; with `progress` its work moved. Costs no write."""
        ...

    def seal(self, position: Mapping[str, Any]) -> str:
        """A cursor for a position in a list of this operation, good for this caller and these filters only."""
        ...
