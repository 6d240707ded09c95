"""State movement against its definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from naive import metrics as naive
from skewless.errors import SkewlessError
from skewless.metrics import moved, moved_percent

SUBSTREAMS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1000)), max_size=30)


@given(SUBSTREAMS)
def test_follows_its_definition(substreams: list[tuple[int, int, int]]) -> None:
    before, after, sizes = ([row[column] for row in substreams] for column in range(3))
    assert moved(before, after, sizes) == naive.moved(before, after, sizes)
    share = 100 * naive.moved(before, after, sizes) / sum(sizes) if sum(sizes) else 0.0
    assert moved_percent(before, after, sizes) == pytest.approx(share)
    assert moved(after, before, sizes) == moved(before, after, sizes)
    assert moved(before, before, sizes) == 0.0


@pytest.mark.parametrize(
    ("before", "after", "sizes", "message"),
    [
        ([0, 1], [0], [1, 1], r"one number per substream; got arrays of shape \(2,\), \(1,\) and \(2,\)"),
        ([0, 1], [0, 1], [1], "one number per substream"),
        ([[0]], [[0]], [[1]], "one number per substream"),
        ([0], [0], [-1], "at least 0; got -1"),
        ([0], [0], [float("nan")], "at least 0; got nan"),
        ([0], [0], [float("inf")], "at least 0; got inf"),
    ],
)
def test_bad_arguments_are_refused(before: ArrayLike, after: ArrayLike, sizes: ArrayLike, message: str) -> None:
    for metric in (moved, moved_percent):
        with pytest.raises(SkewlessError, match=message):
            metric(before, after, sizes)
