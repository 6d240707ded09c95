"""The kernel that follows a plan against its naive twin, and how evenly it deals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.plan_table import NaiveFollower
from naive.space_saving import NaiveSpaceSaving
from skewless.groupings.plan_table import Tally, follow, make_table
from skewless.salting import Pieces
from skewless.salting.forecast import Forecast, Policy
from skewless.salting.table import alias_table
from skewless.sketches.space_saving import SpaceSaving

AMOUNTS = st.sampled_from([0.0, 1e-12, 1.0, 3.0]) | st.floats(0, 100, allow_subnormal=False)
Plan = dict[int, dict[int, float]]  # the pieces of each named key


def _forecast(
    plan: Plan, n_workers: int, salt: int = 1, *, spread: bool = False, ranges: Mapping[int, int] | None = None
) -> Forecast:
    """Return a state with this plan; `ranges` are those that are not at home, with their workers."""
    hashes, policy = np.array(list(plan), dtype=np.uint64), Policy(fair=np.full(n_workers, 1 / n_workers))
    held = [(key, *piece) for key, pieces in enumerate(plan.values()) for piece in sorted(pieces.items())]
    held += [(len(plan) + number, worker, 1.0) for number, worker in sorted((ranges or {}).items())]
    return replace(
        Forecast.nothing(np.uint64(salt), policy),
        hashes=hashes,
        loads=np.ones(hashes.size),
        spread=spread,
        pieces=Pieces(
            keys=np.array([key for key, _, _ in held], dtype=np.int64),
            workers=np.array([worker for _, worker, _ in held], dtype=np.int64),
            amounts=np.array([amount for _, _, amount in held]),
        ),
    )


class Follower:
    """What a router keeps, and calls the kernel with."""

    def __init__(self, forecast: Forecast, *, n_counters: int = 8, phase: int = 0, first_turn: int = 0) -> None:
        n_workers = forecast.fair.size
        self.forecast, self.first_turn, self.unnamed = forecast, first_turn, 0
        self.table = make_table(forecast, np.full(n_workers, phase, dtype=np.uint64))
        self.sketch = SpaceSaving(n_counters, salt=forecast.salt)
        sizes = (forecast.hashes.size, forecast.ranges.size, n_workers)
        keys, by_range, sent = (np.zeros(size, dtype=np.int64) for size in sizes)
        self.tally = Tally(keys, by_range, sent, *self.sketch.arrays)
        self.twin = self._twin(phase)

    def _twin(self, phase: int) -> NaiveFollower:
        forecast = self.forecast
        n_workers = forecast.fair.size
        owners: dict[int, int | list[tuple[float, int, int]]] = dict(
            zip(forecast.hashes.tolist(), forecast.followed(forecast.hashes).tolist(), strict=True)
        )
        for number, workers, shares in forecast.placements():
            owners[number % 2**64] = (
                int(workers[0]) if len(workers) == 1 else _rows(np.array(workers), np.array(shares))
            )
        return NaiveFollower(
            salt=int(forecast.salt),
            range_owners=forecast.range_owners.tolist(),
            owners=owners,
            phases=dict.fromkeys([*owners, None], phase),
            everywhere=_rows(np.arange(n_workers), forecast.fair) if forecast.spread else None,
            first_turn=self.first_turn,
            sketch=NaiveSpaceSaving(self.sketch.counts.size),
        )

    def route(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        workers = np.full(keys.size, -1, dtype=np.int32)
        self.unnamed = follow(keys, workers, self.table, self.tally, self.unnamed, self.first_turn)
        return workers

    def assert_like_twin(self) -> None:
        twin, n_workers = self.twin, self.forecast.fair.size
        assert self.tally.keys.tolist() == [twin.counts.get(key, 0) for key in self.forecast.hashes.tolist()]
        assert self.tally.ranges.tolist() == [twin.by_range.get(number, 0) for number in range(self.tally.ranges.size)]
        assert self.tally.sent.tolist() == [twin.sent.get(worker, 0) for worker in range(n_workers)]
        assert self.unnamed == twin.unnamed
        assert [*zip(*(column.tolist() for column in self.sketch.items()), strict=True)] == twin.sketch.items()


def _rows(workers: NDArray[np.int64], shares: NDArray[np.float64]) -> list[tuple[float, int, int]]:
    return [*zip(*(column.tolist() for column in alias_table(workers.astype(np.int32), shares)), strict=True)]


@st.composite
def forecasts(draw: st.DrawFn) -> Forecast:
    n_workers = draw(st.integers(1, 5))
    pieces = st.dictionaries(st.integers(0, n_workers - 1), AMOUNTS).filter(
        lambda pieces: not pieces or max(pieces.values()) > 0
    )
    keys = st.integers(0, 12) | st.integers(0, 2**64 - 1)
    plan = draw(st.dictionaries(keys, pieces, max_size=n_workers - 1))
    ranges = draw(st.dictionaries(st.integers(0, 255), st.integers(0, n_workers - 1), max_size=9))
    return _forecast(plan, n_workers, draw(st.integers(0, 2**64 - 1)), spread=draw(st.booleans()), ranges=ranges)


@given(st.data(), forecasts(), st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1))
def test_equals_its_naive_twin(data: st.DataObject, forecast: Forecast, phase: int, first_turn: int) -> None:
    follower = Follower(forecast, phase=phase, first_turn=first_turn)
    names = [*forecast.hashes.tolist(), *data.draw(st.lists(st.integers(0, 20), max_size=12))] or [0]
    keys = data.draw(st.lists(st.sampled_from(names), max_size=150))
    expected = [follower.twin.route(key) for key in keys]
    array = np.array(keys, dtype=np.uint64)
    middle = data.draw(st.integers(0, len(keys)))
    head, tail = follower.route(array[:middle]), follower.route(array[middle:])
    assert [*head.tolist(), *tail.tolist()] == expected
    follower.assert_like_twin()


@pytest.mark.parametrize("spread", [False, True])
def test_equals_its_naive_twin_on_a_long_stream(spread: bool) -> None:
    """Past the points from which fewer tuples can take a counter."""
    rng = np.random.default_rng(0)
    names = rng.integers(0, 2**64, size=60, dtype=np.uint64)
    keys = names[np.minimum(rng.geometric(0.05, size=45_000), 60) - 1]
    plan: Plan = {int(names[0]): {0: 1.0, 1: 2.0, 2: 0.0, 3: 4.0}, int(names[1]): {2: 1.0}, int(names[2]): {}}
    follower = Follower(_forecast(plan, 4, 5, spread=spread), n_counters=20, first_turn=2)
    assert follower.route(keys).tolist() == [follower.twin.route(key) for key in keys.tolist()]
    assert follower.unnamed > 33_000
    follower.assert_like_twin()


def test_every_stretch_of_a_cut_key_is_in_proportion_to_its_shares() -> None:
    shares = np.array([5.0, 3.0, 1.0, 1.0])
    workers = Follower(_forecast({7: dict(enumerate(shares))}, 4)).route(np.full(2000, 7, dtype=np.uint64))
    for start in range(0, 2000, 100):
        counts = np.bincount(workers[start : start + 100], minlength=4)
        assert (np.abs(counts - shares * 10) <= 3).all()


def test_a_cut_key_comes_to_no_worker_without_a_piece() -> None:
    follower = Follower(_forecast({7: {1: 1.0, 2: 0.0, 3: 1.0}}, 4))
    assert set(follower.route(np.full(500, 7, dtype=np.uint64)).tolist()) == {1, 3}


@pytest.mark.parametrize("period", [2, 3, 4, 8, 16, 64])
@pytest.mark.parametrize("offset", [0, 1])
def test_a_key_that_comes_in_turns_with_others_is_counted(period: int, offset: int) -> None:
    keys = np.random.default_rng(0).integers(0, 2**64, size=60_000, dtype=np.uint64)
    keys[offset::period] = 7
    follower = Follower(_forecast({}, 1), n_counters=200)
    follower.route(keys)
    count = int(follower.sketch.estimate(np.array([7], dtype=np.uint64))[0])
    assert count == pytest.approx(60_000 / period, rel=0.1, abs=100)
