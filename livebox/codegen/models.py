"""`models.py`: one TypedDict (or alias) per named schema, made by datamodel-code-generator."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from livebox.codegen.documents import DocumentError, Documents, Json, is_reference
from livebox.codegen.python import HEADER
from livebox.codegen.schemas import local_references, named_schemas

#: Fixed here, so that neither defaults nor a configuration file of the tool change the output.
OPTIONS = (
    "--input-file-type", "openapi",
    "--openapi-scopes", "schemas",
    "--schema-version", "3.1",
    "--output-model-type", "typing.TypedDict",
    "--target-python-version", "3.11",
    "--no-use-closed-typed-dict",
    "--use-standard-collections",
    "--use-union-operator",
    "--use-double-quotes",
    "--use-schema-description",
    "--enum-field-as-literal", "all",
    "--import-overrides", json.dumps({"TypedDict": "typing", "NotRequired": "typing", "TypeAlias": "typing"}),
    "--disable-timestamp",
    "--strict-refs",
    "--no-allow-remote-refs",
    "--ignore-pyproject",
    "--formatters", "builtin",
)  # fmt: skip

_TARGET = "#/components/schemas"
#: What has no meaning for a type and only makes the tool think.
_DROPPED = frozenset({"example", "examples", "pattern", "propertyNames", "default", "format", "unevaluatedProperties"})


def models_module(documents: Documents) -> str:
    """The source of `generated/models.py`. Raises DocumentError with the tool's words when it fails."""
    named = {name: local_references(schema, _TARGET) for name, schema in named_schemas(documents).items()}
    schemas = {name: _plain(_merged(schema, named), False) for name, schema in named.items()}
    document = {"openapi": "3.1.0", "info": {"title": "models", "version": "1"}, "paths": {},
                "components": {"schemas": schemas}}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "schemas.json"), Path(folder, "models.py")
        source.write_text(json.dumps(document), encoding="utf-8")
        header = HEADER.format(purpose="The shapes of the contract's named schemas.").rstrip()
        command = [sys.executable, "-m", "datamodel_code_generator", *OPTIONS,
                   "--input", str(source), "--output", str(target), "--custom-file-header", header]  # fmt: skip
        done = subprocess.run(  # noqa: S603 - our own interpreter and fixed options
            command, cwd=folder, env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise DocumentError(f"datamodel-code-generator failed: {done.stderr.strip()}")
        return target.read_text(encoding="utf-8")


def _merged(schema: Any, named: dict[str, Any]) -> Any:
    """An object made of several by `allOf` as one object: a TypedDict may not narrow a member it inherits."""
    parts = schema.get("allOf")
    if not parts:
        return schema
    merged: Json = {"type": "object", "properties": {}, "required": []}
    for part in [*parts, {key: value for key, value in schema.items() if key != "allOf"}]:
        whole = _merged(named[part["$ref"].rpartition("/")[2]] if is_reference(part) else part, named)
        merged["properties"].update(whole.get("properties", {}))
        merged["required"] += [name for name in whole.get("required", []) if name not in merged["required"]]
    return {**merged, **({"description": schema["description"]} if "description" in schema else {})}


def _plain(schema: Any, names: bool) -> Any:
    """A schema without what types cannot say. `names` tells that the keys are member names, not keywords."""
    if isinstance(schema, list):
        return [_plain(item, False) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key in ("const", "enum") else _plain(value, key in ("properties", "$defs") and not names)
        for key, value in schema.items()
        if names or not (key in _DROPPED or key.startswith("x-"))
    }


def type_of(schema: Json) -> str:
    """The Python type of a parameter's schema."""
    if "enum" in schema:
        return f"Literal[{', '.join(repr(value) for value in schema['enum'])}]"
    if schema["type"] == "array":
        return f"list[{type_of(schema['items'])}]"
    return {"string": "str", "integer": "int", "boolean": "bool"}[schema["type"]]
