"""The operator on streams: exact whatever the batches, the restarts and the fate of the ledger."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from services.representatives import ON_SPARK
from skewless import SkewlessError
from skewless.combiners import Count, Max, Sum, Variance
from skewless.spark import group
from skewless.spark.stream_source import register

pytestmark = pytest.mark.spark

MIDNIGHT = pd.Timestamp("2024-03-01", tz="UTC")
KEYS = st.sampled_from(["hot", "hot", "hot", "a", "", None, "🔑"])
SCHEMA = "k string, v bigint, ts timestamp"


def write_batch(folder: Path, number: int, rows: list[tuple[str | None, int]], second: int = 0) -> None:
    """Write one input file; its rows lie a second apart from `second` on."""
    folder.mkdir(exist_ok=True)
    times = [MIDNIGHT + pd.Timedelta(seconds=second + i) for i in range(len(rows))]
    columns = {
        "k": pa.array([key for key, _ in rows], pa.string()),
        "v": pa.array([value for _, value in rows], pa.int64()),
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), folder / f"{number:03}.parquet")


def read(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(result: DataFrame, tmp: Path, *, mode: str = "update", sink: str = "sink") -> StreamingQuery:
    """Run a query over all that is there, into a sink that a replayed batch overwrites."""

    def keep(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(tmp / sink / f"batch={batch}"))

    query = (
        result.writeStream.outputMode(mode)
        .foreachBatch(keep)
        .option("checkpointLocation", str(tmp / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def latest(spark: SparkSession, tmp: Path, *by: str, sink: str = "sink") -> dict[Any, Any]:
    """Give the last update of each group."""
    rows = spark.read.parquet(str(tmp / sink)).orderBy("batch").collect()
    return {tuple(row[column] for column in by): row["n"] for row in rows}


@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_equals_plain_counts_with_groupings_switched_between_runs(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tmp = tmp_path_factory.mktemp("stream")
    expected: Counter[tuple[str | None]] = Counter()
    number = 0
    for attempt in range(2):  # a restart from the checkpoint, with another grouping and its own ledger
        for _ in range(data.draw(st.integers(1, 2))):
            rows = data.draw(st.lists(st.tuples(KEYS, st.integers(-9, 9)), max_size=30))
            write_batch(tmp / "input", number, rows)
            expected.update((key,) for key, _ in rows)
            number += 1
        name = data.draw(st.sampled_from(ON_SPARK))
        df = read(spark, tmp / "input").repartition(data.draw(st.integers(1, 3)))
        run(group(df, "k", workers=4, grouping=name, ledger=str(tmp / f"ledger-{attempt}")).agg(n=Count()), tmp)
    assert latest(spark, tmp, "k") == expected


@pytest.mark.parametrize("damage", ["delete", "corrupt", "lose a file"])
def test_a_damaged_ledger_costs_no_row(spark: SparkSession, tmp_path: Path, damage: str) -> None:
    expected: Counter[tuple[str | None]] = Counter()
    for number in range(4):
        rows: list[tuple[str | None, int]] = [("hot" if i % 3 else f"k{i % 11}", i) for i in range(200)]
        write_batch(tmp_path / "input", number, rows)
        expected.update((key,) for key, _ in rows)
        if number % 2:
            df = read(spark, tmp_path / "input").repartition(2)
            ledger = tmp_path / "ledger"
            run(group(df, "k", workers=4, grouping="DKG", ledger=str(ledger)).agg(n=Count(), s=Sum("v")), tmp_path)
            assert list(ledger.glob("*/source-*.npz"))
            if damage == "delete":
                shutil.rmtree(ledger)
            for file in ledger.glob("*/*.npz"):
                if damage == "corrupt":
                    file.write_bytes(file.read_bytes()[:50])
                elif file.name == "source-0.npz":
                    file.unlink()
    assert latest(spark, tmp_path, "k") == expected


@pytest.mark.parametrize("python_merge", [False, True], ids=["native", "python"])
def test_windows_and_late_rows_are_as_in_plain_spark(spark: SparkSession, tmp_path: Path, python_merge: bool) -> None:
    """The same input through Spark's own streaming aggregation: also what is late and dropped must be the same."""
    for number, second in enumerate([0, 200, 20, 400, 15, 210, 600, 395]):  # the third is late but in time, others not
        write_batch(tmp_path / "input", number, [("hot", i) if i % 4 else ("b", i) for i in range(40)], second)
    df = read(spark, tmp_path / "input").withWatermark("ts", "90 seconds")
    plain = df.groupBy("k", sf.window("ts", "60 seconds", "30 seconds")).agg(sf.count("*").alias("n"))
    (tmp_path / "plain").mkdir()
    run(plain, tmp_path / "plain", mode="append")
    grouped = group(df, "k", workers=3, grouping="PKG", ledger=str(tmp_path / "ledger"))
    windowed = grouped.window("ts", "60 seconds", "30 seconds", output_mode="append")
    combiners = {"n": Count(), **({"spread": Variance("v")} if python_merge else {})}
    query = run(windowed.agg(**combiners), tmp_path, mode="append")
    expected = latest(spark, tmp_path / "plain", "k", "window")
    assert expected
    assert latest(spark, tmp_path, "k", "window") == expected
    dropped = sum(
        operator["numRowsDroppedByWatermark"] for p in query.recentProgress for operator in p["stateOperators"]
    )
    assert dropped > 0  # Spark counts what it drops; `skewless run` reports it


