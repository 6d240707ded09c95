"""Put together what sources have counted on their own: names, statistics, candidates for a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skewless.groupings.even.follow import SAMPLE
from skewless.groupings.even.plan import Plan
from skewless.groupings.even.statistics import Statistics

State = Mapping[str, NDArray[Any]]

_UNLIKELY: Final = 6  # standard deviations that chance does not explain


def gather(base: State, states: Sequence[State]) -> tuple[Plan, Statistics, Statistics]:
    """Put together what sources have counted: the plan with all names that any of them gave, the past, the present."""
    plan = Plan.restore(base)
    named = np.unique(np.concatenate([state["plan_keys"] for state in states]))
    named = named[~np.isin(named, plan.keys)]
    plan = plan.naming(named, np.uint64(base["salt"]))
    order = np.argsort(plan.keys)
    keys = np.zeros(plan.keys.size)
    for state in states:
        keys[order[np.searchsorted(plan.keys, state["plan_keys"], sorter=order)]] += state["key_counts"]
    buckets = np.array([state["bucket_counts"] for state in states]).sum(axis=0).astype(np.float64)
    n = float(sum(int(state["n"]) for state in states))
    weight, square = base["weights"].tolist()
    history = Statistics(
        keys=np.concatenate([base["key_history"], np.zeros(named.size)]),
        buckets=base["bucket_history"],
        weight=weight,
        square=square,
    )
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


def candidates(states: Sequence[State], plan: Plan) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Give the keys without a name that sketches know, with the load that is sure, the largest first."""
    keys, where = np.unique(np.concatenate([state["sketch_keys"] for state in states]), return_inverse=True)
    sure = np.zeros(keys.size, dtype=np.int64)
    np.add.at(sure, where, np.concatenate([state["sketch_counts"] - state["sketch_errors"] for state in states]))
    unnamed = ~np.isin(keys, plan.keys)
    keys, sure = keys[unnamed], SAMPLE * sure[unnamed]
    order = np.lexsort((keys, -sure))
    return keys[order], sure[order]
