"""Tests that take too long for every run, and the seed that theirs are derived from: `make test-all` runs them."""

from __future__ import annotations

import os
from typing import Final

import pytest

LONG: Final = bool(os.environ.get("SKEWLESS_CHAOS"))
SEED: Final = int(os.environ.get("SKEWLESS_SEED", "0"))
only_if_long = pytest.mark.skipif(not LONG, reason="takes minutes: make test-all runs it")
