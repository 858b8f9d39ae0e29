"""The rules of docs/api-rules.md, each by its check."""

from __future__ import annotations

from collections.abc import Iterator

from livebox.codegen.documents import DocumentError, Documents, load
from tests.checks.api import gateway, names, operations, payloads
from tests.checks.api.contract import RULES, Contract
from tests.checks.tree import Tree

__all__ = ["EXCEPTIONS", "RULES", "broken", "problems"]

MODULES = (names, payloads, operations, gateway)

_SCHEMAS = "openapi.yaml#/components/schemas"
_PATHS = "openapi.yaml#/paths"
#: Where a rule does not hold, and why. One that is not needed any more is an error.
EXCEPTIONS: dict[tuple[int, str], str] = {
    (102, f"{_PATHS}/~1metrics"): "where scrapers look",
    (102, f"{_PATHS}/~1openapi.json"): "where tools look",
    (102, f"{_PATHS}/~1asyncapi.json"): "where tools look",
    (102, f"{_PATHS}/~1.well-known~1jwks.json"): "where RFC 8615 puts it",
    (103, f"{_PATHS}/~1v1~1runs~1{{run_id}}~1spend~1{{entry_id}}"): "spend has no plural",
    (106, f"{_SCHEMAS}/Jwk"): "the names of RFC 8037",
    (109, f"{_SCHEMAS}/Problem/properties/request_id"): "made by the server before it knows the request",
    (109, f"{_SCHEMAS}/Run/properties/external_id"): "of somebody else's scheme",
    (109, f"{_SCHEMAS}/RegisterRunRequest/properties/external_id"): "of somebody else's scheme",
    (109, f"{_SCHEMAS}/AgentRunSnapshot/properties/run_id"): "of its publisher's scheme",
    (205, f"{_SCHEMAS}/PatchOp/properties/value"): "what it is depends on the path; null is refused before",
    (207, f"{_SCHEMAS}/GovernanceEvent"): "a control plane's own JSON",
    (207, f"{_SCHEMAS}/StepDetail"): "an agent's own JSON",
    (207, f"{_SCHEMAS}/EventEnvelope"): "each event closes it with its payload",
    (207, f"{_PATHS}/~1openapi.json"): "its form is that of OpenAPI",
    (207, f"{_PATHS}/~1asyncapi.json"): "its form is that of AsyncAPI",
    (304, f"{_PATHS}/~1v1~1events"): "a log is read on by position, without an end",
    (402, f"{_PATHS}/~1v1~1readiness"): "who asks reads the same checks, ready or not",
    (209, f"{_PATHS}/~1openapi.json"): "its form is that of OpenAPI",
    (209, f"{_PATHS}/~1asyncapi.json"): "its form is that of AsyncAPI",
}


def broken(documents: Documents) -> Iterator[tuple[int, str, str]]:
    """The number of the rule, the pointer and what is wrong, exceptions included."""
    contract = Contract(documents)
    for number, check in sorted(RULES.items()):
        for pointer, what in check(contract):
            yield number, pointer, what


def problems(tree: Tree) -> Iterator[str]:
    """Each finding as `path:line: what`."""
    try:
        documents = load(tree.root)
    except DocumentError as error:
        yield f"openapi.yaml:1: {error}"
        return
    needed: set[tuple[int, str]] = set()
    for number, pointer, what in broken(documents):
        excepted = {key for key in EXCEPTIONS if key[0] == number and (f"{pointer}/").startswith(f"{key[1]}/")}
        needed |= excepted
        if not excepted:
            yield f"{pointer.partition('#')[0]}:1: rule {number}: {pointer.partition('#')[2]}: {what}"
    for number, pointer in EXCEPTIONS.keys() - needed:
        yield f"tests/checks/api_rules.py:1: rule {number} needs no exception at {pointer}"
