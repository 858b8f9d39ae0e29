"""Invocation tokens: what an agent holds while it works on one run.

A token is a JWT (EdDSA) whose audience is the run and whose `jti` the run's row knows. Whether it is the current one
and whether its time has passed is decided in the database, in the statement that uses it and by its clock. Here a
token is only made and its signature verified.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from livebox import jwks

ISSUER: Final = "livebox"
MAX_KNOWN: Final = 10_000


class InvocationInvalid(Exception):
    """The token was not made here for this run."""


class Invocation(NamedTuple):
    """A verified invocation token. `expires_at` is in seconds of the epoch and may have passed."""

    run_id: str
    agent_id: str
    jti: str
    claim_id: str
    expires_at: float

    def claims(self) -> dict[str, str | float]:
        """What the SQL functions decide by, the expiry by the clock of the database."""
        return self._asdict()


class Invocations:
    """Makes and verifies the tokens. The first of `keys` signs, all of them verify."""

    def __init__(self, keys: Sequence[Ed25519PrivateKey], now: Callable[[], float] = time.time) -> None:
        self._signing = keys[0]
        self._kid = jwks.thumbprint(keys[0].public_key())
        self._keys = {jwks.thumbprint(key.public_key()): key.public_key() for key in keys}
        self._now = now
        self._known: dict[str, Invocation] = {}

    def document(self) -> dict[str, Any]:
        """The JWKS with which others can verify these tokens."""
        return jwks.document(self._keys)

    def mint(
        self, *, run_id: str, agent_id: str, jti: str, claim_id: str, expires_at: float, issued_at: float | None = None
    ) -> str:
        """A token for one claim of one run; times in seconds of the epoch, issued now unless said otherwise.

        The same arguments make the same token, so that a repeated claim gets the same answer.
        """
        claims = {
            "iss": ISSUER,
            "aud": run_id,
            "sub": agent_id,
            "jti": jti,
            "claim_id": claim_id,
            "iat": int(self._now() if issued_at is None else issued_at),
            "exp": int(expires_at),
        }
        return jwt.encode(claims, self._signing, algorithm=jwks.ALGORITHM, headers={"kid": self._kid})

    def verify(self, token: str, run_id: str) -> Invocation:
        """What the token says. Raises InvocationInvalid unless we signed it for `run_id`."""
        found = self._known.get(token)
        if found is None:
            found = self._verified(token)
            if len(self._known) >= MAX_KNOWN:
                self._known.pop(next(iter(self._known)))
            self._known[token] = found
        if found.run_id != run_id:
            raise InvocationInvalid
        return found

    def _verified(self, token: str) -> Invocation:
        try:
            claims = jwks.claims(token, self._keys)
        except jwks.SignatureInvalid:
            raise InvocationInvalid from None
        run_id, agent_id, jti, claim_id = (str(claims.get(name, "")) for name in ("aud", "sub", "jti", "claim_id"))
        expires_at = jwks.instant(claims.get("exp"))
        if claims.get("iss") != ISSUER or expires_at is None:
            raise InvocationInvalid
        return Invocation(run_id, agent_id, jti, claim_id, expires_at)
