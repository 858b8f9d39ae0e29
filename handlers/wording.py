"""What may be shown of free text that agents wrote: one plain line, or a logical reference, and nothing in doubt.

Summaries, reasons and labels go to surfaces that were not asked who may know a password or how a model thought. What
looks like a secret, a log or reasoning is left out as a whole: half a secret is still one.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Final
from urllib.parse import unquote

LINE_MAX: Final = 300
"""Characters of a line that is shown; a longer one is cut."""

_DECODED: Final = 4
"""How often a reference is percent-decoded to see what it means to those who decode it again."""

_SECRET: Final = re.compile(
    r"""
      \b(?:proxy-)?authorization\b\s*[:=]
    | \b(?:bearer|basic|digest|negotiate)\s+[\w+/=.~-]{6,}
    | \beyJ[\w-]{4,}(?:\.[\w-]*)?                                             # a JSON Web Token, or its head
    | -----BEGIN\b | \bssh-(?:rsa|dss|ed25519)\b | \becdsa-sha2-
    | \b(?:sk|pk|rk|lbx|hf|npm|dop|shp[a-z]{2}|sq0[a-z]{3})[-_][\w-]{8,}      # keys that say what they are
    | \b(?:gh[a-z]|glpat|github_pat|xox[a-z]|xapp)[-_][\w-]{6,}
    | \b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{8,} | \bAIza[\w-]{10,} | \bya29\.[\w-]+ | \bSG\.[\w-]{8,}
    | ://[^\s/?\#]*@                                                          # a URL with credentials
    | (?:passw(?:or)?d|passphrase|passcode|passwort|kennwort|mot\sde\spasse|contrase(?:ñ|n)a|pwd|secret|token
        |(?:api|access|account|private|shared)[\s_-]?key
        |credentials?|cookie|session[\s_-]?id|otp|\bpin|signature|\bsig|[_-]key)["']?\s*(?:[:=]|\b(?:is|was)\b)\s*\S
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LOG: Final = re.compile(
    r"""
      \b\d{4}-\d\d-\d\d[T\s]\d\d:\d\d | \b\d\d:\d\d:\d\d\b | \b\d{1,2}/[A-Z][a-z]{2}/\d{4}:
    | (?:^|[\s\[(<|])(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|PANIC)(?:[\])>|:\s]|$)
    | \b(?i:level|lvl|severity)=\S
    | Traceback\s\(most\srecent | ^[^\w\n]*File\s"[^"\n]*",\sline\s\d | ^[^\w\n]*at\s.*:\d+\)?[ \t]*$ | \bgoroutine\s\d
    | \b\w+\.(?:py|js|ts|go|rs|rb|java|kt|c|cc|cpp|cs|php):\d+ | \b\w*(?:Error|Exception|Warning)\b\s*[:(]
    | \bpanicked\sat\b | \bcore\sdumped\b | \bexit\s(?:code|status)\s*[:=]?\s*\d{1,9}.{0,80}\b(?:stdout|stderr)\b
    | ^[ \t]*(?:[\[{]|\#!|\$\s|>>>|\+\+\+|---|@@) | ```
    """,
    re.VERBOSE | re.MULTILINE,
)
_REASONING: Final = re.compile(
    r"""
      </?\s*(?:\w+:)?(?:think|thinking|thought|thoughts|reason|reasoning|reflection|scratch_?pad|analysis|inner_monologue)\b
    | \bchain[\s-]of[\s-]thoughts?\b | \b(?:inner|internal)\s(?:monologue|reasoning|thoughts?)\b
    | \bstep[\s-]by[\s-]step\b | \blet(?:(?:'|\u2019)?s|\sme|\sus)\sthink\b
    | ^[^\w\n]*(?:thoughts?|thinking|reasoning|rationale|analysis|reflection|scratchpad|cot)\b\W*[:\-\u2013\u2014]
    | ^[^\w\n]*(?:wait|okay|ok|alright|actually|so|now|first|well)\b\s*[,.\u2026]+\s*(?:so\s)?(?:i|let|we|maybe|but)\b
    | ^[^\w\n]*(?:hmm+|let\sme|let(?:'|\u2019)?s)\b
    | ^[^\w\n]*(?:i|we)\s(?:need|should|have|must|want|ought|think|wonder|could|might|guess|suppose|will)\b
    | ^[^\w\n]*i(?:'|\u2019)(?:ll|m|d|ve)\b
    | \bthe\suser\s(?:wants?|asks?|asked|is\sasking|said|needs?|probably)\b | <\|[^|]*\|>
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_WORD: Final = re.compile(r"[A-Za-z0-9+/=_.-]{16,}")
_SLASHES: Final = str.maketrans({"\u2044": "/", "\u2215": "/", "\u29f8": "/", "\u2216": "\\", "\u29f5": "\\"})
"""Characters that look like slashes and fold to none."""
_HEX: Final = re.compile(r"[0-9a-f]{16,}|[0-9A-F]{16,}|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_MACHINE: Final = re.compile(
    r"""
      ^[/~$%] | ^[A-Za-z]: | \\ | (?:^|[\W_])file: | :///  | [:=,;@\s|'"`(\[{<]/(?!/) | (?:^|/)~ | \$[{(\w]|%\w+%
    """,
    re.VERBOSE | re.IGNORECASE,
)


def line(text: str) -> str | None:
    """The first line of `text`, as one plain line of at most LINE_MAX characters; None where any doubt is."""
    if _REASONING.search(text):
        return None
    plain = next((found for found in map(_plain, text.splitlines()) if found), "")
    if not plain or _REASONING.search(plain) or _LOG.search(plain) or secret(plain):
        return None
    # What follows a line is shown to nobody, but says what the line belongs to.
    if _LOG.search(text) and len(text.splitlines()) > 1:
        return None
    return plain if len(plain) <= LINE_MAX else plain[: LINE_MAX - 1].rstrip() + "…"


def one_line(text: str) -> str | None:
    """The same of text that has to be one line to begin with."""
    return line(text) if len(text.strip().splitlines()) == 1 else None


def reference(text: str) -> bool:
    """Whether this is a logical id: no path of a machine, no way out of a folder, no credential."""
    for _ in range(_DECODED):
        folded = unicodedata.normalize("NFKC", text).translate(_SLASHES)
        if folded != folded.strip() or any(unicodedata.category(c)[0] == "C" for c in folded):
            return False
        if _MACHINE.search(folded) or ".." in re.split(r"[/\s:]", folded) or _credential(folded):
            return False
        decoded = unquote(text)
        if decoded == text:
            return True
        text = decoded
    return False


def secret(text: str) -> bool:
    """Whether something in it looks like a secret."""
    text = unicodedata.normalize("NFKC", text)
    return _SECRET.search(text) is not None or any(_random(word) for word in _WORD.findall(text))


def _credential(text: str) -> bool:
    # A digest or a UUID is a fine name for a thing; in a sentence nobody needs one.
    words = (part for word in _WORD.findall(text) for part in word.split("/"))
    return _SECRET.search(text) is not None or any(_random(word) and not _HEX.fullmatch(word) for word in words)


def _random(word: str) -> bool:
    """Whether a long word is none that people write: digits among letters, or capitals in its middle."""
    if _HEX.fullmatch(word.strip("=")):
        return any(c.isdigit() for c in word)
    parts = re.split(r"[-_./+=]", word)
    if any(len(part) >= 20 and any(c.isdigit() for c in part) and any(c.isalpha() for c in part) for part in parts):
        return True
    letters = "".join(parts)
    return len(letters) >= 14 and sum(_kind(one) != _kind(two) for one, two in pairwise(letters)) >= 5


def _kind(character: str) -> str:
    return "digit" if character.isdigit() else "upper" if character.isupper() else "lower"


def _plain(text: str) -> str:
    """Without what is not seen, and with single spaces."""
    seen = "".join(
        " " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text if unicodedata.category(c) != "Cf"
    )
    return re.sub(r"\s+", " ", unicodedata.normalize("NFC", seen)).strip()
