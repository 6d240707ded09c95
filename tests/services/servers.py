"""Where the tests find the servers that `scripts/setup.sh` has fetched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

_FETCHED: Final = Path(__file__).parents[2] / ".cache" / "services" / "usr" / "bin"


def require_server(name: str) -> str:
    """Give the path of a server's program; skip the test where there is none, but not in CI."""
    path = shutil.which(name) or shutil.which(name, path=str(_FETCHED))
    if path is None:
        reason = f"no {name}: neither on the PATH nor in .cache/services; scripts/setup.sh fetches it on Debian"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return path
