"""A Livebox server for people's tools: the operations of the contract, and what happens while it happens."""

from __future__ import annotations

from collections.abc import AsyncIterator

from generated.models import Event, Run, RunSummary
from livebox.client.follow import Documents
from livebox.client.gateway import Gateway
from livebox.client.rest import Rest
from livebox.client.running import Running
from livebox.client.tail import Tail


class Livebox(Rest):
    """A Livebox server, as one principal sees it, live. Use it as an async context manager.

    It has every operation of `Rest` - `create_message`, `find_run`, `cancel_run` - and iterators that follow runs and
    the log over one session with the gateway, which is begun when it is first needed and again whenever it is lost.
    The iterators raise GatewayRefused when the server does not take the token, GatewayAbsent when it has no gateway.
    """

    def __init__(self, url: str, token: str, *, patience: float = 30.0, timeout: float = 20.0) -> None:
        super().__init__(url, token, patience=patience, timeout=timeout)
        self.gateway = Gateway(url, token, timeout=timeout)
        self._documents: Documents | None = None

    async def close(self) -> None:
        """End the session and close the connection."""
        if self._documents is not None:
            await self._documents.stop()
            self._documents = None
        await self.gateway.close()
        await super().close()

    async def follow_run(self, run_id: str) -> AsyncIterator[Run]:
        """The run now and whenever it has changed, until it has ended.

        Each document is as `get_run` would show it; versions that came faster than they were taken are left out. What
        is missed while the connection is away is made up for. Raises Problem `not_found` for a run that one may not
        see, or no longer.
        """
        documents = await self._live()
        async for run in documents.follow(run_id):
            yield run

    async def follow_active(self, *, live: bool = True) -> AsyncIterator[list[RunSummary]]:
        """Running now: the active runs that one may see, newest first, now and whenever something changed.

        With `live` their headline, step count and version move with the live content, else only with durable events.
        """
        documents = await self._live()
        async for runs in Running(self.gateway, self, documents, live=live).follow():
            yield runs

    async def events(self, after: int | None = None) -> AsyncIterator[Event]:
        """The durable events after the position `after` of the log (what happens from now on without it), in order and
        each once. Raises Problem `cursor_expired` when the log does not reach back so far."""
        await self._live()
        async for event in Tail(self.gateway, self, after).follow():
            yield event

    async def _live(self) -> Documents:
        if self._documents is None:
            self._documents = Documents(self.gateway, self)
            self._documents.start()
            self.gateway.open()
        await self.gateway.connected()
        return self._documents
