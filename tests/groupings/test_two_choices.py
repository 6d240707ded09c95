"""Two choices per substream against its twin, and that a substream only ever has its two workers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from naive import two_choices as naive
from skewless import TwoChoices
from skewless.groupings.substream import largest_first
from skewless.groupings.two_choices import place_by_two_choices
from skewless.processors.substreams import representatives
from skewless.seeding import make_salt


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(0, 100), st.integers(1, 8))
def test_equals_its_naive_twin(loads: list[int], seed: int, n_workers: int) -> None:
    histogram, salt = np.array(loads), make_salt(seed)
    got = place_by_two_choices(histogram, largest_first(histogram), salt, n_workers)
    assert got.dtype == np.int32
    assert got.tolist() == naive.place(loads, int(salt), n_workers)


def test_a_substream_stays_with_its_two_workers_and_follows_the_last_window_only() -> None:
    grouping = TwoChoices(workers=8, n_substreams=60)
    rng = np.random.default_rng(0)
    state, tables = grouping.start(0, seed=5).snapshot(), []
    for now_ms in range(8):
        router = grouping.resume(state)
        router.route(np.repeat(representatives(60), rng.poisson(rng.exponential(20, size=60))), now_ms)
        (state,) = grouping.barrier([router.snapshot()], now_ms)
        tables.append(state.table)
    for substream in range(60):
        allowed = set(naive.choices(substream, int(make_salt(5)), 8))
        assert {int(table[substream]) for table in tables} <= allowed
    assert len({table.tobytes() for table in tables}) > 1


def test_comparisons_leave_it_out_unless_it_is_asked_for() -> None:
    assert TwoChoices.baseline
