"""What the demo stands on: which folder it asks about, and that client and agent know nothing but the contract."""

from __future__ import annotations

import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pytest

import livebox
from livebox.demo import launcher
from livebox.demo.folder_report import FolderReader
from livebox.demo.launcher import project_folder

ROOT = Path(__file__).resolve().parents[2]


def test_the_project_is_asked_about_where_it_is_there(tmp_path: Path) -> None:
    assert project_folder(tmp_path) == ROOT
    assert list(tmp_path.iterdir()) == []


def test_a_sample_is_asked_about_where_only_the_package_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livebox, "__file__", str(tmp_path / "site-packages" / "livebox" / "__init__.py"))
    folder = project_folder(tmp_path)
    reader = FolderReader(folder)
    lines = reader.lines(reader.listing().files)
    assert folder.is_relative_to(tmp_path)
    assert {"Python", "SQL", "HTML", "Markdown"} == set(lines.lines)
    assert reader.todos(lines.text)[0] == 2


@pytest.mark.parametrize(
    ("found", "opens"),
    [
        (webbrowser.BackgroundBrowser("firefox"), True),
        (webbrowser.GenericBrowser("lynx"), False),
        (webbrowser.Error("none"), False),
    ],
    ids=["window", "terminal", "none"],
)
def test_only_a_browser_with_a_window_is_opened(found: Any, opens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def get() -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(webbrowser, "get", get)
    assert (launcher._browser() is not None) == opens


@pytest.mark.parametrize(
    ("module", "known"),
    [
        ("livebox.client", {"livebox", "livebox.client"}),
        ("livebox.demo.agent", {"livebox", "livebox.client", "livebox.demo", "livebox.printable"}),
    ],
)
def test_it_imports_the_contract_and_nothing_of_the_server(module: str, known: set[str]) -> None:
    script = f"import sys, {module}\nprint(*sys.modules, sep='\\n')"
    loaded = subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True).split()
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.split(".")[0] in ("livebox", "handlers", "db")}
    assert ours == known
