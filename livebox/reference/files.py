"""What `/docs` consists of: our pages, made when first asked for, and Swagger UI from the package that carries it.

`/docs` tries operations, `/docs/rest.html` and `/docs/gateway.html` are the same bytes as in the folder docs/reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from livebox.file import MEDIA, File, Moved, policy
from livebox.reference.pages import STATIC, own, static

ROOT: Final = "/docs"
PACKAGE: Final = "mkdocs_swagger_ui_tag"
"""Nothing of it runs here: it is where the files of Swagger UI come from."""
_SWAGGER: Final = {
    "swagger-ui.css": "swagger-ui/stylesheets/swagger-ui.css",
    "swagger-ui-bundle.js": "swagger-ui/javascripts/swagger-ui-bundle.js",
}
_PLAIN: Final = policy("default-src 'none'", "style-src 'self'", "img-src 'self'")
#: Swagger UI asks this server, and its style sheet holds small pictures.
_TRIED: Final = policy(
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:"
)


def files() -> Iterator[tuple[str, File]]:
    """The path and the file of everything under `/docs`. Raises ModuleNotFoundError without Swagger UI's package."""
    pages: dict[str, str] = {}

    def page(name: str) -> bytes:
        if not pages:
            pages.update(static(_document("openapi"), _document("asyncapi")))
        return pages[name].encode()

    folder = _folder()
    loads: dict[str, Callable[[], bytes]] = {name: partial(page, name) for name in STATIC}
    loads["try.js"] = partial(own, "try.js")
    loads |= {name: (folder / path).read_bytes for name, path in _SWAGGER.items()}
    for name, load in loads.items():
        yield f"{ROOT}/{name}", File(MEDIA["." + name.rpartition(".")[2]], load, _PLAIN)
    yield ROOT, File(MEDIA[".html"], partial(own, "index.html"), _TRIED)
    yield f"{ROOT}/", Moved("../docs")  # its links are relative to /docs


def _document(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((resources.files("generated") / f"{name}.json").read_bytes())
    return document


def _folder() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{PACKAGE} is not installed, and Swagger UI comes from it", name=PACKAGE)
    return Path(next(iter(spec.submodule_search_locations)))
