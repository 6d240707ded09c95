"""Put together what sources have counted on their own: names, statistics, candidates for a name."""

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
    """Put together what sources have counted: the plan with all names that any of them gave, the past, the present."""
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
    """Say whether the last batch is so unlike what was before that the past is better forgotten.

    It is if a worker has another load than expected, or if a key is smaller: where keys are cut, workers look alike
    with them and without. Larger it may seem because not all of its past was known when it got its name.
    """
    if history.weight < 1:
        return False
    n = latest.weight

    def chance(expected: NDArray[np.float64]) -> NDArray[np.float64]:
        deviation: NDArray[np.float64] = np.sqrt(expected * (1 + n * history.spread / history.weight) + 1)
        return deviation

    loads, keys = plan.loads(history) * (n / history.weight), history.keys * (n / history.weight)
    other = np.abs(plan.loads(latest) - loads) > _UNLIKELY * chance(loads)
    smaller = keys - latest.keys > _UNLIKELY * chance(keys)
    return bool(other.any() or smaller.any())


def candidates(sketches: Sequence[Counters], plan: Plan) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Give the keys without a name that sketches know, with the load that is sure, the largest first."""
    keys, where = np.unique(np.concatenate([sketch.keys for sketch in sketches]), return_inverse=True)
    sure = np.zeros(keys.size, dtype=np.int64)
    np.add.at(sure, where, np.concatenate([sketch.counts - sketch.errors for sketch in sketches]))
    unnamed = ~np.isin(keys, plan.keys)
    keys, sure = keys[unnamed], SAMPLE * sure[unnamed]
    order = np.lexsort((keys, -sure))
    return keys[order], sure[order]
