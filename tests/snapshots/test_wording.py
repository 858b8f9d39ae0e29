"""What is shown of free text: one plain line, a logical reference, and nothing that is in doubt."""

from __future__ import annotations

import base64
import json
import random
import string
import unicodedata
import uuid
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.wording import LINE_MAX, line, one_line, reference

FINE: Final = (
    "12 files.",
    "Counted the lines of 12 files in 3 folders.",
    "The folder does not exist.",
    "Weekly report for 2026-11-02 is ready",
    "See https://livebox.example/report?week=3",
    "The token budget is used up",
    "Used 1200 tokens in 3 steps",
    "All 14 checks passed; 2 were skipped.",
    "internationalization of documentation-generation",
    "Deployed v1.2.3-rc1 to staging-eu-west-1b",
    "Zusammenfassung: 3 Dateien geändert",
    "報告は完成しました",
)
SECRETS: Final = (
    "Authorization: Bearer abcdefghijkl",
    "authorization=Basic dXNlcjpwYXNz",
    "sent Bearer abc123def456",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "key sk-abcdefghijklmnop",
    "lbx_0123456789abcdef",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "-----BEGIN PRIVATE KEY-----",
    "ssh-rsa AAAAB3NzaC1yc2E",
    "postgres://user:" + "word@host/db",
    "https://abc@host/path",
    "https://host/x?access_token=abc",
    "password=hunter2",
    "the password is hunter2",
    "PASSWORD : hunter2",
    'api_key": "abc"',
    "client-secret=abc",
    "Set-Cookie: sid=1; cookie=abc",
    "the pin is 1234",
    "9f86d081884c7d659a2feaa0c55ad015",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    "Xk9vQ2mN8pL4rT7w",
    "0193a000-0000-4000-8000-0000000000d1",
    "pass\u200bword=hunter2",
    "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44: hunter2",
    "Passwort: hunter2",
    "AccountKey=abcd1234",
)
LOGS: Final = (
    "2026-11-02T10:00:00Z it failed",
    "2026-11-02 10:00:00,123 failed",
    "10:00:00 failed",
    "ERROR something failed",
    "[INFO] started",
    "level=warn msg=x",
    "Traceback (most recent call last):",
    'File "x.py", line 3, in f',
    "  at run (index.js:3:1)",
    "ValueError: bad",
    "main.go:12 panicked at x",
    '{"event": "x"}',
    "$ ls",
    "```",
)
REASONING: Final = (
    "<think>I should look</think> Done.",
    "<thinking>",
    "Done. </reasoning>",
    "My chain of thought was long",
    "Let me think about it",
    "Let's think step by step",
    "Thought: look first",
    "Reasoning - the file is missing",
    "Hmm, that is odd",
    "Okay, so I look at it",
    "I need to look at the file",
    "The user wants a report",
    "<|assistant|> x",
)


@pytest.mark.parametrize("text", FINE)
def test_what_people_write_is_shown(text: str) -> None:
    assert line(text) == one_line(text) == text


@pytest.mark.parametrize("text", [*SECRETS, *LOGS, *REASONING])
def test_what_nobody_should_read_is_left_out_as_a_whole(text: str) -> None:
    for said in (text, f"  {text}  ", f"Done: {text}" if text in SECRETS else text, f"\u202e{text}"):
        assert line(said) is None, said
        assert one_line(said) is None, said


