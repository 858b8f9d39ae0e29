"""Requests that nobody thought of, made from the contract by schemathesis and sent to the live port."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from generated.operations import OPERATIONS
from tests.contract.schemathesis_run import configuration, ids_of, run
from tests.fixtures.server import Live
from tests.fixtures.stage import Stage

SEED = "7"
# Everybody: the examples of the contract, and some requests beside them. Edges are searched once; who asks hardly
# matters for them.
PHASES = {"owner": "examples,fuzzing", "alex": "examples,coverage", "lotse": "examples,fuzzing"}
EXAMPLES = {"owner": 3, "alex": 1, "lotse": 3}


@pytest.mark.long
@pytest.mark.parametrize("who", PHASES)
def test_every_check_on_every_operation(own_live: Live, tmp_path: Path, who: str) -> None:
    stage = Stage(own_live)
    ids = dict(ids_of(stage))
    config = configuration(own_live.issue(who), ids.pop("token"), ids)
    options = ["--phases", PHASES[who], "--max-examples", str(EXAMPLES[who]), "--seed", SEED]
    said = run(stage, tmp_path, config, options, {}, 240)
    assert said.code == 0, said.text
    tested = re.search(r"Selected: (\d+)/(\d+)\s+Tested: (\d+)", said.text)
    assert tested is not None, said.text
    assert {int(number) for number in tested.groups()} == {len(OPERATIONS)}, said.text
    assert "like_every_response" in said.report
