"""Configuration: read once, checked as a whole, never shown with its secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from livebox.key import Key
from livebox.keys import FITTING, KEYS, ORDERED
from livebox.settings import MASK, Settings, SettingsError

ROOT = Path(__file__).resolve().parents[2]


def problems(environment: dict[str, str], **overrides: int | float | str | bool) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as refused:
        Settings.load(environment, overrides)
    return refused.value.problems


def number(key: Key, value: float) -> int | float:
    return int(value) if key.unit in ("count", "bytes") else value


def test_defaults_stand_when_nothing_is_set() -> None:
    settings = Settings.load({})
    assert {name: settings[name] for name in KEYS} == {key.name: key.default for key in KEYS.values()}


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_every_default_is_within_its_own_bounds(key: Key) -> None:
    key.check(key.default)
    assert key.purpose
    assert not key.purpose.endswith(".")


def test_every_key_has_a_variable_of_its_own() -> None:
    assert len({key.variable for key in KEYS.values()}) == len(KEYS)


@pytest.mark.parametrize("key", [key for key in KEYS.values() if key.minimum is not None], ids=lambda key: key.name)
def test_bounds_are_inclusive_and_named_when_passed(key: Key) -> None:
    assert key.minimum is not None
    assert key.maximum is not None
    step = 1 if key.unit in ("count", "bytes") else 0.001
    if not any(key.name in pair for pair in (*ORDERED, *FITTING)):
        Settings.load({}, {key.name: number(key, key.minimum)})
        Settings.load({}, {key.name: number(key, key.maximum)})
    (below,) = problems({}, **{key.name: key.minimum - step})
    (above,) = problems({}, **{key.name: key.maximum + step})
    for text, bound in ((below, key.minimum), (above, key.maximum)):
        assert key.name in text
        assert key.variable in text
        assert key.bound(bound) in text


def test_all_problems_are_told_at_once() -> None:
    found = problems(
        {
            "LIVEBOX_HTTP_PORT": "70000",
            "LIVEBOX_RUN_CLAIM_LEASE": "soon",
            "LIVEBOX_LOG_LEVEL": "loud",
            "LIVEBOX_NO": "1",
        }
    )
    assert [text.split()[0].rstrip(":") for text in found] == [
        "http.port",
        "log.level",
        "run.claim_lease",
        "LIVEBOX_NO",
    ]


def test_a_misspelt_variable_is_refused_with_a_hint() -> None:
    (problem,) = problems({"LIVEBOX_RUN_CLAIM_LEASES": "30", "PATH": "/bin", "LIVEBOXER": "1"})
    assert problem == "LIVEBOX_RUN_CLAIM_LEASES: there is no such variable; did you mean LIVEBOX_RUN_CLAIM_LEASE?"


def test_an_unknown_override_is_refused_with_a_hint() -> None:
    (problem,) = problems({}, **{"http.prot": 1})
    assert problem.endswith("did you mean http.port?")


@pytest.mark.parametrize(("small", "large"), ORDERED)
def test_keys_that_contradict_each_other_are_refused(small: str, large: str) -> None:
    low, high = KEYS[large].minimum, KEYS[small].maximum
    assert low is not None
    assert high is not None
    (problem,) = problems({}, **{small: number(KEYS[small], high), large: number(KEYS[large], low)})
    assert small in problem
    assert large in problem


@pytest.mark.parametrize(("small", "parts", "large"), FITTING)
def test_what_does_not_fit_into_a_deadline_is_refused(small: str, parts: int, large: str) -> None:
    roomy = {name: 80000 for pair in FITTING for name in (pair[0], pair[2])} | {"service.gap": 800}
    roomy["run.life_flush_interval"] = 1
    if large != "run.stale_after" or small == "service.gap":  # else what lies between them is the narrower bound
        Settings.load({}, {**roomy, large: 400, small: 400 / parts})
    found = problems({}, **{**roomy, large: 400, small: 400 / parts + 0.01})
    assert any(text.startswith(f"{small} (") and f"of {large} (400)" in text for text in found)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("500ms", 0.5), ("1.5", 1.5), ("2m", 120), ("24h", 86400), ("7d", 604800)]
)
def test_durations_take_units(text: str, seconds: float) -> None:
    assert KEYS["db.statement_timeout"].unit == "s"
    assert Settings.load({"LIVEBOX_EVENTS_RETENTION": "60d", "LIVEBOX_AUTH_TOKEN_TTL": "60"})
    assert Key("x", "s", 1, "y").read(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "1 h", "\u0661", "1e3", "inf", "nan", "0x10", "1h30m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    (problem,) = problems({"LIVEBOX_EVENTS_RETENTION": text})
    assert problem.startswith("events.retention (LIVEBOX_EVENTS_RETENTION)")


@pytest.mark.parametrize(("text", "size"), [("2048", 2048), ("64KiB", 65536), ("1MiB", 1024**2)])
def test_sizes_take_units(text: str, size: int) -> None:
    assert Settings.load({"LIVEBOX_API_BODY_MAX_BYTES": text}).integer("api.body_max_bytes") == size


def test_secrets_never_show() -> None:
    settings = Settings.load(
        {"LIVEBOX_METRICS_TOKEN": "sesame", "DATABASE_URL": "postgresql://livebox:sesame@db.example.com/livebox"}
    )
    assert settings.text("metrics.token") == "sesame"
    assert "sesame" in settings.text("database.url")
    for shown in (repr(settings), str(settings.shown())):
        assert "sesame" not in shown
        assert MASK in shown
        assert "db.example.com" in shown
    other = Settings.load({"DATABASE_URL": "host=db.example.com user=livebox password='se same'"})
    assert "same" not in repr(other)


def test_limits_go_to_the_database_by_their_names() -> None:
    assert Settings.load({"LIVEBOX_RUN_CLAIM_LEASE": "30"}).limits(("run.claim_lease", "run.followups_max")) == {
        "run.claim_lease": 30,
        "run.followups_max": KEYS["run.followups_max"].default,
    }


# Read by the tests that hold the server to it, not by the server.
FOR_TESTS = {"authz.not_found_timing_tolerance"}


@pytest.mark.parametrize("name", KEYS)
def test_every_key_does_something(name: str) -> None:
    spellings = [f'"{name}"', f'f"rl.{{name}}.{name.split(".")[-1]}"' if name.startswith("rl.") else f'"{name}"']
    folders = ("tests",) if name in FOR_TESTS else ("handlers", "livebox", "db")
    texts = [
        path.read_text(encoding="utf-8")
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if path.name not in ("keys.py", "test_settings.py")
    ]
    assert any(spelling in text for text in texts for spelling in spellings)
