"""What an adapter shows arrives: few patches, healed from every answer, and always the last state."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from livebox.client import RunHandle
from tests.client.fake import Fake, problem, when
from tests.client.scene import assert_shown, at_work, ended, shows

pytestmark = pytest.mark.usefixtures("quick")


async def test_a_conflict_is_healed_from_its_document(fake: Fake) -> None:
    changed = asyncio.Event()

    async def work(run: RunHandle) -> str:
        run.headline = "One"
        await run.flush()
        fake.change(run.id, [{"op": "add", "path": "/stalled_since", "value": "x"}], by=300)
        run.headline = "Two"
        await run.flush()
        changed.set()
        return "Done."

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert run["headline"] == "Two"
    assert fake.calls["conflict"] >= 1
    assert changed.is_set()


async def test_live_content_that_the_server_lost_is_sent_again(fake: Fake) -> None:
    async def work(run: RunHandle) -> str:
        run.headline = "Kept"
        run.plan.item("one", "First")
        await run.flush()
        old = {name: value for name, value in fake.runs[run.id].items() if name not in ("headline", "plan")}
        fake.runs[run.id] = {**old, "version": old["version"] + 256}
        run.plan.item("one", status="done")
        return "Done."

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert (run["headline"], run["plan"]["items"]["one"]["status"]) == ("Kept", "done")


@pytest.mark.parametrize(
    "refused",
    [
        problem(409, "live_elsewhere", retry_after_ms=1),
        problem(429, "rate_limited", retry_after_ms=1),
        problem(503, "unavailable"),
        problem(
            400, "validation_failed", errors=[{"code": "patch_target_missing", "message": "x", "pointer": "/ops/0"}]
        ),
        problem(409, "version_conflict"),
    ],
    ids=lambda refused: refused["code"] + ("!" if "errors" in refused else ""),
)
async def test_a_patch_that_is_refused_for_now_is_made_again(fake: Fake, refused: dict[str, Any]) -> None:
    fake.refuse["run.update"] = [refused, refused]
    async with at_work(fake, shows):
        run = await ended(fake, fake.invoke())
    assert_shown(run)


async def test_what_the_server_will_not_have_is_left_out_and_the_rest_is_shown(fake: Fake) -> None:
    patch = fake.patch

    def picky(run_id: str, token: str, frame: dict[str, Any]) -> int:
        if any(op["path"].startswith("/metrics") for op in frame["ops"]):
            fake.refuse["run.update"] = [problem(400, "validation_failed")]
        return patch(run_id, token, frame)

    async def refusing(session: Any, frame: dict[str, Any]) -> dict[str, Any]:
        if frame["type"] == "run.update" and any("/metrics" in op["path"] for op in frame["ops"]):
            fake.refuse["run.update"] = [problem(400, "validation_failed")]
        return await answer(session, frame)

    answer = fake.answer
    fake.answer = refusing  # type: ignore[method-assign]

    async def work(run: RunHandle) -> str:
        run.metrics(context_used_percent=150)
        run.headline = "Shown"
        return "Done."

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert run["headline"] == "Shown"
    assert "metrics" not in run


async def test_nothing_is_sent_while_nobody_looks_but_the_last_state_is(fake: Fake) -> None:
    fake.watched = False
    go_on = asyncio.Event()

    async def work(run: RunHandle) -> str:
        await when(lambda: run.watched is False)
        for number in range(50):
            run.headline = f"Number {number}"
            await asyncio.sleep(0)
        await go_on.wait()
        return "Done."

    async with at_work(fake, work):
        run = fake.invoke()
        await when(lambda: fake.calls["heartbeat"] > 3)
        assert fake.calls["patch"] <= 1
        go_on.set()
        assert (await ended(fake, run))["headline"] == "Number 49"


async def test_who_begins_to_look_sees_what_is_now(fake: Fake) -> None:
    fake.watched = False
    go_on = asyncio.Event()

    async def work(run: RunHandle) -> str:
        await when(lambda: run.watched is False)
        run.headline = "First"
        await when(lambda: "headline" in fake.runs[run.id])
        run.headline = "Second"
        await go_on.wait()
        return "Done."

    async with at_work(fake, work):
        run = fake.invoke()
        await when(lambda: fake.runs[run["id"]].get("headline") == "First")
        beats = fake.calls["heartbeat"]
        await when(lambda: fake.calls["heartbeat"] > beats + 2)
        assert fake.runs[run["id"]]["headline"] == "First"
        await (await fake.session()).send({"type": "run.watched", "run_id": run["id"], "watched": True})
        await when(lambda: fake.runs[run["id"]].get("headline") == "Second")
        go_on.set()
        await ended(fake, run)


async def test_many_changes_are_few_patches(fake: Fake) -> None:
    async def work(run: RunHandle) -> str:
        for _ in range(500):
            run.text.append("word ")
        return "Done."

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert run["text"]["content"] == "word " * 500
    assert fake.calls["patch"] < 10


async def test_content_that_is_no_json_does_not_keep_a_run_from_its_end(fake: Fake) -> None:
    async def work(run: RunHandle) -> str:
        with pytest.raises(TypeError):  # where it is given
            run.metrics(tool_calls=object())  # type: ignore[typeddict-item]
        return "Done."

    async with at_work(fake, work):
        assert (await ended(fake, fake.invoke()))["summary"] == "Done."


async def test_what_a_fallen_server_lost_is_shown_again_though_nothing_changes(fake: Fake) -> None:
    async def work(run: RunHandle) -> str:
        run.headline = "Kept"
        await run.flush()
        old = {name: value for name, value in fake.runs[run.id].items() if name != "headline"}
        fake.runs[run.id] = {**old, "version": old["version"] + 256}
        (await fake.session()).cut()
        await when(lambda: fake.runs[run.id].get("headline") == "Kept")
        return "Done."

    async with at_work(fake, work):
        await ended(fake, fake.invoke())


@pytest.mark.parametrize("most", [100, 5], ids=["as_usual", "few"])
async def test_a_change_of_too_many_places_is_sent_whole(fake: Fake, most: int) -> None:
    fake.most_ops = most

    async def work(run: RunHandle) -> str:
        run.plan.item("first")
        await run.flush()
        for number in range(150):
            run.plan.item(f"k{number}", f"Point {number}")
        return "Done."

    async with at_work(fake, work):
        run = await ended(fake, fake.invoke())
    assert len(run["plan"]["items"]) == 151
