"""Keys counted by Spark: exact, in one pass, and the same as without Spark."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from services.spark_version import since
from skewless import SkewlessError, hash_keys
from skewless.diagnosis.key_distribution import HEAD, KeyDistribution
from skewless.spark import diagnose
from skewless.spark.key_counts import _classes, count_keys
from skewless.spark.physical_plan import parse_plan, read_plan
from skewless.spark.versions import STREAMS_SINCE
from skewless.streams import KeyFile

pytestmark = pytest.mark.spark

FEW = ("key", "partial_key", "shuffle")


def frame(spark: SparkSession, rows: int = 5_000) -> DataFrame:
    """Make rows of which 80 % have one key, and some have none."""
    number = sf.col("id")
    rest = sf.when(number % 50 == 9, sf.lit(None)).otherwise(sf.concat(sf.lit("k"), number % 400))
    return spark.range(0, rows, 1, 3).select(
        sf.when(number % 10 < 8, sf.lit("hot")).otherwise(rest).alias("a key"), (number % 3).alias("b.c")
    )


def same(one: KeyDistribution, other: KeyDistribution) -> None:
    assert one.names == other.names
    for name in ("hashes", "counts", "tail_keys", "tail_rows"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_counts_names_and_hashes_are_exact(spark: SparkSession) -> None:
    df = frame(spark)
    rows = [(row[0], row[1]) for row in df.collect()]
    one = count_keys(df, ["a key"], label="x")
    expected = Counter(key for key, _ in rows)
    assert (one.rows, one.distinct) == (len(rows), len(expected))
    assert dict(zip(one.names, one.counts.tolist(), strict=True)) == {key or "null": n for key, n in expected.items()}
    values = [None if name == "null" else name for name in one.names]
    assert one.hashes.tolist() == hash_keys(pa.array(values, pa.string())).tolist()
    two = count_keys(df, ["a key", "b.c"], label="x")
    pairs = Counter(f"{key or 'null'} | {number}" for key, number in rows)
    assert dict(zip(two.names, two.counts.tolist(), strict=True)) == pairs


def test_many_keys_leave_a_tail(spark: SparkSession) -> None:
    df = spark.range(0, 3_000, 1, 2).select((sf.col("id") % 1_500).alias("k"))
    many = df.union(spark.range(5).select(sf.lit(7).alias("k")))
    got = count_keys(many, ["k"], label="x")
    counts = np.array([2 + 5 * (number == 7) for number in range(1_500)])
    same(got, KeyDistribution.of_counts("x", pa.array(range(1_500)), counts))
    assert (len(got.names), got.names[0], got.distinct, got.rows) == (HEAD, "7", 1_500, 3_005)


def test_the_data_is_read_once_and_not_by_python(spark: SparkSession) -> None:
    nodes = read_plan(_classes(frame(spark), ["a key"])).nodes
    assert sum(node.startswith("Range") for node in nodes) == 1
    assert not [node for node in nodes if "Python" in node or "Arrow" in node]
    assert sum("partial_count(1)" in node for node in nodes) == 2  # on the map side, both times


KEYS = ["a", "b", None, "", "a", "ключ", "a", "x" * 1_000]


@since(*STREAMS_SINCE)
@pytest.mark.parametrize("name", ["keys.csv", "keys.tsv.gz", "keys.parquet", "keys.txt", "keys.jsonl"])
def test_files_are_counted_alike_with_and_without_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    from skewless.runner.inputs.file import open_table

    path = tmp_path / name
    separator = "\t" if "tsv" in name else ","
    quoted = ["" if key is None else f'"{key}"' for key in KEYS]
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(pa.table({"k": KEYS, "v": range(len(KEYS))}), path)
    elif name.endswith(".jsonl"):
        path.write_text("".join(json.dumps({"v": 1, "k": key}) + "\n" for key in KEYS))
    elif name.endswith(".txt"):
        path.write_text("".join(f"{key or ''}\n" for key in KEYS))
    else:
        text = "".join(f"1{separator}{key}\n" for key in ["k", *quoted])
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    column = None if name == "keys.txt" else "k"
    df = open_table(spark, str(path), key=column)
    same(
        count_keys(df, [column or "value"], label="x"),
        KeyDistribution.of_stream(KeyFile(path=str(path), column=column)),
    )


@since(*STREAMS_SINCE)
def test_rows_that_cannot_be_read_are_set_aside_and_formats_can_be_named(spark: SparkSession, tmp_path: Path) -> None:
    from skewless.runner.inputs.file import open_table

    (tmp_path / "keys.csv").write_text("k,v\na,1\na,2\nb\n")
    assert count_keys(open_table(spark, str(tmp_path / "keys.csv"), key="k"), ["k"], label="x").names == ("a",)
    frame(spark, 50).withColumnRenamed("a key", "k").write.format("orc").save(str(tmp_path / "orc"))
    assert count_keys(open_table(spark, str(tmp_path / "orc"), kind="orc"), ["k"], label="x").counts[0] == 40


def test_a_diagnosis_in_one_line(spark: SparkSession) -> None:
    diagnosis = diagnose(frame(spark), "a key", workers=10, groupings=FEW, top=2)
    assert diagnosis.heading == "a key: 5,000 rows, 74 keys, 10 workers"
    assert (diagnosis.hottest[0].name, diagnosis.hottest[0].share) == ("hot", 0.8)
    assert diagnosis.verdict == "shuffle"
    assert len(diagnosis.hottest) == 2
    by_default = diagnose(frame(spark), ["a key", "b.c"], groupings=["key"], aggregates=["sum"], label="orders")
    assert by_default.heading.endswith(" 2 workers (spark.sql.shuffle.partitions)")
    assert by_default.heading.startswith("orders: 5,000 rows, ")
    assert by_default.verdict == "combined on the map side"


def test_bad_input_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    df = spark.range(10).select(sf.col("id").alias("key"), sf.create_map("id", "id").alias("map"))
    cases: list[tuple[Any, str]] = [
        (lambda: diagnose(df), "diagnose needs at least one key column; got none"),
        (lambda: diagnose(df, "kye"), "unknown key column 'kye': did you mean 'key'?"),
        (lambda: diagnose(df, ["map"]), "cannot be a key"),
        (lambda: diagnose(df, "key", workers=0), "workers must be"),
        (lambda: diagnose(df, "key", aggregates=["cuont"]), "did you mean 'count'"),
        (lambda: diagnose(df.where("key < 0"), "key", label="orders"), "orders has no rows"),
        (lambda: diagnose(spark.readStream.format("rate").load(), "value"), "skewless watch LEDGER"),
    ]
    for attempt, message in cases:
        with pytest.raises(SkewlessError, match=message):
            attempt()
    monkeypatch.setattr(type(spark.conf), "get", lambda *_: "auto")
    with pytest.raises(SkewlessError, match=r"'auto', not a number\. Set workers"):
        diagnose(df, "key")


def test_the_package_gives_the_functions_whatever_was_imported_before() -> None:
    import skewless.spark
    import skewless.spark.explanation
    import skewless.spark.key_counts

    assert callable(skewless.spark.diagnose)
    assert callable(skewless.spark.explain)
    assert parse_plan("").nodes == ()
