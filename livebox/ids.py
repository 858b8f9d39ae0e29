"""Ids as the contract writes them."""

from __future__ import annotations

import uuid


def is_id(text: str) -> bool:
    """Whether it is a UUID in lower case."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
