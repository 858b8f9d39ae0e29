"""docs/reasons.md: why runs end and why messages open none, from the rows of the migrations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

PAGE: Final = "docs/reasons.md"

_INSERT = r"INSERT\s+INTO\s+livebox\.{0}\s*\([^)]*\)\s*VALUES\s*(.*?);"
_ROW = re.compile(r"\(([^()]*)\)")
_VALUE = re.compile(r"'([^']*)'")

_MEANINGS: Final[Mapping[str, str]] = {
    "access_revoked": "the person may no longer read where the run is",
    "adapter_error": "the agent's adapter failed, or gave a reason that it may not give",
    "agent_disabled": "the agent is disabled",
    "agent_not_allowed_here": "the agent neither operates here nor is a guest that may be mentioned and has `write`",
    "agent_unavailable": "no adapter of the agent took the run in time",
    "billing_mode_mismatch": "the runtime bills in another mode than the run expects",
    "billing_mode_personal_not_holder": "the agent works on a credential of its own holder, who is somebody else",
    "budget_exhausted": "the run reached its own budget",
    "cancel_timeout": "cancelling was asked for, and the adapter did not answer in time",
    "channel_read_only": "the channel was set read-only",
    "dev_environment_not_ready": "the agent's development environment is not ready",
    "followup_limit": "as many follow-ups as may (`run.followups_max`) wait on the run already",
    "interrupted": "the session that held the run closed and gave no more sign of life",
    "invalid_invocation_token": "the adapter could not verify its invocation token",
    "multiple_agents_mentioned": "the message mentions more than one agent",
    "no_trigger_right": "the person's level is below `trigger`",
    "project_not_ready": "the project is not ready for agents",
    "run_active_other_agent": "another agent has the active run of the thread",
    "runtime_error": "the agent's runtime crashed or answered with an error",
    "runtime_not_authenticated": "the agent's runtime is not logged in",
    "stale": "nothing was heard of the running run for too long",
    "thread_deleted": "the thread was deleted",
    "tool_class_mismatch": "the runtime has tools that this run may not use",
    "tool_class_owner_only": "the agent's tools are for owners only",
    "user_cancelled": "a person cancelled it",
    "user_disabled": "the person who triggered it was disabled",
}

_HEAD = """\
<!-- Made by `make generate` from the rows of run_reasons and rejection_reasons in db/migrations. -->

# Reasons

A run that `failed` or was `cancelled` says why in `state_reason`; no other run has one. The rows of one table are
the only list: the database takes no other code. An adapter may give the codes that are the adapter's or both's; what
else it says becomes `adapter_error`, and its own words are kept in a step named `adapter_reason`.

| code | end | given by | meaning |
| --- | --- | --- | --- |"""

_REJECTED = """\

A person's message that asked an agent for work and opened no run has `trigger_state: failed`, and says why in
`trigger_state_reason` by one of these codes. A message that did open one has the reason of its run there.

| code | meaning |
| --- | --- |"""


class ReasonsError(Exception):
    """The rows cannot be read or explained; the text says what to do."""


def page(root: Path) -> dict[str, str]:
    """The page by its path from `root`, the root of the repository. Raises ReasonsError."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((root / "db" / "migrations").glob("*.sql"))]
    ends, rejections = rows("run_reasons", texts), rows("rejection_reasons", texts)
    lines = [_HEAD]
    lines += [f"| `{code}` | {state} | {setter} | {_meaning(code)} |" for code, state, setter in ends]
    lines.append(_REJECTED)
    lines += [f"| `{code}` | {_meaning(code)} |" for (code,) in rejections]
    return {PAGE: "\n".join(lines) + "\n"}


def rows(table: str, migrations: Iterable[str]) -> list[tuple[str, ...]]:
    """The rows that the migrations insert into a table of ours, in their order."""
    found = [
        tuple(_VALUE.findall(row))
        for text in migrations
        for insert in re.findall(_INSERT.format(table), text, re.IGNORECASE | re.DOTALL)
        for row in _ROW.findall(insert)
    ]
    if not found:
        raise ReasonsError(f"no migration inserts into {table}")
    return found


def _meaning(code: str) -> str:
    if code not in _MEANINGS:
        raise ReasonsError(f"the reason {code} has no meaning: give it one in reasons.py")
    return _MEANINGS[code]
