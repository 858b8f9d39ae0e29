"""Reading folders that are built for it: what is counted, what is left out, and that nothing odd ends the reading."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from livebox.demo import folder_report
from livebox.demo.folder_report import Bounds, File, FolderReader, Stopped
from livebox.demo.folder_text import headline, report, size
from livebox.demo.languages import OTHER, language

Build = Callable[[dict[str, str | bytes]], Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Write files by path and content; gives the folder."""

    def written(files: dict[str, str | bytes]) -> Path:
        for path, content in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return written


def test_files_folders_and_bytes_are_counted(build: Build) -> None:
    listing = FolderReader(build({"a.py": "1\n", "b/c.md": "12\n", "b/d/e.txt": ""})).listing()
    assert listing.files == [File("a.py", 2), File("b/c.md", 3), File("b/d/e.txt", 0)]
    assert listing.detail() == {"files": 3, "folders": 2, "bytes": 5, "complete": True}


def test_an_empty_folder_is_read_as_empty(tmp_path: Path) -> None:
    reader = FolderReader(tmp_path)
    listing = reader.listing()
    lines, todos = reader.lines(listing.files), reader.todos([])
    assert listing.detail() == {"files": 0, "folders": 0, "bytes": 0, "complete": True}
    assert report(".", listing, lines, [], todos).startswith("**0 files**")
    assert headline(listing, lines, 0) == "0 files, 0 lines, 0 TODOs"


def test_lines_by_language_with_and_without_a_last_newline(build: Build) -> None:
    reader = FolderReader(
        build({"a.py": "1\n2\n", "b.py": "1\n2", "empty.py": "", "c.md": "x\n", "run": "#!/usr/bin/env bash\nls\n"})
    )
    lines = reader.lines(reader.listing().files)
    assert dict(lines.lines) == {"Python": 4, "Markdown": 1, "Shell": 2}
    assert dict(lines.files) == {"Python": 3, "Markdown": 1, "Shell": 1}
    assert lines.detail(reader.bounds)["lines"] == 7


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("Makefile", b"", "Makefile"),
        ("A.PY", b"", "Python"),
        ("tool", b"#!/usr/bin/python3\n", "Python"),
        ("tool", b"#!/bin/sh", "Shell"),
        ("data", b"x", OTHER),
        ("archive.unknown", b"", OTHER),
        (".gitignore", b"", "INI"),
    ],
)
def test_languages(name: str, head: bytes, expected: str) -> None:
    assert language(name, head) == expected


def test_binary_and_large_files_are_counted_and_not_read(build: Build) -> None:
    folder = build({"image.py": b"\x89PNG\0\1", "large.py": "x\n" * 100, "small.py": "x\n"})
    reader = FolderReader(folder, Bounds(file_bytes=100))
    lines = reader.lines(reader.listing().files)
    assert dict(lines.lines) == {"Python": 1}
    assert dict(lines.skipped) == {"binary": 1, "too_large": 1}
    assert [file.path for file in lines.text] == ["small.py"]


def test_text_that_is_not_utf8_is_read(build: Build) -> None:
    reader = FolderReader(build({"latin.txt": b"# TODO gr\xfc\xdfen\n"}))
    lines = reader.lines(reader.listing().files)
    assert lines.lines["Text"] == 1
    assert reader.todos(lines.text)[1][0].text == "# TODO gr��en"


def test_names_that_cannot_be_sent_are_made_so(build: Build) -> None:
    folder = build({"a\nb.py": "# TODO x\n"})
    os.close(os.open(os.fsencode(folder) + b"/\xff.py", os.O_CREAT | os.O_WRONLY))
    reader = FolderReader(folder)
    listing = reader.listing()
    assert len(listing.files) == 2
    lines = reader.lines(listing.files)
    text = report(".", listing, lines, reader.largest(listing.files), reader.todos(lines.text))
    assert text.encode("utf-8")
    assert "a b.py" in text


