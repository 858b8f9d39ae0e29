"""Who is let in: JWTs of the configured issuer and local tokens, and nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jwt
import psycopg2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from db import Answer, Caller, instance
from livebox import jwks
from livebox.auth import Authenticator, Issuer, Unauthenticated, new_token, token_hash
from tests.edge.raw import exchange, request
from tests.edge.samples import BEARER, SAMPLES
from tests.fixtures.database import connect
from tests.fixtures.server import Client, Clients, Live, client_session, live_server
from tests.fixtures.world import WorldCopy

ISSUER = "https://login.example.com"
AUDIENCE = "livebox"
ALEX = "01933b7e-0000-7000-8000-000000000001"
KEYS = {"k1": Ed25519PrivateKey.generate(), "k2": Ed25519PrivateKey.generate()}
STRANGER = Ed25519PrivateKey.generate()


def token(key: Any = KEYS["k1"], kid: str | None = "k1", algorithm: str = "EdDSA", **claims: Any) -> str:
    """A JWT; claims that are None are left out."""
    now = time.time()
    found = {"iss": ISSUER, "aud": AUDIENCE, "sub": ALEX, "exp": now + 300, "iat": now, **claims}
    headers = {} if kid is None else {"kid": kid}
    payload = {name: value for name, value in found.items() if value is not None}
    return jwt.PyJWS().encode(json.dumps(payload).encode(), key, algorithm=algorithm, headers=headers)


def forged(header: dict[str, Any], signature: bytes = b"") -> str:
    """A JWT with any header."""
    payload = {"iss": ISSUER, "aud": AUDIENCE, "sub": ALEX, "exp": time.time() + 300}
    parts = [json.dumps(part).encode() for part in (header, payload)] + [signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def hmac_with_public_key() -> str:
    """The classic confusion: HS256 with the public key's bytes as the secret."""
    secret = KEYS["k1"].public_key().public_bytes_raw()
    return jwt.encode(
        {"iss": ISSUER, "aud": AUDIENCE, "sub": ALEX, "exp": time.time() + 300}, secret, "HS256", headers={"kid": "k1"}
    )


def tampered() -> str:
    """A good token with another payload."""
    head, _, signature = token().split(".")
    return ".".join((head, token(sub="01933b7e-0000-7000-8000-000000000002").split(".")[1], signature))


# name -> (what makes the token, the code it gets)
BAD: dict[str, tuple[Callable[[], str], str]] = {
    "expired": (lambda: token(exp=time.time() - 60), "token_expired"),
    "expired long ago": (lambda: token(exp=1), "token_expired"),
    "without exp": (lambda: token(exp=None), "invalid_token"),
    "exp that is a text": (lambda: token(exp=str(time.time() + 60)), "invalid_token"),
    "exp that is true": (lambda: token(exp=True), "invalid_token"),
    "endless exp": (lambda: token(exp=1e300), "invalid_token"),
    "not yet": (lambda: token(nbf=time.time() + 60), "invalid_token"),
    "nbf that is a text": (lambda: token(nbf="now"), "invalid_token"),
    "another issuer": (lambda: token(iss="https://other.example.com"), "invalid_token"),
    "no issuer": (lambda: token(iss=None), "invalid_token"),
    "issuers": (lambda: token(iss=[ISSUER]), "invalid_token"),
    "another audience": (lambda: token(aud="other"), "invalid_token"),
    "other audiences": (lambda: token(aud=["a", "b"]), "invalid_token"),
    "no audience": (lambda: token(aud=None), "invalid_token"),
    "no subject": (lambda: token(sub=None), "invalid_token"),
    "a subject that is no id": (lambda: token(sub="alex"), "invalid_token"),
    "a subject in upper case": (lambda: token(sub=ALEX.upper().replace("B7E", "B7F")), "invalid_token"),
    "an unknown kid": (lambda: token(kid="k3"), "invalid_token"),
    "no kid": (lambda: token(kid=None), "invalid_token"),
    "the kid of another key": (lambda: token(kid="k2"), "invalid_token"),
    "a stranger's key": (lambda: token(STRANGER), "invalid_token"),
    "Ed448": (lambda: token(Ed448PrivateKey.generate()), "invalid_token"),
    "RS256": (lambda: token(generate_private_key(65537, 2048), algorithm="RS256"), "invalid_token"),
    "HS256 with the public key": (hmac_with_public_key, "invalid_token"),
    "alg none": (lambda: forged({"alg": "none", "kid": "k1"}), "invalid_token"),
    "alg None": (lambda: forged({"alg": "NONE", "kid": "k1"}), "invalid_token"),
    "no alg": (lambda: forged({"kid": "k1"}, b"x" * 64), "invalid_token"),
    "kid that is a list": (lambda: forged({"alg": "EdDSA", "kid": ["k1"]}, b"x" * 64), "invalid_token"),
    "a key in the header": (lambda: forged({"alg": "EdDSA", "jwk": {}, "kid": "k9"}, b"x" * 64), "invalid_token"),
    "no signature": (lambda: token().rpartition(".")[0] + ".", "invalid_token"),
    "two parts": (lambda: token().rpartition(".")[0], "invalid_token"),
    "four parts": (lambda: token() + ".x", "invalid_token"),
    "a cut signature": (lambda: token()[:-4], "invalid_token"),
    "another payload": (tampered, "invalid_token"),
    "a header that is no JSON": (lambda: "e30x.e30.e30", "invalid_token"),
    "expired and by a stranger": (lambda: token(STRANGER, exp=1), "invalid_token"),
    "expired and for another audience": (lambda: token(exp=1, aud="other"), "invalid_token"),
    "a local token that nobody issued": (new_token, "invalid_token"),
    "a cut local token": (lambda: new_token()[:10], "invalid_token"),
    "only the prefix": (lambda: "lbx_", "invalid_token"),
    "a word": (lambda: "x", "invalid_token"),
}

