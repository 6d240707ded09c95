"""Each routing kernel against its naive twin, on keys, batches and times that Hypothesis draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.groupings import NaiveDynamicKey, NaiveKey, NaivePartialKey, NaiveShuffle
from skewless import DynamicKey, Key, PartialKey, Shuffle

# Few distinct keys, so that some become hot, and any 64-bit hash among them.
NAMES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12, unique=True)
WORKERS = st.integers(1, 12)
SEEDS = st.integers(0, 2**32)


def _keys(data: st.DataObject, max_size: int = 60) -> list[int]:
    names = data.draw(NAMES)
    return data.draw(st.lists(st.sampled_from(names), max_size=max_size))


def _as_array(keys: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(keys, dtype=np.uint64)


@given(st.data(), WORKERS, st.integers(0, 20), SEEDS)
def test_shuffle(data: st.DataObject, n_workers: int, source: int, seed: int) -> None:
    router = Shuffle(workers=n_workers).start(source, seed)
    keys = _keys(data)
    twin = NaiveShuffle(n_workers, router.snapshot().next_worker)
    for _ in range(2):
        assert router.route(_as_array(keys), 0).tolist() == twin.route(keys)


@pytest.mark.parametrize(
    ("n_workers", "n_sources"), [(10, 5), (10, 10), (10, 3), (100, 20), (1000, 200), (7, 300), (3, 1)]
)
def test_shuffle_sources_start_at_workers_that_are_spread_evenly(n_workers: int, n_sources: int) -> None:
    """No two of as many sources as workers start at the same one; of more, none is the first of more than its share."""
    grouping = Shuffle(workers=n_workers)
    first = [grouping.first_state(source, 0).next_worker for source in range(n_sources)]
    assert np.bincount(first, minlength=n_workers).max() <= -(-n_sources // n_workers)


@given(st.data(), WORKERS, SEEDS)
def test_key(data: st.DataObject, n_workers: int, seed: int) -> None:
    keys = _keys(data)
    workers = Key(workers=n_workers).start(0, seed).route(_as_array(keys), 0)
    assert workers.tolist() == NaiveKey(n_workers, seed).route(keys)


@given(st.data(), WORKERS, SEEDS)
def test_partial_key(data: st.DataObject, n_workers: int, seed: int) -> None:
    keys = _keys(data)
    router, twin = PartialKey(workers=n_workers).start(0, seed), NaivePartialKey(n_workers, seed)
    for _ in range(2):
        assert router.route(_as_array(keys), 0).tolist() == twin.route(keys)


@st.composite
def dynamic_keys(draw: st.DrawFn) -> DynamicKey:
    n_workers = draw(WORKERS)
    plain = DynamicKey(workers=n_workers)
    return DynamicKey(
        workers=n_workers,
        expected_keys=draw(st.sampled_from([4, 10, 30])),
        warm_up_s=draw(st.sampled_from([0, 3, 15])),
        promote_every_s=draw(st.sampled_from([1, 15])),
        cycles_to_old=draw(st.sampled_from([1, 2, 4])),
        variant=draw(st.sampled_from(["paper", "readme", "released"])),
        check_interval_s=draw(st.sampled_from([0, 0, 1, 20, None])),
        forget_after_s=draw(st.sampled_from([5, 3600])),
        scale_down_load=draw(st.sampled_from([None, 0.0, 0.5 * plain.scale_out_load])),
        whole_percent=draw(st.sampled_from([None, False])),
    )


@given(st.data(), dynamic_keys(), SEEDS)
def test_dynamic_key(data: st.DataObject, grouping: DynamicKey, seed: int) -> None:
    router, twin = grouping.start(0, seed), NaiveDynamicKey(grouping, seed)
    names = data.draw(NAMES)
    now_ms = data.draw(st.integers(0, 10**12))
    for _ in range(data.draw(st.integers(1, 8))):
        keys = data.draw(st.lists(st.sampled_from([names[0], *names]), max_size=80))
        now_ms += data.draw(st.sampled_from([0, 1, 999, 15_000, 61_000, 4_000_000]))
        assert router.route(_as_array(keys), now_ms).tolist() == twin.route(keys, now_ms)


def test_dynamic_key_on_a_hot_key_for_minutes() -> None:
    """Long enough that the hot key becomes old, widens, and shrinks again when it cools down."""
    grouping = DynamicKey(workers=10, expected_keys=20, check_interval_s=0)
    router, twin = grouping.start(0, 3), NaiveDynamicKey(grouping, 3)
    rng = np.random.default_rng(0)
    widest = set()
    for second in range(500):
        hot = rng.random(30) < (0.8 if second < 400 else 0.0)
        keys = np.where(hot, np.uint64(7), rng.integers(0, 40, size=30, dtype=np.uint64))
        assert router.route(keys, second * 1000).tolist() == twin.route(keys.tolist(), second * 1000)
        item = twin.find(7)
        widest.add(item.width if item else 0)
    assert {2, 3, 4, 5, 6, 7} <= widest
