"""Keys in the data folder, and the invocation tokens that are signed with one of them."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from livebox import jwks
from livebox.invocations import InvocationInvalid, Invocations
from livebox.keyring import CURSOR_KEY, INVOCATION_KEY, PREVIOUS_INVOCATION_KEY, Keyring, KeyringError

RUN = "01933b7e-0000-7000-8000-000000000051"
CLAIM = {
    "run_id": RUN,
    "agent_id": "01933b7e-0000-7000-8000-000000000011",
    "jti": "01933b7e-0000-7000-8000-0000000000e1",
    "claim_id": "0193a000-0000-4000-8000-0000000000b1",
}


def _raw(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes_raw()


def test_keys_are_made_once_and_kept_for_their_user_only(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "keys"
    first = Keyring(folder)
    cursor, signing = first.cursor_key(), _raw(first.invocation_keys()[0])
    again = Keyring(folder)
    assert (again.cursor_key(), _raw(again.invocation_keys()[0])) == (cursor, signing)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        CURSOR_KEY: 0o600,
        INVOCATION_KEY: 0o600,
    }


def test_many_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    found: set[bytes] = set()
    start = threading.Barrier(16)

    def work() -> None:
        start.wait()
        found.add(Keyring(tmp_path / "keys").cursor_key())

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
    assert [path.name for path in (tmp_path / "keys").iterdir()] == [CURSOR_KEY]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    Keyring(tmp_path).cursor_key()
    (tmp_path / CURSOR_KEY).chmod(mode)
    with pytest.raises(KeyringError, match="chmod 600"):
        Keyring(tmp_path).cursor_key()


@pytest.mark.parametrize("name", [CURSOR_KEY, INVOCATION_KEY])
@pytest.mark.parametrize("content", [b"", b"x" * 31, b"-----BEGIN PRIVATE KEY-----\n"])
def test_a_damaged_key_is_refused_by_the_name_of_its_file(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / name).chmod(0o600)
    with pytest.raises(KeyringError, match=name.replace(".", r"\.")):
        Keyring(tmp_path).cursor_key() if name == CURSOR_KEY else Keyring(tmp_path).invocation_keys()


def test_after_a_rotation_old_tokens_still_hold_and_new_ones_have_the_new_key(tmp_path: Path) -> None:
    before = Invocations(Keyring(tmp_path).invocation_keys())
    old = before.mint(**CLAIM, expires_at=4e9)
    Keyring(tmp_path).rotate_invocation_key()
    after = Invocations(Keyring(tmp_path).invocation_keys())
    new = after.mint(**CLAIM, expires_at=4e9)
    assert after.verify(old, RUN) == after.verify(new, RUN)
    with pytest.raises(InvocationInvalid):
        before.verify(new, RUN)
    assert {key["kid"] for key in after.document()["keys"]} == {jwt.get_unverified_header(t)["kid"] for t in (old, new)}
    Keyring(tmp_path).rotate_invocation_key()
    with pytest.raises(InvocationInvalid):
        Invocations(Keyring(tmp_path).invocation_keys()).verify(old, RUN)
    assert (tmp_path / PREVIOUS_INVOCATION_KEY).stat().st_mode & 0o777 == 0o600


def test_the_published_keys_verify_and_hold_nothing_private() -> None:
    invocations = Invocations([Ed25519PrivateKey.generate()])
    entry = invocations.document()["keys"][0]
    assert set(entry) == {"kty", "crv", "x", "kid", "use", "alg"}
    key = jwt.PyJWK.from_dict(entry)
    token = invocations.mint(**CLAIM, expires_at=4e9, issued_at=1e9)
    claims = jwt.decode(token, key, algorithms=["EdDSA"], audience=RUN, issuer="livebox")
    assert (claims["sub"], claims["jti"], claims["claim_id"]) == (CLAIM["agent_id"], CLAIM["jti"], CLAIM["claim_id"])
    assert (claims["iat"], claims["exp"]) == (1e9, 4e9)


def test_the_same_claim_has_the_same_token() -> None:
    invocations = Invocations([Ed25519PrivateKey.generate()])
    assert len({invocations.mint(**CLAIM, expires_at=4e9, issued_at=1e9) for _ in range(5)}) == 1


def test_a_token_is_for_one_run_and_signed_here() -> None:
    key, stranger = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    invocations = Invocations([key])
    token = invocations.mint(**CLAIM, expires_at=4e9)
    assert invocations.verify(token, RUN).jti == CLAIM["jti"]
    bad = [
        Invocations([stranger]).mint(**CLAIM, expires_at=4e9),
        token[:-3],
        token + "x",
        "",
        "x.y.z",
        jwt.encode({"aud": RUN}, key, "EdDSA", headers={"kid": jwks.thumbprint(key.public_key())}),
    ]
    for _ in range(2):  # the second time from memory
        with pytest.raises(InvocationInvalid):
            invocations.verify(token, RUN[:-1] + "2")
        for found in bad:
            with pytest.raises(InvocationInvalid):
                invocations.verify(found, RUN)


def test_whether_a_token_has_expired_is_left_to_the_clock_of_the_database() -> None:
    invocations = Invocations([Ed25519PrivateKey.generate()], lambda: 4e9)
    found = invocations.verify(invocations.mint(**CLAIM, expires_at=1100), RUN)
    assert found.claims()["expires_at"] == 1100


def test_a_thumbprint_is_that_of_the_standard() -> None:
    """The key and the thumbprint of RFC 8037, appendix A."""
    entry = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    key = jwt.PyJWK.from_dict({**entry, "alg": "EdDSA"}).key
    assert jwks.thumbprint(key) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    assert json.loads(json.dumps(jwks.document({"k": key})))["keys"][0]["x"] == entry["x"]
