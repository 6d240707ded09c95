"""The exponent of Zipf's law, from the share of a few keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import SkewlessError
from skewless.streams.zipf_exponent import exponent_of_share, harmonic


def add_up(n: int, exponent: float) -> float:
    return float((np.arange(1, n + 1, dtype=np.float64) ** -exponent).sum())


@given(st.integers(1, 20_000), st.sampled_from([0.0, 0.3, 0.999999, 1.0, 1.000001, 1.7, 5.0, 30.0]))
def test_harmonic_numbers(n: int, exponent: float) -> None:
    assert harmonic(n, exponent) == pytest.approx(add_up(n, exponent), rel=1e-9)


@given(st.integers(2, 5_000), st.floats(0.01, 0.99), st.data())
def test_the_hot_keys_carry_their_share(n_keys: int, share: float, data: st.DataObject) -> None:
    n_hot = data.draw(st.integers(1, n_keys - 1))
    exponent = exponent_of_share(n_keys, n_hot, share)
    carried = add_up(n_hot, exponent) / add_up(n_keys, exponent)
    if n_hot / n_keys >= share:
        assert exponent == 0
    else:
        assert carried == pytest.approx(share, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((5, 0, 0.5), "n_hot must be"), ((5, 6, 0.5), "n_keys must be"), ((5, 1, 1.0), "between 0 and 1; got 1.0")],
)
def test_bad_arguments(arguments: tuple[int, int, float], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        exponent_of_share(*arguments)
