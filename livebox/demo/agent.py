"""Lotse: an agent in a process of its own that is asked about folders, reads them and reports.

    python -m livebox.demo.agent --url http://127.0.0.1:8080 --token-file lotse.token --root .

It knows a server, a token and a folder, and talks nothing but the public contract.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from livebox.client import Adapter, AdapterError, GatewayRefused, Pace, Problem, RunHandle
from livebox.demo.folder_report import Bounds
from livebox.demo.reading import Reading

NAME: Final = "Lotse"
MODEL: Final = "folder-reader"
SIMULATED: Final = f"{MODEL} (simulated tokens and cost)"
CONCURRENCY: Final = 4  # runs at once

_log = logging.getLogger("lotse")


class Lotse(Adapter):
    """Works on the runs that it is given until it is asked to stop.

    It reads only below `root`. `pause` is how many seconds it rests between phases, so that people can follow. With
    `simulate` it shows tokens, context and cost as if a model had read the files, and says so in the run's model.
    """

    def __init__(
        self,
        url: str,
        token: str,
        root: Path,
        *,
        pause: float = 0.0,
        bounds: Bounds | None = None,
        simulate: bool = False,
        pace: Pace | None = None,
        poll: float = 0.25,
        patience: float = 120.0,
        timeout: float = 20.0,
    ) -> None:
        super().__init__(
            url,
            token,
            name=NAME,
            model=SIMULATED if simulate else MODEL,
            concurrency=CONCURRENCY,
            pace=pace,
            poll=poll,
            patience=patience,
            timeout=timeout,
        )
        self.root = root
        self.url = url
        self._pause = pause
        self._bounds = bounds or Bounds()
        self._simulate = simulate

    async def work(self, run: RunHandle) -> str:
        """Read the folder that the message names, and report."""
        reading = Reading(run, self.root, self._bounds, pause=self._pause, simulate=self._simulate)
        return await reading.report()


async def run(lotse: Lotse, *, until_eof: bool) -> int:
    """Serve until SIGTERM, SIGINT or (`until_eof`) the end of standard input; gives the exit status."""
    loop = asyncio.get_running_loop()

    def heard() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin)
            lotse.leave()

    if until_eof:
        loop.add_reader(sys.stdin, heard)
    serving = asyncio.create_task(lotse.serve(signals=True))
    await asyncio.sleep(0)  # from here on it hears signals
    _log.info("reading below %s, for %s", lotse.root, lotse.url)
    try:
        await serving
    except (Problem, GatewayRefused, AdapterError) as refused:
        _log.error("the server does not take this token: %s", refused)
        return 1
    if lotse.abandoned:
        _log.warning("stopped without an answer from the server")
        return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m livebox.demo.agent", description=__doc__)
    parser.add_argument("--url", required=True, help="the server")
    parser.add_argument("--token-file", type=Path, required=True, help="a file with the token of this agent")
    parser.add_argument("--root", type=Path, required=True, help="the folder below which it may read")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds of rest between phases, for people who watch")
    parser.add_argument("--simulate", action="store_true", help="show tokens, context and cost as if a model had read")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input ends")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        token = options.token_file.read_text().strip()
    except OSError as error:
        parser.error(f"--token-file: {error.strerror}")
    if not options.root.is_dir():
        parser.error("--root: is not a folder")
    return asyncio.run(_serve(options, token))


async def _serve(options: argparse.Namespace, token: str) -> int:
    lotse = Lotse(options.url, token, options.root, pause=options.pace, simulate=options.simulate)
    return await run(lotse, until_eof=options.until_eof)


if __name__ == "__main__":
    sys.exit(main())
