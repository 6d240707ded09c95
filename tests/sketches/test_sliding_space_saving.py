"""Sliding-window Space-Saving against its twin, and how it follows a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.sliding_space_saving import NaiveSlidingSpaceSaving
from skewless import SkewlessError
from skewless.sketches.sliding_space_saving import SlidingSpaceSaving

STREAMS = st.lists(st.sampled_from([0, 0, 0, 1, 1, *range(2, 30), 2**63, 2**64 - 1]), max_size=200)


@given(STREAMS, st.integers(1, 60), st.sampled_from([0.1, 0.3, 1.0]), st.integers(1, 10))
def test_does_what_its_twin_does(keys: list[int], window: int, share: float, n_counters: int) -> None:
    sketch = SlidingSpaceSaving(window=window, share=share, n_counters=n_counters)
    twin = NaiveSlidingSpaceSaving(window, share, n_counters)
    for batch in (keys[:70], keys[70:75], keys[75:]):
        sketch.update(np.array(batch, dtype=np.uint64))
        twin.update(batch)
        assert sketch.hot().tolist() == twin.hot()
        estimates = sketch.estimate(np.arange(30, dtype=np.uint64))
        assert estimates.tolist() == pytest.approx([twin.estimate(key) for key in range(30)])


def test_a_key_is_hot_within_a_window_and_no_longer_than_two() -> None:
    sketch = SlidingSpaceSaving(window=1_000, share=0.1)
    rest = np.random.default_rng(0).integers(0, 2**64, 5_000, dtype=np.uint64)
    sketch.update(np.where(np.arange(1_500) % 4 == 0, np.uint64(7), rest[:1_500]))
    assert sketch.hot().tolist() == [7]
    sketch.update(rest[1_500:3_000])
    assert 7 not in sketch.hot()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window": 0}, "window must be a whole number of at least 1; got 0"),
        ({"share": 0.0}, "share must be between 1e-06 and 1; got 0.0"),
        ({"n_counters": 0}, "n_counters must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        SlidingSpaceSaving(**{"window": 10, "share": 0.1, **parameters})
