"""Plans of joins: balance, few copies, soundness for any counts, and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import JoinPlan, Plan, SkewlessError
from skewless.salting.join_plan import JoinKey
from skewless.salting.join_planner import Cuts, JoinType, cost, cuts_of, made
from skewless.salting.slots import landings_of_salts, steer

TYPES: list[JoinType] = ["inner", "left", "right", "full", "left_semi", "left_anti"]


def counted(
    keys: list[tuple[float, float]],
    workers: int,
    *,
    how: JoinType = "inner",
    others: tuple[float, float, float] = (0.0, 0.0, 0.0),
    max_copies: float = 1.0,
    cuts: Cuts | None = None,
) -> JoinPlan:
    """Return what was counted, with all other keys spread evenly."""
    hashes = np.random.default_rng(len(keys)).integers(-(2**31), 2**31, len(keys)).tolist()
    spread = [tuple([rows / workers] * workers) for rows in others]
    return JoinPlan(
        columns={"k": "string"},
        how=how,
        cuts=cuts or cuts_of(how, has_condition=False),
        workers=workers,
        max_copies=max_copies,
        sampled=1.0,
        nulls=0.0,
        other_left=spread[0],
        other_right=spread[1],
        other_made=spread[2],
        keys=tuple(
            JoinKey(key=f"k{n}", hash=n, key_hash=hashes[n], left=left, right=right)
            for n, (left, right) in enumerate(keys)
        ),
    )


def overload(plan: JoinPlan) -> float:
    return float(plan.costs.max() / plan.costs.mean() - 1)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 50), st.data())
def test_salts_are_different_and_land_where_they_should(key_hash: int, workers: int, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.integers(0, workers - 1), max_size=40))
    salts = steer(key_hash, wanted, workers)
    assert len({*salts}) == len(salts)
    assert landings_of_salts(np.array(salts, dtype=np.int64), np.array([key_hash]), workers).tolist() == wanted


def test_a_key_that_stays_too_large_has_a_remark_that_says_why() -> None:
    many, few, others = (3.2e6, 2.0), (2.0, 3.2e6), (8e5, 1e6, 8e5)
    assert counted([many], 16, others=others).planned().remark == ""
    assert counted([many], 16, others=others, how="left", cuts="left").planned().remark == ""
    stuck = counted([few], 16, others=others, how="left", cuts="left").planned()
    assert (
        stuck.remark == "1 key too large for a worker, and not cut further: this join can be cut on its left side only"
    )
    assert stuck.remark in str(stuck)
    assert "at most 0 % of the rows may be copied" in counted([many], 16, others=others, max_copies=0).planned().remark


def naively_joined(left: int, right: int, how: JoinType) -> int:
    """Count the rows that a key makes, by joining them."""
    pairs = [*product(range(left), range(right))]
    if how in {"left_semi", "left_anti"}:
        return left  # each of them is looked at, and kept or not
    alone = (left if how in {"left", "full"} and not right else 0) + (
        right if how in {"right", "full"} and not left else 0
    )
    return len(pairs) + alone


@pytest.mark.parametrize("how", TYPES)
def test_a_key_costs_its_rows_and_those_that_it_makes(how: JoinType) -> None:
    for left, right in product(range(4), repeat=2):
        expected = naively_joined(left, right, how)
        assert float(made(float(left), float(right), how)) == expected
        assert float(cost(float(left), float(right), how)) == left + right + expected


def test_sides_are_cut_where_every_row_can_still_find_out_whether_it_has_a_partner() -> None:
    assert {how: (cuts_of(how, has_condition=False), cuts_of(how, has_condition=True)) for how in TYPES} == {
        "inner": ("both", "both"),
        "left": ("both", "left"),
        "right": ("both", "right"),
        "full": ("both", "both"),  # with a condition it is left to Spark
        "left_semi": ("left", "left"),
        "left_anti": ("left", "left"),
    }


@given(st.integers(2, 12), st.integers(100, 400), st.integers(100, 400), st.floats(0.05, 2), st.data())
def test_a_grid_copies_least_of_those_that_fit(
    workers: int, left: int, right: int, max_copies: float, data: st.DataObject
) -> None:
    """Beside a naive search through all shapes, for keys so hot that they are all that matters."""
    plan = counted([(float(left), float(right))], workers, max_copies=max_copies)
    (key,) = plan.planned().keys
    r, c = len(key.left_shares), len(key.right_shares)
    if min(r, c) == 1:
        return
    assert key.copies == right * (r - 1) + left * (c - 1) <= max_copies * (left + right)
    other_r, other_c = data.draw(st.integers(1, left // 16)), data.draw(st.integers(1, right // 16))
    size = cost(left / other_r, right / other_c, "inner")
    copies = right * (other_r - 1) + left * (other_c - 1)
    share = (cost(float(left), float(right), "inner") + copies) / workers
    cells_per_worker = share // size
    if copies < key.copies and other_r * other_c <= 4 * workers:  # it copies less, so it must be less even
        assert cells_per_worker * workers < other_r * other_c


def test_a_key_that_is_hot_on_one_side_is_cut_there_and_costs_few_copies() -> None:
    plan = counted([(3.2e6, 1.0)], 16, others=(8e5, 1e6, 8e5)).planned()
    assert overload(plan) < 0.01
    assert plan.copies <= 15
    (mirrored,) = counted([(1.0, 3.2e6)], 16, others=(1e6, 8e5, 8e5)).planned().keys
    assert (len(mirrored.left_shares), len(mirrored.right_shares)) == (1, 16)


@pytest.mark.parametrize(("workers", "shape"), [(16, (4, 4)), (13, (5, 5)), (200, (16, 12))])
def test_a_key_that_is_hot_on_both_sides_gets_a_grid(workers: int, shape: tuple[int, int]) -> None:
    plan = counted([(10_000.0, 5_000.0)], workers, others=(1e6, 1e6, 1e6)).planned()
    assert (len(plan.keys[0].left_shares), len(plan.keys[0].right_shares)) == shape
    assert overload(plan) < 0.05
    assert plan.copies <= 5_000 * (workers - 1)  # of a cut on one side


@pytest.mark.parametrize(("exponent", "how"), [*product((0.8, 1.0, 1.2), ("inner", "left", "full"))])
def test_zipf_on_both_sides(exponent: float, how: JoinType) -> None:
    rows = np.arange(1, 100_001) ** -exponent
    rows *= 1e6 / rows.sum()
    others = (rows[128:].sum(), rows[128:].sum(), (rows[128:] ** 2).sum())
    keys = [(float(n), float(n)) for n in rows[:128]]
    plan = counted(keys, 16, how=how, others=others, max_copies=1.5).planned()
    assert overload(plan) < 0.05
    assert plan.copies <= 1.5 * plan.rows


def test_rows_without_a_key_are_spread_where_they_are_many() -> None:
    plan = replace(counted([(1.0, 1.0)], 4, how="left", others=(400.0, 400.0, 400.0)), nulls=1e6)
    assert plan.spreads_nulls
    assert plan.plain_costs.max() > 1e6
    assert "rows without a key are spread" in plan.summary
    few = replace(plan, nulls=0.1 * float(plan.costs.mean() - 1e6 / 4))
    assert not few.spreads_nulls
    assert "rows without" not in few.summary


def test_without_skew_nothing_is_planned() -> None:
    plan = counted([(100.0, 100.0)] * 3, 8, others=(1e6, 1e6, 1e6)).planned()
    assert plan.is_empty
    assert plan.copies == 0


rows = st.floats(0, 1e7).map(np.floor).map(float)


@given(st.lists(st.tuples(rows, rows), max_size=20), st.integers(1, 30), st.sampled_from(TYPES), st.floats(0, 2), rows)
def test_whatever_is_counted_the_plan_is_sound(
    keys: list[tuple[float, float]], workers: int, how: JoinType, max_copies: float, others: float
) -> None:
    plan = counted(keys, workers, how=how, others=(others, others, others), max_copies=max_copies).planned()
    assert JoinPlan.from_json(plan.to_json()) == plan
    assert plan.copies <= max_copies * plan.rows * (1 + 1e-9)
    assert max(plan.costs) <= max(plan.plain_costs) * (1 + 1e-9)
    assert str(plan).startswith(f"{how} join by k: ")


def test_another_join_of_the_same_rows_is_planned_anew() -> None:
    plan = counted([(10_000.0, 5_000.0)], 16, others=(1e6, 1e6, 1e6)).planned()
    assert plan.for_join("inner", "both", 16, 1.0) is plan
    left = plan.for_join("left", "left", 7, 1.0)
    assert len(left.keys[0].right_shares) == 1
    assert overload(left) < 0.05
    assert left.rows == pytest.approx(plan.rows)


def test_a_plan_can_be_saved_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    plan = counted([(1e6, 1.0)], 4).planned()
    plan.save(tmp_path / "plan.json")
    assert JoinPlan.load(tmp_path / "plan.json") == plan
    unbounded = replace(plan, max_copies=float("inf"))
    assert JoinPlan.from_json(unbounded.to_json()) == unbounded
    with pytest.raises(SkewlessError, match="cannot read a plan"):
        JoinPlan.load(tmp_path / "none.json")
    with pytest.raises(SkewlessError, match="cannot write the plan"):
        plan.save(tmp_path / "none" / "plan.json")
    content = json.loads(plan.to_json())
    for broken in (
        {**content, "workers": 5},
        {**content, "how": "cross"},
        {**content, "how": "left_semi"},
        {**content, "cuts": "right"},
        {**content, "max_copies": -1},
        {**content, "keys": content["keys"] * 2},
        {**content, "keys": [{**content["keys"][0], "salts": [1, 1, 2, 3]}]},
        {**content, "keys": [{**content["keys"][0], "salts": [1, 2, 3, 1 << 31]}]},
        {**content, "keys": [{**content["keys"][0], "salts": [1, 2, 3, -1]}]},
        {**content, "keys": [{**content["keys"][0], "salts": [1, 2, 3, 0.5]}]},
        {**content, "keys": [{**content["keys"][0], "left_shares": [1, 1, 1, -1]}]},
        {**content, "keys": [{**content["keys"][0], "left_shares": [0, 0, 0, 0]}]},
        {**content, "keys": [{**content["keys"][0], "left": -1}]},
        {**content, "skewless_join_plan": 99},
    ):
        with pytest.raises(
            SkewlessError, match=r"this (plan is broken, or of another version|is not the plan of a join)"
        ):
            JoinPlan.from_json(json.dumps(broken))
    for text in ("[]", "{", "{}", '{"skewless_join_plan": 1, "keys": [{"key": 1}]}'):
        with pytest.raises(SkewlessError, match="not the plan of a join"):
            JoinPlan.from_json(text)
    for text, message in (
        ("{}", "this is not the plan of a join: it has no 'skewless_join_plan'. Make one"),
        ('{"skewless_plan": 2}', "this is a plan of plan_keys, not that of a join. Use Plan.load"),
    ):
        with pytest.raises(SkewlessError, match=message):
            JoinPlan.from_json(text)
    for text, message in (
        ("{}", "this is not a plan: it has no 'skewless_plan'. Make one"),
        (plan.to_json(), r"this is the plan of a join. Use JoinPlan\.load"),
    ):
        with pytest.raises(SkewlessError, match=message):
            Plan.from_json(text)


def test_it_is_shown() -> None:
    plan = counted([(10_000.0, 5_000.0), (2.0, 1.0)], 16, others=(1e6, 1e6, 1e6)).planned()
    assert "4 x 4 on 16 workers, 45,000 rows copied" in str(plan)
    assert f"{100 * 45_000 / plan.rows:.2g} % of the rows copied" in plan.summary
    assert f"busiest worker {100 * overload(plan.whole()):.1f} % above the mean with plain hashing" in plan.summary
    html = plan._repr_html_()
    assert "<td>k0</td>" in html
    assert "<script>" not in counted([(1.0, 1.0)], 2)._repr_html_()
