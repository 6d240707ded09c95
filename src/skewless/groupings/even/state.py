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
    """What a source has counted since the last barrier; `…_seen` are the counts at the start of the current stretch."""

    keys: NDArray[np.int64]
    keys_seen: NDArray[np.int64]
    buckets: NDArray[np.int64]
    buckets_seen: NDArray[np.int64]
    times: NDArray[np.int64]
    """Virtual time of each worker: its tuples, in units inversely proportional to its capacity."""
    times_seen: NDArray[np.int64]
    times_before: NDArray[np.int64]
    """At the barrier."""
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
    """What a source keeps; after a barrier only its number and its sketch differ from those of other sources."""

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
