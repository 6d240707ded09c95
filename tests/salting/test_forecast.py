"""What is known of a stream from batch to batch: what fades, what is dropped, what is named, and what is planned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless.salting.forecast import Forecast, Observed, Policy, n_ranges
from skewless.salting.slots import homes

SALT = np.uint64(77)
POLICY = Policy(fair=np.full(4, 0.25))
MINUTE = 60_000


def batch(
    counts: dict[int, int], others: int = 0, seed: int = 0, workers: NDArray[np.float64] | None = None
) -> Observed:
    """Return what a batch of these keys, and of rows that all have keys of their own, has shown."""
    hashes = np.array(list(counts), dtype=np.uint64)
    rows = np.array(list(counts.values()), dtype=np.float64)
    by_range = np.random.default_rng(seed).multinomial(others, np.full(n_ranges(4), 1 / n_ranges(4))).astype(np.float64)
    np.add.at(by_range, homes(hashes, SALT, n_ranges(4)), rows)
    total = by_range.sum() / 4
    return Observed(
        hashes=hashes, counts=rows, by_range=by_range, by_worker=np.full(4, total) if workers is None else workers
    )


def after(*batches: Observed, policy: Policy = POLICY, step_ms: int = 1000) -> Forecast:
    forecast = Forecast.nothing(SALT, policy)
    for number, seen in enumerate(batches, start=1):
        forecast = forecast.after(seen, number * step_ms, policy)
    return forecast


@given(
    hot=st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 3000), max_size=12),
    later=st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 3000), max_size=12),
    others=st.integers(0, 5000),
    single_owner=st.booleans(),
    worthwhile=st.sampled_from([0.0, 0.2]),
)
def test_a_plan_is_sound_whatever_comes(
    hot: dict[int, int], later: dict[int, int], others: int, single_owner: bool, worthwhile: float
) -> None:
    policy = replace(POLICY, single_owner=single_owner, worthwhile=worthwhile)
    forecast = Forecast.nothing(SALT, policy)
    assert forecast.spread == (not single_owner)
    for number, counts in enumerate((hot, hot | later, later), start=1):
        forecast = forecast.after(batch(counts, others, number), 1000 * number, policy)
        assert forecast.pieces.n_cuts < 4
        assert forecast.hashes.size == np.unique(forecast.hashes).size == forecast.loads.size <= policy.most_names
        assert (np.diff(forecast.pieces.keys) >= 0).all()
        assert forecast.pieces.keys.max(initial=0) < forecast.hashes.size + forecast.ranges.size
        assert not single_owner or forecast.pieces.n_cuts == 0
        for key, workers, shares in forecast.placements():
            assert key % 2**64 in forecast.hashes
            assert len(set(workers)) == len(workers) == len(shares)
            assert sum(shares) == pytest.approx(1)


def test_the_first_batch_is_spread_and_the_second_is_planned() -> None:
    first = Forecast.nothing(SALT, POLICY)
    assert first.spread
    planned = first.after(batch({7: 6000}, 4000), 1000, POLICY)
    [(key, workers, _)] = planned.placements()
    assert (key, workers, planned.spread) == (7, [0, 1, 2, 3], False)
    loads = planned.pieces.loads(planned.key_loads)
    assert loads == pytest.approx(np.full(4, 2500), rel=0.02)


def test_the_first_plan_may_move_what_it_wants_if_no_key_has_an_owner_yet() -> None:
    keys = {key: 500 for key in range(400) if homes(np.array([key], np.uint64), SALT, 4)[0] == 0}
    for policy in (POLICY, replace(POLICY, single_owner=True)):
        forecast = after(batch(keys, 1000), policy=policy)
        assert forecast.moved == 0
        assert forecast.pieces.loads(forecast.key_loads).max() < 1.1 * forecast.weight / 4
    placed = after(batch(keys, 1000, workers=batch(keys, 1000).by_range.reshape(-1, 4).sum(axis=0)), policy=policy)
    assert 0 < placed.moved <= 0.05


def test_nothing_seen_changes_nothing() -> None:
    forecast = after(batch({7: 600}, 400))
    assert forecast.after(batch({}), 9000, POLICY) is forecast


def test_rows_weigh_half_after_a_half_life() -> None:
    same = [batch({7: 600}, 400, seed) for seed in range(3)]
    assert after(*same).weight == 3000
    assert after(*same, step_ms=2 * MINUTE).weight == 1000 + 500 + 250
    assert after(*same, step_ms=200 * MINUTE).weight == pytest.approx(1000)
    assert after(*same, step_ms=2 * MINUTE).square == 1000 + 250 + 62.5


@pytest.mark.parametrize("rows", [200, 20_000, 200_000])
def test_another_sample_of_the_same_stream_contradicts_nothing(rows: int) -> None:
    rng = np.random.default_rng(rows)
    forecast, weight = after(batch({7: 3000}, 7000)), 10_000
    for number in range(20):
        hot = int(rng.binomial(rows, 0.3))
        forecast = forecast.after(batch({7: hot}, rows - hot, number), 1000, POLICY)
        weight += rows
        assert forecast.weight == weight


def test_another_stream_does_contradict() -> None:
    assert after(batch({7: 3000}, 7000), batch({9: 300}, 700)).weight == 1000
    assert after(batch({7: 3000}, 7000), batch({7: 300}, 700)).weight == 11_000


def test_a_cut_key_that_shrank_contradicts_though_no_worker_looks_other() -> None:
    assert after(batch({7: 8000}, 2000), batch({7: 780}, 220)).weight == 11_000
    assert after(batch({7: 8000}, 2000), batch({7: 100}, 900)).weight == 1000


def test_a_key_that_is_named_late_counts_for_its_past() -> None:
    steady = [batch({}, 10_000, seed) for seed in range(5)]
    forecast = after(*steady, batch({7: 100}, 9_900, 5))
    assert forecast.hashes.tolist() == [7]
    assert forecast.loads[0] == pytest.approx(6 * (100 - 2 * 10))


def test_small_keys_lose_their_names() -> None:
    keys = dict.fromkeys(range(40), 100)
    forecast = after(batch(keys, 4000))
    assert forecast.hashes.size == 40
    forecast = forecast.after(batch({}, 400_000), 1000, POLICY)
    assert forecast.hashes.size == 0


def test_keys_that_are_named_in_a_moved_range_stay_there() -> None:
    """All rows of one worker are in few ranges, and no key has a name that could be moved."""
    policy = replace(POLICY, single_owner=True, max_moved=1.0)
    hashes = np.arange(20_000, dtype=np.uint64)
    ranges = homes(hashes, SALT, n_ranges(4))
    seen = batch({}, 0)
    by_range = np.where(np.arange(n_ranges(4)) % 4 == 0, 100.0, 10.0)
    forecast = Forecast.nothing(SALT, policy).after(replace(seen, by_range=by_range), 1000, policy)
    moved = np.flatnonzero(forecast.range_owners != np.arange(n_ranges(4)) % 4)
    number = int(moved[0])
    owner = forecast.range_owners[number]
    key = int(hashes[ranges == number][0])
    by_range[number] += 20
    again = replace(batch({key: 110}), by_range=by_range)
    named = forecast.after(again, 2000, replace(policy, slack=1.0))
    assert named.hashes.tolist() == [key]
    assert named.owners.tolist() == [owner]
    assert list(named.placements()) == []


def test_workers_that_are_ahead_get_less() -> None:
    seen = batch({7: 6000}, 4000, workers=np.array([2600.0, 2500, 2500, 2400]))
    forecast = after(seen)
    assert forecast.ahead.tolist() == [100, 0, 0, -100]
    loads = forecast.pieces.loads(forecast.key_loads)
    assert loads[0] < 2480
    assert loads[3] > 2520


@given(single_owner=st.booleans())
def test_who_counts_by_home_worker_plans_the_same_but_moves_no_range(single_owner: bool) -> None:
    policy = replace(POLICY, single_owner=single_owner)
    forecast = Forecast.nothing(SALT, policy).by_home()
    for number in range(4):
        seen = batch({7: 3000, 8: 500, 9: 400}, 6000, number)
        forecast = forecast.after(replace(seen, by_range=seen.by_range.reshape(-1, 4).sum(axis=0)), 1000, policy)
    assert forecast.range_owners.tolist() == [0, 1, 2, 3]
    assert forecast.weight == 4 * 9900
    assert (forecast.pieces.n_cuts > 0) == (not single_owner)
    assert single_owner or forecast.pieces.loads(forecast.key_loads).max() < 1.03 * forecast.weight / 4
