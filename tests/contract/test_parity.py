"""Production and connexion read one contract: what one takes the other takes, and refusals are of one class.

connexion reads the contract in OpenAPI 3.0, which says less. What comes of that is listed in
`parity_differences.yaml`, by name and reason; the list can only shrink.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from generated.operations import OPERATIONS
from livebox.edge import Edge
from livebox.mock.asgi import App
from livebox.mock.rest import DOCUMENT, application
from tests.contract.parity_corpus import Case, corpus, operations
from tests.contract.parity_readers import connexion, connexion_status, edge, edge_status
from tests.mock.unseen import unseen

LISTED = {
    entry["rule"]: entry["reason"]
    for entry in yaml.safe_load((Path(__file__).parent / "parity_differences.yaml").read_text())
}


class Judged(NamedTuple):
    """A request with what production and connexion answer."""

    case: Case
    ours: int
    theirs: int

    @property
    def differs(self) -> bool:
        return self.ours // 100 != self.theirs // 100


def listed(rule: str, names: dict[str, str]) -> bool:
    return any(fnmatchcase(rule, name) for name in names)


def findings(judged: list[Judged], names: dict[str, str]) -> list[str]:
    """What is wrong with the list of differences: those missing from it, and those that no longer occur."""
    found = [
        f"{case.name} breaks {case.rule or 'nothing'}: {ours} here, {theirs} by connexion"
        for case, ours, theirs in (item for item in judged if item.differs)
        if not listed(case.rule, names)
    ]
    for name in names:
        of_it = [item for item in judged if fnmatchcase(item.case.rule, name)]
        found += [f"{name}: judged alike in {item.case.name}" for item in of_it if not item.differs]
        if not of_it:
            found.append(f"{name}: nothing breaks it any more")
    return found


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return corpus()


@pytest.fixture
async def judged(cases: list[Case]) -> list[Judged]:
    return await judge(edge(), connexion(), cases)


async def judge(ours: Edge, theirs: App, cases: list[Case]) -> list[Judged]:
    """Both readers on some requests. What the stubs behind them answer is nothing of the contract."""
    with unseen():
        return [Judged(case, await edge_status(ours, case), await connexion_status(theirs, case)) for case in cases]


async def test_both_readers_take_and_refuse_the_same(judged: list[Judged]) -> None:
    wrong = [f"{case.name}: {ours}" for case, ours, _ in judged if (ours < 400) != case.valid]
    assert wrong == [], "production takes what is valid and refuses what is broken"
    assert findings(judged, LISTED) == []
    others = [
        f"{case.name}: {ours}, {theirs}" for case, ours, theirs in judged if min(ours, theirs) >= 400 and ours != theirs
    ]
    assert others == [], "refusals have the same status, not only the same class"
    server_errors = [case.name for case, *statuses in judged if max(statuses) >= 500]
    assert server_errors == []


def test_the_corpus_asks_for_everything(cases: list[Case]) -> None:
    assert {operation.id for operation in operations()} == set(OPERATIONS)
    names = {case.name for case in cases}
    assert len(names) == len(cases) > 1000
    for operation in operations():
        own = [case for case in cases if case.name.startswith(f"{operation.id} ")]
        assert any(case.valid for case in own), operation.id
        rules = {case.rule for case in own}
        for parameter in operation.parameters:
            assert any(parameter.name in case.name and not case.valid for case in own), (operation.id, parameter.name)
        if not operation.public:
            assert "no token" in rules
        if operation.body:
            assert {"no JSON", "other media type", "no null"} <= rules, operation.id
            assert ("no body" in rules) == operation.body_required
    broken = {case.rule.split("/")[-1] for case in cases if case.rule.startswith("/")}
    assert broken >= {
        "type", "enum", "const", "minimum", "maximum", "minLength", "maxLength", "pattern", "additionalProperties",
        "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "propertyNames", "oneOf", "no null",
    }  # fmt: skip
    assert any("/required/" in case.rule for case in cases)


def test_what_is_listed_of_schemas_is_what_the_older_document_lost() -> None:
    """The differences of schemas are no surprise: whoever made the document in OpenAPI 3.0 said so in it."""
    lost = json.loads(DOCUMENT.read_bytes())["x-losses"]
    for name in LISTED:
        if name.startswith("*/"):
            assert any(fnmatchcase(pointer, name) for pointer in lost), name
    assert all(reason.endswith(".") for reason in LISTED.values())


async def test_a_reader_that_forgets_a_constraint_is_found(cases: list[Case]) -> None:
    """The test can fail: connexion on a document without one limit."""
    forgetful = json.loads(DOCUMENT.read_bytes())
    del forgetful["components"]["schemas"]["Summary"]["maxLength"]
    some = [case for case in cases if case.rule == "/components/schemas/Summary/maxLength"]
    found = await judge(edge(), application(forgetful), some)
    assert found
    assert len(findings(found, {})) == len(found)


def test_the_list_can_only_shrink() -> None:
    same = Judged(Case("a b", "/x/maxLength", False, "GET", "/", {}, None), 400, 400)
    other = same._replace(theirs=200)
    assert findings([same], {}) == []
    assert findings([other], {}) != []
    assert findings([other], {"*/maxLength": "why"}) == []
    assert findings([other, same], {"*/maxLength": "why"}) != [], "a part of it no longer occurs"
    assert findings([same], {"*/maxLength": "why"}) != [], "it no longer occurs"
    assert findings([], {"*/maxLength": "why"}) != []
