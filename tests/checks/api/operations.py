"""Rules 3xx and 4xx: what an operation takes and answers, and how it says no."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.checks.api.contract import Contract, Finding, Operation, rule
from tests.checks.api.names import SNAKE

PROBLEM = "application/problem+json"
OTHER_PAGING = {"offset", "page", "page_size", "per_page", "skip", "start", "total", "total_count", "count"}
OWN_ID = re.compile(r"client_[a-z]+_id")


def _schema(contract: Contract, response: dict) -> dict:  # type: ignore[type-arg]
    content = response.get("content", {}).get("application/json", {})
    return contract.whole(content["schema"]) if "schema" in content else {}


@rule(301)
def summaries(contract: Contract) -> Iterator[Finding]:
    declared = {tag["name"] for tag in contract.rest.get("tags", ())}
    for operation in contract.operations:
        summary = operation.raw.get("summary", "")
        if not re.fullmatch(r"[A-Z][^\n]{2,58}[^\n.]", summary):
            yield operation.pointer, f"the summary {summary!r} is not one short line with a capital and no full stop"
        if len(operation.raw.get("tags", ())) != 1 or not set(operation.raw["tags"]) <= declared:
            yield operation.pointer, "has not exactly one of the declared tags"
    for tag in contract.rest.get("tags", ()):
        if not tag.get("description", "").strip():
            yield "openapi.yaml#/tags", f"the tag {tag['name']} is not described"


@rule(302)
def descriptions(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        for parameter in operation.parameters:
            if not parameter.raw.get("description", "").strip():
                yield parameter.pointer, f"the parameter {parameter.name} is not described"
        for pointer, _, response in contract.responses(operation):
            if not response.get("description", "").strip():
                yield pointer, "the answer is not described"


@rule(303)
def kinds(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        kind, rate = operation.raw.get("x-kind"), operation.raw.get("x-rate-class")
        if kind != ("read" if operation.method == "get" else "write"):
            yield operation.pointer, f"{operation.method} with x-kind {kind}"
        public = operation.raw.get("security") == [] or {} in operation.raw.get("security", [])
        if not public and rate not in (("read",) if kind == "read" else ("write", "patch")):
            yield operation.pointer, f"x-rate-class {rate} of a {kind}"
        if operation.method in ("get", "delete") and "requestBody" in operation.raw:
            yield operation.pointer, f"{operation.method} with a body"


@rule(304)
def pages(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        if not operation.id.startswith("list"):
            continue
        shared = {parameter.component for parameter in operation.parameters}
        if not {"Limit", "Cursor"} <= shared:
            yield operation.pointer, "a list without the shared parameters Limit and Cursor"
        response = contract.follow(operation.raw["responses"].get("200", {}))
        name = response.get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", "")
        schema = _schema(contract, response)
        whole = {"items", "next_cursor"} <= schema.get("properties", {}).keys() and schema.get("required") == ["items"]
        if not whole or not name.endswith("Page"):
            yield operation.pointer, "a list whose answer is no Page of items, with next_cursor where there is more"


@rule(305)
def paging_words(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        for parameter in operation.parameters:
            if parameter.raw["in"] == "query" and parameter.name in OTHER_PAGING:
                yield parameter.pointer, f"pages by {parameter.name}"
    for pointer, schema in contract.schemas:
        if pointer.endswith("Page") and (wrong := OTHER_PAGING & schema.get("properties", {}).keys()):
            yield pointer, f"a page that counts: {', '.join(sorted(wrong))}"


@rule(306)
def conditional(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        answers = {status: response for _, status, response in contract.responses(operation)}
        tagged = operation.method == "get" and "ETag" in answers.get("200", {}).get("headers", {})
        if len({tagged, operation.takes("If-None-Match"), "304" in answers}) != 1:
            yield operation.pointer, "ETag, If-None-Match and 304 go together"


@rule(307)
def tags(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        for pointer, status, response in contract.responses(operation):
            versioned = status in ("200", "201") and {"id", "version"} <= set(
                _schema(contract, response).get("required", ())
            )
            if versioned and "ETag" not in response.get("headers", {}):
                yield pointer, "an object with a version and no ETag"


@rule(308)
def preconditions(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        parts = {
            operation.takes("If-Match"),
            "412" in operation.raw["responses"],
            "version_mismatch" in operation.codes,
        }
        if len(parts) != 1:
            yield operation.pointer, "If-Match, 412 and version_mismatch go together"


@rule(309)
def idempotency(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        key = operation.takes("Idempotency-Key")
        if operation.method == "post" and "201" in operation.raw["responses"]:
            body = contract.follow(operation.raw.get("requestBody", {})).get("content", {}).get("application/json", {})
            members = contract.whole(body["schema"]).get("required", ()) if body else ()
            if not key and not any(OWN_ID.fullmatch(name) for name in members):
                yield operation.pointer, "creates something and could not be repeated safely"
        if key and "idempotency_key_reused" not in operation.codes:
            yield operation.pointer, "takes Idempotency-Key and does not answer idempotency_key_reused"


@rule(310)
def media_types(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        body = contract.follow(operation.raw.get("requestBody", {}))
        if body and list(body["content"]) != ["application/json"]:
            yield operation.pointer, "a body that is not application/json"
        elif body and bool(_schema(contract, body).get("required")) and body.get("required") is not True:
            yield operation.pointer, "a body that must hold something and may be left out"
        for pointer, status, response in contract.responses(operation):
            if (status in ("204", "304")) == ("content" in response):
                yield pointer, f"{status} {'with' if 'content' in response else 'without'} content"


@rule(311)
def request_ids(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        for pointer, _, response in contract.responses(operation):
            if "Request-Id" not in response.get("headers", {}):
                yield pointer, "an answer without Request-Id"


@rule(401)
def codes(contract: Contract) -> Iterator[Finding]:
    known = contract.rest.get("x-problem-codes", {})
    for operation in contract.operations:
        if not {"validation_failed", "internal_error"} <= set(operation.codes):
            yield operation.pointer, "does not answer validation_failed or internal_error"
        for code in operation.codes:
            if code not in known or operation.codes.count(code) > 1:
                yield operation.pointer, f"the problem code {code} is not known, or there twice"


@rule(402)
def problems(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        for pointer, status, response in contract.responses(operation):
            content = response.get("content", {})
            if int(status) >= 400 and list(content) != [PROBLEM]:
                yield pointer, f"an error that is not only {PROBLEM}"
            if PROBLEM in content and not content[PROBLEM]["schema"].get("$ref", "").endswith("/Problem"):
                yield pointer, "a problem that is not Problem"


@rule(403)
def statuses(contract: Contract) -> Iterator[Finding]:
    known = contract.rest.get("x-problem-codes", {})
    for operation in contract.operations:
        coded = {str(known[code]["status"]) for code in operation.codes if code in known}
        declared = {
            status for _, status, response in contract.responses(operation) if PROBLEM in response.get("content", {})
        }
        for status in sorted(coded ^ declared):
            yield (
                operation.pointer,
                f"{status} has {'no problem code' if status in declared else 'a code and no answer'}",
            )


@rule(404)
def hints(contract: Contract) -> Iterator[Finding]:
    wanted = {"401": "WWW-Authenticate", "429": "Retry-After", "503": "Retry-After"}
    for operation in contract.operations:
        for pointer, status, response in contract.responses(operation):
            if status in wanted and wanted[status] not in response.get("headers", {}):
                yield pointer, f"{status} without {wanted[status]}"


@rule(405)
def together(contract: Contract) -> Iterator[Finding]:
    for operation in contract.operations:
        missing = _implied(contract, operation) - set(operation.codes)
        if missing:
            yield operation.pointer, f"could answer {', '.join(sorted(missing))} and does not say so"


def _implied(contract: Contract, operation: Operation) -> set[str]:
    implied: set[str] = set()
    security = operation.raw.get("security", contract.rest.get("security", []))
    if security and {} not in security:
        implied |= {"invalid_token", "token_expired", "rate_limited"}
        # What is put where nothing was need not be there.
        if operation.method != "put" and any(parameter.raw["in"] == "path" for parameter in operation.parameters):
            implied.add("not_found")
    if "requestBody" in operation.raw:
        implied |= {"invalid_json", "body_too_large", "unsupported_media_type"}
    if operation.takes("cursor"):
        implied.add("cursor_invalid")
    return implied


@rule(406)
def code_list(contract: Contract) -> Iterator[Finding]:
    listed = contract.rest.get("x-problem-codes", {})
    enum = contract.rest["components"]["schemas"].get("ProblemCode", {}).get("enum", ())
    for code in sorted(set(enum) ^ set(listed)):
        yield "openapi.yaml#/components/schemas/ProblemCode", f"{code} is in one list and not in the other"
    for code, problem in listed.items():
        pointer = f"openapi.yaml#/x-problem-codes/{code}"
        if not SNAKE.fullmatch(code):
            yield pointer, f"the problem code {code!r} is not in snake_case"
        if not 400 <= problem["status"] < 600 or not re.fullmatch(r"[A-Z][^\n]*[^\n.]", problem["title"]):
            yield pointer, "its status is no error, or its title not one line with a capital and no full stop"
