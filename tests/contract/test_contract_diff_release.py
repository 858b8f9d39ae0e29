"""The command, and the rule that the version says what has changed since the last release."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.checks import release as check
from tests.checks.tree import Tree
from tests.compatibility.__main__ import main
from tests.compatibility.release import enough, kept, read, released
from tests.compatibility.report import ADDITIVE, BREAKING, DOCS
from tests.contract.small_contract import ASYNCAPI, OPENAPI, write_documents

ROOT = Path(__file__).parents[2]
BROKEN = OPENAPI.replace("maxLength: 20, pattern: '^ *", "maxLength: 19, pattern: '^ *")
MORE = OPENAPI.replace("        tag: {type", "        extra: {type: boolean}\n        tag: {type")
WORDS = OPENAPI.replace("summary: For tests.", "summary: For other tests.")
UNRELEASED = "# Changelog\n\n## [Unreleased]\n"
RELEASED = UNRELEASED + "\n## [1.0.0] - 2026-11-02\n"


def said(text: str, version: str) -> str:
    return text.replace("title: Small, version: 1.0.0", f"title: Small, version: {version}")


def write(root: Path, version: str, openapi: str = OPENAPI, changelog: str = RELEASED) -> None:
    """The contract of a version, and what the changelog says."""
    write_documents(root, said(openapi, version), said(ASYNCAPI, version))
    (root / "pyproject.toml").write_text(f'[project]\nname = "small"\nversion = "{version}"\n')
    (root / "CHANGELOG.md").write_text(changelog.replace("1.0.0", next(iter(map(str, kept_names(root))), version)))


def kept_names(root: Path) -> list[str]:
    return [".".join(map(str, version)) for version in kept(root)]


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A project that has released its contract, as 1.0.0 or as the test asks for."""
    version = getattr(request, "param", "1.0.0")
    write(tmp_path, version)
    assert main(["--keep"], tmp_path) == 0
    assert list(check.problems(Tree(tmp_path))) == []
    return tmp_path


def test_the_contracts_of_these_tests_differ() -> None:
    assert len({OPENAPI, BROKEN, MORE, WORDS}) == 4


@pytest.mark.parametrize(
    ("project", "version", "openapi", "good"),
    [
        ("1.0.0", "1.0.0", OPENAPI, True),
        ("1.0.0", "1.0.0", WORDS, True),
        ("1.0.0", "1.0.0", MORE, False),
        ("1.0.0", "1.0.1", MORE, False),
        ("1.0.0", "1.1.0", MORE, True),
        ("1.0.0", "1.0.0", BROKEN, False),
        ("1.0.0", "1.1.0", BROKEN, False),
        ("1.0.0", "2.0.0", BROKEN, True),
        ("0.3.1", "0.3.1", MORE, False),
        ("0.3.1", "0.3.2", MORE, True),
        ("0.3.1", "0.3.1", BROKEN, False),
        ("0.3.1", "0.3.2", BROKEN, False),
        ("0.3.1", "0.4.0", BROKEN, True),
        ("0.3.1", "0.3.0", OPENAPI, False),
    ],
    indirect=["project"],
)
def test_a_version_must_say_what_has_changed(project: Path, version: str, openapi: str, good: bool) -> None:
    write(project, version, openapi)
    found = list(check.problems(Tree(project)))
    assert (found == []) == good, found
    if not good:
        (problem,) = found
        assert problem.startswith("openapi.yaml:1: ")
        assert "does not say so" in problem


def test_what_was_released_is_kept_and_what_is_kept_was_released(project: Path) -> None:
    (project / "CHANGELOG.md").write_text(UNRELEASED)
    (problem,) = check.problems(Tree(project))
    assert problem == "docs/contract/1.0.0/openapi.yaml:1: CHANGELOG.md knows no such version"
    (project / "CHANGELOG.md").write_text(RELEASED + "## [0.9.0] - 2026-10-01\n")
    (problem,) = check.problems(Tree(project))
    assert problem == "CHANGELOG.md:1: 0.9.0 is released, docs/contract/0.9.0 is not there"


def test_all_files_say_the_same_version(project: Path) -> None:
    write_documents(project, said(OPENAPI, "1.1.0"), said(ASYNCAPI, "1.2.0"))
    found = list(check.problems(Tree(project)))
    assert [problem.partition(":")[0] for problem in found] == ["asyncapi.yaml", "pyproject.toml"]


def test_a_contract_that_cannot_be_read_is_a_finding(project: Path) -> None:
    (project / "openapi.yaml").write_text("[")
    (problem,) = check.problems(Tree(project))
    assert "is not YAML" in problem


def test_a_released_contract_never_changes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--keep"], project) == 0
    write(project, "1.0.0", BROKEN)
    before = (project / "docs/contract/1.0.0/openapi.yaml").read_bytes()
    assert main(["--keep"], project) == 2
    assert "does not change" in capsys.readouterr().err
    assert (project / "docs/contract/1.0.0/openapi.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("level", "below"),
    [
        (BREAKING, {"1.0.0", "0.3.0"}),
        (ADDITIVE, {"1.0.0", "0.3.0", "0.2.2"}),
        (DOCS, {"1.0.0", "0.3.0", "0.2.2", "0.2.1"}),
    ],
)
def test_below_one_the_second_number_says_what_breaks(level: str, below: set[str]) -> None:
    versions = {"1.0.0", "0.3.0", "0.2.2", "0.2.1", "0.2.0", "0.1.9"}
    assert {version for version in versions if enough((0, 2, 1), read(version), level)} == below


@pytest.mark.parametrize("wrong", ["1.0", "1.0.0-rc1", "v1.0.0", ""])
def test_a_version_has_three_numbers(wrong: str) -> None:
    with pytest.raises(ValueError, match="no version"):
        read(wrong)


def test_this_project_tells_of_every_release_that_is_kept() -> None:
    assert released(ROOT) == kept(ROOT)


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("openapi", "level", "status"), [(OPENAPI, "none", 0), (WORDS, DOCS, 0), (MORE, ADDITIVE, 0), (BROKEN, BREAKING, 1)]
)
def test_the_command_compares_with_a_revision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], openapi: str, level: str, status: int
) -> None:
    write(tmp_path, "1.0.0")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    write(tmp_path, "1.0.0", openapi)
    assert main(["--base", "HEAD", "--json"], tmp_path) == status
    told = json.loads(capsys.readouterr().out)
    assert (told["base"], told["level"]) == ("HEAD", level)
    assert all(set(change) >= {"level", "rule", "pointer", "message"} for change in told["changes"])
    assert main(["--base", "HEAD"], tmp_path) == status
    text = capsys.readouterr().out
    assert level in text or level == "none"
    assert all(change["pointer"] in text for change in told["changes"])


def test_the_command_compares_with_the_last_release(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], project) == 0
    assert capsys.readouterr().out == "no change\n"
    write(project, "1.0.0", BROKEN)
    assert main([], project) == 1
    assert "openapi.yaml#/components/schemas/Name/maxLength" in capsys.readouterr().out


@pytest.mark.parametrize("base", ["", "no-such-revision", "--output=x"])
def test_what_cannot_be_compared_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], base: str) -> None:
    write(tmp_path, "1.0.0")
    git(tmp_path, "init", "-q")
    assert main([f"--base={base}"], tmp_path) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (tmp_path / "x").exists()
