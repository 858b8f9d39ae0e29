"""The generator: same documents same bytes, `--check`, refusals, and the parts that link contract and handlers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from livebox.codegen.__main__ import main
from livebox.codegen.documents import DocumentError, load, load_file
from livebox.codegen.output import digest, files
from livebox.codegen.python import literal
from tests.contract.small_contract import ASYNCAPI, OPENAPI, generate, import_generated, write_documents

ROOT = Path(__file__).parents[2]

#: A second template for the paths of getThing.
_SAME_SHAPE = """
  /v1/things/{id}:
    get:
      operationId: other
      tags: [things]
      x-kind: read
      parameters: [{name: id, in: path, required: true, schema: {type: string, maxLength: 3}}]
      responses: {'200': {description: Ok.}}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleType]:
    root = tmp_path_factory.mktemp("small")
    return import_generated(root, generate(root)[1])


def test_what_is_committed_is_what_the_contract_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out


def test_two_runs_give_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    outputs = []
    for seed in ("1", "4242"):
        root = tmp_path / seed
        root.mkdir()
        write_documents(root)
        command = [sys.executable, "-m", "livebox.codegen", "--root", str(root)]
        subprocess.run(command, check=True, cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True)
        outputs.append({path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()})
    assert outputs[0] == outputs[1]
    assert Path("generated/models.py") in outputs[0]


def test_check_lists_what_differs_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_documents(tmp_path)
    arguments = ["--root", str(tmp_path)]
    assert main([*arguments, "--check"]) == 1
    assert "generated/models.py is missing" in capsys.readouterr().out
    assert not (tmp_path / "generated").exists()

    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0
    capsys.readouterr()

    (tmp_path / "generated" / "routes.py").write_text("edited")
    (tmp_path / "generated" / "old.py").write_text("")
    assert main([*arguments, "--check"]) == 1
    assert capsys.readouterr().out.splitlines() == ["generated/routes.py differs", "generated/old.py is not generated"]

    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == ["generated/routes.py", "generated/old.py"]
    assert not (tmp_path / "generated" / "old.py").exists()


def test_the_digest_follows_both_documents_and_not_their_layout(tmp_path: Path) -> None:
    first, made = generate(tmp_path)
    assert digest(first) in made["generated/digest.py"]
    assert digest(generate(tmp_path, OPENAPI + "\n# a comment\n")[0]) == digest(first)
    assert digest(generate(tmp_path, OPENAPI.replace("Anything.", "Something."))[0]) != digest(first)
    assert digest(generate(tmp_path, asyncapi=ASYNCAPI.replace("version: 1.0.0", "version: 1.0.1"))[0]) != digest(first)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("operationId: getThing", "x-no: getThing", "no operationId"),
        ("operationId: putThing", "operationId: getThing", "two operations"),
        ("x-problem-codes: [not_found]", "x-problem-codes: [gone]", "gone"),
        ("x-kind: write", "x-kind: both", "x-kind"),
        ("explode: false, schema: {type: array", "schema: {type: array", "explode"),
        ("schemas/Thing'}}}}\n      responses: {'204'", "schemas/No'}}}}\n      responses: {'204'", "nothing is at"),
        ("/v1/things:\n", "/v1/things/{other}:\n", "path has"),
        ("  /health:", f"{_SAME_SHAPE}  /health:", "match the same"),
        ("description: Anything.", "description: ", "null"),
        ("description: Anything.", "description: Anything.\n      description: Twice.", "twice"),
        ("tags: [thing control]", "tags: [things, thing control]", "exactly one tag"),
        ("tags: [thing control]", "tags: ['1']", "Python name"),
        ("in: query, schema: {type: boolean}", "in: cookie, schema: {type: boolean}", "not supported"),
        ("x-error-code: not_allowed_value", "x-error-code: no_code", "no_code is not a code"),
        ("    put:\n", "    trace: {}\n    put:\n", "not supported"),
    ],
)  # fmt: skip
def test_a_contract_that_cannot_be_used_is_refused_by_name(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    assert before in OPENAPI
    with pytest.raises(DocumentError, match=message):
        generate(tmp_path, OPENAPI.replace(before, after, 1))


def test_a_wrong_document_ends_the_command_with_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path)]) == 2
    assert "openapi.yaml is missing" in capsys.readouterr().err
    write_documents(tmp_path, openapi="a: [")
    assert main(["--root", str(tmp_path)]) == 2
    assert "not YAML" in capsys.readouterr().err


