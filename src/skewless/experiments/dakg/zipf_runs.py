"""Many runs on Zipf's law (section 5.1): one stream under many names, and the loads of its validation set.

100,000 tuples of 10,000 keys: the last 20,000 are the validation set, those before the training set. In every run the
keys have other names, drawn at random from a universe a hundred times larger, and the grouping has another seed. What
can be learned from a stream does not depend on names, so hot keys are counted once; a run only hashes the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.experiments.base import Panel, Preset
from skewless.experiments.dakg.training import LEARNS, TRAINED_MS, named_grouping, train
from skewless.experiments.rows import Row
from skewless.groupings import Coordinated, DistributionAware, Foresighted, Grouping, PartialKey
from skewless.groupings.longest_first import longest_first
from skewless.hashing import lower_choice, random_word, universal_buckets, universal_salts
from skewless.metrics.load import imbalance, sigma
from skewless.seeding import make_salt
from skewless.sketches.distinct_count import DistinctCount
from skewless.sketches.space_saving import SpaceSaving
from skewless.streams import Zipf

TRAINING: Final = 80_000
VALIDATION: Final = 20_000
_KEYS: Final = 10_000
_UNIVERSE: Final = 100 * _KEYS
_STREAMS: Final = 20  # different ones, which the runs use in turn
_FEW_RUNS: Final = ("full_knowledge", "single_instance", "even", "even, single owner", "d_choices", "w_choices")
"""Groupings with at most one run per stream: names matter little or not at all to them, and some learn slowly."""
DISTINCT: Final = "DKG, distinct keys"
"""DKG with the correction that section 5.2 proposes for quadratic cost: buckets by their number of different keys."""
RUNS: Final = {"small": 40, "full": 10_000}


@dataclass(frozen=True, eq=False)
class Sample:
    """A training and a validation set, whose keys are consecutive numbers, with the frequencies of keys in each."""

    training: NDArray[np.int64]
    validation: NDArray[np.int64]
    training_counts: NDArray[np.int64]
    validation_counts: NDArray[np.int64]


@lru_cache(maxsize=2 * _STREAMS)
def draw(exponent: float, training: int, seed: int) -> Sample:
    """Draw a stream of which only the first `training` tuples are the training set."""
    tuples = TRAINING + VALIDATION
    ranks = Zipf(exponent=exponent, n_keys=_KEYS).slice(0, tuples, tuples=tuples, seed=seed).to_numpy()
    keys, numbers = np.unique(np.concatenate([ranks[:training], ranks[TRAINING:]]), return_inverse=True)
    parts = numbers[:training], numbers[training:]
    return Sample(*parts, *(np.bincount(part, minlength=keys.size) for part in parts))


@lru_cache(maxsize=2 * _STREAMS)
def hot_keys(sample: Sample, heavy_share: float, n_counters: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys whose estimated share of the training set is high enough, and their estimated frequencies."""
    sketch = SpaceSaving(n_counters)
    sketch.update(sample.training.astype(np.uint64))
    keys, counts, _ = sketch.items()
    hot = counts >= heavy_share * sample.training.size
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
def send_to_less_loaded(keys: Any, owners: Any, loads: Any) -> None:
    """Route each tuple to the less loaded of its key's two owners, and count it in `loads`, in place."""
    for i in range(keys.size):
        first, second = owners[keys[i], 0], owners[keys[i], 1]
        loads[second if loads[second] < loads[first] else first] += 1


def planned_owners(
    grouping: DistributionAware, sample: Sample, names: NDArray[np.uint64], seed: int
) -> NDArray[np.int32]:
    """Return the owner of each key, or both if hot keys are split: what `grouping` decides, for all keys at once."""
    hot, estimates = hot_keys(sample, grouping.heavy_share, grouping.n_counters)
    order = np.lexsort((names[hot], -estimates))
    hot, estimates = hot[order], estimates[order]
    parts = 2 if grouping.split_heavy else 1
    buckets = universal_buckets(names, universal_salts(seed), grouping.n_buckets)
    sizes = np.repeat(estimates / parts, parts)
    if grouping.map_sparse:
        rest = np.bincount(buckets, weights=sample.training_counts, minlength=grouping.n_buckets)
        np.subtract.at(rest, buckets[hot], estimates)
        sizes = np.concatenate([sizes, np.maximum(rest, 0.0)])
    n_named, distinct = parts * hot.size, DistinctCount()
    if grouping.count_distinct:
        distinct.update(names[sample.training_counts > 0])
    placed = longest_first(grouping.weigh(sizes, n_named, distinct.estimate() - hot.size), grouping.n_workers)
    of_hot, of_buckets = np.split(placed, [n_named])
    if not grouping.map_sparse:
        of_buckets = np.arange(grouping.n_workers, dtype=np.int32)
    owners: NDArray[np.int32] = np.repeat(of_buckets[buckets], parts).reshape(-1, parts)
    owners[hot] = of_hot.reshape(-1, parts)
    return owners