GOOD: dict[str, Callable[[], str]] = {
    "the first key": token,
    "the second key, during a rotation": lambda: token(KEYS["k2"], "k2"),
    "one of several audiences": lambda: token(aud=["other", AUDIENCE]),
    "without iat": lambda: token(iat=None),
    "nbf in the past": lambda: token(nbf=time.time() - 60),
    "within the leeway after exp": lambda: token(exp=time.time() - 2),
    "within the leeway before nbf": lambda: token(nbf=time.time() + 2),
    "whole seconds": lambda: token(exp=int(time.time()) + 60),
}


def authenticator(issuer: bool = True, now: Callable[[], float] = time.time) -> Authenticator:
    """One that knows no local token."""

    async def resolve(_: str) -> Answer:
        return Answer("invalid_token")

    keys = {kid: key.public_key() for kid, key in KEYS.items()}
    return Authenticator(resolve, Issuer(ISSUER, AUDIENCE, keys, 5) if issuer else None, now)


@pytest.mark.parametrize("name", GOOD)
async def test_good_jwts_name_their_principal(name: str) -> None:
    assert await authenticator().authenticate(f"Bearer {GOOD[name]()}") == Caller(ALEX)


@pytest.mark.parametrize("name", BAD)
async def test_bad_tokens_are_refused_for_one_of_two_reasons(name: str) -> None:
    make, code = BAD[name]
    with pytest.raises(Unauthenticated) as refused:
        await authenticator().authenticate(f"Bearer {make()}")
    assert refused.value.code == code
    assert str(refused.value) == code


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic QWxleDp4",
        "Token x",
        "Bearer a b",
        "Bearer a,b",
        "Bearer\tx",
        "Bearer ü",
        "x",
    ],
)
async def test_other_schemes_and_shapes_are_refused(header: str | None) -> None:
    with pytest.raises(Unauthenticated):
        await authenticator().authenticate(header)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_has_no_case(scheme: str) -> None:
    assert await authenticator().authenticate(f"{scheme} {token()}") == Caller(ALEX)


async def test_no_jwt_is_taken_without_a_configured_issuer() -> None:
    with pytest.raises(Unauthenticated):
        await authenticator(issuer=False).authenticate(f"Bearer {token()}")


