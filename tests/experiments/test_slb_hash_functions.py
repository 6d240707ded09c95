"""Many hash functions: their variances are those of random tables, and PKG makes substreams even."""

from __future__ import annotations

import numpy as np

from skewless.experiments.slb.hash_functions import variances_of_functions
from skewless.streams import Topics

STREAM = Topics(default_tuples=400_000)


def test_the_mean_of_all_functions_is_that_of_random_tables() -> None:
    """A random table of 10 workers has a variance of 0.09 times the sum of squares of its substreams."""
    found = variances_of_functions(STREAM, windows=5, functions=400, levelled=False)
    assert found.shape == (400, 5)
    means = found.mean(axis=1)
    assert 0.3 < means.std() / means.mean() < 0.8  # about half, as the page says
    tuples = STREAM.arrivals.counts(np.array([300.0]))[0] / 5
    assert found.mean() > 0.9 * 0.0009 * tuples**2  # of substreams that are all alike; no others have less


def test_two_choices_of_substreams_are_evener() -> None:
    plain, levelled = (
        variances_of_functions(STREAM, windows=5, functions=200, levelled=levelled).mean() for levelled in (False, True)
    )
    tuples = STREAM.arrivals.counts(np.array([300.0]))[0] / 5
    assert levelled < plain
    assert abs(levelled / (0.0009 * tuples**2) - 1) < 0.35
