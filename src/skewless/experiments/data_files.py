"""Where real data sets lie: they are no part of the project, and every experiment does without."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import skewless

VARIABLE: Final = "SKEWLESS_DATA"
"""The environment variable that names their directory; without it, it is `shared/data` beside the checkout."""


def data_file(name: str) -> Path | None:
    """Find a file of real data, if it is there."""
    given = os.environ.get(VARIABLE)
    path = (Path(given) if given else Path(skewless.__file__).parents[3] / "shared" / "data") / name
    return path if path.is_file() else None
