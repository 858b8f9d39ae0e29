"""Who is asking: `Authorization: Bearer` with a JWT of the configured issuer or with a local token.

What a token says never changes, so it is worked out once per token. Whether the principal is active and the token not
revoked does change; the database checks that in the statement that does the work, on each request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

import msgspec

from db.answer import Answer, Caller
from livebox import jwks

TOKEN_PREFIX: Final = "lbx_"  # noqa: S105  # what a local token starts with
TOKEN_BYTES: Final = 32
MAX_KNOWN: Final = 20_000

INVALID: Final = "invalid_token"
EXPIRED: Final = "token_expired"

_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9\-._~+/]+=*) *", re.IGNORECASE | re.ASCII)
_PRINCIPAL: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


class Unauthenticated(Exception):
    """The request carries no token that we take; `code` is `invalid_token` or `token_expired` and says no more."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose JWTs are taken. `leeway` is the clock difference in seconds that `exp` and `nbf` forgive."""

    issuer: str
    audience: str
    keys: jwks.KeySet
    leeway: float = 0.0


class _Known(NamedTuple):
    caller: Caller
    until: float


def new_token() -> str:
    """A fresh local token. It is shown once; only `token_hash` of it is kept."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def token_hash(token: str) -> str:
    """The SHA-256 of a local token in hex, as the database keeps it."""
    return hashlib.sha256(token.encode()).hexdigest()


class Authenticator:
    """Turns an `Authorization` header into a Caller.

    `resolve` looks a token's hash up in the database (`livebox.authenticate_token`); without an `issuer` no JWT is
    taken. `now` gives seconds of the epoch.
    """

    def __init__(
        self,
        resolve: Callable[[str], Awaitable[Answer]],
        issuer: Issuer | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._resolve = resolve
        self._issuer = issuer
        self.now = now
        self._known: dict[str, _Known] = {}

    def known(self, header: str) -> Caller | None:
        """The caller when this very header was worked out before and has not expired."""
        found = self._known.get(header)
        return found.caller if found is not None and found.until > self.now() else None

    def until(self, header: str) -> float:
        """When a header that was worked out expires, in seconds of the epoch: of a JWT its `exp` with the leeway.

        Infinity for a local token, whose expiry the database watches; for a header that is not known it is over.
        """
        match = _BEARER.fullmatch(header)
        found = self._known.get(f"Bearer {match[1]}") if match is not None else None
        return found.until if found is not None else 0.0

    def forget(self, header: str) -> None:
        """Work this header out anew the next time."""
        self._known.pop(header, None)

    @staticmethod
    def is_bearer(header: str | None, token: str) -> bool:
        """Does this header carry exactly `token`? Never true for an empty one."""
        match = _BEARER.fullmatch(header) if header else None
        return match is not None and token != "" and hmac.compare_digest(match[1].encode(), token.encode())

    async def authenticate(self, header: str | None) -> Caller:
        """The caller. Raises Unauthenticated, and whatever the database raises when it cannot be asked."""
        match = _BEARER.fullmatch(header) if header else None
        if header is None or match is None:
            raise Unauthenticated(INVALID)
        token = match[1]
        known = await self._local(token) if token.startswith(TOKEN_PREFIX) else self._jwt(token)
        if len(self._known) >= MAX_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[f"Bearer {token}"] = known
        return known.caller

    async def _local(self, token: str) -> _Known:
        answer = await self._resolve(token_hash(token))
        if answer.code != "ok" or answer.body is None:
            raise Unauthenticated(EXPIRED if answer.code == EXPIRED else INVALID)
        row = msgspec.json.decode(answer.body, type=dict[str, str])
        return _Known(Caller(row["principal"], row["token"]), inf)

    def _jwt(self, token: str) -> _Known:
        issuer = self._issuer
        if issuer is None:
            raise Unauthenticated(INVALID)
        try:
            claims = jwks.claims(token, issuer.keys)
        except jwks.SignatureInvalid:
            raise Unauthenticated(INVALID) from None
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        subject, expires_at = claims.get("sub"), jwks.instant(claims.get("exp"))
        not_before = jwks.instant(claims.get("nbf", 0))
        if (
            claims.get("iss") != issuer.issuer
            or issuer.audience not in audiences
            or not isinstance(subject, str)
            or not _PRINCIPAL.fullmatch(subject)
            or expires_at is None
            or not_before is None
            or not_before - issuer.leeway > self.now()
        ):
            raise Unauthenticated(INVALID)
        if expires_at + issuer.leeway <= self.now():
            raise Unauthenticated(EXPIRED)
        return _Known(Caller(subject), expires_at + issuer.leeway)
