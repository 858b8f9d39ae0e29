"""Readers that others wrote take the document of the gateway: the parser of the AsyncAPI project and asyncapi-python.

That the models of the latter take every frame is seen in all tests (`fixtures.readers`); here is that they look at all.
Who reads the documents of the REST interface stands in `test_documents` and `test_generator_downconversion`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from generated.gateway_messages import MESSAGES
from tests.contract.instances import broken
from tests.fixtures import gateway_models

ROOT = Path(__file__).parents[2]
PARSER = ROOT / "node_modules/@asyncapi/parser/package.json"
ASYNCAPI = json.loads((ROOT / "generated/asyncapi.json").read_bytes())
ERROR, WARNING = 0, 1
EXPLAINED = {
    "asyncapi-latest-version": "the contract is AsyncAPI 3.0: asyncapi-python reads no later one",
}
"""What the parser remarks, by its code, and why it stays."""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the AsyncAPI parser found in both documents and in a broken one, and said of them, by their names."""
    if shutil.which("node") is None or not PARSER.is_file():
        pytest.skip("@asyncapi/parser is not installed (npm install)")
    wrong = tmp_path_factory.mktemp("documents") / "broken.json"
    shout = {"sendReady": {"action": "shout", "channel": {"$ref": "#/channels/gateway"}}}
    wrong.write_text(json.dumps({**ASYNCAPI, "operations": shout}))
    files = [ROOT / "asyncapi.yaml", ROOT / "generated/asyncapi.json", wrong]
    command = ["node", str(Path(__file__).with_name("asyncapi_parser.mjs")), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return {Path(name).name: found for name, found in json.loads(done.stdout).items()}


@pytest.mark.parametrize("document", ["asyncapi.yaml", "asyncapi.json"])
def test_the_asyncapi_parser_takes_the_gateway_document(parsed: Any, document: str) -> None:
    found = parsed[document]
    unexplained = [said for said in found["said"] if said["code"] not in EXPLAINED or said["severity"] <= WARNING]
    assert unexplained == []
    assert sorted(found["messages"]) == sorted(MESSAGES)


def test_the_asyncapi_parser_refuses_a_broken_document(parsed: Any) -> None:
    assert any(said["severity"] == ERROR for said in parsed["broken.json"]["said"])


def examples() -> list[tuple[str, Any]]:
    """The examples of each message of the gateway."""
    return [
        (message["name"], example["payload"])
        for message in ASYNCAPI["components"]["messages"].values()
        for example in message["examples"]
    ]


def test_asyncapi_python_has_a_model_of_every_frame() -> None:
    assert gateway_models.models().keys() == MESSAGES.keys()


@pytest.mark.parametrize(("name", "payload"), examples(), ids=lambda value: value if isinstance(value, str) else "")
def test_the_models_take_the_examples_and_refuse_broken_ones(name: str, payload: Any) -> None:
    assert gateway_models.findings(json.dumps(payload).encode()) == []
    schema = ASYNCAPI["components"]["schemas"][gateway_models.models()[name].__name__]
    for member in schema["required"]:
        partial = {key: value for key, value in payload.items() if key != member}
        assert gateway_models.findings(json.dumps(partial).encode()) != []
    wrong = [value for value in broken(schema, payload) if isinstance(value, dict)]
    refused = [value for value in wrong if gateway_models.findings(json.dumps(value).encode())]
    assert len(refused) >= len(schema["required"])
