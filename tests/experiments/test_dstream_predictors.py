"""Sketches that find hot keys, as the experiments of the DStream paper compare them."""

from __future__ import annotations

import numpy as np

from skewless.experiments.dstream.precision_bound import general_bound, simplified
from skewless.experiments.dstream.predictors import (
    CHANGE,
    RELEASED,
    CutKeys,
    counts_of_named,
    scores,
    sketches,
    verdict_ns,
    waits,
)
from skewless.hashing import rehash
from skewless.sketches.coin_flip import CoinFlip


def test_rivals_have_no_more_memory_than_the_predictor() -> None:
    memory = CoinFlip.as_published().memory
    assert all(make().memory <= memory for name, make in sketches().items() if name not in {"even", RELEASED})


def test_even_cuts_what_is_hot_and_only_that() -> None:
    cuts = CutKeys()
    keys = rehash(np.arange(300_000, dtype=np.uint64), 0)
    keys[::5] = 7
    cuts.update(keys)
    assert 7 in cuts.hot()
    assert cuts.memory > 0
    even = CutKeys()
    even.update(rehash(np.arange(300_000, dtype=np.uint64), 0))
    assert even.hot().size == 0


def test_keys_that_were_never_named_do_not_count() -> None:
    keys = np.concatenate([np.tile(np.array([5, 6], dtype=np.uint64), 200), np.arange(100, 103, dtype=np.uint64)])
    named = set(CoinFlip(threshold=3, decline=1e-5).update(keys).keys.tolist())
    assert named == {5, 6}
    assert counts_of_named(keys, 3).tolist() == [200, 200]


def test_the_bounds_of_theorem_1() -> None:
    """Inequality 2 as printed; inequality 1 rises with the bits that are asked for, and falls with the tuples."""
    assert [round(100 * simplified(least, 10), 2) for least in (128, 256, 512, 1024)] == [99.28, 97.35, 90.98, 73.58]
    for bits in (2, 3):
        bounds = [general_bound(least, 10, bits) for least in (128, 256, 512, 1024)]
        assert bounds == sorted(bounds, reverse=True)
        assert 0 < min(bounds) < max(bounds) < 1


def test_a_sketch_that_never_forgets_misses_the_later_hot_keys() -> None:
    named = {
        name: list(waits(name, percent=10, period=20_000, changes=8))
        for name in ("popularity_aware, released", "count-min")
    }
    assert all(found and tuples < 20_000 for tuples, found in named["popularity_aware, released"])
    assert named["count-min"][-1] == (20_000, False)


def test_the_time_of_a_verdict_is_that_of_a_tuple() -> None:
    times = {name: sorted(verdict_ns(name, percent=10, period=100_000, changes=5)) for name in (RELEASED, "ada-cms")}
    assert [len(found) for found in times.values()] == [5, 5]
    assert 0.1 < times[RELEASED][2] < times["ada-cms"][2] < 10_000


def test_scores_fall_where_old_hot_keys_are_still_named() -> None:
    found = list(scores("count-min", intervals=CHANGE + 1, interval=20_000))
    before, after = found[CHANGE - 1 :]
    assert before["precision"] == before["recall"] == 100
    assert after["precision"] == after["recall"] == 0  # other keys are hot since


def test_nothing_named_has_no_precision() -> None:
    named = [row["named"] for row in scores("popularity_aware, paper", intervals=1, interval=100)]
    assert named == [0]
    assert [row["precision"] for row in scores("popularity_aware, paper", intervals=1, interval=100)] == [None]
