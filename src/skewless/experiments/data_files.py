"""Finds real data sets, which are not part of the project. Every experiment also runs without them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import skewless

VARIABLE: Final = "SKEWLESS_DATA"
"""The environment variable with their directory; the default is `shared/data` next to the checkout."""


def data_file(name: str) -> Path | None:
    """Return the path of a file of real data, or None if it is missing."""
    given = os.environ.get(VARIABLE)
    path = (Path(given) if given else Path(skewless.__file__).parents[3] / "shared" / "data") / name
    return path if path.is_file() else None