def test_yaml_is_read_as_json(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("{at: 2026-11-02T09:30:00Z, day: 2026-11-02, yes: no, 200: on, flag: true, n: 12, f: 1.5}")
    assert load_file(path) == {
        "at": "2026-11-02T09:30:00Z", "day": "2026-11-02", "yes": "no", "200": "on", "flag": True, "n": 12, "f": 1.5,
    }  # fmt: skip


def test_both_documents_may_not_define_the_same_schema(tmp_path: Path) -> None:
    twice = ASYNCAPI.replace(
        "    Count: {$ref: 'openapi.yaml#/components/schemas/Count'}", "    Count: {type: boolean}"
    )
    with pytest.raises(DocumentError, match="both documents"):
        generate(tmp_path, asyncapi=twice)


def test_operations_say_what_the_contract_says(small: dict[str, ModuleType]) -> None:
    operations = small["operations"].OPERATIONS
    put, create, health = operations["putThing"], operations["createThing"], operations["getHealth"]
    assert (put.function, put.module, put.method, put.path) == (
        "put_thing",
        "thing_control",
        "PUT",
        "/v1/things/{thing_id}",
    )
    assert (put.security, put.rate_class, put.kind, put.success, put.media) == (
        "invocation",
        "patch",
        "write",
        (204,),
        "",
    )
    assert (put.has_body, put.body_required, put.idempotent) == (True, True, False)
    assert (create.security, create.body_required, create.idempotent) == ("bearer", False, True)
    assert create.body_media == ("application/json",)
    assert (health.security, health.rate_class, health.media) == ("public", None, "text/plain")
    assert operations["getThing"].problem_codes == ("not_found",)
    assert small["problems"].PROBLEMS == {"validation_failed": (400, "Wrong input"), "not_found": (404, "Nothing here")}


def test_every_get_has_its_head(small: dict[str, ModuleType]) -> None:
    assert small["routes"].PATHS == {
        "/v1/things/{thing_id}": ("GET", "HEAD", "PUT"),
        "/v1/things": ("GET", "HEAD", "POST"),
        "/health": ("GET", "HEAD"),
    }


def _modules() -> dict[str, ModuleType]:
    modules = {"things": ModuleType("handlers.things"), "thing_control": ModuleType("handlers.thing_control")}
    names = {"things": ("get_thing", "list_things", "create_thing", "get_health"), "thing_control": ("put_thing",)}
    for module, functions in names.items():
        for function in functions:
            exec(f"async def {function}(context, parameters, body=None): return 1", vars(modules[module]))  # noqa: S102
            getattr(modules[module], function).__module__ = f"handlers.{module}"
    return modules


def test_handlers_and_contract_are_held_together(small: dict[str, ModuleType]) -> None:
    check, functions = small["handlers"].check, small["handlers"].functions
    modules = _modules()
    assert check(modules) == []
    assert functions(modules)["putThing"] is modules["thing_control"].put_thing

    del modules["things"].get_thing
    modules["things"].list_things = lambda *_: None
    exec("async def other(): ...\nasync def _inner(): ...", vars(modules["things"]))  # noqa: S102
    modules["things"].other.__module__ = "handlers.things"
    del modules["thing_control"]
    assert check(modules) == [
        "getThing has no function get_thing in handlers/things.py",
        "handlers/things.py: list_things is not an async function",
        "handlers/things.py: other belongs to no operation",
        "putThing has no function put_thing in handlers/thing_control.py",
    ]


def test_gateway_messages_know_who_sends_them(small: dict[str, ModuleType]) -> None:
    messages = small["gateway_messages"].MESSAGES
    assert {name: message.sender for name, message in messages.items()} == {"thing.update": "client", "thing": "server"}
    frame_errors = small["validators"].frame_errors
    assert frame_errors("thing.update", {"type": "thing.update", "base": 1}) == []
    assert [error.name for error in frame_errors("thing.update", {"type": "thing.update", "base": -1})] == ["/base"]


def test_the_bundle_of_the_gateway_needs_no_second_file(tmp_path: Path) -> None:
    made = generate(tmp_path)[1]["generated/asyncapi.json"]
    assert "openapi.yaml" not in made
    for name in ("Thing", "Part", "Circle", "Count", "Envelope"):
        assert f'"{name}": {{' in made


def test_patchable_paths_come_from_the_contract(tmp_path: Path) -> None:
    openapi = OPENAPI.replace("    Thing:\n", "    Run:\n", 1).replace("schemas/Thing'", "schemas/Run'")
    asyncapi = ASYNCAPI.replace("schemas/Thing'", "schemas/Run'")
    find = import_generated(tmp_path, generate(tmp_path, openapi, asyncapi)[1])["patchable_paths"].find
    parts = find(["parts"])
    assert (parts.container, parts.required, parts.keys) == (True, False, "/schemas/Run/properties/parts/propertyNames")
    assert find(["parts", "any"]).schema == "/schemas/Part"
    assert find(["parts", "any", "size"]).schema == "/schemas/Count"
    assert find(["name"]) is None
    assert find(["parts", "any", "nothing"]) is None
    assert find([]) is None


@pytest.mark.parametrize(
    "value", ["it's", 'say "no"', "both ' and \"", "a\\b\n\t", "ü\u202e", ("a",), (), {"a": [1, None, True]}]
)
def test_literals_read_back(value: object) -> None:
    assert eval(literal(value)) == value  # noqa: S307
    assert '"' in literal("x")


def test_generated_code_imports_nothing_written_by_hand() -> None:
    for path in (ROOT / "generated").glob("*.py"):
        for line in path.read_text().splitlines():
            assert not line.startswith(("from livebox", "import livebox", "from handlers", "from db", "import db")), (
                path
            )


def test_the_generator_works_without_what_it_generates(tmp_path: Path) -> None:
    write_documents(tmp_path)
    code = (
        "import sys; sys.modules['generated'] = None; from livebox.codegen.__main__ import main;"
        f"sys.exit(main(['--root', {str(tmp_path)!r}]))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)
    assert (tmp_path / "generated" / "routes.py").is_file()


def test_files_are_a_pure_function(tmp_path: Path) -> None:
    documents, made = generate(tmp_path)
    assert files(documents) == made == files(load(tmp_path))
