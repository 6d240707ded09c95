"""Ordered state on Spark: what one thread would give, wherever keys live and whenever they move."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from services import random_owner
from services.kept import given_rows, kept_states, set_aside
from services.random_owner import Chain, PlannedOwner, RandomOwner, chained
from skewless import Auto, Correlation, DistributionAware, Eager, Even, Grouping, Key, PartialKey, SkewlessError
from skewless.checks import check_grouping
from skewless.errors import ColumnError
from skewless.processors import KeyState, Processor, Row
from skewless.spark import Ledger, group

pytestmark = pytest.mark.spark

# Spark's Python workers cannot import what stands here.
for module in (random_owner, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

WORKERS: Final = 3
SCHEMA: Final = "k string, v bigint, seq bigint, ts timestamp"
MIDNIGHT: Final = datetime(2024, 3, 1, tzinfo=timezone.utc)
NAMES: Final = ["hot", "hot", "hot", "a", "b", "", None, "🔑", *(f"k{number}" for number in range(30))]
Rows = list[tuple[str | None, int, int]]

SINGLE_OWNER: Final[dict[str, Grouping]] = {
    "key": Key(workers=WORKERS),
    "even": Even(workers=WORKERS, single_owner=True),
    "distribution_aware": DistributionAware(workers=WORKERS, learn_tuples=50, relearn_every=50, max_moved=1.0),
    "eager": Eager(workers=WORKERS, n_substreams=20, upper=60, lower=20, start_workers=1),
    "correlation": Correlation(workers=WORKERS, n_substreams=20),
    "random_owner": RandomOwner(workers=WORKERS),
    "planned_owner": PlannedOwner(workers=WORKERS),
}


def make_batches(seed: int, n_batches: int, size: int = 60) -> list[Rows]:
    """Draw batches of rows (key, value, number): numbers tell the order, in which they do not come."""
    chance = Random(seed)
    rows = [(chance.choice(NAMES), chance.randint(0, 999), number) for number in range(n_batches * size)]
    return [chance.sample(rows[begin : begin + size], size) for begin in range(0, len(rows), size)]


def in_order(batches: Iterable[Rows]) -> list[tuple[str | None, int]]:
    return [(key, value) for batch in batches for key, value, _ in sorted(batch, key=lambda row: row[2])]


def write(folder: Path, number: int, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write an input file; Spark takes them by their times. A fourth value of a row is its second, or None."""
    folder.mkdir(exist_ok=True)
    seconds = [row[3] if len(row) > 3 else 0 for row in rows]
    times = [None if second is None else MIDNIGHT + timedelta(seconds=second) for second in seconds]
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate([pa.string(), pa.int64(), pa.int64()])]
    table = pa.table([*columns, pa.array(times, pa.timestamp("us", "UTC"))], names=["k", "v", "seq", "ts"])
    file = folder / f"{number:03}.parquet"
    pq.write_table(table, file)
    os.utime(file, (number, number))


def read(spark: SparkSession, folder: Path, files: int = 1) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(folder))


