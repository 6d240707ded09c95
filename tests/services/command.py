"""Runs the command line in a process of its own, or in this one, which is two seconds faster."""

from __future__ import annotations

import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Final

import pytest

from skewless.cli.main import main

SKEWLESS: Final = [sys.executable, "-W", "error", "-c", "from skewless.cli.main import main; main()"]


def run_apart(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a new process."""
    return subprocess.run([*SKEWLESS, *arguments], capture_output=True, text=True, check=False, timeout=300)


def run_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which has its kernels compiled already."""
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors), pytest.raises(SystemExit) as exit_info:
        main(list(arguments))
    code = exit_info.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, output.getvalue(), errors.getvalue())
