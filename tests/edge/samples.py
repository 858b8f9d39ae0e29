"""A valid request of each operation, made from the examples of the contract, so that a new operation has one too."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from generated.operations import OPERATIONS, Operation
from generated.validators import BODY_ERRORS
from livebox.service import openapi_document
from tests.fixtures.server import Client, Got, Live, dumps

_CONTRACT = json.loads(openapi_document())

BEARER = [operation for operation in OPERATIONS.values() if operation.security != "public"]
WITH_BODY = [operation for operation in OPERATIONS.values() if operation.has_body]
LISTS = [operation for operation in OPERATIONS.values() if operation.cursor]


class Sample(NamedTuple):
    """A request that the contract takes: what it names need not exist."""

    operation: Operation
    path: str
    body: Any

    async def send(self, client: Client, live: Live, **more: Any) -> Got:
        """Send it, with an invocation token where one is wanted; `more` replaces or adds."""
        headers = {**self.headers(live, client), **more.pop("headers", {})}
        more.setdefault("data", None if self.body is None else dumps(self.body))
        path = more.pop("path", self.path)
        return await client.request(more.pop("method", self.operation.method), path, headers=headers, **more)

    def headers(self, live: Live, _client: Client | None = None) -> dict[str, str]:
        """The headers that the operation wants beside authorization."""
        if self.operation.security != "invocation":
            return {}
        token = live.app.invocations.mint(
            run_id=self.path.split("/")[3],
            agent_id=live.world.principals["lotse"],
            jti="01933b7e-0000-7000-8000-0000000000e1",
            claim_id="0193a000-0000-4000-8000-0000000000b1",
            expires_at=4e9,
        )
        return {"Livebox-Invocation": token}


def sample(operation: Operation) -> Sample:
    """The sample of one operation."""
    item = _CONTRACT["paths"][operation.path]
    spec = item[operation.method.lower()]
    path = operation.path
    for parameter in map(_resolved, [*item.get("parameters", ()), *spec.get("parameters", ())]):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(parameter["example"]))
    return Sample(operation, path, body_of(spec))


def body_of(spec: Any) -> Any:
    """The first example of a request body, None without one."""
    content = spec.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return None
    example = next(iter(content["examples"].values()))
    return copy.deepcopy(_resolved(example)["value"])


def _resolved(node: Any) -> Any:
    while "$ref" in node:
        found: Any = _CONTRACT
        for token in node["$ref"].split("/")[1:]:
            found = found[token]
        node = found
    return node


SAMPLES = {name: sample(operation) for name, operation in OPERATIONS.items()}


def text_members(operation: Operation) -> Iterator[str]:
    """The top members of an operation's body that take a text, found by trying."""
    body = SAMPLES[operation.id].body
    for name, value in body.items():
        if isinstance(value, str) and not BODY_ERRORS[operation.id](body):
            yield name


def test_every_operation_has_a_sample_that_the_contract_takes() -> None:
    """The other tests would prove nothing with requests that are refused anyway."""
    for name, found in SAMPLES.items():
        assert "{" not in found.path
        if found.operation.has_body:
            assert BODY_ERRORS[name](found.body) == []
