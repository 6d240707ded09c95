"""What the figures on Zipf's law share: one stream under many names (section 5.1), and the loads on its validation set.

100,000 tuples of 10,000 keys; the last 20,000 are what groupings are judged by, those before are there to learn from.
In every run the keys have other names, drawn at random from a universe a hundred times larger, and the grouping has
another seed. What a stream teaches does not depend on names: hot keys are counted once, each run only hashes the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.experiments.base import Panel, Preset, Row
from skewless.experiments.dakg.learned import DEPLOYED_MS, deployed, named_grouping
from skewless.groupings import DistributionAware, Grouping, PartialKey
from skewless.groupings.longest_first import longest_first
from skewless.hashing import lower_choice, make_salt, random_word, universal_buckets, universal_salts
from skewless.metrics.load import imbalance, sigma
from skewless.sketches.space_saving import SpaceSaving
from skewless.streams import Zipf

TRAINING: Final = 80_000
VALIDATION: Final = 20_000
_KEYS: Final = 10_000
_UNIVERSE: Final = 100 * _KEYS
_DRAWS: Final = 20  # streams in all; so many runs in a row have another one each
_FEW: Final = ("full_knowledge", "single_instance", "even", "even, single owner", "d_choices", "w_choices")
"""What has a run for each stream at most: the names of keys do not matter to it, or hardly and it learns slowly."""
RUNS: Final = {"small": 40, "full": 10_000}


@dataclass(frozen=True, eq=False)
class Drawn:
    """A stream whose keys are numbers: the tuples to learn from, those to judge by, how often each key is in either."""

    training: NDArray[np.int64]
    validation: NDArray[np.int64]
    learned: NDArray[np.int64]
    counts: NDArray[np.int64]


@lru_cache(maxsize=2 * _DRAWS)
def draw(exponent: float, training: int, seed: int) -> Drawn:
    """Draw a stream of which only the first `training` tuples are there to learn from."""
    tuples = TRAINING + VALIDATION
    ranks = Zipf(exponent=exponent, n_keys=_KEYS).slice(0, tuples, tuples=tuples, seed=seed).to_numpy()
    keys, numbers = np.unique(np.concatenate([ranks[:training], ranks[TRAINING:]]), return_inverse=True)
    parts = numbers[:training], numbers[training:]
    learned, counts = (np.bincount(part, minlength=keys.size) for part in parts)
    return Drawn(*parts, learned, counts)


@lru_cache(maxsize=2 * _DRAWS)
def hot_keys(stream: Drawn, heavy_share: float, n_counters: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the keys whose estimated share of the training set is high enough, and how often they seem to be there."""
    sketch = SpaceSaving(n_counters)
    sketch.update(stream.training.astype(np.uint64))
    keys, counts, _ = sketch.items()
    hot = counts >= heavy_share * stream.training.size
    return keys[hot].astype(np.int64), counts[hot]


@njit(cache=True)
def draw_names(n: int, universe: int, salt: Any) -> Any:
    """Draw `n` different numbers below `universe`."""
    taken = np.zeros(universe, dtype=np.bool_)
    names = np.empty(n, dtype=np.uint64)
    position = 0
    for i in range(n):
        name = lower_choice(random_word(salt, position), universe)
        position += 1
        while taken[name]:
            name = lower_choice(random_word(salt, position), universe)
            position += 1
        taken[name] = True
        names[i] = name
    return names


@njit(cache=True)
def send_to_less_loaded(stream: Any, owners: Any, loads: Any) -> None:
    """Send each tuple to the one of its key's two owners that got less; counts it in `loads`, in place."""
    for i in range(stream.size):
        first, second = owners[stream[i], 0], owners[stream[i], 1]
        loads[second if loads[second] < loads[first] else first] += 1


