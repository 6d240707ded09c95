"""Count-Min, plain and time-adaptive, against their twin; what the papers promise; the table of candidates."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.count_min import NaiveCountMin
from skewless import SkewlessError
from skewless.sketches.adaptive_count_min import AdaptiveCountMin
from skewless.sketches.base import HotKeys
from skewless.sketches.candidates import Candidates, offer
from skewless.sketches.coin_flip import CoinFlip
from skewless.sketches.count_min import CountMin
from skewless.sketches.sliding_space_saving import SlidingSpaceSaving

STREAMS = st.lists(st.sampled_from([0, 0, 0, 1, 1, *range(2, 30), 2**63, 2**64 - 1]), max_size=300)
SIZES = st.tuples(st.integers(1, 40), st.integers(1, 5))
SHARES = st.sampled_from([0.05, 0.2, 0.5, 1.0])
SALTS = st.integers(0, 2**64 - 1)


def as_array(keys: list[int]) -> NDArray[np.uint64]:
    return np.array(keys, dtype=np.uint64)


@given(STREAMS, SIZES, SHARES, SALTS)
def test_count_min_does_what_its_twin_does(keys: list[int], size: tuple[int, int], share: float, salt: int) -> None:
    width, depth = size
    sketch = CountMin(width=width, depth=depth, share=share, salt=np.uint64(salt))
    twin = NaiveCountMin(width, depth, share, salt)
    for batch in (keys[:100], keys[100:]):
        sketch.update(as_array(batch))
        twin.update(batch)
        assert sketch.estimate(as_array(list(range(35)))).tolist() == [twin.estimate(key) for key in range(35)]
        if len(twin.heap) < 2 / share:  # where collisions make more keys hot than there is room for, some are lost
            assert set(sketch.hot().tolist()) <= set(twin.heap)
        if width >= 30 and depth >= 3:
            assert sketch.hot().tolist() == sorted(twin.heap)


@given(STREAMS, SIZES, SHARES, SALTS, st.sampled_from([64, 128, 640]))
def test_adaptive_count_min_does_what_its_twin_does(
    keys: list[int], size: tuple[int, int], share: float, salt: int, half_life: int
) -> None:
    width, depth = size
    sketch = AdaptiveCountMin(width=width, depth=depth, share=share, half_life=half_life, salt=np.uint64(salt))
    twin = NaiveCountMin(width, depth, share, salt, step=half_life // 64, growth=2 ** (1 / 64))
    for batch in (keys[:100], keys[100:]):
        sketch.update(as_array(batch))
        twin.update(batch)
        expected = [twin.estimate(key) / twin.weight for key in range(35)]
        assert sketch.estimate(as_array(list(range(35)))).tolist() == pytest.approx(expected)
        if width >= 30 and depth >= 3:
            assert sketch.hot().tolist() == sorted(twin.heap)


@given(STREAMS, SALTS)
def test_counts_are_never_too_low_and_the_share_is_always_named(keys: list[int], salt: int) -> None:
    sketch = CountMin(width=25, depth=4, share=0.1, salt=np.uint64(salt))
    sketch.update(as_array(keys))
    occurrences = Counter(keys)
    assert all(
        estimate >= n
        for n, estimate in zip(occurrences.values(), sketch.estimate(as_array(list(occurrences))), strict=True)
    )
    assert {key for key, n in occurrences.items() if n >= 0.1 * len(keys)} <= {*sketch.hot().tolist()}


def test_few_counts_are_too_high_by_much() -> None:
    keys = np.random.default_rng(0).zipf(1.3, 20_000).astype(np.uint64)
    names, counts = np.unique(keys, return_counts=True)
    too_high = []
    for salt in range(10):
        sketch = CountMin(width=200, depth=3, share=0.1, salt=np.uint64(salt))
        sketch.update(keys)
        too_high.append(np.mean(sketch.estimate(names) - counts > np.e * keys.size / 200))
    assert np.mean(too_high) < np.exp(-3)


@given(STREAMS, STREAMS)
def test_merged_sketches_count_both(one: list[int], other: list[int]) -> None:
    sketches = [CountMin(width=64, depth=4, share=0.2) for _ in range(3)]
    for sketch, keys in zip(sketches, (one, other, one + other), strict=True):
        sketch.update(as_array(keys))
    merged = sketches[0].merge(sketches[1])
    assert np.array_equal(merged.rows, sketches[2].rows)
    assert merged.tuples == len(one) + len(other)
    frequent = {key for key, n in Counter(one + other).items() if n >= 0.2 * len(one + other)}
    assert frequent <= set(merged.hot().tolist())


def test_the_adaptive_sketch_follows_and_the_plain_one_does_not() -> None:
    keys = as_array([7] * 20_000 + [9] * 3_000)
    plain = CountMin(width=50, depth=3, share=0.6)
    adaptive = AdaptiveCountMin(width=50, depth=3, share=0.6, half_life=1_000)
    for sketch in (plain, adaptive):
        sketch.update(keys)
    assert plain.hot().tolist() == [7]
    assert adaptive.hot().tolist() == [9]


def test_weights_do_not_grow_without_end() -> None:
    sketch = AdaptiveCountMin(width=50, depth=3, share=0.2, half_life=64)
    keys = np.random.default_rng(0).integers(0, 4, 64 * 900).astype(np.uint64)  # the weight doubles 900 times
    for batch in np.array_split(keys, 7):
        sketch.update(batch)
        assert np.isfinite(sketch.rows).all()
        assert sketch.weights.max() < 2.0**300
    late = NaiveCountMin(50, 3, 0.2, 0, step=1, growth=2 ** (1 / 64))
    late.update(keys[-64 * 40 :].tolist())  # what came before weighs nothing
    assert sketch.hot().tolist() == sorted(late.heap)


OFFERS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=60)


@given(OFFERS, st.integers(1, 8), st.integers(0, 9))
def test_candidates_keep_what_is_above_the_bound(offers: list[tuple[int, int]], room: int, least: int) -> None:
    table, twin = Candidates.make(room, np.uint64(5)), dict[int, int]()
    for key, count in offers:
        offer(table, np.uint64(key), float(count), float(least))
        if key not in twin and len(twin) == room:
            twin = {key: count for key, count in twin.items() if count >= least}
        if key in twin or len(twin) < room:
            twin[key] = count
        assert table.at_least(0).tolist() == sorted(twin)
    assert table.at_least(least).tolist() == sorted(key for key, count in twin.items() if count >= least)


@pytest.mark.parametrize(
    "sketch",
    [
        CoinFlip(threshold=2),
        CountMin(width=100, depth=3, share=0.1),
        AdaptiveCountMin(width=100, depth=3, share=0.1, half_life=1000),
        SlidingSpaceSaving(window=1000, share=0.1),
    ],
    ids=lambda sketch: type(sketch).__name__,
)
def test_all_name_a_hot_key_by_one_interface(sketch: HotKeys) -> None:
    rng = np.random.default_rng(0)
    keys = np.where(rng.random(5_000) < 0.5, np.uint64(7), rng.integers(100, 2**64, 5_000, dtype=np.uint64))
    before = sketch.memory
    sketch.update(keys)
    assert 7 in sketch.hot()
    assert sketch.hot().dtype == np.uint64
    assert sketch.memory == before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"width": 0}, "width must be a whole number of at least 1; got 0"),
        ({"depth": 0}, "depth must be a whole number of at least 1; got 0"),
        ({"share": 0}, "share must be between 1e-06 and 1; got 0"),
        ({"share": 1.5}, "share must be between 1e-06 and 1; got 1.5"),
        ({"share": float("nan")}, "share must be between 1e-06 and 1; got nan"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    given_parameters = {"width": 10, "depth": 2, "share": 0.1, **parameters}
    with pytest.raises(SkewlessError, match=message):
        CountMin(**given_parameters)
    with pytest.raises(SkewlessError, match=message):
        AdaptiveCountMin(half_life=100, **given_parameters)


def test_what_cannot_be_counted_or_merged_is_refused() -> None:
    sketch = CountMin(width=10, depth=2, share=0.5)
    with pytest.raises(SkewlessError, match="must agree in size, share and salt"):
        sketch.merge(CountMin(width=11, depth=2, share=0.5))
    sketch.tuples = 2**32 - 2
    with pytest.raises(SkewlessError, match="counts at most 4294967295 tuples; got 4294967296"):
        sketch.update(as_array([1, 2]))
    with pytest.raises(SkewlessError, match="half_life must be a whole number of at least 64; got 63"):
        AdaptiveCountMin(width=10, depth=2, share=0.5, half_life=63)