def test_the_first_line_counts_and_what_it_belongs_to() -> None:
    assert line("\n\nDone.\n\n- 12 files\n- 3 folders") == "Done."
    assert line("Done.\nTraceback (most recent call last):\n  x") is None
    assert line("Done.\n2026-11-02T10:00:00Z INFO x") is None
    assert line("Done.\n<think>x</think>") is None
    assert one_line("Done.\nReally.") is None
    assert line("") is one_line("  \n ") is None


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "\n",
        " ",
        "\t\n",
        "at :1",
        "1",
        "a.",
        "<",
        "exit code 1 ",
        "://",
        "token ",
        "!",
        "-",
        "<|",
        'File "',
        "%a",
        "A1",
        "_",
    ],
)
def test_the_longest_text_is_looked_through_in_no_time(piece: str) -> None:
    """However it repeats itself: the time limit of tests would end what grows with a power of its length."""
    for text in (piece * (4000 // len(piece)), "at " + piece * 1000 + "x", "x" + piece * 1000 + "@"):
        assert line(text) is None or len(text) > 0
        reference(text)


def test_a_long_line_is_cut_after_it_was_looked_at() -> None:
    assert line("word " * 100) == ("word " * 100)[: LINE_MAX - 1].rstrip() + "…"
    assert line("word " * 57 + "password=" + "x" * 50) is None


CHANCE: Final = st.integers(0, 2**32).map(random.Random)
"""No secret is made to be short and simple: what is looked for is what chance gives."""
SECRET: Final = st.one_of(
    CHANCE.map(lambda chance: chance.randbytes(chance.randint(16, 40)).hex()),
    CHANCE.map(lambda chance: base64.b64encode(chance.randbytes(chance.randint(16, 48))).decode()),
    CHANCE.map(lambda chance: "".join(chance.choices(string.ascii_letters + string.digits, k=chance.randint(24, 40)))),
    CHANCE.map(lambda chance: str(uuid.UUID(bytes=chance.randbytes(16), version=4))),
    st.builds(
        lambda name, mark, value: f"{name}{mark}{value}",
        st.sampled_from(["password", "API_KEY", "secret", "access_token", "db.password", "X-Auth-Token"]),
        st.sampled_from(["=", ": ", " = ", ":", '": "']),
        st.text("abcdefgh0123", min_size=1, max_size=12),
    ),
    st.builds(
        lambda head, body: f"eyJ{head}.{body}.", st.text("abcDEF019", min_size=6), st.text("abcDEF019", min_size=3)
    ),
    st.builds(lambda value: f"Authorization: {value}", st.text("abc123", min_size=1)),
    st.builds(lambda user, word: f"https://{user}:{word}@host/x", st.text("ab", min_size=1), st.text("cd", min_size=1)),
)
WORDS: Final = st.lists(st.sampled_from(["report", "done", "12", "files", "of", "week"]), max_size=4).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(WORDS, SECRET, WORDS)
def test_no_secret_is_shown_wherever_it_stands(before: str, secret: str, after: str) -> None:
    assert line(f"{before} {secret} {after}") is None


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=400))
def test_a_shown_line_is_one_plain_line(text: str) -> None:
    shown = line(text)
    if shown is not None:
        assert 1 <= len(shown) <= LINE_MAX
        assert len(shown.splitlines()) == 1
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") for c in shown)
        assert json.loads(json.dumps(shown)) == shown
        assert line(shown) in (shown, None)


# references

LOGICAL: Final = (
    "reports/2026/week-44",
    "artifact:123",
    "0193a000-0000-4000-8000-0000000000d1",
    "builds/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "https://livebox.example/a",
    "store://bucket/key",
    "a..b",
    "v1.2..v1.3",
    "Weekly report",
    "100%",
    "profile/x",
)
UNSAFE: Final = (
    "/etc/passwd",
    "//host/share",
    "\\\\host\\share",
    "C:\\x",
    "c:/x",
    "d:x",
    "~",
    "~/x",
    "~root/x",
    "a/~b",
    "..",
    "../x",
    "a/../b",
    "a/..",
    "file:///x",
    "FILE:/x",
    "x file:/y",
    "a\\b",
    "artifact:/home/x",
    "x:///etc",
    "$HOME/x",
    "a/${HOME}",
    "%USERPROFILE%/x",
    "https://u:p@h/x",
    "x?token=abcd",
    "sk-abcdefghijklmnop",
    "keys/wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    " x",
    "x\n",
    "a\u200b/b",
    "see '/etc/passwd'",
    '"/etc/passwd"',
    "(/etc/passwd)",
    "[/etc/passwd]",
    "a|/etc/passwd",
    "</etc/passwd>",
)


@pytest.mark.parametrize("text", LOGICAL)
def test_a_logical_id_is_shown(text: str) -> None:
    assert reference(text)


@pytest.mark.parametrize("text", UNSAFE)
def test_a_path_or_a_credential_is_no_logical_id(text: str) -> None:
    assert not reference(text)


@pytest.mark.parametrize("text", ["/etc/passwd", "a/../b", "~/x", "a\\b", "file:/x", "C:/x", "https://u:p@h"])
@pytest.mark.parametrize("times", range(1, 6))
def test_nor_when_it_is_encoded(text: str, times: int) -> None:
    for _ in range(times):
        text = "".join(f"%{ord(c):02x}" if not c.isalnum() else c for c in text)
    assert not reference(text)


@pytest.mark.parametrize(
    "text",
    [
        "\u2215etc\u2215passwd",
        "a/..\u2044b",
        "a\u2216b",
        "\uff0fetc/passwd",
        "a/\uff0e\uff0e/b",
        "\uff5e/x",
        "\uff23:\uff3cx",
        "\u2025/x",
    ],
)
def test_nor_when_it_is_written_in_look_alikes(text: str) -> None:
    assert not reference(text)
