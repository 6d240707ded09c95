"""The counting Bloom filter against its twin, and what it never does."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from naive.counting_bloom import NaiveCountingBloom
from naive.groupings import mix
from skewless import SkewlessError
from skewless.sketches.counting_bloom import HADOOP, PLAIN, TOP, CountingBloom, Kind, erase, filter_size, holds, insert

KEYS = st.lists(st.sampled_from([0, 1, 2**63, 2**64 - 1, *range(2, 60)]), max_size=60)
SALTS = st.integers(0, 2**64 - 1)
RATES = st.sampled_from([0.001, 0.01, 0.1, 0.6])
# What happens to a filter: keys are added, or deleted whether they are there or not.
STEPS = st.lists(st.tuples(st.booleans(), KEYS), max_size=12)


def as_array(keys: list[int]) -> NDArray[np.uint64]:
    return np.array(keys, dtype=np.uint64)


@given(STEPS, SALTS, RATES, st.integers(1, 40))
def test_the_kernels_do_what_their_twin_does(
    steps: list[tuple[bool, list[int]]], salt: int, rate: float, n: int
) -> None:
    bloom = CountingBloom(n, rate, salt=np.uint64(salt))
    twin = NaiveCountingBloom(bloom.n_hashes, bloom.counters.size, salt)
    for add, keys in steps:
        if add:
            bloom.update(as_array(keys))
            twin.update(keys)
        elif twin.remove(keys):
            bloom.remove(as_array(keys))
        else:
            with pytest.raises(SkewlessError, match="only a key that is in the filter can be deleted; got"):
                bloom.remove(as_array(keys))
        assert bloom.counters.tolist() == twin.counters
    asked = list(range(100))
    assert bloom.estimate(as_array(asked)).tolist() == [twin.estimate(key) for key in asked]


@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 2**64 - 1)), max_size=80),
    kind=st.sampled_from([PLAIN, HADOOP, Kind(top=2), Kind(hashes_coincide=True)]),
    size=st.sampled_from([1, 16, 64]),
)
def test_every_kind_of_filter_does_what_its_twin_does(steps: list[tuple[bool, int]], kind: Kind, size: int) -> None:
    counters, twin = np.zeros(size, dtype=np.uint8), NaiveCountingBloom(4, size, 0, *kind)
    for add, key in steps:
        word = np.uint64(mix(key))
        if add:
            insert(counters, 4, word, kind)
            twin.update([key])
        else:
            assert erase(counters, 4, word, kind) == twin.remove([key])
        assert counters.tolist() == twin.counters
        assert _asked(counters, word, kind) == twin.contains(key)


@njit
def _asked(counters: Any, word: Any, kind: Any) -> bool:
    return bool(holds(counters, 4, word, kind))


@given(STEPS, RATES)
def test_no_key_that_is_in_it_is_denied(steps: list[tuple[bool, list[int]]], rate: float) -> None:
    """Only keys that are in it are deleted; then counters add up, and an emptied filter is empty."""
    bloom, held = CountingBloom(20, rate), Counter[int]()
    for add, keys in steps:
        if add:
            bloom.update(as_array(keys))
            held.update(keys)
        else:
            gone = [key for key, n in Counter(keys).items() if held[key] >= n]
            bloom.remove(as_array(gone))
            held.subtract(gone)
        assert (bloom.estimate(as_array(list(held))) >= list(held.values())).all()
        assert int(bloom.counters.sum()) == bloom.n_hashes * held.total()
    bloom.remove(as_array(list(held.elements())))
    assert not bloom.counters.any()


def test_a_counter_at_the_top_stays_there() -> None:
    bloom, keys = CountingBloom(10), as_array([7])
    for _ in range(3):
        bloom.update(np.repeat(keys, 200))
    assert bloom.counters.max() == TOP
    assert bloom.n_stuck == bloom.n_hashes
    twin = NaiveCountingBloom(bloom.n_hashes, bloom.counters.size, 0)
    twin.update([7] * 600)
    for _ in range(600):
        bloom.remove(keys)
        twin.remove([7])
    assert bloom.counters.tolist() == twin.counters
    assert bloom.estimate(keys).all()  # too careful, never wrong


def test_deleting_what_is_not_there_changes_nothing() -> None:
    bloom = CountingBloom(50)
    bloom.update(np.arange(50, dtype=np.uint64))
    before = bloom.counters.copy()
    others = np.arange(1000, 2000, dtype=np.uint64)
    for key in others[bloom.estimate(others) == 0][:100]:
        with suppress(SkewlessError):
            bloom.remove(as_array([key]))
        assert np.array_equal(bloom.counters, before)


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("n_keys", [10, 130, 3000])
def test_false_positives_stay_below_the_rate(rate: float, n_keys: int) -> None:
    rng = np.random.default_rng(n_keys)
    asked = rng.integers(0, 2**64, 20_000, dtype=np.uint64)
    found = []
    for salt in range(10):
        bloom = CountingBloom(n_keys, rate, salt=np.uint64(salt))
        bloom.update(rng.integers(0, 2**64, n_keys, dtype=np.uint64))
        found.append(np.mean(bloom.estimate(asked) > 0))
    assert np.mean(found) < 1.1 * rate


@given(KEYS, KEYS, SALTS)
def test_merging_is_adding_the_keys_of_both(one: list[int], other: list[int], salt: int) -> None:
    filters = [CountingBloom(30, salt=np.uint64(salt)) for _ in range(3)]
    for bloom, keys in zip(filters, (one, other, one + other), strict=True):
        bloom.update(as_array(keys))
    merged = filters[0].merge(filters[1])
    assert np.array_equal(merged.counters, filters[2].counters)
    assert np.array_equal(filters[1].merge(filters[0]).counters, merged.counters)
    assert merged.estimate(as_array(one)).all()


def test_merging_does_not_overflow() -> None:
    bloom = CountingBloom(10)
    bloom.update(np.full(200, 7, dtype=np.uint64))
    assert bloom.merge(bloom).counters.max() == TOP


def test_filters_of_two_kinds_are_not_merged() -> None:
    with pytest.raises(SkewlessError, match="must agree in counters, hashes and salt"):
        CountingBloom(10).merge(CountingBloom(10_000))


def test_sizes() -> None:
    assert filter_size(1, 0.01) == (4, 64)
    assert filter_size(1, 0.6)[0] == 1
    assert CountingBloom(1000, 0.01).memory == 16384


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "expected_keys must be a whole number of at least 1; got 0"),
        ((10, 0), "false_positive_rate must be at least 1e-09 and below 1; got 0"),
        ((10, 1.0), "false_positive_rate must be at least 1e-09 and below 1; got 1.0"),
        ((10, float("nan")), "false_positive_rate must be at least 1e-09 and below 1; got nan"),
    ],
)
def test_bad_sizes_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        CountingBloom(*arguments)
