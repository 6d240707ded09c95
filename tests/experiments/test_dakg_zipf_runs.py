"""What the experiments of the DAKG paper compute for all keys at once is what groupings decide tuple by tuple."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.experiments.dakg.training import named_grouping, train
from skewless.experiments.dakg.zipf_runs import Sample, draw, draw_names, loads_in_run, planned_owners, step
from skewless.experiments.dakg.zipf_runs import run as run_step
from skewless.groupings import DistributionAware
from skewless.seeding import make_salt


@st.composite
def streams(draw: st.DrawFn) -> Sample:
    keys = st.integers(0, 11) | st.sampled_from([0, 1])
    training, validation = (np.array(draw(st.lists(keys, min_size=1, max_size=80))) for _ in range(2))
    return Sample(training, validation, np.bincount(training, minlength=12), np.bincount(validation, minlength=12))


@given(
    streams(),
    st.integers(1, 5),
    st.sampled_from([0.1, 0.3, 1.0]),
    st.integers(1, 3),
    st.sampled_from(
        [
            (False, True, "linear"),
            (True, True, "linear"),
            (False, False, "linear"),
            (False, True, "quadratic"),
            (False, True, "distinct"),
        ]
    ),
    st.integers(0, 1000),
)
def test_plans_and_loads_are_those_of_the_grouping(
    stream: Sample, workers: int, share: float, buckets: int, kind: tuple[bool, bool, str], seed: int
) -> None:
    split, sparse, cost = kind
    grouping = DistributionAware(
        workers=workers, heavy_share=share, buckets_per_worker=buckets, learn_tuples=stream.training.size,
        split_heavy=split, map_sparse=sparse, cost="linear" if cost == "linear" else "quadratic",
        count_distinct=cost == "distinct",
    )  # fmt: skip
    names = draw_names(12, 1_000_000, make_salt(seed))
    router = train(grouping, names[stream.training], seed)
    chosen = router.route(names[stream.validation], 0)
    assert loads_in_run(grouping, stream, seed, 1).tolist() == np.bincount(chosen, minlength=workers).tolist()
    if not split:
        every_key = router.route(names, 0)
        assert planned_owners(grouping, stream, names, seed).ravel().tolist() == every_key.tolist()
        squares = [float((stream.validation_counts[every_key == worker] ** 2).sum()) for worker in range(workers)]
        assert loads_in_run(grouping, stream, seed, 2).tolist() == squares


@given(st.integers(1, 300), st.integers(0, 200), st.integers(0, 1000))
def test_names_differ(n: int, more: int, seed: int) -> None:
    names = draw_names(n, n + more, make_salt(seed)).tolist()
    assert len(set(names)) == n
    assert max(names) < n + more


def test_names_are_drawn_evenly() -> None:
    first = [int(draw_names(3, 6, make_salt(seed))[0]) for seed in range(6_000)]
    assert all(850 < first.count(name) < 1_150 for name in range(6))


@pytest.mark.parametrize("name", ["universal", "modulo", "partial_key", "even", "even, single owner"])
def test_other_groupings_get_every_tuple_of_the_validation_set(name: str) -> None:
    stream = draw(2.0, 1_000, 0)
    assert stream.validation.size == 20_000
    grouping = named_grouping(name, 3)
    assert loads_in_run(grouping, stream, 0, 1).sum() == 20_000
    whole = (stream.validation_counts**2).sum()
    assert loads_in_run(grouping, stream, 0, 2).sum() == pytest.approx(whole) or not grouping.single_owner


def test_a_step_gives_the_mean_and_the_worst() -> None:
    (row,) = run_step(**step("single_instance", "small", workers=4))
    assert (row["imbalance_mean"], row["imbalance_worst"], row["runs"]) == (300.0, 300.0, 1)
    (row,) = run_step(**step("universal", "small", workers=4))
    assert 100 < row["imbalance_mean"] < row["imbalance_worst"] <= 300
    assert row["runs"] == 40