async def test_a_remembered_token_still_expires() -> None:
    now = [1000.0]
    found = authenticator(now=lambda: now[0])
    header = f"Bearer {token(exp=1100, iat=None)}"
    assert found.known(header) is None
    await found.authenticate(header)
    now[0] = 1104.9
    assert found.known(header) == Caller(ALEX)
    now[0] = 1105.0
    assert found.known(header) is None
    with pytest.raises(Unauthenticated) as refused:
        await found.authenticate(header)
    assert refused.value.code == "token_expired"


def test_a_local_token_has_256_random_bits_and_only_its_hash_is_asked_for() -> None:
    tokens = {new_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(len(found) == len("lbx_") + 43 for found in tokens)
    assert len({token_hash(found) for found in tokens}) == 1000


WRONG_SETS: dict[str, Any] = {
    "no JSON": b"x",
    "no keys": {"keys": []},
    "no list": {"keys": 5},
    "nothing": {},
    "a key without a kid": {"keys": [{**jwks.document({"k": STRANGER.public_key()})["keys"][0], "kid": ""}]},
    "a private key": {"keys": [{**jwks.document({"k": STRANGER.public_key()})["keys"][0], "d": "AAAA"}]},
    "a key for encryption": {"keys": [{**jwks.document({"k": STRANGER.public_key()})["keys"][0], "use": "enc"}]},
    "another algorithm": {"keys": [{**jwks.document({"k": STRANGER.public_key()})["keys"][0], "alg": "ES256"}]},
    "the same kid twice": {"keys": jwks.document({"k": STRANGER.public_key()})["keys"] * 2},
    "another kind of key": {"keys": [{"kty": "oct", "k": "AAAA", "kid": "k"}]},
    "a damaged key": {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "k"}]},
}


@pytest.mark.parametrize("name", WRONG_SETS)
def test_a_wrong_key_set_is_refused_at_the_start(tmp_path: Path, name: str) -> None:
    file = tmp_path / "jwks.json"
    content = WRONG_SETS[name]
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(jwks.KeySetError, match="private" if name == "a private key" else ""):
        jwks.read(file)


def test_a_key_set_survives_being_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(jwks.document({kid: key.public_key() for kid, key in KEYS.items()})))
    assert set(jwks.read(file)) == set(KEYS)
    with pytest.raises(jwks.KeySetError):
        jwks.read(tmp_path / "absent.json")


# Over the wire.


@pytest.mark.parametrize("operation", BEARER, ids=lambda operation: operation.id)
async def test_every_operation_asks_who_it_is(clients: Clients, operation: Any) -> None:
    sample = SAMPLES[operation.id]
    for bad in (None, "x", new_token(), token()):
        for data in (b"{", None):
            got = await sample.send(clients.with_token(bad), clients.live, data=data)
            assert (got.status, got.code) == (401, "invalid_token")
            assert got.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
            assert set(got.json) == {"type", "title", "status", "code", "instance", "request_id"}


async def test_a_token_counts_in_the_authorization_header_only(clients: Clients) -> None:
    good = clients.live.tokens["owner"]
    nobody = clients[None]
    assert (await nobody.get("/v1/spaces", headers={"Cookie": f"token={good}", "X-Authorization": good})).status == 401
    assert (await nobody.get(f"/v1/spaces?access_token={good}")).status == 401
    assert (await nobody.get("/v1/spaces", headers={"Authorization": good})).status == 401
    assert (await nobody.get("/v1/spaces", headers={"Authorization": f"Basic {good}"})).status == 401


def test_two_authorization_headers_are_no_way_around(live: Live) -> None:
    good = f"Authorization: Bearer {live.tokens['owner']}"
    assert exchange(live, request("GET", "/v1/spaces", "Authorization: Bearer x", good)).status in (400, 401)


async def test_a_revoked_token_ends_with_the_next_request(clients: Clients) -> None:
    fresh = clients.live.issue("alex")
    client = clients.with_token(fresh)
    assert (await client.get("/v1/spaces")).status == 200
    with connect(clients.live.dsn) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT id::text FROM livebox.access_tokens WHERE hash = decode(%s, 'hex')", (token_hash(fresh),)
        )
        row = cursor.fetchone()[0]
    connection.close()
    assert instance.revoke_token(clients.live.dsn, row)
    for method, path in (("GET", "/v1/spaces"), ("POST", f"/v1/threads/{ALEX}/messages")):
        body = SAMPLES["createMessage"].body if method == "POST" else None
        assert (await client.request(method, path, json=body)).code == "invalid_token"
    assert (await clients["alex"].get("/v1/spaces")).status == 200