def run(result: DataFrame, tmp: Path, *, looks: int = 0) -> None:
    """Run a query over all that is there; its sink may look at the rows some times before it writes them."""

    def keep(rows: DataFrame, batch: int) -> None:
        for _ in range(looks):
            rows.count()
        rows.write.mode("overwrite").parquet(str(tmp / "sink" / str(batch)))

    query = (
        result.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def stateful(df: DataFrame, tmp: Path, grouping: Grouping, processor: Processor, **options: Any) -> DataFrame:
    grouped = group(df, "k", grouping=grouping, ledger=str(tmp / f"ledger-{grouping.name}"), seed=3)
    return grouped.stateful(processor, state=str(tmp / "state"), **options)


def in_any_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def assert_as_in_one_thread(tmp: Path, batches: Iterable[Rows]) -> None:
    output, states = chained(in_order(batches))
    assert in_any_order(given_rows(tmp / "sink")) == in_any_order(output)
    assert kept_states(tmp / "state") == {(key,): {"n": n, "word": word} for key, (n, word) in states.items()}


def moved(tmp: Path, grouping: Grouping) -> int:
    ledger = Ledger(uri=str(tmp / f"ledger-{grouping.name}"))
    return sum(report.moved_keys for batch in ledger.batches() for report in ledger.read_workers(batch))


def test_the_grouping_of_these_tests_conforms() -> None:
    check_grouping(RandomOwner(workers=WORKERS))
    check_grouping(PlannedOwner(workers=WORKERS))


def test_a_stream_may_begin_without_any_row(spark: SparkSession, tmp_path: Path) -> None:
    """Spark runs no worker then, so that nothing is kept; once there were rows, that is missing if it is gone."""
    batches = [[], [], *make_batches(seed=5, n_batches=2)]
    for number, rows in enumerate(batches[:3]):
        write(tmp_path / "input", number, rows)
    result = stateful(read(spark, tmp_path / "input"), tmp_path, SINGLE_OWNER["even"], Chain(), order_by="seq")
    run(result, tmp_path)
    assert_as_in_one_thread(tmp_path, batches[:3])
    assert not list((tmp_path / "state" / f"{0:012d}").glob("*.json"))
    write(tmp_path / "input", 3, batches[3])
    shutil.move(tmp_path / "state", tmp_path / "elsewhere")
    with pytest.raises(StreamingQueryException, match="there is no state in"):
        run(result, tmp_path)
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    shutil.move(tmp_path / "elsewhere", tmp_path / "state")
    run(result, tmp_path)
    assert_as_in_one_thread(tmp_path, batches)


@pytest.mark.parametrize("grouping", SINGLE_OWNER.values(), ids=SINGLE_OWNER)
def test_a_stream_is_as_in_one_thread_across_moves_and_a_restart(
    spark: SparkSession, tmp_path: Path, grouping: Grouping
) -> None:
    batches = make_batches(seed=len(grouping.name), n_batches=4)
    for begin in (0, 2):
        for number in (begin, begin + 1):
            cut = len(batches[number]) // 3
            write(tmp_path / "input", 2 * number, batches[number][:cut])
            write(tmp_path / "input", 2 * number + 1, batches[number][cut:])
        run(stateful(read(spark, tmp_path / "input", 2), tmp_path, grouping, Chain(), order_by="seq"), tmp_path)
    assert_as_in_one_thread(tmp_path, batches)
    if grouping.name in {"random_owner", "planned_owner", "eager"}:
        assert moved(tmp_path, grouping) > 0
    if grouping.name == "key":
        assert moved(tmp_path, grouping) == 0


def test_a_batch_job_is_as_in_one_thread(spark: SparkSession) -> None:
    (rows,) = make_batches(seed=1, n_batches=1, size=300)
    df = spark.createDataFrame(rows, "k string, v bigint, seq bigint").repartition(3)
    expected, _ = chained(in_order([rows]))
    for grouping in (SINGLE_OWNER["even"], SINGLE_OWNER["random_owner"], SINGLE_OWNER["eager"], Auto(workers=WORKERS)):
        found = group(df, "k", grouping=grouping).stateful(Chain(), order_by="seq").collect()
        assert in_any_order(map(tuple, found)) == in_any_order(expected), grouping.name


def test_arrival_order_a_sink_that_looks_twice_and_another_grouping_half_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Without `order_by` rows come as they lie in the file; the state goes on with another grouping, and ledger."""
    batches = make_batches(seed=5, n_batches=4, size=30)
    as_they_lie = [[(key, value, place) for place, (key, value, _) in enumerate(batch)] for batch in batches]
    for begin, grouping in ((0, PlannedOwner(workers=WORKERS)), (2, Eager(workers=WORKERS, n_substreams=16))):
        for number in (begin, begin + 1):
            write(tmp_path / "input", number, batches[number])
        run(stateful(read(spark, tmp_path / "input"), tmp_path, grouping, Chain()), tmp_path, looks=1 - begin // 2)
    assert_as_in_one_thread(tmp_path, as_they_lie)
    write(tmp_path / "input", 9, batches[0])
    with pytest.raises(Exception, match="is in 16 substreams, the grouping has 96"):
        run(stateful(read(spark, tmp_path / "input"), tmp_path, Key(workers=WORKERS), Chain()), tmp_path)


class Idle(Processor):
    """Counts the rows of a key, and tells when it has been idle: for ten seconds, or since the last batch."""

    state = "n bigint"
    output = "n bigint, now_ms bigint"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        for row in rows:
            state["n"] = state.get("n", 0) + 1
            state.expires_ms = int(row["ts"].timestamp() * 1000) + 10_000 if row["v"] else state.now_ms + 1
        return ()

    def expire(self, key: tuple[Any, ...], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        output = {"n": state["n"], "now_ms": state.now_ms}
        state.clear()
        return [output]


class Rank(Processor):
    """Numbers the rows of a key."""

    state = "n bigint"
    output = "n bigint"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        for _ in rows:
            state["n"] = state.get("n", 0) + 1
            yield {"n": state["n"]}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("string collate UTF8_LCASE", "'a', 'A', 'b'"),
        ("string collate UTF8_BINARY_RTRIM", "'a', 'a  ', 'b'"),
        ("array<double>", "array(0D, null), array(-0D, null), array(0D)"),
        ("struct<s: string collate UTF8_LCASE>", "struct('a' AS s), struct('A' AS s), null"),
    ],
)
def test_keys_that_are_equal_in_spark_have_one_state(spark: SparkSession, kind: str, values: str) -> None:
    df = spark.sql(f"SELECT explode(cast(array({values}) AS array<{kind}>)) AS k")
    result = group(df, "k", workers=3, grouping="key").stateful(Rank())
    assert (result.schema["k"].dataType, result.schema["k"].nullable) == (
        df.schema["k"].dataType,
        df.schema["k"].nullable,
    )
    assert sorted(row["n"] for row in result.collect()) == [1, 1, 2]


def test_a_collation_that_only_spark_knows_is_refused(spark: SparkSession) -> None:
    df = spark.sql("SELECT 'a' COLLATE UNICODE_CI AS k")
    with pytest.raises(ColumnError, match="'k' has the collation UNICODE_CI, which only Spark itself can compare"):
        group(df, "k", workers=2, grouping="key").stateful(Rank())


class Last(Processor):
    """Tells when a key came before."""

    state = "last timestamp"
    output = "before timestamp"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        for row in rows:
            yield {"before": state.get("last")}
            state["last"] = row["ts"]


def test_the_session_zone_may_change_between_two_runs(spark: SparkSession, tmp_path: Path) -> None:
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        for number, other in enumerate(["America/New_York", "GMT+8"]):  # Python does not know the second
            spark.conf.set("spark.sql.session.timeZone", other)
            write(tmp_path / "input", number, [("a", 1, number, number)])
            run(stateful(read(spark, tmp_path / "input"), tmp_path, Key(workers=WORKERS), Last()), tmp_path)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    (row,) = spark.read.parquet(str(tmp_path / "sink" / "1")).selectExpr("unix_seconds(before) AS before").collect()
    assert row["before"] == int(MIDNIGHT.timestamp())


def test_event_time(spark: SparkSession, tmp_path: Path) -> None:
    batches: list[list[tuple[str, int, int, int | None]]] = [
        [("a", 1, 0, 0), ("b", 1, 1, 1), ("c", 1, 2, 1), ("c", 1, 3, 0)],
        [("a", 1, 4, 20)],  # the clock stands at 1 - 5 seconds: nothing can be late
        [("b", 1, 5, 30), ("a", 1, 6, 14), ("a", 1, 7, 15)],  # at 15 seconds: 14 is too late, and c has been idle
        [("d", 1, 8, None), ("d", 1, 9, 60)],  # at 25 seconds: a row without a time belongs nowhere
        [("d", 1, 10, 61)],  # at 55 seconds: a and b have been idle
    ]
    for number, rows in enumerate(batches):
        write(tmp_path / "input", number, rows)
    grouping = RandomOwner(workers=WORKERS)
    df = read(spark, tmp_path / "input")
    run(stateful(df, tmp_path, grouping, Idle(), order_by="seq", time="ts", watermark="5 seconds"), tmp_path)
    start_ms = int(MIDNIGHT.timestamp()) * 1000
    assert in_any_order((key, n, now_ms - start_ms) for key, n, now_ms in given_rows(tmp_path / "sink")) == [
        ("a", 3, 25_000),  # of its three rows in time the last was at 15 seconds
        ("b", 2, 55_000),
        ("c", 2, 15_000),
    ]
    assert kept_states(tmp_path / "state") == {("d",): {"n": 2}}
    late = set_aside(tmp_path / "state" / "rejects")
    assert [(reject["key"], reject["row"]["seq"]) for reject in late] == [(["a"], 6), (["d"], 8)]
    assert all("before the watermark" in reject["error"] for reject in late)
    ledger = Ledger(uri=str(tmp_path / f"ledger-{grouping.name}"))
    reports = [ledger.read_workers(batch) for batch in range(5)]
    assert [sum(report.rejected for report in of_batch) for of_batch in reports] == [0, 0, 1, 1, 0]
    assert [sum(report.state_keys for report in of_batch) for of_batch in reports] == [3, 3, 2, 2, 1]
    assert [sum(report.tuples for report in of_batch) for of_batch in reports] == [len(rows) for rows in batches]


def test_processing_time_reaches_idle_keys_of_workers_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "input", 0, [(f"k{number}", 0, number) for number in range(20)])
    write(tmp_path / "input", 1, [("k0", 0, 20)])
    run(stateful(read(spark, tmp_path / "input"), tmp_path, RandomOwner(workers=WORKERS), Idle()), tmp_path)
    output = list(given_rows(tmp_path / "sink"))
    assert sorted(key for key, _, _ in output) == sorted(f"k{number}" for number in range(1, 20))
    assert len({now_ms for _, _, now_ms in output}) == 1  # all by one clock, that of the micro-batch
    assert kept_states(tmp_path / "state") == {("k0",): {"n": 2}}


def test_everything_expires_at_the_end_of_a_batch_job(spark: SparkSession) -> None:
    df = spark.createDataFrame([("a", 1, 0, MIDNIGHT), ("a", 1, 1, MIDNIGHT), ("b", 1, 2, MIDNIGHT)], SCHEMA)
    for time in (None, "ts"):
        found = group(df, "k", grouping="key", workers=2).stateful(Idle(), time=time).collect()
        assert sorted((row["k"], row["n"]) for row in found) == [("a", 2), ("b", 1)]


def test_rows_that_raise_are_set_aside_or_fail(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", 5, 0), ("a", -1, 1), ("b", 7, 2), ("a", 6, 3), (None, -2, 4)]
    write(tmp_path / "input", 0, rows)
    grouping = Key(workers=WORKERS)
    df = read(spark, tmp_path / "input")
    with pytest.raises(Exception, match=r"Chain failed on key \(('a'|None),\): ValueError: -[12] is negative"):
        run(stateful(df, tmp_path / "fails", grouping, Chain(), on_error="fail"), tmp_path / "fails")
    run(stateful(df, tmp_path, grouping, Chain(), order_by="seq", rejects=str(tmp_path / "aside")), tmp_path)
    output, _ = chained([(key, value) for key, value, _ in rows])
    assert in_any_order(given_rows(tmp_path / "sink")) == in_any_order(output)
    found = [(reject["key"], reject["row"]["v"], reject["error"]) for reject in set_aside(tmp_path / "aside")]
    assert in_any_order(found) == [
        (["a"], -1, "ValueError: -1 is negative"),
        ([None], -2, "ValueError: -2 is negative"),
    ]
    reports = Ledger(uri=str(tmp_path / "ledger-key")).read_workers(0)
    assert sum(report.rejected for report in reports) == 2

    batch = spark.createDataFrame(rows, "k string, v bigint, seq bigint").coalesce(1)
    with pytest.raises(Exception, match=r"-[12] is negative"):  # nowhere to set it aside
        group(batch, "k", grouping=grouping).stateful(Chain(), order_by="seq").collect()
    aside = group(batch, "k", grouping=grouping).stateful(Chain(), order_by="seq", rejects=str(tmp_path / "batch"))
    assert in_any_order(map(tuple, aside.collect())) == in_any_order(output)
    assert len(set_aside(tmp_path / "batch")) == 2


class Unnamed(Chain):
    state = None  # type: ignore[assignment] # what a user may forget


class Misspelt(Chain):
    output = "n bigintt"


class KeyAgain(Chain):
    output = "k string, n bigint"


def test_a_result_that_is_coalesced_loses_no_reject_and_is_refused_in_a_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One task does the work of all workers then; each used to take itself for the first."""
    rows = [(f"k{number}", -number, number) for number in range(1, 31)]
    write(tmp_path / "input", 0, rows)
    grouped = group(spark.read.schema(SCHEMA).parquet(str(tmp_path / "input")), "k", grouping=Key(workers=WORKERS))
    result = grouped.stateful(Chain(), rejects=str(tmp_path / "rejects"), on_error="reject")
    assert result.coalesce(1).collect() == []
    assert sorted(reject["row"]["v"] for reject in set_aside(tmp_path / "rejects")) == list(range(-30, 0))
    stream = stateful(read(spark, tmp_path / "input"), tmp_path, Key(workers=WORKERS), Chain())
    with pytest.raises(Exception, match=r"the result of stateful was coalesced\. Use repartition"):
        run(stream.coalesce(1), tmp_path)


def test_refusals(spark: SparkSession, tmp_path: Path) -> None:
    batch = spark.createDataFrame([("a", 1, 0, MIDNIGHT)], SCHEMA)
    (tmp_path / "input").mkdir()
    stream = read(spark, tmp_path / "input")
    ledger = str(tmp_path / "ledger")
    keyed = group(batch, "k", grouping="key", workers=2)
    attempts: dict[str, Callable[[], object]] = {
        r"'partial_key' cuts keys. Use Even\(single_owner=True\), or one of .*key.*eager": lambda: group(
            batch, "k", grouping=PartialKey(workers=2)
        ).stateful(Chain()),
        "a stream needs a directory for its state": lambda: group(
            stream, "k", grouping="key", workers=2, ledger=ledger
        ).stateful(Chain()),
        "a stream needs a ledger": lambda: group(stream, "k", grouping="key", workers=2).stateful(
            Chain(), state=str(tmp_path / "state")
        ),
        "unknown order column 'sq': did you mean 'seq'": lambda: keyed.stateful(Chain(), order_by="sq"),
        "unknown time column 'tz'": lambda: keyed.stateful(Chain(), time="tz"),
        "column 'v' must be a timestamp to tell the time; it is bigint": lambda: keyed.stateful(Chain(), time="v"),
        "cannot read 'soon' as a length of time": lambda: keyed.stateful(Chain(), time="ts", watermark="soon"),
        "Unnamed must name the columns of its state": lambda: keyed.stateful(Unnamed()),
        "cannot read the output of Misspelt, 'n bigintt'": lambda: keyed.stateful(Misspelt()),
        "gets the key columns in any case: leave k out": lambda: keyed.stateful(KeyAgain()),
        "processor must be a Processor; got <class": lambda: keyed.stateful(Chain),  # type: ignore[arg-type]
        "on_error='reject' needs a directory. Set rejects": lambda: keyed.stateful(Chain(), on_error="reject"),
        "on_error must be 'reject' or 'fail'": lambda: keyed.stateful(Chain(), on_error="ignore"),  # type: ignore[arg-type]
    }
    for message, attempt in attempts.items():
        with pytest.raises(SkewlessError, match=message):
            attempt()


def test_auto_keeps_its_settings_and_cuts_no_key(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "input", 0, make_batches(seed=3, n_batches=1)[0])
    grouping = Auto(capacities=(1, 3), half_life_s=30)
    grouped = group(read(spark, tmp_path / "input"), "k", workers=2, grouping=grouping, ledger=str(tmp_path / "ledger"))
    result = grouped.stateful(Chain(), state=str(tmp_path / "state"))
    assert result.columns == ["k", "v", "n", "word"]
    run(result, tmp_path)
    owner = Ledger(uri=str(tmp_path / "ledger")).owner()
    assert owner is not None
    assert (owner["grouping"], owner["parameters"]["single_owner"]) == ("auto", True)
    assert (owner["parameters"]["capacities"], owner["parameters"]["half_life_s"]) == ([1, 3], 30)
