"""The planner of joins beside its naive twin: the same cells for any counts, also where they are on an edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from naive import join_grids
from naive.join_grids import Sides
from skewless.salting.join_planner import Cuts, JoinCounts, JoinType, plan_grids

COUNTS = st.integers(0, 6) | st.integers(0, 400) | st.sampled_from([16, 32, 48, 64, 128, 1000, 4096])
HOT = st.sampled_from([3_000, 10_000, 30_000, 100_000])
KEYS = st.lists(
    st.tuples(COUNTS, COUNTS) | st.tuples(HOT, st.integers(0, 30)) | st.tuples(st.integers(0, 30), HOT), max_size=7
)
OTHERS = st.lists(st.tuples(COUNTS, COUNTS, COUNTS), min_size=1, max_size=6)


@given(
    KEYS,
    OTHERS,
    st.sampled_from(["inner", "left", "right", "full", "left_semi", "left_anti"]),
    st.sampled_from(["left", "right", "both"]),
    st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]),
    st.sampled_from([0.03, 0.2]),
)
@example([(48, 48)], [(0, 0, 0)] * 3, "inner", "both", 3.0, 0.03)
@example([(4096, 1), (1, 4096)], [(10, 10, 10)] * 4, "inner", "both", 0.1, 0.03)
@example([(64, 64), (64, 64)], [(0, 0, 0)] * 4, "full", "both", 1.0, 0.03)
def test_cells_are_those_of_the_naive_twin(
    keys: list[tuple[int, int]],
    others: list[tuple[int, int, int]],
    how: JoinType,
    cuts: Cuts,
    max_copies: float,
    slack: float,
) -> None:
    sides = [Sides(float(left), float(right)) for left, right in keys]
    columns = [np.array(column, np.float64) for column in zip(*others, strict=True)]
    of = JoinCounts(
        left=np.array([key.left for key in sides]),
        right=np.array([key.right for key in sides]),
        key_hashes=np.random.default_rng(len(keys)).integers(-(2**31), 2**31, len(keys)),
        other_left=columns[0],
        other_right=columns[1],
        other_made=columns[2],
    )
    apart = [(Sides(float(left), float(right)), float(pairs)) for left, right, pairs in others]
    wanted = join_grids.plan_grids(sides, of.homes.tolist(), apart, how, cuts, max_copies, slack)
    for grid, cells in zip(plan_grids(of, how, cuts=cuts, max_copies=max_copies, slack=slack), wanted, strict=True):
        assert grid.workers == cells.workers
        assert grid.left_shares == pytest.approx(cells.left_shares)
        assert grid.right_shares == pytest.approx(cells.right_shares)