async def test_an_expired_local_token_says_so_first_and_later(clients: Clients) -> None:
    fresh = clients.live.issue("alex")
    client = clients.with_token(fresh)
    assert (await client.get("/v1/spaces")).status == 200
    await asyncio.to_thread(_expire, clients.live.dsn, fresh)
    for _ in range(2):
        got = await client.get("/v1/spaces")
        assert (got.status, got.code) == (401, "token_expired")
        assert got.headers["WWW-Authenticate"] == 'Bearer error="token_expired"'


def _expire(dsn: str, expired: str) -> None:
    connection: psycopg2.extensions.connection = connect(dsn)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE livebox.access_tokens SET created_at = created_at - interval '2 days',"
            " expires_at = created_at - interval '1 day' WHERE hash = decode(%s, 'hex')",
            (token_hash(expired),),
        )
    connection.close()


async def test_disabling_a_principal_ends_its_tokens_of_both_kinds(own_jwt_live: tuple[Live, str]) -> None:
    live, _ = own_jwt_live
    async with client_session() as session:
        owner = Client(session, live.url, live.tokens["owner"])
        robin = live.world.principals["robin"]
        both = [Client(session, live.url, found) for found in (live.tokens["robin"], token(sub=robin))]
        for client in both:
            assert (await client.get("/v1/spaces")).status == 200
        assert (await owner.patch(f"/v1/principals/{robin}", {"status": "disabled"})).status == 200
        for client in both:
            assert (await client.get("/v1/spaces")).code == "invalid_token"
        assert (await owner.patch(f"/v1/principals/{robin}", {"status": "active"})).status == 200
        assert (await both[1].get("/v1/spaces")).status == 200


async def test_jwts_are_taken_over_the_wire_as_configured(own_jwt_live: tuple[Live, str]) -> None:
    live, _ = own_jwt_live
    sam = live.world.principals["sam"]
    async with client_session() as session:
        for kid in KEYS:
            got = await Client(session, live.url, token(KEYS[kid], kid, sub=sam)).get(f"/v1/principals/{sam}")
            assert got.json["handle"] == "sam"
        expired = await Client(session, live.url, token(sub=sam, exp=1)).get("/v1/spaces")
        assert expired.headers["WWW-Authenticate"] == 'Bearer error="token_expired"'
        nobody = await Client(session, live.url, token(sub="01933b7e-0000-7000-8000-00000000dead")).get("/v1/spaces")
        assert nobody.code == "invalid_token"


async def test_jwts_expire_by_the_clock_of_the_database(own_jwt_live: tuple[Live, str]) -> None:
    live, _ = own_jwt_live
    sam = live.world.principals["sam"]
    soon, later = token(sub=sam, exp=time.time() + 1800), token(sub=sam, exp=time.time() + 7200)
    with closing(connect(live.dsn)) as sql, sql.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS "
            "$$ SELECT clock_timestamp() + interval '1 hour' $$"
        )
    live.run(live.app._availability.touch())
    async with client_session() as session:
        assert (await Client(session, live.url, soon).get("/v1/spaces")).code == "token_expired"
        assert (await Client(session, live.url, later).get("/v1/spaces")).status == 200


@pytest.fixture
def own_jwt_live(world_copy: WorldCopy, tmp_path: Path) -> Iterator[tuple[Live, str]]:
    """A server that takes JWTs."""
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(jwks.document({kid: key.public_key() for kid, key in KEYS.items()})))
    settings: dict[str, Any] = {
        "auth__jwt_issuer": ISSUER,
        "auth__jwt_audience": AUDIENCE,
        "auth__jwt_jwks_file": str(file),
    }
    with live_server(world_copy, tmp_path / "data", **settings) as live:
        yield live, str(file)
