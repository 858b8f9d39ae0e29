"""Text of others, made fit for one line of a terminal or of an answer."""

from __future__ import annotations


def printable(text: object, longest: int = 200) -> str:
    """`text` as one line: no control or formatting characters, at most `longest` characters.

    Bytes of a file name that are not UTF-8 become question marks, white space becomes single spaces.
    """
    clean = " ".join(str(text).encode("utf-8", "replace").decode().split())
    line = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in clean)
    return line if len(line) <= longest else line[: longest - 1] + "…"
