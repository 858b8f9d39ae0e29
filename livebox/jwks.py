"""Sets of Ed25519 keys that verify signatures (JWKS, RFC 7517), and the one way in which a JWT is verified.

The algorithm is EdDSA whatever a token says, and a key is found only by its `kid` in the given set: `jku`, `jwk`,
`x5u` and the like in a token are never looked at.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import OKPAlgorithm

ALGORITHM: Final = "EdDSA"

KeySet = Mapping[str, Ed25519PublicKey]
"""Public keys by their `kid`."""

# What the claims mean is decided where they are used, against a clock that tests can move.
_SIGNATURE_ONLY: Final[Any] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


class KeySetError(Exception):
    """A JWKS file cannot be used; the text says why and holds nothing secret."""


class SignatureInvalid(Exception):
    """The token is not a JWT that one of the keys signed."""


def read(path: Path) -> KeySet:
    """The keys of a JWKS file. Raises KeySetError for anything in it that is no public Ed25519 key with a `kid`."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["keys"]
        keys = {entry["kid"]: _public(entry) for entry in entries}
    except KeySetError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        raise KeySetError("the JWKS file cannot be read as a set of keys that each have a kid") from None
    if not keys or len(keys) != len(entries) or not all(isinstance(kid, str) and kid for kid in keys):
        raise KeySetError("the JWKS file must hold at least one key, each with a kid of its own")
    return keys


def _public(entry: Mapping[str, Any]) -> Ed25519PublicKey:
    if "d" in entry:
        raise KeySetError("the JWKS file holds a private key; it must only hold public ones")
    if entry.get("use", "sig") != "sig" or entry.get("alg", ALGORITHM) not in (ALGORITHM, "Ed25519"):
        raise KeySetError("the JWKS file holds a key that is not for EdDSA signatures")
    try:
        key = OKPAlgorithm.from_jwk(dict(entry))
    except jwt.PyJWTError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise KeySetError("the JWKS file holds a key that is not an Ed25519 key")
    return key


def thumbprint(key: Ed25519PublicKey) -> str:
    """The `kid` of a key of ours: its JWK thumbprint (RFC 7638, RFC 8037 appendix A.3)."""
    text = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": _x(key)}, separators=(",", ":"), sort_keys=True)
    return _base64url(hashlib.sha256(text.encode()).digest())


def document(keys: KeySet) -> dict[str, Any]:
    """The JWKS that publishes `keys`."""
    return {
        "keys": [
            {"kty": "OKP", "crv": "Ed25519", "x": _x(key), "kid": kid, "use": "sig", "alg": ALGORITHM}
            for kid, key in keys.items()
        ]
    }


def claims(token: str, keys: KeySet) -> dict[str, Any]:
    """The claims of a JWT that one of `keys` signed, none of them checked. Raises SignatureInvalid."""
    try:
        key = keys[jwt.get_unverified_header(token)["kid"]]
        found: dict[str, Any] = jwt.decode(token, key, algorithms=[ALGORITHM], options=_SIGNATURE_ONLY)
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, RecursionError):
        raise SignatureInvalid from None
    return found


def instant(value: object) -> float | None:
    """A NumericDate claim as seconds, None when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        return None
    return float(value)


def _x(key: Ed25519PublicKey) -> str:
    return _base64url(key.public_bytes(Encoding.Raw, PublicFormat.Raw))


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
