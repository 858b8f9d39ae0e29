"""Everything that is served as a file: the page at `/`, and the reference under `/docs`.

The files are those that were there when the server started. `/` is index.html, `/web/<name>` the modules, the style
sheet and the icon beside it. Nothing of a request ever becomes a path of the file system.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Final

from aiohttp import hdrs

from livebox.file import MEDIA, File
from livebox.reference.files import files as reference

INDEX: Final = "index.html"
FOLDER: Final = "/web/"
METHODS: Final = (hdrs.METH_GET, hdrs.METH_HEAD)


def page() -> Iterator[tuple[str, File]]:
    """The path and the file of everything that the page consists of."""
    for entry in (resources.files("livebox") / "web").iterdir():
        suffix = "." + entry.name.rpartition(".")[2]
        if entry.is_file() and suffix in MEDIA:
            path = "/" if entry.name == INDEX else FOLDER + entry.name
            yield path, File(MEDIA[suffix], entry.read_bytes())


def files() -> Iterator[tuple[str, File]]:
    """The path and the file of everything. Raises ModuleNotFoundError without the package that has Swagger UI."""
    yield from page()
    yield from reference()
