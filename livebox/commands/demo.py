"""`livebox demo`: a server, its database, a real agent, and one run from queued to completed before your eyes."""

from __future__ import annotations

import asyncio
import errno
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from livebox import log
from livebox.app import StartError
from livebox.commands._terminal import configuration, database
from livebox.demo.fleet import FleetLauncher
from livebox.demo.launcher import Launcher, Options, project_folder
from livebox.keyring import KeyringError
from livebox.keys import KEYS

PACE: Final = 2.0  # seconds: time to open the page and see it


@click.command("demo")
@click.option("--exit-when-done", is_flag=True, help="End after both runs, with status 0 when all was as it must be.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="What the agent may read and is asked about; this project by default.",
)
@click.option("--port", type=int, default=0, show_default=True, help="Port to listen on; 0 takes a free one.")
@click.option(
    "--pace",
    type=click.FloatRange(0, 10),
    help=f"Seconds the agent rests at each step, so that you can follow; {PACE:g}, with --exit-when-done 0.",
)
@click.option("--fleet", is_flag=True, help="Instead, two agents in two processes work on one registered run.")
def command(exit_when_done: bool, folder: Path | None, port: int, pace: float | None, fleet: bool) -> None:
    """Watch a real agent work.

    Starts a server on its embedded database (DATABASE_URL is left alone), in a temporary folder or the one that
    LIVEBOX_DATA names, loads the world
    of examples, and starts Lotse, an agent in a process of its own. Alex asks it what is in a folder; it reads the
    folder and reports. Then it is asked about a folder that does not exist, and fails with the reason. The server stays
    up until Ctrl-C.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        work = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="livebox-demo-", ignore_cleanup_errors=True))
        )
        work.chmod(0o711)  # the embedded database may run as another user
        data = configuration().text("data")
        settings = configuration(
            data=str(work / "data") if data == KEYS["data"].default else data,
            database__url="",
            http__host="127.0.0.1",  # it prints tokens that work
            http__port=port,
        )
        logged = stack.enter_context((work / "server.log").open("w"))
        log.configure("warning", "json", logged)
        dsn = stack.enter_context(database(settings))
        pace = pace if pace is not None else 0.0 if exit_when_done else PACE
        options = Options((folder or project_folder(work)).resolve(), pace, exit_when_done)
        try:
            launcher = (FleetLauncher if fleet else Launcher)(settings, dsn, work, options)
            status = asyncio.run(launcher.play())
        except (StartError, KeyringError) as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            in_use = f"cannot listen on 127.0.0.1:{port}: {error.strerror}"
            raise click.ClickException(in_use if error.errno == errno.EADDRINUSE else str(error)) from error
        if status == 1:
            logged.flush()
            click.echo((work / "server.log").read_text()[-4000:], err=True)
    sys.exit(status)