def planned_owners(
    grouping: DistributionAware, stream: Drawn, names: NDArray[np.uint64], seed: int
) -> NDArray[np.int32]:
    """Give each key its owner, or both of them where hot keys have two: what `grouping` decides, as a whole."""
    hot, estimates = hot_keys(stream, grouping.heavy_share, grouping.n_counters)
    order = np.lexsort((names[hot], -estimates))
    hot, estimates = hot[order], estimates[order]
    parts = 2 if grouping.split_heavy else 1
    buckets = universal_buckets(names, universal_salts(seed), grouping.n_buckets)
    sizes = np.repeat(estimates / parts, parts)
    if grouping.map_sparse:
        rest = np.bincount(buckets, weights=stream.learned, minlength=grouping.n_buckets)
        np.subtract.at(rest, buckets[hot], estimates)
        sizes = np.concatenate([sizes, np.maximum(rest, 0.0)])
    placed = longest_first(sizes if grouping.cost == "linear" else sizes**2, grouping.n_workers)
    cut = parts * hot.size
    of_bucket = placed[cut:] if grouping.map_sparse else np.arange(grouping.n_workers, dtype=np.int32)
    owners: NDArray[np.int32] = np.repeat(of_bucket[buckets], parts).reshape(-1, parts)
    owners[hot] = placed[:cut].reshape(-1, parts)
    return owners


def loads_in_run(grouping: Grouping, stream: Drawn, seed: int, power: int) -> NDArray[np.float64]:
    """Give the load of each worker by the validation set, to which n tuples of a key add n to the `power`."""
    names = draw_names(stream.counts.size, _UNIVERSE, make_salt(seed))
    loads = np.zeros(grouping.n_workers)
    if isinstance(grouping, DistributionAware):
        owners = planned_owners(grouping, stream, names, seed)
        if grouping.split_heavy:
            send_to_less_loaded(stream.validation, owners, loads)
            return loads
    elif grouping.single_owner and not grouping.coordinated:
        owners = grouping.informed(names, stream.counts).start(0, 1, seed).route(names, 0)
    else:
        learns = not isinstance(grouping, PartialKey)
        router = deployed(grouping, names[stream.training], seed) if learns else grouping.start(0, 1, seed)
        workers = router.route(names[stream.validation], DEPLOYED_MS)
        pairs = np.bincount(workers * names.size + stream.validation, minlength=loads.size * names.size)
        return np.asarray((pairs.reshape(loads.size, -1) ** float(power)).sum(axis=1))
    weights = stream.counts ** float(power)
    return np.bincount(owners.ravel(), weights=weights, minlength=loads.size).astype(np.float64)


def loads_of_runs(
    *,
    grouping: str,
    exponent: float,
    workers: int,
    runs: int,
    training: int,
    heavy_share: float,
    buckets: int,
    cost: str,
) -> NDArray[np.float64]:
    """Give the load of each worker in each of so many runs, or fewer where they would be much the same."""
    chosen = named_grouping(grouping, workers)
    if isinstance(chosen, DistributionAware):
        chosen = replace(chosen, heavy_share=heavy_share, buckets_per_worker=buckets, learn_tuples=training, cost=cost)
    power = 1 if cost == "linear" else 2
    seeds = range(min(_DRAWS, runs // 40) if grouping in _FEW else runs)
    return np.array([loads_in_run(chosen, draw(exponent, training, seed % _DRAWS), seed, power) for seed in seeds])


def step(grouping: str, preset: Preset, **settings: Any) -> dict[str, Any]:
    """Name a step by all that it depends on, so that figures share it; what is not given is as in Figure 2."""
    usual = {"exponent": 2.0, "training": TRAINING, "heavy_share": 0.1, "buckets": 2, "cost": "linear"}
    return {"grouping": grouping, **usual, "runs": RUNS[preset], **settings}


def run(**point: Any) -> Iterator[Row]:
    """Give the mean and the worst of all runs."""
    loads = loads_of_runs(**point)
    metrics = {name: [metric(row) for row in loads] for name, metric in (("imbalance", imbalance), ("sigma", sigma))}
    yield {
        **point,
        "runs": len(loads),
        **{f"{name}_mean": float(np.mean(values)) for name, values in metrics.items()},
        **{f"{name}_worst": max(values) for name, values in metrics.items()},
    }


def mean_and_worst(x: str, metric: str, *, exponents: Iterable[float] = (), **settings: Any) -> tuple[Panel, ...]:
    """Draw the mean of all runs and the worst of them beside each other, for each exponent if there are several."""
    settings = {"y_label": {"imbalance": "λ, %", "sigma": "sigma, tuples"}[metric], **settings}
    places: list[tuple[str, dict[str, Any]]] = [
        (f"Zipf-{exponent:g}, ", {"where": {"exponent": exponent}}) for exponent in exponents
    ]
    return tuple(
        Panel(x=x, y=f"{metric}_{kind}", title=f"{name}{kind} of all runs", **{**where, **settings})
        for kind in ("mean", "worst")
        for name, where in places or [("", {})]
    )
