"""Runs schemathesis, as a process of its own, against a live server: its configuration, its command and what it said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from generated.operations import OPERATIONS
from tests.fixtures.serving import UNMEASURED
from tests.fixtures.stage import ROOM, Stage

ROOT: Final = Path(__file__).parents[2]

# Statuses by which a request that fits the schema may be refused, beside those that schemathesis knows of.
REFUSED: Final = ["2xx", "3xx", "401", "403", "404", "409", "410", "412"]
# Requests with values that only the server can know to be wrong: cursors, what a body refers to, members that go with
# others only, documents that are too large as a whole.
KNOWING: Final = {"listEvents", "createMessage", "createChannel", "updateChannel", "createThread", "grantAccess"} | {
    "createPrincipal", "updatePrincipal", "recordRunStep", "updateRunStep",
    "registerRun", "updateRun", "recordSpend", "putAgentRunSnapshot",
}  # fmt: skip


class Said(NamedTuple):
    """How a run of schemathesis ended: its exit code, what it said, and its report of everything that it did."""

    code: int
    text: str
    report: str

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The entries of the report that are of this kind."""
        lines = (json.loads(line) for line in self.report.splitlines())
        return [line[kind] for line in lines if kind in line]


def ids_of(stage: Stage) -> Mapping[str, str]:
    """One thing of each kind that is there, by the name of its parameter, and the token of the run among them."""
    held = stage.running()
    return {
        "thread_id": held.run["thread_id"],
        "message_id": stage.message(held.run["thread_id"])["id"],
        "run_id": held.id,
        "step_id": stage.step(held)["id"],
        "channel_id": stage.world.channels[ROOM],
        "principal_id": stage.id(stage.principal()),
        "group_id": stage.group()["id"],
        "grant_id": stage.grant(stage.principal(), "read", channel_id=stage.world.channels[ROOM])["id"],
        "token": held.token,
    }


# The requests of agents, in chains that go through several hands.
AGENT_TAGS: Final = frozenset({found.module for found in OPERATIONS.values() if found.security == "invocation"}) | {
    "registration", "snapshots",
}  # fmt: skip


def configuration(token: str, invocation: str, ids: Mapping[str, str], agent_token: str = "") -> str:
    """TOML: who asks, which ids are put into paths, what may be refused.

    With `agent_token` it is for chains: agents ask for themselves, and what ids refer to only the server can know.
    """
    knowing = OPERATIONS.keys() if agent_token else KNOWING
    lines = [
        'hooks = "tests.fixtures.schemathesis_checks"',
        "[headers]",
        f'Authorization = "Bearer {token}"',
        "[auth.openapi.invocation]",
        f'api_key = "{invocation}"',
        "[parameters]",
        *(f'"path.{name}" = "{id_}"' for name, id_ in ids.items()),
        "[checks.positive_data_acceptance]",
        f"expected-statuses = {json.dumps(REFUSED)}",
    ]
    for operation in OPERATIONS.values():
        if agent_token and operation.module in AGENT_TAGS:
            lines += ["[[operations]]", f'include-operation-id = "{operation.id}"']
            lines += [f'headers = {{ Authorization = "Bearer {agent_token}" }}']
    for operation in OPERATIONS.values():
        if operation.cursor or operation.id in knowing:
            lines += ["[[operations]]", f'include-operation-id = "{operation.id}"']
            lines += ["[operations.checks.positive_data_acceptance]"]
            lines += [f"expected-statuses = {json.dumps([*REFUSED, '400'])}"]
    return "\n".join(lines)


def run(
    stage: Stage, folder: Path, config: str, options: list[str], variables: Mapping[str, str], patience: float
) -> Said:
    """Runs it in a folder, with a configuration; `patience` in seconds."""
    file, report = folder / "schemathesis.toml", folder / "events.ndjson"
    file.write_text(config)
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(file), "run"]
    command += [str(ROOT / "generated" / "openapi.json"), "--url", stage.live.url, *options, "--workers", "1"]
    command += ["--checks", "all", "--continue-on-failure", "--no-shrink", "--generation-database", "none"]
    command += ["--no-color", "--output-sanitize", "false", "--warnings", "off"]
    command += ["--report", "ndjson", "--report-ndjson-path", str(report)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
        cwd=folder,
        env={**os.environ, **UNMEASURED, **variables, "PYTHONPATH": str(ROOT)},  # what it tests runs in this process
    )
    return Said(done.returncode, done.stdout + done.stderr, report.read_text() if report.exists() else "")
