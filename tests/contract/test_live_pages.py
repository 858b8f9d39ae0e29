"""Pages: each row once, whatever the page size and whatever happens meanwhile; a cursor is good for its list only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from generated.operations import OPERATIONS
from livebox.world import OWNER
from tests.fixtures.listings import LISTINGS, ROWS, Listing, id_of, moment_of, pages, rows
from tests.fixtures.server import Live, live_server
from tests.fixtures.stage import Stage
from tests.fixtures.wire import Answered
from tests.fixtures.world import WorldCopy

pytestmark = pytest.mark.long

LISTS = pytest.mark.parametrize("operation", LISTINGS)


@pytest.fixture(scope="module")
def listings(stage: Stage) -> Callable[[str], Listing]:
    """A list that only reading tests share."""
    made: dict[str, Listing] = {}

    def listing(operation: str) -> Listing:
        if operation not in made:
            made[operation] = LISTINGS[operation](stage)
        return made[operation]

    return listing


def test_every_list_is_here() -> None:
    assert set(LISTINGS) == {name for name, operation in OPERATIONS.items() if operation.cursor} - {"getSnapshot"}


@LISTS
@pytest.mark.parametrize("limit", [1, 2, 3, ROWS - 1, ROWS, ROWS + 1])
def test_each_row_once(stage: Stage, listings: Callable[[str], Listing], operation: str, limit: int) -> None:
    ask = listings(operation).ask
    wire = stage.as_(ask.by)
    whole = [id_of(row) for row in ask.at(wire).ok()["items"]]
    assert len(set(whole)) == ROWS
    found = pages(wire, ask, limit)
    assert [row for page in found for row in page] == whole
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert found[-1], "the page before was the last, and said that it was not"


@LISTS
def test_what_happens_meanwhile_neither_hides_nor_repeats(stage: Stage, operation: str) -> None:
    listing = LISTINGS[operation](stage)
    wire = stage.as_(listing.ask.by)
    before = [id_of(row) for row in listing.ask.at(wire).ok()["items"]]

    def between(number: int) -> None:
        if number <= ROWS:
            listing.add()
            listing.touch(before[0])
            listing.touch(before[-1])

    found = rows(wire, listing.ask, 2, between)
    assert [row for row in found if row in before] == before
    assert len(set(found)) == len(found)


def test_a_message_that_is_deleted_meanwhile_stays_as_a_tombstone(stage: Stage) -> None:
    listing = LISTINGS["listThreadMessages"](stage)
    wire = stage.as_("robin")
    before = rows(wire, listing.ask, ROWS)
    left = iter(before)

    def between(number: int) -> None:
        wire.call("deleteMessage", message_id=next(left)).ok()

    assert rows(wire, listing.ask, 1, between) == before


def test_a_thread_that_is_deleted_meanwhile_takes_nothing_with_it(stage: Stage) -> None:
    """The cursor stands on the deleted thread: what comes after it comes all the same."""
    listing = LISTINGS["listThreads"](stage)
    before = rows(stage.as_("robin"), listing.ask, ROWS)

    def between(number: int) -> None:
        if number == 1:
            stage.as_(OWNER).call("deleteThread", thread_id=before[1]).ok()

    assert rows(stage.as_("robin"), listing.ask, 2, between) == before


def test_runs_that_leave_the_state_that_is_asked_for_repeat_nobody(stage: Stage) -> None:
    listing = LISTINGS["listActiveRuns"](stage)
    wire = stage.as_("alex")
    before = rows(wire, listing.another, ROWS)
    assert len(before) == ROWS

    def between(number: int) -> None:
        if number == 1:
            for run_id in (before[0], before[2]):
                wire.call("cancelRun", run_id=run_id).ok()

    found = rows(wire, listing.another, 2, between)
    assert found == [run_id for run_id in before if run_id != before[2]]


def test_ascending_is_the_reverse(stage: Stage, listings: Callable[[str], Listing]) -> None:
    listing = listings("listThreadMessages")
    wire = stage.as_("robin")
    down, up = (rows(wire, ask, 3) for ask in (listing.ask, listing.another))
    assert down == up[::-1]


def test_a_limit_is_held_to_its_bounds(stage: Stage, listings: Callable[[str], Listing]) -> None:
    ask = listings("listThreadMessages").ask
    wire = stage.as_(ask.by)
    for limit in ("0", "-1", "1.5", "x", "", "1001", "9" * 30, "1e2", "+1", "\u0661", "true"):
        answer = ask.at(wire, query={"limit": limit}).refused(400, "validation_failed")
        assert [name for _, name in answer.errors()] == ["limit"], limit
    assert len(ask.at(wire, query={"limit": 1000}).ok()["items"]) == ROWS
    answer = wire.send("GET", f"/v1/threads/{ask.path['thread_id']}/messages?limit=1&limit=2")
    assert answer.refused(400, "validation_failed").errors() == [("repeated_parameter", "limit")]


# Rows of one moment


@pytest.fixture
def frozen(own_live: Live) -> Iterator[Stage]:
    """A world whose clock stands still: all rows have the same times."""
    stage = Stage(own_live)
    stage.as_(OWNER).call("listSpaces").ok()
    now = stage.sql("SELECT livebox.clock()::text")[0][0]
    stage.sql(
        "CREATE OR REPLACE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE"
        f" AS $$ SELECT timestamptz '{now}' $$"
    )
    yield stage
    stage.close()


def test_rows_of_one_moment_come_once_each(frozen: Stage) -> None:
    for operation, build in LISTINGS.items():
        ask = build(frozen).ask
        wire = frozen.as_(ask.by)
        items = ask.at(wire).ok()["items"]
        moments = {moment_of(row) for row in items}
        assert (len(items), len(moments)) == (ROWS, 1), operation
        for limit in (1, 2, 3, 5):
            assert rows(wire, ask, limit) == [id_of(row) for row in items], operation


# Cursors


def _is_refused(answer: Answered) -> None:
    answer.refused(400, "cursor_invalid")
    assert [name for _, name in answer.errors()] == ["cursor"]


@LISTS
def test_a_cursor_that_was_not_made_here_is_refused(
    stage: Stage, listings: Callable[[str], Listing], operation: str
) -> None:
    listing = listings(operation)
    ask = listing.ask
    wire = stage.as_(ask.by)
    cursor = ask.at(wire, query={**ask.query, "limit": 2}).ok()["next_cursor"]
    middle = len(cursor) // 2
    flipped = cursor[:middle] + ("A" if cursor[middle] != "A" else "B") + cursor[middle + 1 :]
    made_up = ["AAAA", cursor[:-1], cursor[:middle], cursor[1:], cursor + "A", cursor * 2, flipped, cursor.swapcase()]
    made_up += ["", " ", cursor + "=", cursor + "+", f"{cursor} ", "x" * 1025, "\u00e9", "\u0000", "null", "{}", "-1"]
    for bad in made_up:
        _is_refused(ask.at(wire, query={**ask.query, "cursor": bad}))

    def go_on(who: str, query: dict[str, Any]) -> Answered:
        return ask.at(stage.as_(who), query={**query, "cursor": cursor})

    _is_refused(go_on(listing.somebody, dict(ask.query)))
    if listing.another.operation == operation:
        _is_refused(listing.another.at(wire, query={**listing.another.query, "cursor": cursor}))
    for other in LISTINGS:
        if other != operation:
            elsewhere = listings(other).ask
            _is_refused(elsewhere.at(wire, query={**elsewhere.query, "cursor": cursor}))
    _is_refused(wire.call("getSnapshot", query={"cursor": cursor}))
    assert len(go_on(ask.by, {**ask.query, "limit": 3}).ok()["items"]) == 3


def test_a_cursor_of_a_megabyte_is_refused(stage: Stage, listings: Callable[[str], Listing]) -> None:
    wire = stage.as_("robin")
    thread_id = listings("listThreadMessages").ask.path["thread_id"]
    for length in (4096, 1 << 20):
        target = f"/v1/threads/{thread_id}/messages?cursor=" + "A" * length
        with suppress(ConnectionError):  # it may hang up before it has heard all
            answer = wire.send("GET", target)
            assert answer.status == 400
        wire.close()
    wire.call("listThreadMessages", thread_id=thread_id).ok()


# The snapshot and the log, which page in ways of their own


@pytest.fixture(scope="module")
def narrow(module_world_copy: WorldCopy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server that puts three of each kind into a snapshot at once."""
    kinds = ("channels", "threads", "messages", "active_runs")
    bounds = {f"snapshot__{kind}_max": 3 for kind in kinds}
    folder: Path = tmp_path_factory.mktemp("data")
    with live_server(module_world_copy, folder, **bounds) as live:
        stage = Stage(live)
        yield stage
        stage.close()


