"""Cursors of pages: sealed, so that a client can neither read nor make one.

A cursor names the last row that was examined, which may be a row the caller may not see; it is therefore encrypted
and authenticated (AES-GCM, RFC 5116). The list, its filters and the principal are authenticated with it: a cursor
works only where it was made. Its key lies in the data folder, so cursors outlive a restart.
"""

from __future__ import annotations

import binascii
import hashlib
import os
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
MAX_LENGTH: Final = 2048
"""Characters of the longest cursor that is looked at."""

_NONCE_BYTES: Final = 12
_VERSION: Final = b"\x01"
# What pages a list but does not choose its rows.
_PAGING: Final = frozenset({"cursor", "limit"})


class CursorInvalid(Exception):
    """The cursor was not made by `Cursors.seal` with this key for this list, these filters and this principal."""


class Cursors:
    """Seals and opens cursors with one key of KEY_BYTES bytes."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, position: Mapping[str, Any], operation: str, principal: str, parameters: Mapping[str, Any]) -> str:
        """The cursor for `position`, the key of the last examined row."""
        nonce = os.urandom(_NONCE_BYTES)
        bound = _binding(operation, principal, parameters)
        sealed = self._cipher.encrypt(nonce, msgspec.json.encode(position), bound)
        return b64encode(_VERSION + nonce + sealed, b"-_").rstrip(b"=").decode()

    def open(self, cursor: str, operation: str, principal: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The position that `seal` was given. Raises CursorInvalid, and never says why."""
        if not 0 < len(cursor) <= MAX_LENGTH or not cursor.isascii():
            raise CursorInvalid
        try:
            sealed = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
            # Decoding skips what is not of the alphabet and ignores spare bits; a cursor has exactly one spelling.
            if sealed[:1] != _VERSION or b64encode(sealed, b"-_").rstrip(b"=").decode() != cursor:
                raise CursorInvalid
            bound = _binding(operation, principal, parameters)
            text = self._cipher.decrypt(sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :], bound)
        except (binascii.Error, ValueError, InvalidTag):
            raise CursorInvalid from None
        position: dict[str, Any] = msgspec.json.decode(text, type=dict)
        return position


def _binding(operation: str, principal: str, parameters: Mapping[str, Any]) -> bytes:
    filters = {name: value for name, value in parameters.items() if name not in _PAGING}
    text = msgspec.json.encode([operation, principal, filters], order="deterministic")
    return hashlib.sha256(text).digest()
