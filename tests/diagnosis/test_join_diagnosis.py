"""What is predicted for joins."""

from __future__ import annotations

import numpy as np

from skewless import JoinPlan
from skewless.diagnosis.join_diagnosis import JoinDiagnosis, diagnose_plan
from skewless.salting.join_plan import JoinKey


def diagnosed(keys: list[tuple[float, float]], *, broadcasts: bool = False) -> JoinDiagnosis:
    hashes = np.random.default_rng(1).integers(-(2**31), 2**31, len(keys)).tolist()
    others = (1e6 / 16,) * 16
    plan = JoinPlan(
        columns={"k": "string"},
        how="inner",
        cuts="both",
        workers=16,
        max_copies=1.0,
        sampled=1.0,
        nulls=0.0,
        other_left=others,
        other_right=others,
        other_made=others,
        keys=tuple(
            JoinKey(key=f"k{n}", hash=n, key_hash=hashes[n], left=left, right=right)
            for n, (left, right) in enumerate(keys)
        ),
    ).planned()
    return diagnose_plan(plan, label="a with b", broadcasts=broadcasts)


def test_a_hot_key_is_found_and_a_join_recommended() -> None:
    diagnosis = diagnosed([(10_000.0, 5_000.0), (100.0, 1.0)])
    assert [key.name for key in diagnosis.hottest] == ["k0", "k1"]
    assert diagnosis.hottest[0].made == 50_000_000
    ways = {one.way: one for one in diagnosis.predictions}
    assert ways["plain"].largest > 14
    assert ways["plain"].speed_up == 1
    assert ways["salted"].largest < ways["plain"].largest
    assert ways["salted"].copied > 7
    assert ways["planned"].largest < 1.1
    assert ways["planned"].copied < 0.05
    assert diagnosis.verdict == "join"
    assert "cuts 1 key, 1 of them on both sides" in diagnosis.reason
    text = str(diagnosis)
    assert "a with b: inner join of 1,010,100 and 1,005,001 rows, which make 51,000,100, on 16 workers" in text
    assert "Verdict: join" in text
    assert diagnosis.as_dict()["predictions"][0]["way"] == "plain"


def test_adaptive_execution_splits_rows_that_it_reads() -> None:
    (_, adaptive, *_) = diagnosed([(5e6, 1.0)]).predictions
    assert adaptive.speed_up > 5
    (_, adaptive, *_) = diagnosed([(10_000.0, 5_000.0)]).predictions  # partitions of which are as large as others
    assert adaptive.speed_up == 1
    assert not adaptive.note


def test_adaptive_execution_is_no_better_than_an_even_split_and_needs_large_partitions() -> None:
    diagnosis = diagnosed([(1e7, 1.0)])  # parts as small as the median are far more than there are workers
    (plain, adaptive, *_) = diagnosis.predictions
    assert 1 <= adaptive.largest < plain.largest
    line = next(line for line in str(diagnosis).splitlines() if line.startswith("adaptive"))
    assert line.endswith("  if partitions exceed 256 MB; as plain if not")
    assert "adaptive (if partitions exceed 256 MB; as plain if not)" in diagnosis._repr_html_()


def test_what_needs_nothing() -> None:
    assert diagnosed([(100.0, 1.0)]).verdict == "no skew worth handling"
    assert diagnosed([(10_000.0, 5_000.0)], broadcasts=True).verdict == "Spark broadcasts one side"