def test_a_bounded_snapshot_goes_on_list_by_list(stage: Stage, narrow: Stage) -> None:
    for _ in range(4):
        narrow.queued()
    whole = stage.as_("alex").call("getSnapshot").ok()
    wire = narrow.as_("alex")
    first = wire.call("getSnapshot").ok()
    assert set(first["next_cursors"]) >= {"threads", "messages", "active_runs"}
    assert first["seq"] == whole["seq"]
    for kind in ("channels", "threads", "messages", "active_runs"):
        found = list(first[kind])
        cursor = first["next_cursors"].get(kind)
        while cursor:
            more = wire.call("getSnapshot", query={"cursor": cursor}).ok()
            assert 0 < len(more[kind]) <= 3
            assert [name for name in ("channels", "threads", "messages", "active_runs") if more[name]] == [kind]
            found += more[kind]
            cursor = more.get("next_cursors", {}).get(kind)
        assert found == whole[kind]
        assert len(found) > 3 or kind == "channels"
    cursor = first["next_cursors"]["threads"]
    _is_refused(narrow.as_(OWNER).call("getSnapshot", query={"cursor": cursor}))
    _is_refused(wire.call("listThreads", query={"cursor": cursor}))
    _is_refused(wire.call("getSnapshot", query={"cursor": cursor[:-2]}))


def test_the_log_in_pages_is_the_log(stage: Stage) -> None:
    newest = "SELECT max(seq) FROM livebox.events"
    start = stage.sql(newest)[0][0]
    stage.finished()
    stage.thread(stage.channel()["id"])  # that Alex does not see
    wire = stage.as_("alex")
    last = stage.sql(newest)[0][0]
    whole: list[int] = []
    for limit in (100, 1, 3, 7, 8):
        after, found = start, []
        while True:
            page = wire.call("listEvents", query={"after": after, "limit": limit}).ok()
            assert len(page["items"]) <= limit
            assert after <= page["next_after"] <= last
            found += [event["seq"] for event in page["items"]]
            after = page["next_after"]
            if not page["has_more"]:
                break
        assert found == sorted(set(found))
        assert whole in ([], found)
        whole = found
    assert len(whole) > 7
    assert wire.call("listEvents", query={"after": last}).ok() == {"items": [], "next_after": last, "has_more": False}
    wire.call("listEvents", query={"after": last + 1}).refused(400, "cursor_invalid")
    for after_ in ("-1", "x", "1.5", str(2**53), "9" * 30, ""):
        answer = wire.call("listEvents", query={"after": after_}).refused(400, "validation_failed")
        assert [name for _, name in answer.errors()] == ["after"]
