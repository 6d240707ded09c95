"""The distribution cost against a set of pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import metrics as naive
from skewless.errors import SkewlessError
from skewless.metrics import KeySpread

pairs_of_all_kinds = st.lists(
    st.tuples(st.integers(0, 9) | st.integers(0, 2**64 - 1), st.integers(0, 129)), max_size=60
)


def update(spread: KeySpread, pairs: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in pairs], dtype=np.uint64)
    spread.update(keys, np.array([worker for _, worker in pairs], dtype=np.int32))


@given(batches=st.lists(pairs_of_all_kinds, max_size=4))
def test_spread_counts_distinct_pairs(batches: list[list[tuple[int, int]]]) -> None:
    spread = KeySpread(n_workers=130)  # three words of bits per key
    so_far: set[tuple[int, int]] = set()
    for batch in batches:
        update(spread, batch)
        so_far |= set(batch)
        assert spread.n_pairs == len(so_far)
        assert spread.n_keys == len({key for key, _ in so_far})
        assert spread.dist_cost == naive.dist_cost(so_far)


@pytest.mark.parametrize("n_workers", [1, 2, 63, 64, 65, 128])
def test_spread_of_many_keys_grows_its_table(n_workers: int) -> None:
    rng = np.random.default_rng(n_workers)
    pairs = list(zip(rng.integers(0, 3_000, 9_000).tolist(), rng.integers(0, n_workers, 9_000).tolist(), strict=True))
    spread = KeySpread(n_workers)
    update(spread, pairs)
    assert spread.n_pairs == len(set(pairs))
    assert spread.dist_cost == naive.dist_cost(pairs)


def test_the_extremes() -> None:
    spread = KeySpread(n_workers=4)
    assert spread.dist_cost == 1.0
    update(spread, [])
    assert (spread.n_keys, spread.n_pairs) == (0, 0)
    update(spread, [(key, key % 4) for key in range(8)])
    assert spread.dist_cost == 1.0
    update(spread, [(key, worker) for key in range(8) for worker in range(4)])
    assert spread.dist_cost == 4.0


@pytest.mark.parametrize("n_workers", [0, -3, True])
def test_no_workers_are_refused(n_workers: int) -> None:
    with pytest.raises(SkewlessError, match="workers must be a whole number of at least 1"):
        KeySpread(n_workers)
