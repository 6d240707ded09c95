"""Combine what sources have counted separately: names, statistics, candidates for a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.groupings.even.follow import SAMPLE
from skewless.groupings.even.plan import Plan
from skewless.groupings.even.state import EvenState
from skewless.groupings.even.statistics import Statistics
from skewless.sketches.space_saving import Counters

_UNLIKELY: Final = 6  # standard deviations that chance does not explain


def gather(base: EvenState, states: Sequence[EvenState]) -> tuple[Plan, Statistics, Statistics]:
    """Return the plan with the names of all sources, the statistics before the last batch, and those of the batch."""
    plan = base.plan
    named = np.unique(np.concatenate([state.plan.keys for state in states]))
    named = named[~np.isin(named, plan.keys)]
    plan = plan.naming(named, base.salt)
    order = np.argsort(plan.keys)
    keys = np.zeros(plan.keys.size)
    for state in states:
        keys[order[np.searchsorted(plan.keys, state.plan.keys, sorter=order)]] += state.counted.keys
    buckets = np.array([state.counted.buckets for state in states]).sum(axis=0).astype(np.float64)
    n = float(sum(state.counted.n for state in states))
    history = replace(base.history, keys=np.concatenate([base.history.keys, np.zeros(named.size)]))
    return plan, history, Statistics(keys=keys, buckets=buckets, weight=n, square=n)


def contradicts(plan: Plan, history: Statistics, latest: Statistics) -> bool:
    """Whether the last batch differs so much from the history that the history is better dropped.

    It does if the load of a worker is not as expected, or if a key is smaller: where keys are cut, loads look the same
    with and without them. A key may seem larger only because part of its past was unknown when it was named.
    """
    if history.weight < 1:
        return False
    n = latest.weight

    def deviation_of(expected: NDArray[np.float64]) -> NDArray[np.float64]:
        deviation: NDArray[np.float64] = np.sqrt(expected * (1 + n * history.spread / history.weight) + 1)
        return deviation

    loads, keys = plan.loads(history) * (n / history.weight), history.keys * (n / history.weight)
    other = np.abs(plan.loads(latest) - loads) > _UNLIKELY * deviation_of(loads)
    smaller = keys - latest.keys > _UNLIKELY * deviation_of(keys)
    return bool(other.any() or smaller.any())


def candidates(sketches: Sequence[Counters], plan: Plan) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the unnamed keys that sketches know, with lower bounds of their loads, in descending order."""
    keys, where = np.unique(np.concatenate([sketch.keys for sketch in sketches]), return_inverse=True)
    lower_bounds = np.zeros(keys.size, dtype=np.int64)
    np.add.at(lower_bounds, where, np.concatenate([sketch.counts - sketch.errors for sketch in sketches]))
    unnamed = ~np.isin(keys, plan.keys)
    keys, lower_bounds = keys[unnamed], SAMPLE * lower_bounds[unnamed]
    order = np.lexsort((keys, -lower_bounds))
    return keys[order], lower_bounds[order]
