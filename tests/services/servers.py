"""Finds the servers that `scripts/setup.sh tests` has fetched."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

_FETCHED: Final = Path(__file__).parents[2] / ".cache" / "services" / "usr" / "bin"


def require_server(name: str) -> str:
    """Return the path of a server's program; skip the test where there is none."""
    path = shutil.which(name) or shutil.which(name, path=str(_FETCHED))
    if path is None:
        pytest.skip(
            f"no {name}: neither on the PATH nor in .cache/services; scripts/setup.sh tests fetches it on Debian"
        )
    return path
