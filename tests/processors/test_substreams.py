"""Substreams: a twin in plain integers, and representatives that are in their own substream."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import SkewlessError
from skewless.processors.substreams import representatives, substreams_of

HASHES = st.integers(0, 2**64 - 1)


@given(st.lists(HASHES, max_size=20), st.integers(1, 2**24))
def test_equals_its_naive_twin(hashes: list[int], n: int) -> None:
    expected = [(key >> 32) * n >> 32 for key in hashes]
    assert substreams_of(np.array(hashes, dtype=np.uint64), n).tolist() == expected


@given(st.integers(1, 5_000))
def test_a_representative_lies_in_its_substream(n: int) -> None:
    assert substreams_of(representatives(n), n).tolist() == list(range(n))


def test_substreams_are_of_equal_size() -> None:
    hashes = np.random.default_rng(0).integers(0, 2**64, 1_000_000, dtype=np.uint64)
    counts = np.bincount(substreams_of(hashes, 100), minlength=100)
    assert abs(counts - 10_000).max() < 500


@pytest.mark.parametrize("n", [0, -1, 2**24 + 1])
def test_a_number_out_of_range_is_refused(n: int) -> None:
    with pytest.raises(SkewlessError, match="n_substreams"):
        representatives(n)
