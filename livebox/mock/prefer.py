"""`Prefer` (RFC 7240): which of the contract's answers a client wants from the mock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from generated.field_errors import FieldError
from generated.problems import PROBLEMS
from livebox.responses import PROBLEM_JSON, Refusal, problem_document

PREFER: Final = "Prefer"
MAX_DETAIL: Final = 1000
MAX_SHOWN: Final = 60
"""Characters of a wrong name that are told again, so that there is room for the right ones."""

#: One preference: its name, its value, and parameters that mean nothing here.
_PREFERENCE: Final = re.compile(
    r"""[\s,]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,;"]*))?(?:\s*;[^,]*)?\s*(?=,|$)"""
)


class Wanted(NamedTuple):
    """What was asked for; empty where nothing was."""

    example: str = ""
    code: str = ""


class Example(NamedTuple):
    """One answer of the contract: `media` and `name` are empty where there is nothing to show."""

    status: int
    media: str
    name: str
    value: Any
    headers: Mapping[str, Any]


def wanted(lines: Iterable[str]) -> Wanted:
    """The preferences `example` and `code` of these header lines; of each the first counts."""
    found: dict[str, str] = {}
    for name, value in _PREFERENCE.findall(",".join(lines)):
        text = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        found.setdefault(name.lower(), text)
    return Wanted(found.get("example", ""), found.get("code", ""))


def examples(responses: Mapping[str, Any], codes: Iterable[str] = ()) -> list[Example]:
    """Every answer that an operation declares, the one that is given unasked first.

    `codes` are its problem codes. Problems that it does not have are left out of what several operations share, and
    those that have no example are there by their code.
    """
    codes = list(codes)
    found = []
    for status in sorted(responses, key=int):
        headers = responses[status].get("headers", {})
        contents = responses[status].get("content", {})
        there = [
            Example(int(status), media, name, example["value"], headers)
            for media, content in contents.items()
            for name, example in content["examples"].items()
            if media != PROBLEM_JSON or example["value"]["code"] in codes
        ]
        shown = {example.value["code"] for example in there if example.media == PROBLEM_JSON}
        if PROBLEM_JSON in contents:
            missing = [code for code in codes if PROBLEMS[code][0] == int(status) and code not in shown]
            there += [_problem(code, headers) for code in missing]
        found += there or [Example(int(status), "", "", None, headers)]
    return found


def _problem(code: str, headers: Mapping[str, Any]) -> Example:
    document = problem_document(code, "", "")
    return Example(document["status"], PROBLEM_JSON, code, document, headers)


def choose(operation_id: str, known: list[Example], asked: Wanted) -> Example:
    """The answer that was asked for. Raises Refusal for a name or status that the operation does not have."""
    there = [example for example in known if asked.code in ("", str(example.status))]
    if not there:
        raise _unknown(operation_id, known, f"There is no status {asked.code[:MAX_SHOWN]!r}.")
    if not asked.example:
        return there[0]
    for example in there:
        if example.name == asked.example:
            return example
    raise _unknown(operation_id, there, f"There is no example {asked.example[:MAX_SHOWN]!r}.")


def _unknown(operation_id: str, known: list[Example], what: str) -> Refusal:
    names: dict[int, list[str]] = {}
    for example in known:
        names.setdefault(example.status, []).extend([example.name] if example.name else [])
    told = "; ".join(" ".join([f"{status}:" if there else str(status), ", ".join(there)]).strip()
                     for status, there in names.items())  # fmt: skip
    error = FieldError("not_allowed_value", "parameter", PREFER, "This operation has no such answer; see `detail`.")
    return Refusal("validation_failed", [error], detail=f"{what} {operation_id} has {told}."[:MAX_DETAIL])
