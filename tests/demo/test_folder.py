"""Which folder a message asks about, and that nothing outside of the root is ever named or reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from livebox.demo.folder import FolderRefused, folder_asked, namesakes, resolve
from livebox.printable import printable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a folder in it, and things outside that must stay unreachable."""
    (tmp_path / "outside" / "secret").mkdir(parents=True)
    root = tmp_path / "root"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "file.txt").write_text("x")
    (root / "in").symlink_to("docs")
    (root / "out").symlink_to("../outside")
    (root / "absolute").symlink_to(tmp_path / "outside")
    (root / "dangling").symlink_to("../outside/nothing")
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    return root


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("What is in `docs`?", "docs"),
        ('Report on "two words" please', "two words"),
        ("What is in docs/deep?", "docs/deep"),
        ("Look into ./docs, please", "./docs"),
        ("What is in the folder docs?", "docs"),
        ("folder\tdocs.", "docs"),
        ("Which files are in this folder?", "."),
        ("What changed this week?", "."),
        ("Look at ..", ".."),
        ("Read /etc/ssl now", "/etc/ssl"),
        ("` `", "."),
        ("", "."),
    ],
)
def test_the_folder_that_a_message_names(text: str, folder: str) -> None:
    assert folder_asked(text) == folder


@pytest.mark.parametrize(
    ("asked", "real"),
    [(".", "."), ("docs", "docs"), ("docs/", "docs"), ("./docs/deep", "docs/deep"), ("in/deep", "docs/deep")],
)
def test_a_folder_below_the_root_is_found_where_it_really_is(root: Path, asked: str, real: str) -> None:
    assert resolve(root, asked) == (root / real).resolve()


def test_a_root_that_is_a_link_is_followed(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    assert resolve(link, "docs") == root / "docs"


@pytest.mark.parametrize(
    "asked",
    [
        *("/etc", "//etc", "~", "~root", "C:\\Users", "c:/x", "\\\\host\\share"),
        *("..", "../outside", "docs/../../outside", "docs/..", "docs\\..\\..\\outside"),
        *("out", "out/secret", "absolute", "absolute/secret", "a", "a/x", "x" * 5000, "nul\0byte"),
        *("nothing", "docs/nothing", "file.txt", "file.txt/x", "dangling"),
    ],
)
def test_everything_else_is_refused_with_a_reason(root: Path, asked: str) -> None:
    with pytest.raises(FolderRefused) as refused:
        resolve(root, asked)
    assert str(refused.value).endswith(".")
    assert str(root.parent) not in str(refused.value)


def test_what_exists_outside_is_not_told(root: Path) -> None:
    answers = set()
    for asked in ("out/secret", "out/nothing"):
        with pytest.raises(FolderRefused) as refused:
            resolve(root, asked)
        answers.add(str(refused.value).replace(asked, "it"))
    assert len(answers) == 1


def test_a_missing_folder_is_said_to_be_missing(root: Path) -> None:
    with pytest.raises(FolderRefused, match=r"The folder nothing does not exist\."):
        resolve(root, "nothing")


def test_shown_text_is_one_clean_line() -> None:
    assert printable("a\n b\x00c\u202ed\te") == "a b\ufffdc\ufffdd e"
    assert printable("x\udcff") == "x?"
    assert printable("x" * 300, 10) == "x" * 9 + "…"


def test_folders_of_one_name_are_found_below_the_root_alone(root: Path) -> None:
    for place in ("one", "docs", ".git", "one/two"):
        (root / place / "same").mkdir(parents=True)
    (root / "linked").symlink_to("../outside")
    assert namesakes(root, "same", {".git"}) == ["docs/same", "one/same", "one/two/same"]
    assert namesakes(root, "same", {".git"}, most=1) == ["docs/same"]
    assert namesakes(root, "secret", set()) == []  # it lies outside, behind links


@pytest.mark.parametrize(
    "asked", [".", "..", "~", "docs", "docs/deep", "/etc", "in", "a", "nothing", "x" * 5000, "\0", "\ud800", "\\x"]
)
def test_what_is_no_plain_name_has_no_namesakes(root: Path, asked: str) -> None:
    assert namesakes(root, asked, set()) == []
