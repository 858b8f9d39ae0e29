"""The reference of both documents as files: the same pages that a server has under `/docs`."""

from __future__ import annotations

from livebox.codegen.asyncapi import bundled
from livebox.codegen.documents import Documents
from livebox.reference.pages import static

FOLDER = "docs/reference"


def pages(documents: Documents) -> dict[str, str]:
    """Path from the root of the repository -> content. A pure function of the documents."""
    made = static(documents.openapi, bundled(documents))
    return {f"{FOLDER}/{name}": content for name, content in made.items()}
