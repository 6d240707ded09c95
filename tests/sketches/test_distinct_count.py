"""The distinct count: exact for few keys, close for many, and the same however the stream is split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import SkewlessError
from skewless.sketches.distinct_count import DistinctCount

KEYS = st.lists(st.integers(0, 40), max_size=80)


def counted(keys: list[int], size: int, seed: int = 0) -> DistinctCount:
    count = DistinctCount(size, seed=seed)
    count.update(np.array(keys, dtype=np.uint64))
    return count


@given(KEYS, KEYS, st.integers(2, 50), st.integers(0, 9))
def test_parts_are_merged_in_any_order(first: list[int], second: list[int], size: int, seed: int) -> None:
    whole = counted(first + second, size, seed)
    parts = [counted(part, size, seed) for part in (first, second)]
    for one, other in (parts, parts[::-1]):
        assert one.merge(other).least.tolist() == whole.least.tolist()
    parts[0].update(np.array(second, dtype=np.uint64))
    assert parts[0].least.tolist() == whole.least.tolist()
    assert whole.least.size <= size
    if len(set(first + second)) < size:
        assert whole.estimate() == len(set(first + second))


def test_many_keys_are_estimated_without_bias() -> None:
    found = [counted(list(range(5_000)) * 2, 100, seed).estimate() for seed in range(100)]
    assert np.mean(found) == pytest.approx(5_000, rel=0.03)
    assert np.std(found) == pytest.approx(5_000 / np.sqrt(98), rel=0.25)


def test_one_hash_is_too_few() -> None:
    with pytest.raises(SkewlessError, match="size must be a whole number of at least 2; got 1"):
        DistinctCount(1)
