"""`parameters.py`: the parameters of each operation as a TypedDict, and straight-line code that reads them."""

from __future__ import annotations

from livebox.codegen.contract import Operation, Parameter
from livebox.codegen.documents import DocumentError
from livebox.codegen.operations import parameter_types
from livebox.codegen.python import literal, module, quoted, table

_IMPORTS = """
from collections.abc import Callable
from typing import Any, Literal, NotRequired, TypedDict

from multidict import istr

from generated.field_errors import FieldError, field_error
from generated.queries import Readable, boolean, integer, is_text, split_query, unknown_parameters
from generated.validators import checker
"""

#: Headers that RFC 9110 defines as lists: lines of the same name are one list.
_LISTS = ("If-Match", "If-None-Match")


def parameters_module(operations: tuple[Operation, ...]) -> str:
    """The source of `generated/parameters.py`."""
    checked = {
        parameter.pointer: constant(parameter)
        for operation in operations
        for parameter in operation.parameters
        if parameter.schema["type"] != "boolean"
    }
    if len(set(checked.values())) != len(checked):
        raise DocumentError("two parameters differ only in the case or punctuation of their component's name")
    checkers = [f"{name} = checker({quoted(pointer)})" for pointer, name in checked.items()]
    headers = sorted({parameter.name for operation in operations for parameter in operation.parameters
                      if parameter.location == "header"})  # fmt: skip
    names = [f"{header_constant(name)} = istr({quoted(name)})" for name in headers]
    readers = [(operation.id, f"read_{operation.function}") for operation in operations]
    return module(
        "Parameters of each operation, and how they are read from a request.",
        _IMPORTS.strip("\n") + "\n\n" + "\n".join([*names, "", *checkers]),
        *(parameter_types(operation) for operation in operations),
        *(reader(operation) for operation in operations),
        table("READERS", "dict[str, Callable[[Readable], tuple[Any, list[FieldError]]]]", readers),
    )


def constant(parameter: Parameter) -> str:
    """The name of the compiled schema of a parameter."""
    key = parameter.pointer.rpartition("/")[2]
    return "_" + "".join(character if character.isalnum() else "_" for character in key).upper()


def header_constant(name: str) -> str:
    """The name of the constant for a header's name."""
    return f"_H_{name.upper().replace('-', '_')}"


def reader(operation: Operation) -> str:
    """The function that reads and checks all parameters of one operation."""
    lines = [
        f"def read_{operation.function}(request: Readable)"
        f" -> tuple[{operation.type_name}Parameters, list[FieldError]]:",
        "    parameters: Any = {}",
        "    errors: list[FieldError] = []",
    ]
    located = {place: [p for p in operation.parameters if p.location == place] for place in ("path", "query", "header")}
    for parameter in located["path"]:
        lines += [f"    value = request.match_info[{quoted(parameter.name)}]", *_checked(parameter, "value", 1)]
    lines += _query(located["query"])
    if located["header"]:
        lines.append("    headers = request.headers")
    for parameter in located["header"]:
        lines += _header(parameter)
    return "\n".join([*lines, "    return parameters, errors"])


def _query(parameters: list[Parameter]) -> list[str]:
    """Code for the query: nothing but the defaults when there is none, which is the common case."""
    absent: list[str] = []
    lines = ["    text = request.rel_url.raw_query_string", "    if text:", "        query = split_query(text, errors)"]
    for parameter in parameters:
        missing = _missing(parameter)
        lines.append(f"        raw = query.pop({quoted(parameter.name)}, None)")
        if missing:
            absent += [f"        {line}" for line in missing]
            lines += ["        if raw is None:", *(f"            {line}" for line in missing), "        else:"]
        else:
            lines.append("        if raw is not None:")
        lines += _converted(parameter, 3)
    lines += ["        if query:", "            unknown_parameters(query, errors)"]
    return [*lines, "    else:", *absent] if absent else lines


def _missing(parameter: Parameter) -> list[str]:
    """What happens when a parameter is absent."""
    if parameter.required:
        return [f'errors.append(field_error("required", "parameter", {quoted(parameter.name)}))']
    if "default" in parameter.schema:
        return [f"parameters[{quoted(parameter.python_name)}] = {literal(parameter.schema['default'])}"]
    return []


def _converted(parameter: Parameter, depth: int) -> list[str]:
    """Code that turns the text `raw` into a value, checks it and keeps it."""
    pad = "    " * depth
    kind = parameter.schema["type"]
    if kind == "string":
        return _checked(parameter, "raw", depth, text_is_clean=True)
    if kind == "array":
        return _array(parameter, depth)
    name = {"integer": "number", "boolean": "flag"}[kind]
    refused = f'errors.append(field_error("wrong_type", "parameter", {quoted(parameter.name)}))'
    lines = [f"{pad}{name} = {kind}(raw)", f"{pad}if {name} is None:", f"{pad}    {refused}", f"{pad}else:"]
    if kind == "boolean":
        return [*lines, f"{pad}    parameters[{quoted(parameter.python_name)}] = {name}"]
    return lines + _checked(parameter, name, depth + 1)


def _array(parameter: Parameter, depth: int) -> list[str]:
    """Code for a comma-separated list; an empty text is the empty list."""
    pad = "    " * depth
    kind = parameter.schema["items"]["type"]
    if kind == "string":
        return [f'{pad}items = raw.split(",") if raw else []', *_checked(parameter, "items", depth)]
    if kind != "integer":
        raise DocumentError(f"the list {parameter.name} of {kind} is not supported")
    return [
        f'{pad}numbers = [integer(item) for item in raw.split(",")] if raw else []',
        f"{pad}if None in numbers:",
        f'{pad}    errors.append(field_error("wrong_type", "parameter", {quoted(parameter.name)}))',
        f"{pad}else:",
        *_checked(parameter, "numbers", depth + 1),
    ]


def _header(parameter: Parameter) -> list[str]:
    """Code for a header, which the HTTP parser gives as text that may hold anything but line ends."""
    if parameter.schema["type"] != "string":
        raise DocumentError(f"the header {parameter.name} must be a string")
    name = quoted(parameter.name)
    lines = [f"    lines = headers.getall({header_constant(parameter.name)}, None)"]
    if missing := _missing(parameter):
        lines += ["    if lines is None:", *(f"        {line}" for line in missing), "    else:"]
    else:
        lines.append("    if lines is not None:")
    if parameter.name in _LISTS:
        return [*lines, '        value = ", ".join(lines)', *_checked(parameter, "value", 2)]
    return [
        *lines,
        "        value = lines[0]",
        "        if len(lines) > 1:",
        f'            errors.append(field_error("repeated_parameter", "parameter", {name}))',
        *_checked(parameter, "value", 2, branch="elif"),
    ]


def _checked(
    parameter: Parameter, value: str, depth: int, *, text_is_clean: bool = False, branch: str = "if"
) -> list[str]:
    """Code that keeps `value` when its schema takes it, and says what is wrong when not."""
    pad = "    " * depth
    test = f"{constant(parameter)}.is_valid({value})"
    if parameter.schema["type"] == "string" and not text_is_clean:
        test = f"is_text({value}) and {test}"
    return [
        f"{pad}{branch} {test}:",
        f"{pad}    parameters[{quoted(parameter.python_name)}] = {value}",
        f"{pad}else:",
        f"{pad}    errors += {constant(parameter)}.parameter({value}, {quoted(parameter.name)})",
    ]
