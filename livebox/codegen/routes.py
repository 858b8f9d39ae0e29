"""`routes.py`: the table of routes and its entry into an aiohttp router."""

from __future__ import annotations

import re

from livebox.codegen.contract import Operation
from livebox.codegen.documents import DocumentError
from livebox.codegen.python import literal, module, table

_ROUTES = """
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_urldispatcher import UrlDispatcher

from generated.field_errors import FieldError
from generated.operations import OPERATIONS, Operation
from generated.parameters import READERS
from generated.validators import BODY_ERRORS

__all__ = ["BODY_ERRORS", "PATHS", "READERS", "ROUTES", "FieldError", "Handler", "add_routes"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: Every operation, in the order of the contract.
ROUTES: tuple[Operation, ...] = tuple(OPERATIONS.values())
"""

_ADD_ROUTES = '''
def add_routes(router: UrlDispatcher, serve: Callable[[Operation], Handler]) -> None:
    """Add every operation to `router`; `serve` makes the handler of each. HEAD goes to the handler of GET."""
    handlers = {(operation.path, operation.method): serve(operation) for operation in ROUTES}
    for path, methods in PATHS.items():
        resource = router.add_resource(path)
        for method in methods:
            resource.add_route(method, handlers[path, "GET" if method == "HEAD" else method])
'''


def routes_module(operations: tuple[Operation, ...]) -> str:
    """The source of `generated/routes.py`. Raises DocumentError for two paths that match the same requests."""
    paths: dict[str, list[str]] = {}
    for operation in operations:
        methods = paths.setdefault(operation.path, [])
        methods += ["GET", "HEAD"] if operation.method == "GET" else [operation.method]
    shapes: dict[str, str] = {}
    for path in paths:
        shape = re.sub(r"\{[^}]*\}", "{}", path)
        if shapes.setdefault(shape, path) != path:
            raise DocumentError(f"{path} and {shapes[shape]} match the same requests")
    entries = [(path, literal(tuple(sorted(methods)))) for path, methods in paths.items()]
    comment = "#: Path template -> the methods it takes; every GET has its HEAD.\n"
    return module(
        "Routes of the REST contract for aiohttp.",
        _ROUTES.strip("\n") + "\n\n" + comment + table("PATHS", "dict[str, tuple[str, ...]]", entries),
        _ADD_ROUTES,
    )
