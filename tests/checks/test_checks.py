"""The checks find what they are for, and find nothing in this working copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.checks import committed, links, names, release, sql
from tests.checks.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
Make = Callable[[dict[str, str]], Tree]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(files: dict[str, str]) -> Tree:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        return Tree(tmp_path)

    return made


@pytest.mark.parametrize("check", [committed, links, names, release, sql], ids=lambda check: check.__name__)
def test_this_working_copy_is_clean(check: ModuleType) -> None:
    assert list(check.problems(Tree(ROOT))) == []


FUNCTION = "CREATE OR REPLACE FUNCTION livebox.{0}() RETURNS bigint LANGUAGE sql AS $$ {1} $$;\n"
COMMENT = "COMMENT ON FUNCTION livebox.{0}() IS 'It''s -- fine: now()';\n"


def function(name: str, body: str = "SELECT 1") -> str:
    return FUNCTION.format(name, body) + COMMENT.format(name)


def test_a_good_function_file_passes(make: Make) -> None:
    clock = "SELECT clock_timestamp() /* now() */ -- current_timestamp\n"
    tree = make({"db/functions/one.sql": function("one"), "db/functions/clock.sql": function("clock", clock)})
    assert list(sql.problems(tree)) == []


@pytest.mark.parametrize(
    "body",
    ["SELECT now()", "SELECT NOW ( )", "SELECT current_timestamp", "SELECT clock_timestamp()", "SELECT localtime"],
)
def test_another_source_of_time_is_found(make: Make, body: str) -> None:
    (problem,) = sql.problems(make({"db/functions/one.sql": "\n\n" + function("one", body)}))
    assert problem.startswith("db/functions/one.sql:3: ")


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("one", function("other"), "defines other"),
        ("one", function("one") + function("two"), "defines one, two"),
        ("one", "-- empty", "defines nothing"),
        ("one", FUNCTION.format("one", "SELECT 1"), "function one has no COMMENT ON"),
        ("one", function("one", "SELECT uuidv7()"), "not in PostgreSQL 15"),
    ],
)
def test_a_bad_function_file_is_found(make: Make, name: str, text: str, what: str) -> None:
    (problem,) = sql.problems(make({f"db/functions/{name}.sql": text}))
    assert what in problem


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE livebox.things (id bigint);",
        "CREATE UNIQUE INDEX things_id ON livebox.things (id);",
        "CREATE TRIGGER guard BEFORE UPDATE ON livebox.things EXECUTE FUNCTION livebox.g();",
        "CREATE TYPE livebox.answer AS (code text);",
    ],
)
def test_an_object_without_a_comment_is_found(make: Make, statement: str) -> None:
    (problem,) = sql.problems(make({"db/migrations/0001_x.sql": statement}))
    assert problem.startswith("db/migrations/0001_x.sql:1: ")
    assert problem.endswith("has no COMMENT ON")


@pytest.mark.parametrize(
    ("link", "what"),
    [
        ("[a](gone.md)", "no such file"),
        ("[a](other.md#gone)", "no such heading"),
        ("[a]( <gone.md> )", "no such file"),
        ("[a]: gone.md", "no such file"),
        ("![a](picture.svg)", "no such file"),
        ("[a](../../outside.md)", "leads out"),
    ],
)
def test_a_dead_link_is_found(make: Make, link: str, what: str) -> None:
    tree = make({"docs/page.md": f"# Page\n\n{link}\n", "docs/other.md": "# Other page\n"})
    (problem,) = links.problems(tree)
    assert problem.startswith("docs/page.md:3: ")
    assert what in problem


def test_good_links_pass(make: Make) -> None:
    page = "[a](other.md) [b](other.md#two-words) [c](#page) [d](https://example.com/x) `[e](gone.md)`\n# Page\n"
    tree = make({"docs/page.md": f"{page}```\n[f](gone.md)\n```\n", "docs/other.md": "## Two words\n"})
    assert list(links.problems(tree)) == []


JWT = ".".join(("eyJ" + "hbGciOiJFZERTQSJ9", "eyJ" + "zdWIiOiJhbGV4In0", "c2ln" * 8))


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        ("a.py", "key = '''-----BEGIN " + "PRIVATE KEY-----\n'''", "a private key"),
        ("a.md", f"Bearer {JWT}", "a JWT"),
        ("a.json", '{"d": "' + "x" * 43 + '"}', "a private JWK"),
        ("a.py", "dsn = 'postgresql://livebox:hunter22" + "@db.example.com/x'", "a password in a URL"),
        ("a.md", "see https://" + "unknown.invalid/page", "unknown.invalid"),
        ("a.py", "open('/" + "root/file')", "a path of one machine"),
        ("a.py", "open('/home/" + "someone/file')", "a path of one machine"),
        ("a.json", '{"a": [1, {"b": null}]}', "a null at /a/1/b"),
        ("a.yaml", "a:\n  b:\n", "a null at /a/b"),
    ],
)
def test_what_must_not_be_committed_is_found(make: Make, path: str, text: str, what: str) -> None:
    (problem,) = committed.problems(make({path: text}))
    assert problem.startswith(f"{path}:1: ")
    assert what in problem


def test_a_binary_file_is_found(make: Make, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "docs/images").mkdir(parents=True)
    (tmp_path / "docs/images/page.png").write_bytes(b"\xff\xfe\x00")
    assert list(committed.problems(Tree(tmp_path))) == ["picture:1: a binary file"]


def test_examples_may_be_committed(make: Make) -> None:
    text = (
        "curl http://127.0.0.1:8080/v1/runs https://livebox.example.com wss://chat.example/ postgresql://u:secret@h/x"
    )
    assert list(committed.problems(make({"README.md": text}))) == []


READMES = {f"{package}/README.md": "" for package in names.PACKAGES}


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        ("notes.txt", "", "does not belong at the top"),
        ("livebox/utils.py", "", "called after the noun"),
        ("handlers/helpers/x.py", "", "called after the noun"),
        ("livebox/long.py", "x = 1\n" * 400, "400 lines"),
        ("db/lane.py", "import os\nos.environ['X']\n", "environment"),
        ("db/lane.py", "import os\nos.getenv('X')\n", "environment"),
        ("livebox/client/x.py", "import livebox.settings\n", "livebox.settings"),
        ("livebox/client/x.py", "from handlers import runs\n", "handlers"),
    ],
)
def test_a_wrong_place_or_name_is_found(make: Make, path: str, text: str, what: str) -> None:
    (problem,) = names.problems(make({**READMES, path: text}))
    assert what in problem


def test_a_package_without_a_readme_is_found(make: Make) -> None:
    (problem,) = names.problems(make({name: text for name, text in READMES.items() if name != "db/README.md"}))
    assert problem.startswith("db/README.md:1: ")


def test_good_names_pass(make: Make) -> None:
    good = {"livebox/client/run.py": "from generated import models\nfrom livebox.client.http import Http\n"}
    assert list(names.problems(make({**READMES, **good, "livebox/settings.py": "os.environ"}))) == []
