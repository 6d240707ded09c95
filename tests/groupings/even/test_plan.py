"""Plans: which worker a key has, how the pieces of cut keys lie side by side, and how plans are changed and kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless import Key
from skewless.groupings.even.level import NO_PIECE
from skewless.groupings.even.plan import GUIDE_BITS, Plan, Tables
from skewless.groupings.even.statistics import Statistics
from skewless.hashing import make_salt

SALT = np.uint64(12345)
WORDS = 2**64
SHARES = st.sampled_from([0.0, 1e-12, 1.0, 1 / 64]) | st.floats(0, 1, allow_subnormal=False) | st.floats(0, 1e9)


@st.composite
def cut_keys(draw: st.DrawFn) -> list[list[float]]:
    """Draw shares of cut keys, NO_PIECE among them; each has something to share out."""
    n_workers = draw(st.integers(1, 6))
    row = st.lists(st.just(NO_PIECE) | SHARES, min_size=n_workers, max_size=n_workers).filter(lambda row: max(row) > 0)
    return draw(st.lists(row, min_size=1, max_size=4))


def _plan(rows: list[list[float]]) -> Plan:
    n_workers = len(rows[0])
    plan = Plan.by_hash(np.full(n_workers, 1 / n_workers), n_workers)
    owners = -1 - np.arange(len(rows), dtype=np.int32)
    return replace(plan, keys=np.arange(len(rows), dtype=np.uint64), owners=owners, shares=np.array(rows))


def _pieces(tables: Tables, row: int) -> list[tuple[int, int]]:
    """Return the worker and the last word of each piece of a row."""
    pieces = slice(int(tables.starts[row]), int(tables.starts[row + 1]))
    return [*zip(tables.pieces[pieces].tolist(), tables.lasts[pieces].tolist(), strict=True)]


@given(cut_keys())
def test_pieces_lie_side_by_side_in_proportion_to_their_shares(rows: list[list[float]]) -> None:
    tables = _plan(rows).tables(SALT, np.zeros(len(rows), dtype=np.uint64))
    assert tables.starts[-1] == tables.pieces.size == sum(share >= 0 for row in rows for share in row)
    for number, row in enumerate(rows):
        pieces = _pieces(tables, number)
        assert [worker for worker, _ in pieces] == [worker for worker, share in enumerate(row) if share >= 0]
        total = sum(max(share, 0) for share in row)
        start, upto = 0, 0.0
        for worker, last in pieces:
            upto += row[worker]
            assert start <= last + 1
            assert last / WORDS == pytest.approx(upto / total, abs=1e-12)
            assert row[worker] > 0 or last + 1 - start <= 1 or last == WORDS - 1
            start = last + 1
        assert start == WORDS


@given(cut_keys(), st.lists(st.integers(0, WORDS - 1), max_size=20))
def test_every_word_finds_its_piece_from_the_guide_on(rows: list[list[float]], words: list[int]) -> None:
    tables = _plan(rows).tables(SALT, np.zeros(len(rows), dtype=np.uint64))
    step = WORDS >> GUIDE_BITS
    for number in range(len(rows)):
        lasts = [last for _, last in _pieces(tables, number)]
        edges = [last + more for last in lasts for more in (0, 1)] + [0, step - 1, step, 63 * step, WORDS - 1]
        for word in [*words, *(edge for edge in edges if edge < WORDS)]:
            piece = int(tables.guide[(number << GUIDE_BITS) + (word >> 64 - GUIDE_BITS)])
            while word > int(tables.lasts[piece]):
                piece += 1
            first = next(place for place, last in enumerate(lasts) if word <= last)
            assert piece - int(tables.starts[number]) == first


def _owners(plan: Plan, keys: NDArray[np.uint64], salt: np.uint64) -> NDArray[np.int32]:
    owners: NDArray[np.int32] = plan.bucket_owners[plan.buckets_of(keys, salt)]
    return owners


@given(st.integers(1, 300), st.integers(1, 9), st.integers(0, 2**32))
def test_the_plan_to_begin_with_is_key_grouping(n_workers: int, times: int, seed: int) -> None:
    keys = np.random.default_rng(seed).integers(0, 2**64, size=200, dtype=np.uint64)
    plan = Plan.by_hash(np.full(n_workers, 1 / n_workers), times * n_workers)
    expected = Key(workers=n_workers).start(0, seed).route(keys, 0)
    assert _owners(plan, keys, make_salt(seed)).tolist() == expected.tolist()


@given(st.lists(st.sampled_from([0.001, 1.0, 2.0, 7.0]), min_size=1, max_size=12), st.integers(1, 2000))
def test_unequal_workers_begin_with_buckets_in_proportion(capacities: list[float], n_buckets: int) -> None:
    fair = np.array(capacities) / sum(capacities)
    owners = Plan.by_hash(fair, n_buckets).bucket_owners
    assert owners.dtype == np.int32
    assert owners.size == n_buckets
    assert (np.abs(np.bincount(owners, minlength=fair.size) - fair * n_buckets) <= 1 + 1e-9).all()


def test_named_keys_stay_where_their_bucket_is_and_go_back_there() -> None:
    keys = np.arange(100, dtype=np.uint64)
    fair = np.full(7, 1 / 7)
    plan = Plan.by_hash(fair, 70).naming(keys[:60], SALT).naming(keys[60:], SALT)
    assert plan.keys.tolist() == keys.tolist()
    assert plan.owners.tolist() == _owners(plan, keys, SALT).tolist()
    kept = keys % np.uint64(3) == 0
    fewer = plan.keeping(kept)
    assert fewer.keys.tolist() == keys[kept].tolist()
    assert fewer.owners.tolist() == plan.owners[kept].tolist()
    moved = replace(plan, owners=(plan.owners + 1) % 7, bucket_owners=plan.bucket_owners[::-1].copy())
    back = moved.hashed_back(fair, SALT)
    assert back.owners.tolist() == plan.owners.tolist()
    assert back.bucket_owners.tolist() == plan.bucket_owners.tolist()
    assert back.shares.shape == (0, 7)


def test_a_cut_key_that_is_hashed_back_is_whole() -> None:
    plan = _plan([[1.0, 2.0, NO_PIECE]])
    back = plan.hashed_back(np.full(3, 1 / 3), SALT)
    assert (back.n_cuts, back.shares.shape) == (0, (0, 3))
    assert back.owners.tolist() == _owners(back, plan.keys, SALT).tolist()


def test_loads_are_those_of_whole_items_and_of_pieces() -> None:
    plan = replace(
        _plan([[3.0, 1.0, NO_PIECE], [NO_PIECE, 0.0, 5.0]]),
        keys=np.arange(3, dtype=np.uint64),
        owners=np.array([-1, 2, -2], dtype=np.int32),
    )
    statistics = Statistics(keys=np.array([8.0, 7.0, 2.0]), buckets=np.array([10.0, 20.0, 30.0]), weight=77, square=77)
    assert plan.loads(statistics).tolist() == [6 + 10, 2 + 20, 7 + 2 + 30]
    assert plan.n_cuts == 2


def test_plans_are_never_changed_in_place() -> None:
    plan = Plan.by_hash(np.full(4, 0.25), 8).naming(np.arange(6, dtype=np.uint64), SALT)
    statistics = Statistics(keys=np.array([90.0, 5, 5, 5, 5, 5]), buckets=np.ones(8), weight=123.0, square=123.0)
    targets = np.full(4, 123 / 4)
    for _ in range(2):
        kept = {name: array.copy() for name, array in vars(plan).items()}
        levelled, _ = plan.levelled(statistics, targets)
        plan.flowed(statistics, targets)
        plan.loads(statistics)
        assert all(np.array_equal(kept[name], array) for name, array in vars(plan).items())
        plan = levelled
    assert plan.n_cuts > 0
