"""The page's modules that need no browser, each under Node's own test runner."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="Node is not installed")
@pytest.mark.parametrize("file", sorted(HERE.glob("*.test.js")), ids=lambda file: file.stem)
def test_module(file: Path) -> None:
    assert NODE is not None
    command = [NODE, "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--test", "--test-reporter=tap", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None, done.stdout
    assert int(passed[1]) > 0, "no test was run"
