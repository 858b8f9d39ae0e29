"""Reference pages of docs/ that are made: configuration from the key declarations, errors from the contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from livebox.key import Key
from livebox.keys import FITTING, FRACTIONS, KEYS, ORDERED

_METHODS = ("get", "put", "post", "delete", "patch")
_NOTE = "<!-- Made by `make generate`; change {source} instead. -->\n"

_CONFIGURATION = """\
# Configuration

Every key is set by an environment variable. All are read once, at start, and checked together: a process with
a wrong one does not start, and says every key that is wrong with its bound. A variable that begins with
`LIVEBOX_` and is no key is refused too, so that a misspelt one cannot pass unseen. `livebox config` prints what
is in effect.

Times are seconds or carry a unit (`500ms`, `30s`, `15m`, `24h`, `7d`); sizes are bytes or carry one (`64KiB`,
`1MiB`); flags are `1` or `0`."""

_ERRORS = """\
# Errors

Every error is one `application/problem+json` object (RFC 9457): `type`, `title`, `status`, `code`, `instance`
and `request_id`, where it helps `detail`, and `errors` with one entry per wrong value (`code`, its `pointer` in
the body or the `parameter`, `message`). Programs look at `code`; texts may change. What you may not see answers
`not_found`, exactly like what does not exist.

| code | status | meaning | answered by |
| --- | --- | --- | --- |"""

_ERROR_HEADERS = """\
An answer with status 429 or 503 carries `Retry-After`; one with 401 carries `WWW-Authenticate`; one with 405
carries `Allow`."""

_TITLES = {
    "data": "Storage",
    "database": "Storage",
    "http": "Serving",
    "log": "Serving",
    "check": "Serving",
    "metrics": "Serving",
    "api": "The REST contract",
    "idempotency": "The REST contract",
    "rl": "The REST contract",
    "authz": "The REST contract",
    "auth": "Tokens",
    "invocation": "Tokens",
    "run": "Runs",
    "event": "The event log",
    "events": "The event log",
    "snapshot": "The event log",
    "db": "The database",
    "lane": "The database",
    "jobs": "What runs by itself",
    "service": "What runs by itself",
    "client": "The command line",
}
_SIZES = ((1024**2, "MiB"), (1024, "KiB"))
_TIMES = ((86400, "d"), (3600, "h"), (60, "min"))


def pages(openapi: Mapping[str, Any]) -> dict[str, str]:
    """The pages by path from the root of the repository; `openapi` is the contract as it was read."""
    return {"docs/configuration.md": configuration(), "docs/errors.md": errors(openapi)}


def configuration() -> str:
    """docs/configuration.md: every key with its variable, unit, default and bounds."""
    lines = [_NOTE.format(source="livebox/keys.py"), _CONFIGURATION]
    for title, keys in groupby(KEYS.values(), lambda key: _TITLES.get(key.name.split(".")[0], "More")):
        lines += [
            "",
            f"## {title}",
            "",
            "| key | variable | default | bounds | what for |",
            "| --- | --- | --- | --- | --- |",
        ]
        lines += [_row(key) for key in keys]
    lines += ["", "## Together", ""]
    lines += [f"- `{small}` must not be above `{large}`." for small, large in ORDERED]
    lines += [f"- `{small}` must be at most {FRACTIONS[parts]} of `{large}`." for small, parts, large in FITTING]
    return "\n".join(lines) + "\n"


def errors(openapi: Mapping[str, Any]) -> str:
    """docs/errors.md: every problem code with its status, and the operations that may answer it."""
    problems: Mapping[str, Mapping[str, Any]] = openapi["x-problem-codes"]
    answering: dict[str, list[str]] = {code: [] for code in problems}
    for operation in _operations(openapi):
        for code in operation.get("x-problem-codes", ()):
            answering[code].append(operation["operationId"])
    everywhere = len(list(_operations(openapi))) // 3
    lines = [_NOTE.format(source="openapi.yaml"), _ERRORS]
    for code, problem in problems.items():
        operations = sorted(answering[code])
        by = ", ".join(f"`{name}`" for name in operations) if len(operations) <= everywhere else "most operations"
        lines.append(f"| `{code}` | {problem['status']} | {problem['title']} | {by or 'any request'} |")
    wrong = openapi.get("components", {}).get("schemas", {}).get("FieldErrorCode", {}).get("enum", [])
    if wrong:
        lines += ["", "An entry of `errors` has one of these codes: " + ", ".join(f"`{code}`" for code in wrong) + "."]
    return "\n".join([*lines, "", _ERROR_HEADERS]) + "\n"


def _operations(openapi: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for path in openapi["paths"].values():
        for method in _METHODS:
            if method in path:
                yield path[method]


def _row(key: Key) -> str:
    secret = " Secret: never shown." if key.secret else ""
    return f"| `{key.name}` | `{key.variable}` | {_default(key)} | {_bounds(key)} | {key.purpose}.{secret} |"


def _default(key: Key) -> str:
    if key.unit == "flag":
        return "1" if key.default else "0"
    if isinstance(key.default, str):
        return f"`{key.default}`" if key.default else "-"
    return _quantity(key, key.default)


def _bounds(key: Key) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    if key.minimum is None or key.maximum is None:
        return "-"
    return f"{_quantity(key, key.minimum)} to {_quantity(key, key.maximum)}"


def _quantity(key: Key, value: float) -> str:
    units = _SIZES if key.unit == "bytes" else _TIMES if key.unit == "s" else ()
    for size, unit in units:
        if value >= size and value % size == 0:
            return f"{value // size:g} {unit}"
    number = f"{value:.10g}" if isinstance(value, float) else str(value)
    if key.unit == "1/s":
        return f"{number}/s"
    return number if key.unit in ("count", "ratio") else f"{number} {key.unit}"
