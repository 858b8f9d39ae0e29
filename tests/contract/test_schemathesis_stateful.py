"""Chains of requests by schemathesis, each made with what the ones before answered, and a stranger behind each.

How operations follow from each other is read from the contract: an id in an answer goes where a parameter or a member
has its name. `make fuzz` goes on for longer and with other seeds.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from db.embedded import Server
from livebox.world import OWNER, World
from tests.contract.schemathesis_run import AGENT_TAGS, ROOT, Said, configuration, ids_of, run
from tests.fixtures import schemathesis_checks, stranger
from tests.fixtures.database import fresh_database
from tests.fixtures.fuzzing import Budget
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import ROOM, Stage
from tests.fixtures.wire import absent
from tests.fixtures.world import WorldCopy

CHAINS: Final = 8
QUEUED: Final = 6
THREES: Final = 3
PATIENCE: Final = 540.0

TAGS: Final = [tag["name"] for tag in json.loads((ROOT / "generated" / "openapi.json").read_bytes())["tags"]]
# What belongs together: chains that wander through everything come nowhere.
RESOURCES: Final = {
    "runs": [tag for tag in TAGS if tag == "runs" or tag.replace(" ", "_") in AGENT_TAGS],
    "places": [tag for tag in TAGS if tag not in ("runs", "service") and tag.replace(" ", "_") not in AGENT_TAGS],
}


def of_the_stranger(stage: Stage, who: str) -> dict[str, str]:
    """The variables of a somebody without rights."""
    nothing = absent()
    token = stage.live.app.invocations.mint(
        run_id=nothing, agent_id=stage.id("lotse"), jti=absent(), claim_id=absent(), expires_at=4e9
    )
    return {
        stranger.PORT: str(stage.live.port),
        stranger.TOKEN: stage.live.issue(who),
        stranger.ID: stage.id(who),
        stranger.NOTHING: nothing,
        stranger.NOTHING_TOKEN: token,
    }


def things(stage: Stage) -> dict[str, Any]:
    """What is there for a chain to begin with."""
    for _ in range(QUEUED):
        stage.queued()
    found = [ids_of(stage) for _ in range(THREES)]
    ids = {name: [ids[name] for ids in found] for name in found[0] if name != "token"}
    ids["space_id"] = list(stage.world.spaces.values())
    ids["channel_id"] = list(stage.world.channels.values())
    ids["agent_id"] = ids["operator_agent_id"] = [stage.id("lotse"), stage.id("texter")]
    return {
        "ids": ids,
        "tokens": {ids["run_id"]: ids["token"] for ids in found},
        "agent": stage.id("lotse"),
    }


def play(stage: Stage, who: str, resource: str, folder: Path, chains: int, seed: int) -> Said:
    """Some chains by one person, with an agent beside them; fails with what schemathesis found."""
    nobody = stage.principal()
    given = {**of_the_stranger(stage, nobody), schemathesis_checks.THINGS: json.dumps(things(stage))}
    config = configuration(stage.live.issue(who), "none", {}, stage.live.issue("lotse"))
    options = ["--phases", "stateful", "--max-examples", str(chains), "--seed", str(seed)]
    for tag in RESOURCES[resource]:
        options += ["--include-tag", tag]
    said = run(stage, folder, config, options, given, PATIENCE)
    assert said.code == 0, f"seed {seed}: {said.text}"
    return said


def followed(said: Said) -> int:
    """How many links were followed with what an answer had."""
    found = re.search(r"API Links:\s+(\d+) covered", said.text)
    assert found is not None, said.text
    return int(found[1])


@pytest.mark.long
@pytest.mark.parametrize("resource", RESOURCES)
def test_chains(
    server: Server, world_template: tuple[str, World], tmp_path: Path, fuzzing: Budget, resource: str
) -> None:
    name, world = world_template
    for round_, seed in enumerate(fuzzing.seeds()):
        # Each round has a world of its own: chains disable people and close places.
        with fresh_database(server, name) as dsn, live_server(WorldCopy(dsn, world), tmp_path / f"data{seed}") as live:
            stage = Stage(live)
            who = (OWNER, OWNER, "alex")[round_ % 3]
            said = play(stage, who, resource, tmp_path, fuzzing.examples(CHAINS), seed)
            assert followed(said), said.text
            assert said.report.count("hidden_from_a_stranger"), said.text
            stage.close()


def test_a_stranger_who_may_see_something_is_told_of(live: Live, stage: Stage) -> None:
    target = f"/v1/threads/{stage.thread()}"
    nobody = stranger.Stranger(of_the_stranger(stage, stage.principal()))
    nobody.look("GET", target, {}, None)
    nobody.look("GET", f"/v1/threads?channel_id={stage.world.channels[ROOM]}", {}, None)
    assert nobody.asked == 2
    reader = stranger.Stranger(of_the_stranger(stage, "alex"))
    with pytest.raises(AssertionError, match="getThread tells a stranger"):
        reader.look("GET", target, {}, None)
    with pytest.raises(AssertionError, match="listThreads tells a stranger"):
        reader.look("GET", f"/v1/threads?channel_id={stage.world.channels[ROOM]}", {}, None)


def test_who_was_given_a_right_is_no_stranger(live: Live, stage: Stage) -> None:
    who = stage.principal()
    nobody = stranger.Stranger(of_the_stranger(stage, who))
    nobody.look("POST", "/v1/grants", {}, json.dumps({"principal_id": stage.id(who)}).encode())
    assert nobody.known
    nobody.look("GET", f"/v1/threads/{stage.thread()}", {}, None)
    assert nobody.asked == 0