def test_update_mode_merged_in_python_and_without_a_window(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        write_batch(tmp_path / "input", number, [("a" if i % 2 else None, i) for i in range(10)])
    df = read(spark, tmp_path / "input")
    run(
        group(df, "k", workers=3, grouping="SG", ledger=str(tmp_path / "l")).agg(n=Count(), s=Variance("v", ddof=0)),
        tmp_path,
    )
    assert latest(spark, tmp_path, "k") == {("a",): 10, (None,): 10}
    last = spark.read.parquet(str(tmp_path / "sink" / "batch=1")).collect()
    assert {row["k"]: row["s"] for row in last} == pytest.approx({"a": 8.0, None: 8.0})


def test_routing_state_goes_from_batch_to_batch(spark: SparkSession, tmp_path: Path) -> None:
    """PKG's counts go on, and what even has seen adds up: only the ledger can tell them."""
    from skewless.groupings.even import EvenState
    from skewless.groupings.partial_key import PartialKeyState
    from skewless.spark import Ledger

    for number in range(3):
        write_batch(tmp_path / "input", number, [("k", 0)] * 5)
    df = read(spark, tmp_path / "input").coalesce(1)
    for grouping in ("PKG", "even"):
        folder = tmp_path / grouping
        run(group(df, "k", workers=4, grouping=grouping, ledger=str(folder / "ledger")).agg(n=Count()), folder)
    routed, planned = (Ledger(uri=str(tmp_path / name / "ledger")) for name in ("PKG", "even"))
    left = [routed.last_sources(PartialKeyState, before=batch + 1)[0][0] for batch in range(3)]
    assert [state.loads.sum() for state in left] == [5, 10, 15], "at the end of each batch"
    plans = [planned.last_sources(EvenState, before=batch + 1)[0][0].forecast for batch in range(3)]
    assert [plan.batches for plan in plans] == [0, 1, 2], "at the start of each batch"
    assert [plan.weight for plan in plans] == [0, 5, 10]


def test_the_named_stream_source_replays(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    options = {"stream": "country-skew-r80", "tuples": "3000", "sources": "3", "batch": "1000", "seed": "7"}
    batch = spark.read.format("skewless").options(**options).load()
    assert batch.count() == 3000
    assert batch.select("position").distinct().count() == 3000
    stream = spark.readStream.format("skewless").options(**options).load()
    query = run(
        group(stream, "key", workers=4, ledger=str(tmp_path / "l")).agg(n=Count(), last=Max("position")), tmp_path
    )
    assert len([p for p in query.recentProgress if p["numInputRows"]]) == 3
    expected = {(row["key"],): row["n"] for row in batch.groupBy("key").agg(sf.count("*").alias("n")).collect()}
    assert latest(spark, tmp_path, "key") == expected


def test_bad_options_of_the_stream_source(spark: SparkSession) -> None:
    register(spark)
    for options, message in [
        ({}, "needs the option"),
        ({"stream": "contry"}, "unknown stream"),
        ({"stream": "zipf", "tuples": "many"}, "whole number"),
    ]:
        with pytest.raises(Exception, match=message):
            spark.read.format("skewless").options(**options).load().count()


def test_a_second_watermark_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    df = read(spark, tmp_path / "input").withWatermark("ts", "1 minute")
    with pytest.raises(SkewlessError, match="has a watermark already"):
        group(df, "k", ledger=str(tmp_path / "l")).window("ts", "1 minute", watermark="2 minutes")