def owners_in_run(grouping: Grouping, sample: Sample, names: NDArray[np.uint64], seed: int) -> NDArray[np.int32] | None:
    """Return the owner of each key in the validation set; None if the grouping has to route tuple by tuple."""
    if isinstance(grouping, DistributionAware):
        return planned_owners(grouping, sample, names, seed)
    if not grouping.single_owner or isinstance(grouping, Coordinated):
        return None
    if isinstance(grouping, Foresighted):
        grouping = grouping.informed(names, sample.validation_counts)
    return grouping.start(0, seed).route(names, 0)


def loads_in_run(grouping: Grouping, sample: Sample, seed: int, power: int) -> NDArray[np.float64]:
    """Return the load of each worker in the validation set, to which n tuples of a key add n to the `power`."""
    names = names_in_run(sample, seed)
    owners = owners_in_run(grouping, sample, names, seed)
    if owners is None:
        return _loads_by_routing(grouping, sample, names, seed, power)
    if owners.ndim == 2 and owners.shape[1] == 2:
        loads = np.zeros(grouping.n_workers)
        send_to_less_loaded(sample.validation, owners, loads)
        return loads
    weights = sample.validation_counts ** float(power)
    return np.bincount(owners.ravel(), weights=weights, minlength=grouping.n_workers).astype(np.float64)


def names_in_run(sample: Sample, seed: int) -> NDArray[np.uint64]:
    """Draw the names of the keys in a run."""
    names: NDArray[np.uint64] = draw_names(sample.validation_counts.size, _UNIVERSE, make_salt(seed))
    return names


def _loads_by_routing(
    grouping: Grouping, sample: Sample, names: NDArray[np.uint64], seed: int, power: int
) -> NDArray[np.float64]:
    """Return the same by routing the validation set tuple by tuple."""
    if isinstance(grouping, PartialKey):  # learns nothing
        router = grouping.start(0, seed)
    else:
        router = train(grouping, names[sample.training], seed)
    workers = router.route(names[sample.validation], TRAINED_MS)
    pairs = workers * names.size + sample.validation
    counts = np.bincount(pairs, minlength=grouping.n_workers * names.size).reshape(grouping.n_workers, -1)
    return np.asarray((counts ** float(power)).sum(axis=1))


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
    """Return the load of each worker in each run; groupings whose runs are much alike have fewer."""
    if grouping in LEARNS:
        settings = {"heavy_share": heavy_share, "buckets_per_worker": buckets, "learn_tuples": training, "cost": cost}
        chosen = named_grouping(grouping, workers, **settings)
    else:
        chosen = named_grouping(grouping, workers)
    power = 1 if cost == "linear" else 2
    if grouping in _FEW_RUNS:
        runs = min(_STREAMS, runs // 40)
    elif grouping == DISTINCT:
        runs = max(runs // 20, 1)  # counting different names takes twenty times as long
    samples = [draw(exponent, training, seed) for seed in range(min(_STREAMS, runs))]
    return np.array([loads_in_run(chosen, samples[seed % _STREAMS], seed, power) for seed in range(runs)])


def step(grouping: str, preset: Preset, **settings: Any) -> dict[str, Any]:
    """Return a point with all of its settings, so that figures share it; the defaults are those of Figure 2."""
    defaults = {"exponent": 2.0, "training": TRAINING, "heavy_share": 0.1, "buckets": 2, "cost": "linear"}
    return {"grouping": grouping, **defaults, "runs": RUNS[preset], **settings}


def run(**point: Any) -> Iterator[Row]:
    """Return the mean and the worst of all runs."""
    loads = loads_of_runs(**point)
    metrics = {name: [metric(row) for row in loads] for name, metric in (("imbalance", imbalance), ("sigma", sigma))}
    yield {
        **point,
        "runs": len(loads),
        **{f"{name}_mean": float(np.mean(values)) for name, values in metrics.items()},
        **{f"{name}_worst": max(values) for name, values in metrics.items()},
    }


def mean_and_worst(x: str, metric: str, *, exponents: Iterable[float] = (), **settings: Any) -> tuple[Panel, ...]:
    """Return panels of the mean and of the worst of all runs, for each exponent if there are several."""
    settings = {"y_label": {"imbalance": "λ, %", "sigma": "sigma, tuples"}[metric], **settings}
    places: list[tuple[str, dict[str, Any]]] = [
        (f"Zipf-{exponent:g}, ", {"where": {"exponent": exponent}}) for exponent in exponents
    ]
    return tuple(
        Panel(x=x, y=f"{metric}_{kind}", title=f"{name}{kind} of all runs", **{**where, **settings})
        for kind in ("mean", "worst")
        for name, where in places or [("", {})]
    )
