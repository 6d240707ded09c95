"""What the DKG paper says of dynamic key grouping, beyond its algorithms."""

from __future__ import annotations

import numpy as np
import pytest

from skewless import DynamicKey, SkewlessError, hash_keys, make_stream

# Table 1: machines, ideal load, threshold load, most machines per key.
TABLE_1 = [
    (5, 20.00, 24.47, 5),
    (10, 10.00, 13.16, 8),
    (20, 5.00, 7.24, 14),
    (50, 2.00, 3.41, 30),
    (100, 1.00, 2.00, 51),
]


@pytest.mark.parametrize(("machines", "ideal", "threshold", "most"), TABLE_1)
def test_table_1(machines: int, ideal: float, threshold: float, most: int) -> None:
    grouping = DynamicKey(workers=machines)
    assert grouping.ideal_load == pytest.approx(ideal, abs=0.005)
    assert grouping.scale_out_load == pytest.approx(threshold, abs=0.01)
    assert grouping.max_workers_per_key == most


@pytest.mark.parametrize("grouping", [DynamicKey(workers=n) for n in (5, 10, 20)], ids=str)
def test_no_key_uses_more_workers_than_table_1_allows(grouping: DynamicKey) -> None:
    router = grouping.start(0, 0)
    hot = np.full(100, 7, dtype=np.uint64)
    used: set[int] = set()
    for second in range(1000):
        used |= set(router.route(hot, second * 1000).tolist())
        assert router.snapshot().items.widths.max() <= grouping.max_workers_per_key
    assert len(used) == grouping.max_workers_per_key  # one key with all the load goes as far as it may


def test_no_scaling_out_before_the_warm_up_and_the_old_space() -> None:
    router = DynamicKey(workers=10).start(0, 0)
    hot = np.full(100, 7, dtype=np.uint64)
    widths = dict.fromkeys(range(0, 90, 5), 0)
    for second in widths:
        router.route(hot, second * 1000)
        widths[second] = int(router.snapshot().items.widths.max())
    # Old after the fourth cycle of 15 s, though warm after the first.
    assert {second for second, width in widths.items() if width > 2} == {second for second in widths if second >= 60}


def test_a_long_warm_up_holds_scaling_out_back() -> None:
    router = DynamicKey(workers=10, warm_up_s=100).start(0, 0)
    hot = np.full(100, 7, dtype=np.uint64)
    for second in (0, 15, 30, 45, 60, 100):
        router.route(hot, second * 1000)
    assert router.snapshot().items.widths.max() == 2
    router.route(hot, 121_000)  # widths are checked once a minute
    assert router.snapshot().items.widths.max() > 2


def test_keys_unseen_for_an_hour_are_forgotten() -> None:
    router = DynamicKey(workers=10).start(0, 0)
    old, young = np.array([1], dtype=np.uint64), np.array([2], dtype=np.uint64)
    router.route(old, 0)
    router.route(young, 3_500_000)
    router.route(young, 3_600_000)
    assert set(router.snapshot().items.keys.tolist()) == {1, 2}
    router.route(young, 3_615_000)
    assert set(router.snapshot().items.keys.tolist()) == {2}


def test_the_key_space_stays_within_its_sizes() -> None:
    router = DynamicKey(workers=10, expected_keys=100).start(0, 0)
    for keys, second in zip(make_stream("zipf-1.0-100000").generate(tuples=3 << 20), (0, 61, 125), strict=True):
        router.route(hash_keys(keys), second * 1000)
    router.route(np.zeros(0, dtype=np.uint64), 200_000)
    spaces = router.snapshot().items.spaces
    assert [int((spaces == space).sum()) for space in (0, 1, 2)] == [50, 40, 10]


def test_a_late_source_knows_the_hot_keys() -> None:
    grouping = DynamicKey(workers=10)
    routers = [grouping.start(source, 0) for source in range(2)]
    rng = np.random.default_rng(0)
    for second in range(120):
        for router in routers:
            keys = np.where(rng.random(200) < 0.8, np.uint64(7), rng.integers(0, 100, size=200, dtype=np.uint64))
            router.route(keys, second * 1000)
    merged = grouping.merge([router.snapshot() for router in routers])
    hot = np.flatnonzero(merged.items.keys == 7)
    assert merged.items.spaces[hot] == 2
    assert merged.items.widths[hot] > 2
    assert [int((merged.items.spaces == space).sum()) <= size for space, size in ((1, 40), (2, 10))] == [True, True]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"expected_keys": 0}, "expected_keys must be a whole number of at least 1; got 0"),
        ({"warm_up_s": -1}, "warm_up_s must be a whole number of at least 0; got -1"),
        ({"check_interval_s": 0.5}, "check_interval_s must be a whole number of at least 0; got 0.5"),
        ({"scale_down_load": 14}, r"between 0 and the load to scale out at \(13.16 percent\); got 14"),
        ({"workers": 2**15}, "workers must be below 32768"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        DynamicKey(**{"workers": 10, **parameters})  # type: ignore[arg-type]