def test_links_are_counted_and_never_followed(build: Build, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.py").write_text("# TODO secret\n")
    folder = build({"sub/a.py": "x\n"})
    (folder / "sub" / "circle").symlink_to("..")
    (folder / "self").symlink_to("self")
    (folder / "out").symlink_to(outside)
    (folder / "secret.py").symlink_to(outside / "secret.py")
    listing = FolderReader(folder).listing()
    assert [file.path for file in listing.files] == ["sub/a.py"]
    assert dict(listing.skipped) == {"links": 4}


def test_a_file_swapped_for_a_link_meanwhile_is_not_followed(
    build: Build, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "b.py").write_text("secret\n")
    folder = build({"a.py": "1\n", "sub/b.py": "1\n", "c.py": "1\n"})
    reader = FolderReader(folder)
    files = reader.listing().files
    (folder / "a.py").unlink()
    (folder / "a.py").symlink_to(outside / "b.py")
    (folder / "sub").rename(folder / "moved")
    (folder / "sub").symlink_to(outside)
    lines = reader.lines(files)
    assert [file.path for file in lines.text] == ["c.py"]
    assert lines.skipped["unreadable"] == 2


def test_pipes_and_sockets_are_counted_and_not_opened(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build({"a.py": "x\n"})
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        listing = FolderReader(folder).listing()
    assert len(listing.files) == 1
    assert listing.skipped["special"] == 2


def test_what_cannot_be_opened_is_counted_and_ends_nothing(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build({"a.py": "x\n", "locked.py": "x\n", "private/b.py": "x\n"})
    really_open = os.open

    def refusing(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if path in ("locked.py", "private"):
            raise PermissionError(13, "Permission denied")
        return really_open(path, flags, *rest, **named)

    monkeypatch.setattr(folder_report.os, "open", refusing)
    reader = FolderReader(folder)
    listing = reader.listing()
    lines = reader.lines(listing.files)
    assert listing.skipped["unreadable"] == 1
    assert lines.skipped["unreadable"] == 1
    assert [file.path for file in lines.text] == ["a.py"]
    assert "2 unreadable" in report(".", listing, lines, [], (0, []))


def test_a_file_that_went_away_is_counted(build: Build) -> None:
    folder = build({"a.py": "x\n", "gone.py": "x\n"})
    reader = FolderReader(folder)
    files = reader.listing().files
    (folder / "gone.py").unlink()
    assert reader.lines(files).skipped["unreadable"] == 1


def test_folders_of_tools_are_left_out(build: Build) -> None:
    listing = FolderReader(build({".git/x": "1", "node_modules/m/y": "1", "a": "1"})).listing()
    assert [file.path for file in listing.files] == ["a"]
    assert listing.skipped["ignored_folders"] == 2


def test_the_walk_ends_at_its_bound_and_says_so(build: Build) -> None:
    folder = build({f"{folder}/{file}.py": "x\n" for folder in "abc" for file in range(10)})
    listing = FolderReader(folder, Bounds(entries=15)).listing()
    assert len(listing.files) + listing.folders == 15
    assert not listing.complete
    assert "I stopped at my limit" in report(".", listing, FolderReader(folder).lines([]), [], (0, []))


def test_depth_is_bounded(build: Build) -> None:
    listing = FolderReader(build({"a/b/c/deep.py": "x\n", "a/near.py": "x\n"}), Bounds(depth=2)).listing()
    assert [file.path for file in listing.files] == ["a/near.py"]
    assert listing.skipped["too_deep"] == 1
    assert not listing.complete


def test_bytes_are_bounded(build: Build) -> None:
    reader = FolderReader(build({"a.py": "x\n" * 10, "b.py": "x\n" * 10, "c.py": "x\n"}), Bounds(bytes_read=25))
    lines = reader.lines(reader.listing().files)
    assert [file.path for file in lines.text] == ["a.py", "c.py"]
    assert lines.skipped["over_the_limit"] == 1


def test_a_file_that_grows_is_read_up_to_the_bound(build: Build) -> None:
    folder = build({"a.py": "x\n"})
    reader = FolderReader(folder, Bounds(file_bytes=10))
    files = reader.listing().files
    (folder / "a.py").write_text("x\n" * 1000)
    assert reader.lines(files).lines["Python"] == 5


def test_largest_files_come_first_and_ties_by_path(build: Build) -> None:
    reader = FolderReader(build({"a": "1", "b": "333", "c": "22", "d": "22"}), Bounds(listed=3))
    assert [file.path for file in reader.largest(reader.listing().files)] == ["b", "c", "d"]


def test_todos_are_found_where_comments_begin_with_them(build: Build) -> None:
    reader = FolderReader(
        build(
            {
                "a.py": "x = 1  # TODO first\ny = 'no TODO here'\n# FIXME: second\n",
                "b.js": "// XXX third\n/* TODO fourth */\nconst TODOS = 1\n",
                "notes.md": "TODO fifth\n- TODO sixth\nNot a TODO.\n",
            }
        ),
        Bounds(listed=2),
    )
    count, first = reader.todos(reader.lines(reader.listing().files).text)
    assert count == 6
    assert [(todo.path, todo.line) for todo in first] == [("a.py", 1), ("a.py", 3)]


def test_few_languages_are_shown_of_many(build: Build) -> None:
    reader = FolderReader(build({"a.py": "1\n2\n3\n", "b.md": "1\n2\n", "c.c": "1\n"}), Bounds(languages=2))
    detail = reader.lines(reader.listing().files).detail(reader.bounds)
    assert [each["name"] for each in detail["languages"]] == ["Python", "Markdown"]
    assert detail["more_languages"] == 1


@pytest.mark.parametrize("phase", ["listing", "lines", "todos"])
def test_reading_stops_when_asked_to(build: Build, phase: str) -> None:
    folder = build({f"{number}.py": "x\n" for number in range(5)})
    files = FolderReader(folder).listing().files
    asked: list[int] = []

    def stopped() -> bool:
        asked.append(1)
        return len(asked) > 2

    reader = FolderReader(folder, stopped=stopped)
    with pytest.raises(Stopped):
        reader.listing() if phase == "listing" else getattr(reader, phase)(files)
    assert len(asked) == 3


def test_sizes_for_people() -> None:
    assert [size(number) for number in (0, 1023, 1024, 1024**2, 5 * 1024**3)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.0 MiB",
        "5.0 GiB",
    ]
