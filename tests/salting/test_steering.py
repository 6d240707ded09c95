"""Salts and alias tables: every piece reaches its worker, in exact proportion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.salting import alias_table, steer


@given(seed=st.integers(0, 2**32), n_workers=st.integers(1, 40))
def test_a_salt_lands_on_its_worker(seed: int, n_workers: int) -> None:
    rng = np.random.default_rng(seed)
    landings = rng.integers(0, n_workers, 8 * n_workers).astype(np.int32)
    workers = rng.permutation(n_workers)
    for worker, salt in zip(workers, steer(workers, landings), strict=True):
        if worker in landings:
            assert landings[salt] == worker
            assert worker not in landings[:salt], "not the smallest"
        else:
            assert salt == 0


@given(weights=st.lists(st.floats(0.001, 1000), min_size=1, max_size=50))
def test_a_uniform_number_draws_each_salt_in_proportion(weights: list[float]) -> None:
    salts = np.arange(len(weights), dtype=np.int32)
    split, first, other = alias_table(salts, np.array(weights))
    drawn = np.zeros(len(weights))
    for share, one, two in zip(split, first, other, strict=True):
        assert 0 <= share <= 1
        drawn[one] += share
        drawn[two] += 1 - share
    assert drawn / len(weights) == pytest.approx(np.array(weights) / sum(weights), abs=1e-9)
