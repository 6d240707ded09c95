"""Tests that take too long for every run: `SKEWLESS_CHAOS=1 make test` has them."""

from __future__ import annotations

import os
from typing import Final

import pytest

LONG: Final = bool(os.environ.get("SKEWLESS_CHAOS"))
only_if_long = pytest.mark.skipif(not LONG, reason="takes minutes: set SKEWLESS_CHAOS=1")
