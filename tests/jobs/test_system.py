"""The server as a caller: it may do what it alone does and nothing else, and nobody else may do that."""

from __future__ import annotations

import uuid

import pytest

from db import SYSTEM, Answer, Caller
from generated.operations import OPERATIONS
from livebox.auth import Authenticator, Unauthenticated, new_token
from livebox.jobs.life import REAP_LIMITS
from tests.jobs.watch import STALE, Watch

OWN = ("reap_run", "check_lane")


@pytest.mark.parametrize("operation", OWN)
@pytest.mark.parametrize("who", ["owner", "alex", "lotse"])
async def test_nobody_else_may(watch: Watch, operation: str, who: str) -> None:
    _, work = await watch.stage.working()
    watch.at(STALE)
    args = {"run_id": work.run_id, "limits": watch.settings.limits(REAP_LIMITS)}
    before = watch.row(work.run_id)
    answer = await watch.stage.db.lane.submit(operation, watch.stage.caller(who), args)
    assert answer.code == "forbidden"
    assert watch.row(work.run_id) == before


@pytest.mark.parametrize("operation", ["create_space", "cancel_run", "create_principal", "grant_access"])
async def test_it_may_nothing_else(watch: Watch, operation: str) -> None:
    watch.stage.mark()
    args = {"run_id": str(uuid.uuid4()), "body": {"name": "x"}, "limits": watch.settings.limits(REAP_LIMITS)}
    assert (await watch.stage.db.lane.submit(operation, SYSTEM, args)).code == "forbidden"
    assert watch.stage.written() == {}


async def test_it_may_not_read(watch: Watch) -> None:
    answer = await watch.stage.db.readers.call("list_events", SYSTEM, {"after": 0, "limit": 10})
    assert answer.code == "invalid_token"


def test_no_operation_of_the_contract_is_one_of_its_own(watch: Watch) -> None:
    listed = {
        row["function"]
        for row in watch.stage.sql(
            "SELECT p.proname::text AS function FROM pg_proc p WHERE p.pronamespace = 'livebox'::regnamespace "
            "AND livebox.system_operation(p.proname)"
        )
    }
    assert set(OWN) <= listed
    assert not listed & {operation.function for operation in OPERATIONS.values()}


async def test_no_header_makes_somebody_the_server() -> None:
    async def resolve(digest: str) -> Answer:
        return Answer("invalid_token")

    authenticator = Authenticator(resolve)
    for header in ("Bearer system", f"Bearer {new_token()}", "Bearer {}", 'Bearer {"system":true}', "system", ""):
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(header)
    assert Caller("system").document() == {"principal": "system"}
    assert SYSTEM.document() == {"system": True}
