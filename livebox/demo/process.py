"""The agent's process: started with a token of its own, watched, and stopped by its pid whatever happens."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

STOP_WAIT: Final = 10.0  # seconds between asking it to stop and killing it
_TAIL: Final = 2000  # characters of its log that are shown when it fails


class AgentProcess:
    """An agent as a separate process, an async context manager: the module `module`, given `arguments` and its token.

    Its token and its log lie in `folder`. It stops by itself when this process is gone: its standard input ends then.
    """

    def __init__(self, folder: Path, name: str, token: str, module: str, arguments: Sequence[str]) -> None:
        self.name = name
        self._token_file = folder / f"{name.lower()}.token"
        self._log_file = folder / f"{name.lower()}.log"
        self._token = token
        self._command = ["-m", module, "--token-file", str(self._token_file), *arguments, "--until-eof"]
        self._process: asyncio.subprocess.Process | None = None

    @classmethod
    def lotse(cls, folder: Path, url: str, token: str, root: Path, *, pace: float) -> Self:
        """Lotse, who is asked about folders below `root`."""
        arguments = ["--url", url, "--root", str(root), "--pace", str(pace), "--simulate"]
        return cls(folder, "Lotse", token, "livebox.demo.agent", arguments)

    async def __aenter__(self) -> Self:
        descriptor = os.open(self._token_file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(self._token)
        with self._log_file.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours; it is told in order
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.ensure_future(self.stop()))

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None  # noqa: S101 - only asked for after start
        return self._process.pid

    async def ended(self) -> str:
        """Wait until it has ended; what it said last."""
        assert self._process is not None  # noqa: S101 - only asked for after start
        status = await self._process.wait()
        return f"{self.name} ended with status {status}.\n{self.last_words()}"

    async def failed(self) -> str:
        """Wait until it has ended in another way than with its work done; what it said last."""
        words = await self.ended()
        if self._process is not None and self._process.returncode == 0:
            await asyncio.get_running_loop().create_future()
        return words

    def last_words(self) -> str:
        """The end of its log."""
        with suppress(OSError):
            return self._log_file.read_text(errors="replace")[-_TAIL:]
        return ""

    async def stop(self) -> None:
        """Ask it to stop, and kill it when it does not."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_WAIT)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        self._token_file.unlink(missing_ok=True)
