"""The planner of joins beside its naive twin: the same cells for any counts, also where they are on an edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive import join_grids
from naive.join_grids import Sides
from skewless.salting.join_planner import Cuts, JoinCounts, JoinType, cost, costs_of_others, plan_grids

COUNTS = st.integers(0, 6) | st.integers(0, 400) | st.sampled_from([16, 32, 48, 64, 128, 1000, 4096])
HOT = st.sampled_from([3_000, 10_000, 30_000, 100_000])
KEYS = st.lists(
    st.tuples(COUNTS, COUNTS) | st.tuples(HOT, st.integers(0, 30)) | st.tuples(st.integers(0, 30), HOT), max_size=7
)
FEW = st.integers(0, 9)
OTHERS = st.lists(st.tuples(COUNTS, COUNTS, COUNTS) | st.tuples(FEW, FEW, FEW), min_size=1, max_size=6)
Case = tuple[list[tuple[int, int]], list[tuple[int, int, int]], JoinType, Cuts, float, float]
"""Rows of keys, rows and pairs of all others by worker, and how the join is planned."""

NONE = (0, 0, 0)
ON_THE_EDGE: list[Case] = [
    ([(48, 48)], [NONE] * 3, "inner", "both", 3.0, 0.03),
    ([(4096, 1), (1, 4096)], [(10, 10, 10)] * 4, "inner", "both", 0.1, 0.03),
    ([(64, 64), (64, 64)], [NONE] * 4, "full", "both", 1.0, 0.03),
    ([(16, 16)], [(0, 0, 24)] * 4, "inner", "both", 3.0, 0.03),  # exactly three shares
    ([(1501, 1)], [(498, 0, 503), NONE, NONE, NONE], "inner", "both", 1.0, 0.03),  # copies of just a thousandth
    ([(64, 64)], [NONE] * 3, "inner", "both", 0.5, 0.03),  # copies for just the budget
    ([(100, 100)], [(0, 0, 8000)] * 2, "inner", "both", 1.0, 0.03),  # both sides are as large
    ([(10_000, 0)], [(68, 64, 48), (4, 32, 369), (0, 16, 32), (3, 64, 3)], "left_anti", "both", 0.0, 0.2),
    ([(48, 64)], [(1000, 1, 25), (64, 1000, 128), (64, 303, 201)], "full", "left", 0.1, 0.2),  # 16 rows for each piece
    ([(53, 51)], [(1, 163, 32), (5, 278, 2), (74, 239, 372)], "full", "left", 0.5, 0.2),
    ([(80, 51)], [(114, 64, 335), (3, 48, 287), (3, 3, 32)], "left", "right", 1.0, 0.2),
    ([(64, 320)], [(136, 32, 6), (32, 6, 214), (3, 128, 128)], "left", "right", 0.1, 0.2),  # too many copies at first
    ([(32, 4096)], [(4, 6, 3), (261, 128, 16), (376, 2, 64), (3, 5, 208)], "right", "left", 3.0, 0.2),
    ([(349, 335)], [(6, 2, 4096), (64, 128, 78), (6, 174, 6), (344, 1000, 261)], "inner", "right", 1.0, 0.2),
    ([(10, 3000)], [(1, 32, 0), (211, 1, 2), (1, 2, 18), (1000, 5, 255)], "right", "both", 0.1, 0.2),
    ([(3000, 0)], [(0, 290, 263), (255, 1000, 1)], "left", "both", 0.5, 0.03),  # rows that are kept without partners
    ([(0, 3000)], [(6, 123, 48), (4, 128, 219), (5, 199, 2), (64, 32, 40)], "right", "right", 1.0, 0.2),
    ([(6, 1), (28, 10_000), (3000, 4)], [(32, 1, 2), (145, 4, 3)], "full", "right", 0.1, 0.03),
    ([(1, 3000)], [(115, 16, 374), (191, 1, 16), (5, 145, 4), (64, 0, 242)], "right", "right", 1.0, 0.03),
    ([(3000, 7)], [(64, 0, 128), (5, 4096, 32), (5, 1, 3), (283, 4, 1000)], "left", "both", 0.5, 0.03),
    ([(32, 64), (3000, 13)], [(128, 1000, 77), (128, 48, 5), (71, 16, 0), (133, 238, 48)], "inner", "left", 0.1, 0.03),
    ([(1, 0), (7, 10_000)], [(86, 5, 78), (6, 169, 0), (3, 365, 287), (1000, 361, 0)], "left_semi", "both", 0.1, 0.03),
    (
        [(4096, 97), (159, 336), (4, 3000)],  # the second grid has what the first has left of the budget
        [(63, 1, 1), (63, 0, 4096), (245, 1, 6), (2, 1000, 2)],
        "inner",
        "left",
        0.1,
        0.03,
    ),
]


def compare(
    keys: list[tuple[int, int]],
    others: list[tuple[int, int, int]],
    how: JoinType,
    cuts: Cuts,
    max_copies: float,
    slack: float,
) -> None:
    """Compare the cells of all keys with those of the naive twin."""
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


@pytest.mark.parametrize("case", ON_THE_EDGE, ids=str)
def test_cells_where_a_rule_just_applies(case: Case) -> None:
    compare(*case)


@settings(max_examples=300)
@given(
    KEYS,
    OTHERS,
    st.sampled_from(["inner", "left", "right", "full", "left_semi", "left_anti"]),
    st.sampled_from(["left", "right", "both"]),
    st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]),
    st.sampled_from([0.03, 0.2]),
)
def test_cells_are_those_of_the_naive_twin(
    keys: list[tuple[int, int]],
    others: list[tuple[int, int, int]],
    how: JoinType,
    cuts: Cuts,
    max_copies: float,
    slack: float,
) -> None:
    compare(keys, others, how, cuts, max_copies, slack)


@given(COUNTS, COUNTS, COUNTS, st.sampled_from(["inner", "left", "right", "full", "left_semi", "left_anti"]))
def test_costs_are_those_of_the_naive_twin(left: int, right: int, pairs: int, how: JoinType) -> None:
    sides = Sides(float(left), float(right))
    assert cost(*sides, how) == join_grids.cost(sides, how)
    columns = [np.array([float(rows)]) for rows in (left, right, pairs)]
    of_others = costs_of_others(columns[0], columns[1], columns[2], how)
    assert of_others.tolist() == [join_grids.cost_of_others(sides, float(pairs), how)]


@pytest.mark.parametrize(("off", "is_cut"), [(2.9, False), (3.1, True)])
def test_by_default_three_percent_is_no_overload(off: float, is_cut: bool) -> None:
    of = JoinCounts(
        left=np.array([60.0]),
        right=np.array([0.0]),
        key_hashes=np.array([0]),
        other_left=np.array([100.0 - off, 100.0 - off]),
        other_right=np.zeros(2),
        other_made=np.zeros(2),
    )
    of.other_left[of.homes[0]] += 2 * off - 60
    (grid,) = plan_grids(of, "inner", cuts="left", max_copies=1.0)
    assert (grid.cells > 1) == is_cut
