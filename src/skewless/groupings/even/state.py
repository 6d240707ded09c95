"""The state of a router of even grouping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewless.groupings.base import State
from skewless.groupings.even.plan import Plan
from skewless.groupings.even.statistics import Statistics
from skewless.sketches.space_saving import Counters


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """What a source has counted since the last barrier; `…_seen` is what it had when the current stretch began."""

    keys: NDArray[np.int64]
    keys_seen: NDArray[np.int64]
    buckets: NDArray[np.int64]
    buckets_seen: NDArray[np.int64]
    standing: NDArray[np.int64]
    standing_seen: NDArray[np.int64]
    standing_before: NDArray[np.int64]
    unnamed: int = 0
    n: int = 0
    n_seen: int = 0
    next_check: int
    step: int
    local_plans: int = 0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What `auto` concluded at the last barrier; `overload` is negative before the first."""

    balancing: bool = False
    calm: int = 0
    overload: float = -1.0
    hottest: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class EvenState(State):
    """What a source keeps: all but its number, what it has counted and its sketch is the same for all sources."""

    salt: np.uint64
    source: int
    plan: Plan
    history: Statistics
    ahead: NDArray[np.float64]
    speeds: NDArray[np.float64]
    fair: NDArray[np.float64]
    counted: Counted
    sketch: Counters
    barriers: int = 0
    epoch: int = -1
    plans: int = 0
    moved: float = 0.0
    verdict: Verdict = Verdict()
