"""The secrets that this instance makes for itself, in its data folder, readable by its own user only.

Several processes may start at once on one folder: whoever writes first wins, the others read what it wrote.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from livebox.cursors import KEY_BYTES

CURSOR_KEY: Final = "cursor.key"
INVOCATION_KEY: Final = "invocation.pem"
PREVIOUS_INVOCATION_KEY: Final = "invocation.previous.pem"


class KeyringError(Exception):
    """A key file cannot be used; the text names the file and what to do."""


class Keyring:
    """The key files below `folder`, which is made when it is absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def cursor_key(self) -> bytes:
        """The key that seals cursors; KEY_BYTES bytes."""
        key = self._kept(CURSOR_KEY, lambda: secrets.token_bytes(KEY_BYTES))
        if len(key) != KEY_BYTES:
            raise KeyringError(f"{self.folder / CURSOR_KEY} is damaged; remove it to get a new one")
        return key

    def invocation_keys(self) -> tuple[Ed25519PrivateKey, ...]:
        """The key that signs invocation tokens and, after a rotation, the one before it, which still verifies."""
        current = self._signing(INVOCATION_KEY, self._kept(INVOCATION_KEY, _new_signing_key))
        before = self._read(PREVIOUS_INVOCATION_KEY)
        return (current,) if before is None else (current, self._signing(PREVIOUS_INVOCATION_KEY, before))

    def rotate_invocation_key(self) -> None:
        """Sign with a new key from the next start on; tokens signed with the present one stay valid until then too."""
        if (self.folder / INVOCATION_KEY).exists():
            os.replace(self.folder / INVOCATION_KEY, self.folder / PREVIOUS_INVOCATION_KEY)
        self._kept(INVOCATION_KEY, _new_signing_key)

    def _signing(self, name: str, text: bytes) -> Ed25519PrivateKey:
        try:
            key = load_pem_private_key(text, password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyringError(f"{self.folder / name} is not an Ed25519 private key; remove it to get a new one")
        return key

    def _kept(self, name: str, make: Callable[[], bytes]) -> bytes:
        found = self._read(name)
        if found is not None:
            return found
        fresh = self.folder / f".{name}.{secrets.token_hex(8)}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(make())
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(fresh, self.folder / name)
        finally:
            fresh.unlink()
        kept = self._read(name)
        if kept is None:
            raise KeyringError(f"{self.folder / name} went away while it was made")
        return kept

    def _read(self, name: str) -> bytes | None:
        path = self.folder / name
        try:
            with path.open("rb") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                    raise KeyringError(f"{path} is readable by others; run: chmod 600 {path}")
                return file.read()
        except FileNotFoundError:
            return None


def _new_signing_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
