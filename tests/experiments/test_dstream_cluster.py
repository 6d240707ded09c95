"""The cluster of DStream's Figures 2, 6 and 7: what it is calibrated by, its memory wall, and who is the bottleneck."""

from __future__ import annotations

from functools import partial

import pytest

from skewless.experiments.dstream.cluster import (
    BY_EXPONENT,
    capacity_of_cluster,
    emitted_per_worker,
    hottest_share,
    served_by_worker,
    slowed,
)
from skewless.experiments.dstream.two_extremes import run
from skewless.experiments.rows import Row


@pytest.mark.parametrize("exponent", [1.5, 1.8, 2.0])
def test_the_worker_of_the_hottest_key_serves_as_much_at_every_high_exponent(exponent: float) -> None:
    share = hottest_share(exponent)
    served = (share + (1 - share) / 64) * BY_EXPONENT["key"][exponent] * 10**4
    assert served == pytest.approx(served_by_worker(), rel=0.06)


def test_a_wall_is_met_where_states_exceed_the_memory_of_all_machines() -> None:
    """10 million keys on each of 128 workers fill 32 machines of 64 GiB with 1,717 bytes each, less the queue."""
    assert slowed(workers=128, spread=128, key_bytes=1_717, slower=10) == pytest.approx(1, abs=0.01)
    assert slowed(workers=128, spread=128, key_bytes=3_435, slower=11) == pytest.approx(6, abs=0.01)
    assert slowed(workers=128, spread=1, key_bytes=100_000, slower=10) == 1


def test_sources_or_the_busiest_worker_are_the_bottleneck() -> None:
    def capacity(grouping: str) -> Row:
        return capacity_of_cluster(exponent=2.0, grouping=grouping, keys=10_000, workers=16, seconds=0.5)

    slow = capacity("key")
    assert slow["throughput"] * slow["busiest"] == pytest.approx(served_by_worker(), rel=0.05)
    for name in ("shuffle", "even"):
        assert capacity(name)["throughput"] == pytest.approx(16 * emitted_per_worker(), rel=0.05)


def test_a_wall_and_dear_merging_slow_shuffle_grouping() -> None:
    shuffled = partial(run, exponent=1.0, keys=10_000, workers=128, grouping="shuffle", seconds=0.2)
    (free,) = shuffled(panel="a")
    (walled,) = shuffled(panel="wall", key_bytes=8_000, slower=100.0)
    (merged,) = shuffled(panel="merging", merge_factor=1_000.0)
    assert walled["setting"] == "8000 bytes a key, 100 times slower"
    assert walled["throughput"] < free["throughput"] / 4
    assert merged["throughput"] < free["throughput"]
