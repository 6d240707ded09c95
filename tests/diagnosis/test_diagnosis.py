"""Predictions, and what is made of them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless import (
    GROUPINGS,
    CountrySkew,
    Key,
    PartialKey,
    Shuffle,
    Simulation,
    SkewlessError,
    groupings,
    hash_keys,
    simulate,
)
from skewless.combiners import ApproxTopK, Count, Mean, Variance
from skewless.diagnosis.diagnosis import Diagnosis, Prediction, diagnose
from skewless.diagnosis.key_distribution import KeyDistribution
from skewless.diagnosis.map_side import combined_on_the_map_side
from skewless.metrics.load import imbalance, loads_of, stddev

FEW = ("key", "partial_key", "shuffle")


def made_of(counts: NDArray[np.int64] | list[int], head: int = 1_000) -> KeyDistribution:
    array = np.array(counts)
    return KeyDistribution.of_counts("numbers", pa.array(range(array.size)), array, head=head)


def country(percent: int, tuples: int = 100_000) -> KeyDistribution:
    return KeyDistribution.of_stream(CountrySkew(percent=percent), tuples=tuples)


def prediction(diagnosis: Diagnosis, grouping: str) -> Prediction:
    return next(one for one in diagnosis.predictions if one.grouping == grouping)


@settings(max_examples=20)
@given(counts=st.lists(st.integers(1, 3_000), min_size=1, max_size=40), workers=st.integers(1, 12))
def test_key_grouping_is_predicted_exactly_where_every_key_is_known(counts: list[int], workers: int) -> None:
    got = prediction(diagnose(made_of(counts), workers=workers, groupings=["key"]), "key")
    keys = hash_keys(pa.array(np.repeat(np.arange(len(counts)), counts)))
    loads = loads_of(Key(workers=workers).start(0, 0).route(keys, 0), workers)
    assert got.imbalance == pytest.approx(imbalance(loads))
    assert got.stddev == pytest.approx(stddev(loads))
    assert (got.dist_cost, got.speed_up) == (1, 1)
    assert got.stage_time == pytest.approx(loads.max() / loads.mean())


@pytest.mark.parametrize("percent", [0, 50, 80])
@pytest.mark.parametrize("workers", [4, 20])
def test_the_real_stream_is_predicted_by_its_counts(percent: int, workers: int) -> None:
    tuples = 400_000  # more than are drawn
    diagnosis = diagnose(country(percent, tuples), workers=workers, groupings=FEW)
    assert diagnosis.tuples == 300_000
    for grouping in (Key(workers=workers), PartialKey(workers=workers), Shuffle(workers=workers)):
        real = simulate(Simulation(grouping, CountrySkew(percent=percent), batch_ms=1 << 40), tuples=tuples)
        got = prediction(diagnosis, grouping.name)
        assert got.stage_time == pytest.approx(1 + real.imbalance / 100, rel=0.02), grouping.name
        assert got.stddev == pytest.approx(real.stddev, rel=0.02, abs=0.05), grouping.name
        assert got.dist_cost == pytest.approx(real.dist_cost, rel=0.05), grouping.name


def test_the_cost_of_a_long_tail_is_not_lost_in_the_sample() -> None:
    """Of 60,000 keys with 20 rows each, 300,000 tuples show five rows: too few to meet the workers that 20 meet."""
    diagnosis = diagnose(made_of([20] * 60_000), workers=10, groupings=FEW)
    assert diagnosis.tuples == 300_000
    assert prediction(diagnosis, "shuffle").dist_cost == pytest.approx(10 * (1 - 0.9**20))
    assert prediction(diagnosis, "partial_key").dist_cost > 1.85  # 1.9 with all rows: two hashes may agree
    assert prediction(diagnosis, "key").stage_time == pytest.approx(1, abs=0.05)
    assert diagnosis.verdict == "no skew worth handling"


def test_many_workers_are_not_taken_for_skew() -> None:
    """A million equal keys: the truth for 2,000 workers is 1.16, the rest is noise."""
    keys, rows = np.zeros(64, dtype=np.int64), np.zeros(64, dtype=np.int64)
    keys[5], rows[5] = 10**6, 20 * 10**6
    one = np.ones(1)
    equal = KeyDistribution(
        label="equal", names=("a",), hashes=one.astype(np.uint64), counts=20 * one.astype(np.int64), tail_keys=keys,
        tail_rows=rows,
    )  # fmt: skip
    diagnosis = diagnose(equal, workers=2_000, groupings=["key"])
    assert diagnosis.verdict == "no skew worth handling"
    assert diagnosis.predictions[0].stage_time < 1.3


def test_one_hot_key_in_a_sentence() -> None:
    diagnosis = diagnose(country(80), workers=10, groupings=FEW)
    assert (diagnosis.use, diagnosis.verdict) == ("shuffle", "shuffle")
    assert diagnosis.hottest[0].name == "Turkey"
    assert diagnosis.hottest[0].share == pytest.approx(0.801, abs=0.005)
    share = f"{100 * diagnosis.hottest[0].share:.1f}"
    assert diagnosis.reason == (
        f"one key, 'Turkey', has {share} % of the rows: with 10 workers plain grouping takes 8.2 times as long as an "
        "even split; use grouping='shuffle' (1.00 times, 10.0 partial results per key)"
    )
    assert prediction(diagnosis, "shuffle").speed_up == pytest.approx(8.2, abs=0.1)


def test_a_cheap_grouping_is_preferred_to_one_that_is_hardly_faster() -> None:
    counts = [15_000] + [85] * 1_000  # one key of 15 %, too much for one worker of ten and not for two
    diagnosis = diagnose(made_of(counts), workers=10, groupings=FEW)
    assert prediction(diagnosis, "shuffle").stage_time < prediction(diagnosis, "partial_key").stage_time < 1.05
    assert diagnosis.verdict == "partial_key"
    assert "% more partial results)" in diagnosis.reason


def test_partial_results_count_as_rows() -> None:
    """With two rows a key, a shuffle merges nearly as many partial results as there are rows."""
    counts = [30_000] + [2] * 50_000
    diagnosis = diagnose(made_of(counts), workers=10, groupings=FEW)
    assert diagnosis.verdict == "partial_key"
    assert diagnose(made_of([30_000] + [1_000] * 100), workers=10, groupings=FEW).verdict == "shuffle"


def test_several_hot_keys_and_none() -> None:
    several = diagnose(made_of([400, 300, 200, 100] * 3), workers=30, groupings=["key", "shuffle"])
    assert several.reason.startswith("9 keys, above all ")
    assert "exceed a worker's fair share of 3.3 %: with 30 workers plain grouping takes" in several.reason
    unlucky = diagnose(made_of([1_000] * 60), workers=40, groupings=["key", "shuffle"])
    assert unlucky.reason.startswith(
        "no key exceeds a worker's fair share of 2.5 %, but 60 keys fall unevenly on 40 workers: plain grouping takes"
    )
    assert unlucky.verdict == "shuffle"


@pytest.mark.parametrize(
    ("counts", "workers"),
    [
        ([1], 10),  # one row
        ([1] * 20_000, 10),  # all distinct
        ([5_000] * 200, 1),  # one worker
        ([100] * 2_000, 20),
        ([3_000] + [100] * 2_000, 10),  # a key of 1.5 % is nothing to ten workers
    ],
)
def test_no_skew_worth_handling(counts: list[int], workers: int) -> None:
    diagnosis = diagnose(made_of(counts), workers=workers, groupings=FEW)
    assert (diagnosis.use, diagnosis.verdict) == (None, "no skew worth handling")
    assert diagnosis.reason.startswith("skew is not your problem here: the hottest key, ")


def test_the_paper_streams() -> None:
    assert diagnose(country(0), workers=10, groupings=FEW).verdict == "no skew worth handling"
    assert diagnose(country(100), workers=10, groupings=FEW).verdict == "shuffle"
    everything = diagnose(country(100), workers=10, groupings=["key"])
    assert everything.verdict == "none of these groupings helps"
    assert everything.reason.endswith(
        "plain grouping takes 10.0 times as long as an even split; none of these groupings helps"
    )
    with pytest.raises(SkewlessError, match="has no rows"):
        made_of([])


def test_what_spark_combines_itself_is_left_to_it() -> None:
    distribution = country(80, 20_000)
    diagnosis = diagnose(distribution, workers=10, groupings=FEW, aggregates=["count(*)", "avg", Mean("x")])
    assert (diagnosis.use, diagnosis.verdict) == (None, "combined on the map side")
    assert diagnosis.reason.startswith(
        "skew is not your problem here: Spark combines count, avg, mean on the map side, so that the hottest key, "
        "'Turkey' with 80."
    )
    for aggregates in ([], ["count", "collect_list"], ["custom"], ["applyInPandas"]):
        assert diagnose(distribution, workers=10, groupings=FEW, aggregates=aggregates).verdict == "shuffle"


def test_aggregates_by_name() -> None:
    assert combined_on_the_map_side([Count(), Variance("x"), ApproxTopK("x", 2)])
    assert combined_on_the_map_side(["COUNT(DISTINCT user)", "approx-count-distinct"])
    assert not combined_on_the_map_side(["percentile(x, 0.5)"])
    with pytest.raises(SkewlessError, match="unknown aggregate 'meen': did you mean 'mean'"):
        combined_on_the_map_side(["meen"])


def test_by_default_what_suits_any_job_is_predicted() -> None:
    names: list[str] = []
    diagnosis = diagnose(country(80, 3_000), workers=4, progress=names.append)
    assert names == [one.grouping for one in diagnosis.predictions]
    assert {"key", "partial_key", "dynamic_key", "shuffle"} <= set(names) <= set(GROUPINGS)
    assert names[0] == "key"
    assert diagnosis.use in names


def test_in_a_stream_time_passes_and_sources_learn() -> None:
    distribution = country(80)
    batch, stream = (
        prediction(diagnose(distribution, workers=10, groupings=["DKG"], streaming=streaming), "dynamic_key")
        for streaming in (False, True)
    )
    assert batch.stage_time > 3.5  # as partial key grouping: no key is ever old
    assert stream.stage_time < 2


def test_same_seed_same_diagnosis_and_plain_values() -> None:
    distribution = country(60, 5_000)
    one, again = (diagnose(distribution, workers=5, groupings=FEW, top=3, seed=4) for _ in range(2))
    assert one == again
    assert json.loads(json.dumps(one.as_dict())) == {
        **one.as_dict(), "hottest": list(one.as_dict()["hottest"]), "predictions": list(one.as_dict()["predictions"])
    }  # fmt: skip
    assert len(one.hottest) == 3


def test_all_of_it_as_text() -> None:
    diagnosis = diagnose(country(80, 5_000), workers=5, groupings=FEW, top=2, workers_from="a guess")
    lines = str(diagnosis).splitlines()
    assert lines[0] == f"country-skew-r80: 5,000 rows, {diagnosis.distinct} keys, 5 workers (a guess)"
    assert lines[1].split()[0] == "Turkey"
    assert [line[0] for line in lines if line[2:].startswith(FEW)] == [" ", " ", "*"]
    assert lines[-4:] == [
        "Predicted by routing 5,000 tuples of these keys as a batch job with 5 sources would.",
        diagnosis.windows,
        "Verdict: shuffle",
        diagnosis.reason,
    ]
    assert diagnosis.windows.startswith(
        "Window functions over this key would sort 80.5 % of the rows in one task; over("
    )


def test_what_makes_no_sense_is_refused() -> None:
    distribution = made_of([3, 2, 1])
    for settings_, message in [
        ({"workers": 0}, "workers must be a whole number of at least 1; got 0"),
        ({"workers": 20_000}, "workers must be at most 2,000 to diagnose; got 20000"),
        ({"workers": 2, "top": 0}, "top must be"),
        ({"workers": 2, "sources": 0}, "sources must be"),
        ({"workers": 2, "seed": -1}, "seed must be"),
        ({"workers": 2, "groupings": ["partial_kye"]}, "did you mean 'partial_key'"),
        ({"workers": 2, "groupings": []}, "groupings must be at least one name"),
        ({"workers": 2, "aggregates": ["cuont"]}, "did you mean 'count'"),
    ]:
        with pytest.raises(SkewlessError, match=message):
            diagnose(distribution, **settings_)  # type: ignore[arg-type] # what a user might give


class FewWorkers(PartialKey):
    """A grouping with a limit."""

    def __post_init__(self) -> None:
        if self.n_workers > 4:
            raise SkewlessError(f"made for at most 4 workers; got {self.n_workers}")


def test_a_grouping_that_is_not_made_for_so_many_workers_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(groupings._by_alias(), "partial_key", FewWorkers)  # noqa: SLF001 - the registry of names
    names = [one.grouping for one in diagnose(made_of([30, 20]), workers=5).predictions]
    assert {"key", "shuffle"} <= set(names)
    assert "partial_key" not in names
    with pytest.raises(SkewlessError, match="at most 4 workers"):
        diagnose(made_of([30, 20]), workers=5, groupings=["partial_key"])
