"""Which language a file is written in, by its name; a shebang decides where the name says nothing."""

from __future__ import annotations

from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final

OTHER: Final = "Other"

_BY_SUFFIX: Final = MappingProxyType(
    {
        suffix: language
        for language, suffixes in {
            "C": ".c .h",
            "C#": ".cs",
            "C++": ".cc .cpp .cxx .hh .hpp .hxx",
            "Clojure": ".clj .cljs",
            "CSS": ".css .scss .sass .less",
            "CSV": ".csv .tsv",
            "Dart": ".dart",
            "Elixir": ".ex .exs",
            "Erlang": ".erl .hrl",
            "Go": ".go",
            "Haskell": ".hs",
            "HTML": ".html .htm",
            "INI": ".ini .cfg .conf .editorconfig",
            "Java": ".java",
            "JavaScript": ".js .jsx .mjs .cjs",
            "JSON": ".json .jsonl",
            "Jupyter": ".ipynb",
            "Kotlin": ".kt .kts",
            "Lua": ".lua",
            "Markdown": ".md .markdown",
            "OCaml": ".ml .mli",
            "Perl": ".pl .pm",
            "PHP": ".php",
            "Python": ".py .pyi",
            "R": ".r",
            "reStructuredText": ".rst",
            "Ruby": ".rb",
            "Rust": ".rs",
            "Scala": ".scala",
            "Shell": ".sh .bash .zsh .fish",
            "SQL": ".sql",
            "SVG": ".svg",
            "Swift": ".swift",
            "Text": ".txt .log",
            "TOML": ".toml",
            "TypeScript": ".ts .tsx .mts",
            "Vue": ".vue",
            "XML": ".xml .xsd .xsl",
            "YAML": ".yaml .yml",
            "Zig": ".zig",
        }.items()
        for suffix in suffixes.split()
    }
)
_BY_NAME: Final = MappingProxyType(
    {
        "dockerfile": "Dockerfile",
        "makefile": "Makefile",
        "gnumakefile": "Makefile",
        "cmakelists.txt": "CMake",
        "license": "Text",
        "copying": "Text",
        "readme": "Text",
        ".gitignore": "INI",
        ".gitattributes": "INI",
    }
)
_BY_INTERPRETER: Final = (
    (b"python", "Python"),
    (b"node", "JavaScript"),
    (b"perl", "Perl"),
    (b"ruby", "Ruby"),
    (b"sh", "Shell"),
)


def language(name: str, head: bytes = b"") -> str:
    """The language of a file called `name` that begins with `head`; `OTHER` when nothing tells."""
    lower = name.lower()
    found = _BY_NAME.get(lower) or _BY_SUFFIX.get(PurePosixPath(lower).suffix)
    if found is not None:
        return found
    if head.startswith(b"#!"):
        interpreter = head.split(b"\n", 1)[0]
        for word, by_shebang in _BY_INTERPRETER:
            if word in interpreter:
                return by_shebang
    return OTHER
