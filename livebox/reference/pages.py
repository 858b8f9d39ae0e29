"""The pages that need no server, and what they are shown with. Imports nothing that is generated."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

from livebox.reference import gateway, rest

STATIC: Final = (rest.FILE, gateway.FILE, "reference.css", "icon.svg")


def static(openapi: Mapping[str, Any], asyncapi: Mapping[str, Any]) -> dict[str, str]:
    """The files of STATIC by name; a pure function of two documents whose references are local."""
    made = {
        rest.FILE: rest.Rest(openapi).page(),
        gateway.FILE: gateway.gateway_page(asyncapi),
        "reference.css": own("reference.css").decode(),
        "icon.svg": (resources.files("livebox") / "web" / "icon.svg").read_text(encoding="utf-8"),
    }
    return {name: made[name] for name in STATIC}


def own(name: str) -> bytes:
    """A file of this package, as it is."""
    return (resources.files("livebox") / "reference" / name).read_bytes()
