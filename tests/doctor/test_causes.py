"""Which stage has a problem, and why, by the numbers of its tasks alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from skewless.doctor.advice import advice_for
from skewless.doctor.causes import Cause, find_cause
from skewless.doctor.plan import AGGREGATE, SCAN, Operator
from skewless.doctor.stage import Stage, StageStatistics

KEYED = Operator(kind=AGGREGATE, name=AGGREGATE, keys=("k",), partitions=8)
READS = Operator(kind=SCAN, name="scan parquet")


def stage(times_ms: Sequence[int], cores: int = 4, **more: Any) -> StageStatistics:
    """Return the statistics of tasks that took so long, all started as soon as a core was free."""
    made = Stage(3, 0, planned=len(times_ms))
    made.began = 0, 0.0, 0.0
    free = [0] * cores
    for number, time_ms in enumerate(times_ms):
        core = free.index(min(free))
        began, free[core] = free[core], free[core] + time_ms
        made.add(*task(number, began, free[core], **{name: values[number] for name, values in more.items()}))
    found = made.statistics(sum(times_ms), cores * max(free))
    assert found is not None
    return found


def task(number: int, began_ms: int, ended_ms: int, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    info = {"Task ID": number, "Index": number, "Launch Time": began_ms, "Finish Time": ended_ms}
    info |= {"Host": more.get("host", "a"), "Executor ID": more.get("executor", "1")}
    metrics = {
        "Shuffle Read Metrics": {
            "Local Bytes Read": more.get("shuffled", 0),
            "Total Records Read": more.get("rows", 0),
        },
        "Input Metrics": {"Bytes Read": more.get("read", 0)},
        "Executor Run Time": ended_ms - began_ms,
        "Executor CPU Time": 1_000_000 * more.get("cpu_ms", 0),
        "JVM GC Time": more.get("gc_ms", 0),
        "Disk Bytes Spilled": more.get("spilled", 0),
    }
    return info, metrics


def cause(found: StageStatistics, operator: Operator = KEYED, **settings: str) -> Cause | None:
    return find_cause(found, operator, settings)


def name(found: Cause | None) -> str | None:
    return None if found is None else found.name


LONG = [900, 1_000, 1_100, 9_000, 1_000, 1_000, 900, 1_000]
EVEN = [100, 110, 100, 105, 100, 95, 100, 100]
UNEVEN = [100, 110, 100, 950, 100, 95, 100, 100]


def test_a_straggler_is_named_by_what_its_tasks_read() -> None:
    assert name(cause(stage(LONG, rows=UNEVEN, shuffled=EVEN))) == "hot key"
    assert name(cause(stage(LONG, rows=EVEN, shuffled=UNEVEN))) == "hot key"  # a row may be a list
    assert name(cause(stage(LONG, rows=EVEN, shuffled=EVEN))) == "costly rows"


def test_garbage_and_spills_speak_for_little_memory() -> None:
    collected = [time // 2 for time in LONG]
    found = cause(stage(LONG, rows=EVEN, shuffled=EVEN, gc_ms=collected))
    assert found == Cause(name="little memory", evidence="50 % of the time went to garbage, 0 bytes were spilled")
    spilled = cause(stage(LONG, rows=EVEN, shuffled=EVEN, spilled=[10] * 8))
    assert spilled is not None
    assert (spilled.name, "80 bytes were spilled" in spilled.evidence) == ("little memory", True)
    assert advice_for(KEYED, "little memory", 4).startswith("more memory per core")
    assert name(cause(stage(LONG, rows=UNEVEN, shuffled=UNEVEN, spilled=[10] * 8))) == "hot key"  # spilled for its rows


def test_files_of_uneven_size_are_no_hot_key() -> None:
    small = {"spark.sql.files.maxPartitionBytes": "1k", "spark.sql.files.openCostInBytes": "1"}
    read = [value * 10 for value in UNEVEN]
    assert name(cause(stage(LONG, read=read), READS)) == "uneven input"
    assert name(cause(stage(LONG, read=read), READS, **small)) == "unsplittable input"
    assert name(cause(stage([9_000], read=[9_500]), READS, **small)) == "unsplittable input"
    assert name(cause(stage([9_000], read=[9_500]), READS)) == "few partitions"  # Spark cuts no files of this size


@pytest.mark.parametrize("where", ["host", "executor"])
def test_a_slow_host_or_executor_is_named(where: str) -> None:
    places: dict[str, Any] = {where: list("abababab"), "rows": EVEN, "shuffled": EVEN}
    found = cause(stage([500, 6_000, 500, 6_000, 500, 500, 500, 500], **{**places, where: list("abababaa")}))
    assert found is not None
    assert found.name == "slow host"
    assert found.evidence == f"tasks on {where} b took 12.0 times as long, with no more rows"
    hot = cause(stage(LONG, **{**places, "rows": UNEVEN}))
    assert name(hot) == "hot key"  # where its task ran does not matter


def test_a_slow_host_is_judged_by_what_its_tasks_have_to_do() -> None:
    hosts = list("aaabbaaa")
    rows = [100, 100, 100, 160, 100, 100, 100, 100]  # the longest has more rows, but not fifteen times as many
    assert name(cause(stage([500, 500, 500, 8_000, 5_000, 500, 500, 500], host=hosts, rows=rows))) == "slow host"
    half = stage([500, 8_000, 500, 8_000], host=list("abab"), rows=[100] * 4)  # then the median is no measure
    assert name(cause(half)) == "slow host"


def test_rows_explain_a_straggler_only_if_as_many_take_long_elsewhere() -> None:
    few = [3, 3, 3, 6, 3, 3, 3, 6]
    assert name(cause(stage(LONG, rows=few, shuffled=[1] * 8))) == "costly rows"  # the other six took no time
    both = [900, 1_000, 1_100, 9_000, 1_000, 1_000, 900, 6_000]
    assert name(cause(stage(both, 8, rows=few, shuffled=[1] * 8))) == "hot key"


def test_a_straggler_without_a_reason_is_believed_if_it_lost_much_or_worked() -> None:
    idle = cause(stage(LONG, rows=EVEN, shuffled=EVEN))
    assert idle is not None
    assert (idle.believed(4.9, 1.0), idle.believed(5.0, 0.0)) == (False, True)
    worked = cause(stage(LONG, rows=EVEN, shuffled=EVEN, cpu_ms=[time * 9 // 10 for time in LONG]))
    assert worked is not None
    assert worked.believed(1.0, 0.0)
    assert worked.evidence.endswith("but used 8.1 s of processor time, the median 0.9 s")
    few = cause(stage([4_000], rows=[1]))
    assert few is not None
    assert (few.name, few.believed(3.0, 0.05), few.believed(3.0, 0.2)) == ("few partitions", False, True)


@pytest.mark.parametrize(
    ("times_ms", "cores"),
    [
        ([1_000] * 8, 4),
        ([1_000] * 9, 4),  # three cores wait for the last task, but no task is long
        ([1_000, 1_100, 900, 2_500] + [1_000] * 60, 4),  # long, but all cores work meanwhile
        (LONG, 1),
        ([], 4),
    ],
)
def test_what_lost_little_or_for_no_one_reason_has_no_problem(times_ms: list[int], cores: int) -> None:
    if not times_ms:
        assert Stage(0, 0).statistics(0, 0) is None
        return
    rows = [1_000] * len(times_ms)
    assert cause(stage(times_ms, cores, rows=rows, shuffled=rows)) is None


def test_the_partition_of_nulls_is_that_of_the_seed_of_sparks_hash() -> None:
    times, rows = list(LONG), list(UNEVEN)
    times[3], times[2], rows[3], rows[2] = times[2], times[3], rows[2], rows[3]  # 42 % 8 is 2
    assert name(cause(stage(times, rows=rows, shuffled=rows))) == "null key"
    inner = Operator(kind="join", name="inner join", keys=("k",), partitions=8)
    assert name(cause(stage(times, rows=rows, shuffled=rows), inner)) == "hot key"
    merged = Operator(kind=AGGREGATE, name=AGGREGATE, keys=("k",), partitions=200)
    assert name(cause(stage(times, rows=rows, shuffled=rows), merged)) == "hot key"
