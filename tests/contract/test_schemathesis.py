"""Requests that nobody thought of, made from the contract by schemathesis and sent to the live port."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from generated.operations import OPERATIONS
from tests.fixtures.server import Live
from tests.fixtures.serving import UNMEASURED
from tests.fixtures.stage import ROOM, Stage

ROOT = Path(__file__).parents[2]
SEED = "7"
# Everybody: the examples of the contract, and some requests beside them. Edges are searched once; who asks hardly
# matters for them.
PHASES = {"owner": "examples,fuzzing", "alex": "examples,coverage", "lotse": "examples,fuzzing"}
EXAMPLES = {"owner": 5, "alex": 1, "lotse": 4}

# Statuses by which a request that fits the schema may be refused, beside those that schemathesis knows of.
REFUSED = ["2xx", "3xx", "401", "403", "404", "409", "410", "412"]
# Requests with values that only the server can know to be wrong: cursors, what a body refers to, members that go with
# others only, documents that are too large as a whole.
KNOWING = {"listEvents", "createMessage", "createChannel", "updateChannel", "createThread", "grantAccess"}
KNOWING |= {"createPrincipal", "updatePrincipal", "recordRunStep", "updateRunStep"}
KNOWING |= {"registerRun", "updateRun", "recordSpend", "putAgentRunSnapshot"}


def configuration(stage: Stage, who: str) -> str:
    """TOML: who asks, ids that are there, and what may be refused."""
    held = stage.running()
    ids = {
        "thread_id": held.run["thread_id"],
        "message_id": stage.message(held.run["thread_id"])["id"],
        "run_id": held.id,
        "step_id": stage.step(held)["id"],
        "channel_id": stage.world.channels[ROOM],
        "principal_id": stage.id(stage.principal()),
        "group_id": stage.group()["id"],
        "grant_id": stage.grant(stage.principal(), "read", channel_id=stage.world.channels[ROOM])["id"],
    }
    lines = [
        'hooks = "tests.fixtures.schemathesis_checks"',
        "[headers]",
        f'Authorization = "Bearer {stage.live.issue(who)}"',
        "[auth.openapi.invocation]",
        f'api_key = "{held.token}"',
        "[parameters]",
        *(f'"path.{name}" = "{id_}"' for name, id_ in ids.items()),
        "[checks.positive_data_acceptance]",
        f"expected-statuses = {json.dumps(REFUSED)}",
    ]
    for operation in OPERATIONS.values():
        if operation.cursor or operation.id in KNOWING:
            lines += ["[[operations]]", f'include-operation-id = "{operation.id}"']
            lines += ["[operations.checks.positive_data_acceptance]"]
            lines += [f"expected-statuses = {json.dumps([*REFUSED, '400'])}"]
    return "\n".join(lines)


def run(stage: Stage, who: str, folder: Path) -> tuple[int, str, str]:
    """The exit code of schemathesis, what it said, and its report of everything that it did."""
    config, report = folder / "schemathesis.toml", folder / "events.ndjson"
    config.write_text(configuration(stage, who))
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"]
    command += [str(ROOT / "generated" / "openapi.json"), "--url", stage.live.url]
    command += ["--phases", PHASES[who], "--max-examples", str(EXAMPLES[who]), "--seed", SEED, "--workers", "1"]
    command += ["--checks", "all", "--continue-on-failure", "--no-shrink", "--generation-database", "none"]
    command += ["--no-color", "--output-sanitize", "false", "--warnings", "off"]
    command += ["--report", "ndjson", "--report-ndjson-path", str(report)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=folder,
        env={**os.environ, **UNMEASURED, "PYTHONPATH": str(ROOT)},  # what it tests runs in this process
    )
    return done.returncode, done.stdout + done.stderr, report.read_text() if report.exists() else ""


@pytest.mark.long
@pytest.mark.parametrize("who", PHASES)
def test_every_check_on_every_operation(own_live: Live, tmp_path: Path, who: str) -> None:
    code, said, report = run(Stage(own_live), who, tmp_path)
    assert code == 0, said
    tested = re.search(r"Selected: (\d+)/(\d+)\s+Tested: (\d+)", said)
    assert tested is not None, said
    assert {int(number) for number in tested.groups()} == {len(OPERATIONS)}, said
    assert "like_every_response" in report
