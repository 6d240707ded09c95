"""Capacities as shares of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import SkewlessError
from skewless.salting.capacities import fair_shares


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), st.sampled_from([1.0, 1e-300, 1e300]))
def test_shares_are_in_proportion_whatever_the_unit(capacities: list[float], unit: float) -> None:
    shares = fair_shares([unit * capacity for capacity in capacities], len(capacities))
    assert shares.sum() == pytest.approx(1)
    assert shares.tolist() == pytest.approx([capacity / sum(capacities) for capacity in capacities])


def test_without_capacities_all_workers_are_alike() -> None:
    assert fair_shares(None, 4).tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("capacities", "message"),
    [
        ([1, 2], r"capacities must be one number per worker \(3\); got 2"),
        ([[1, 2, 3]], r"capacities must be one number per worker \(3\); got an array of shape \(1, 3\)"),
        ([1, 0, 1], "capacities must be above 0; worker 1 has 0.0"),
        ([1, 1, -2], "capacities must be above 0; worker 2 has -2.0"),
        ([np.nan, 1, 1], "capacities must be above 0; worker 0 has nan"),
        ([np.inf, 1, 1], "capacities must be above 0; worker 0 has inf"),
        ([1, 1, 2e6], r"capacities must be within a factor of 1,000,000; got 1 and 2e\+06"),
    ],
)
def test_bad_capacities_are_refused(capacities: Any, message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        fair_shares(capacities, 3)
