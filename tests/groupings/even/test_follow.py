"""The kernel that follows a plan against its naive twin, and how evenly it deals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.follow import NaiveFollower
from naive.space_saving import NaiveSpaceSaving
from skewless.groupings.even.follow import Tally, follow_plan
from skewless.groupings.even.level import NO_PIECE
from skewless.groupings.even.plan import Plan
from skewless.sketches.space_saving import SpaceSaving

SHARES = st.sampled_from([0.0, 0.0, 1e-12, 1.0, 3.0]) | st.floats(0, 100, allow_subnormal=False)


class Follower:
    """What a router keeps, and calls the kernel with."""

    def __init__(
        self, plan: Plan, salt: np.uint64, *, n_counters: int = 8, units: Any = 1, first_turn: int = 0
    ) -> None:
        self.plan, self.salt = plan, salt
        self.phases = np.zeros(len(plan.shares), dtype=np.uint64)
        self.tables = plan.tables(salt, self.phases)
        self.sketch = SpaceSaving(n_counters, salt=salt)
        self.tally = Tally(
            np.zeros(plan.keys.size, dtype=np.int64),
            np.zeros(plan.bucket_owners.size, dtype=np.int64),
            np.zeros(plan.n_workers, dtype=np.int64),
            np.full(plan.n_workers, units, dtype=np.int64) if np.isscalar(units) else np.array(units),
            *self.sketch.arrays,
        )
        self.first_turn = first_turn
        self.unnamed = 0

    def route(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        workers = np.full(keys.size, -1, dtype=np.int32)
        self.unnamed = follow_plan(keys, workers, self.tables, self.tally, self.unnamed, self.first_turn)
        return workers


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    n_workers = draw(st.integers(1, 5))
    worker = st.integers(0, n_workers - 1)
    row = st.lists(st.just(NO_PIECE) | SHARES, min_size=n_workers, max_size=n_workers).filter(lambda row: max(row) > 0)
    rows = draw(st.lists(row, max_size=3))
    whole = draw(st.lists(worker, max_size=4))
    owners = draw(st.permutations([*whole, *(-1 - row for row in range(len(rows)))]))
    size = len(owners)
    keys = draw(st.lists(st.integers(0, 12) | st.integers(0, 2**64 - 1), min_size=size, max_size=size, unique=True))
    return Plan(
        keys=np.array(keys, dtype=np.uint64),
        owners=np.array(owners, dtype=np.int32),
        shares=np.array(rows).reshape(-1, n_workers),
        bucket_owners=np.array(draw(st.lists(worker, min_size=1, max_size=6)), dtype=np.int32),
    )


def _naive(follower: Follower) -> NaiveFollower:
    plan = follower.plan
    owners: dict[int, int | list[tuple[int, float]]] = {}
    phases = {}
    for key, owner in zip(plan.keys.tolist(), plan.owners.tolist(), strict=True):
        owners[key] = owner
        if owner < 0:
            row = plan.shares[-1 - owner].tolist()
            owners[key] = [(worker, share) for worker, share in enumerate(row) if share >= 0]
            phases[key] = int(follower.phases[-1 - owner])
    return NaiveFollower(
        salt=int(follower.salt),
        owners=owners,
        bucket_owners=plan.bucket_owners.tolist(),
        phases=phases,
        times=follower.tally.times.tolist(),
        units=follower.tally.units.tolist(),
        first_turn=follower.first_turn,
        sketch=NaiveSpaceSaving(follower.sketch.counts.size),
    )


def _assert_alike(follower: Follower, twin: NaiveFollower) -> None:
    assert follower.tally.times.tolist() == twin.times
    assert follower.tally.keys.tolist() == [twin.counts.get(key, 0) for key in follower.plan.keys.tolist()]
    assert follower.tally.buckets.tolist() == [
        twin.bucket_counts.get(bucket, 0) for bucket in range(len(twin.bucket_owners))
    ]
    assert follower.unnamed == twin.unnamed
    assert [*zip(*(column.tolist() for column in follower.sketch.items()), strict=True)] == twin.sketch.items()


@given(st.data(), plans(), st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1))
def test_equals_its_naive_twin(data: st.DataObject, plan: Plan, salt: int, first_turn: int) -> None:
    n_workers = plan.n_workers
    units = data.draw(st.lists(st.sampled_from([1, 7, 2**16, 2**32]), min_size=n_workers, max_size=n_workers))
    follower = Follower(plan, np.uint64(salt), units=units, first_turn=first_turn)
    follower.phases[:] = data.draw(st.integers(0, 2**64 - 1))
    times = st.integers(-(2**20), 2**20) | st.just(0)
    follower.tally.times[:] = data.draw(st.lists(times, min_size=n_workers, max_size=n_workers))
    twin = _naive(follower)
    names = [*plan.keys.tolist(), *data.draw(st.lists(st.integers(0, 20), max_size=12))] or [0]
    keys = data.draw(st.lists(st.sampled_from(names), max_size=150))
    expected = [twin.route(key) for key in keys]
    array = np.array(keys, dtype=np.uint64)
    middle = data.draw(st.integers(0, len(keys)))
    head, tail = follower.route(array[:middle]), follower.route(array[middle:])
    assert [*head.tolist(), *tail.tolist()] == expected
    _assert_alike(follower, twin)


def test_equals_its_naive_twin_on_a_long_stream() -> None:
    """Past the point from which fewer tuples reach the sketch."""
    rng = np.random.default_rng(0)
    names = rng.integers(0, 2**64, size=60, dtype=np.uint64)
    keys = names[np.minimum(rng.geometric(0.05, size=20_000), 60) - 1]
    plan = replace(
        Plan.by_hash(np.full(4, 0.25), 16).naming(names[:3], np.uint64(5)),
        owners=np.array([-1, 2, -2], dtype=np.int32),
        shares=np.array([[1.0, 2.0, 0.0, 4.0], [NO_PIECE, 1.0, 1.0, NO_PIECE]]),
    )
    follower = Follower(plan, np.uint64(5), n_counters=20, units=[3, 2, 1, 1], first_turn=2)
    twin = _naive(follower)
    assert follower.route(keys).tolist() == [twin.route(key) for key in keys.tolist()]
    assert twin.unnamed > 10_000
    _assert_alike(follower, twin)


def _cut(shares: list[float]) -> Follower:
    n_workers = len(shares)
    plan = Plan.by_hash(np.full(n_workers, 1 / n_workers), n_workers)
    return Follower(
        replace(
            plan,
            keys=np.array([7], dtype=np.uint64),
            owners=np.array([-1], dtype=np.int32),
            shares=np.array([shares]),
        ),
        np.uint64(1),
    )


def test_every_stretch_of_a_cut_key_is_in_proportion_to_its_shares() -> None:
    shares = [5.0, 3.0, 1.0, 1.0]
    follower = _cut(shares)
    follower.tally.units[:] = 0  # all virtual times are the same
    workers = follower.route(np.full(2000, 7, dtype=np.uint64))
    for start in range(0, 2000, 100):
        counts = np.bincount(workers[start : start + 100], minlength=4)
        assert (np.abs(counts - np.array(shares) * 10) <= 3).all()


def test_who_stands_behind_catches_up() -> None:
    follower = _cut([1.0, 1.0, 1.0, 0.0])
    follower.tally.times[:] = [300, 0, 0, -100]
    follower.route(np.full(3000, 7, dtype=np.uint64))
    assert np.ptp(follower.tally.times) <= 6


def test_a_cut_key_comes_to_no_worker_without_a_piece() -> None:
    follower = _cut([NO_PIECE, 1.0, NO_PIECE, 1.0])
    follower.tally.times[:] = [-(10**6), 0, -(10**6), 0]
    assert set(follower.route(np.full(500, 7, dtype=np.uint64)).tolist()) == {1, 3}


@pytest.mark.parametrize("period", [2, 3, 4, 8, 16, 64])
@pytest.mark.parametrize("offset", [0, 1])
def test_a_key_that_comes_in_turns_with_others_reaches_the_sketch(period: int, offset: int) -> None:
    keys = np.random.default_rng(0).integers(0, 2**64, size=12_000, dtype=np.uint64)
    keys[offset::period] = 7
    follower = Follower(Plan.by_hash(np.array([1.0]), 4), np.uint64(1), n_counters=200)
    follower.route(keys)
    count = int(follower.sketch.estimate(np.array([7], dtype=np.uint64))[0])
    assert 4 * count == pytest.approx(12_000 / period, rel=0.35, abs=200)
