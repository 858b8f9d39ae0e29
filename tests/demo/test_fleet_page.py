"""docs/fleet.md does what it says: its commands are run as they are printed, and print what stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from livebox.cli import main
from livebox.keys import KEYS
from tests.fixtures.server import Live

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
WIDTH = "80"


def session() -> list[tuple[str, str]]:
    """Each command of the page with what it prints."""
    text = "".join(re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def settled(text: str, ids: dict[str, str]) -> str:
    """Without what differs each time: ids are numbered as they come, and how long it took."""
    text = re.sub(
        r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", lambda id_: ids.setdefault(id_[0], f"#{len(ids)}"), text
    )
    return re.sub(r"\b[\d,]+\.\d s\b", "0.0 s", text)


def test_the_commands_print_what_the_page_says(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)
    monkeypatch.chdir(tmp_path)
    for handle in ("lotse", "texter"):
        Path(f"{handle}.token").write_text(live.tokens[handle])
    # A terminal that knows no colours. Its width counts only where its height is given too.
    terminal = {"FORCE_COLOR": "1", "TERM": "dumb", "COLUMNS": WIDTH, "LINES": "25"}
    env = {"LIVEBOX_URL": live.url, "LIVEBOX_TOKEN": live.tokens["owner"], **terminal}
    variables: dict[str, str] = {}
    printed, told = [], []
    here: dict[str, str] = {}
    there: dict[str, str] = {}
    for command, output in session():
        name, inner = re.fullmatch(r"(?:(\w+)=\$\()?livebox (.*?)\)?", command).groups()  # type: ignore[union-attr]
        words = [re.sub(r"\$(\w+)", lambda used: variables[used[1]], word) for word in shlex.split(inner)]
        result = CliRunner().invoke(main, words, env=env, catch_exceptions=False)
        if name is not None:
            assert result.exit_code == 0, result.output
            variables[name] = result.output.strip()
            continue
        printed.append(f"$ {command}\n{settled(result.output, here)}")
        told.append(f"$ {command}\n{settled(output, there)}")
    assert re.sub(r" +$", "", "".join(printed), flags=re.MULTILINE) == "".join(told)
