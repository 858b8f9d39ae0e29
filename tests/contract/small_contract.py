"""A contract of a few operations with each kind of parameter and schema, and the code that is generated from it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from livebox.codegen.documents import Documents, load
from livebox.codegen.output import files

_FOLDER = Path(__file__).parent / "small"
OPENAPI = (_FOLDER / "openapi.yaml").read_text(encoding="utf-8")
ASYNCAPI = (_FOLDER / "asyncapi.yaml").read_text(encoding="utf-8")

MODULES = ("field_errors", "handlers", "gateway_messages", "operations", "parameters", "patchable_paths", "problems",
           "queries", "routes", "validators")  # fmt: skip


def write_documents(root: Path, openapi: str = OPENAPI, asyncapi: str = ASYNCAPI) -> None:
    """Put both documents into `root`."""
    (root / "openapi.yaml").write_text(openapi, encoding="utf-8")
    (root / "asyncapi.yaml").write_text(asyncapi, encoding="utf-8")


def generate(root: Path, openapi: str = OPENAPI, asyncapi: str = ASYNCAPI) -> tuple[Documents, dict[str, str]]:
    """The documents and the files that are made from them."""
    write_documents(root, openapi, asyncapi)
    documents = load(root)
    return documents, files(documents)


def import_generated(root: Path, made: dict[str, str]) -> dict[str, ModuleType]:
    """The generated modules, imported beside the real ones and not registered."""
    for name, content in made.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    ours = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "generated"}
    for name in ours:
        del sys.modules[name]
    sys.path.insert(0, str(root))
    importlib.invalidate_caches()
    try:
        return {name: importlib.import_module(f"generated.{name}") for name in MODULES}
    finally:
        sys.path.remove(str(root))
        for name in [name for name in sys.modules if name.split(".")[0] == "generated"]:
            del sys.modules[name]
        sys.modules.update(ours)
