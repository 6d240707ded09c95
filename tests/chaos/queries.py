"""The queries that are disturbed, each beside the same question to plain Spark.

A query is a dictionary of plain values, so that it travels as JSON: `operation`, `folder` with its input and for all
that it writes, `workers`, `seed`; `grouping`; `merged` for a combiner that only Python merges; `window`; `how` and
`sample`; `kafka` and `topic` for an input that is a topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import isclose
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter

from chaos.points import come, go
from services.kept import given_rows, kept_states, set_aside
from services.random_owner import Chain, PlannedOwner, RandomOwner
from skewless import Grouping
from skewless.combiners import Combiner, Count, Sum, Variance
from skewless.groupings import Even
from skewless.spark import group, join, over, plan_join, repartition
from skewless.windows import Lag, Rank, RowNumber, Running

Query = dict[str, Any]
Row = tuple[Any, ...]

SCHEMA: Final = "k string, v bigint, seq bigint"
_SHOWN: Final = 5  # wrong rows in an answer
_WORD: Final = "aggregate(vs, 0L, (word, v) -> (word * 31 + v) % 1000003)"


def answer(spark: SparkSession, query: Query) -> dict[str, Any]:
    """Run a query, compare what it says with plain Spark, and return what is wrong and how many rows were compared."""
    found, expected = OPERATIONS[query["operation"]](spark, query)
    missing, extra = differences(found, expected)
    wrong = [f"missing: {row}" for row in missing] + [f"not asked for: {row}" for row in extra]
    return {"wrong": wrong[:_SHOWN], "rows": len(expected)}


def differences(found: Iterable[Row], expected: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that are missing, and those that are too many; floats may differ in their last digits."""
    have, want = Counter(found), Counter(expected)
    missing, extra = [*(want - have).elements()], [*(have - want).elements()]
    for row in [*missing]:
        near = next((other for other in extra if _is_near(row, other)), None)
        if near is not None:
            missing.remove(row)
            extra.remove(near)
    return missing, extra


def _is_near(row: Row, other: Row) -> bool:
    pairs = zip(row, other, strict=True)
    return all(isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and b is not None else a == b for a, b in pairs)


def _rows(df: DataFrame) -> list[Row]:
    return [tuple(row) for row in df.collect()]


def _batch(spark: SparkSession, query: Query) -> DataFrame:
    return spark.read.schema(SCHEMA).parquet(f"{query['folder']}/input")


def _disturbed(df: DataFrame) -> DataFrame:
    return df.mapInArrow(come, df.schema)


def _combiners(query: Query) -> dict[str, Combiner]:
    python: dict[str, Combiner] = {"spread": Variance("v")} if query.get("merged") else {}
    return {"n": Count(), "s": Sum("v"), **python}


def _aggregate(df: DataFrame, query: Query) -> DataFrame:
    ledger = f"{query['folder']}/ledger" if query.get("ledger", True) else None
    grouped = group(
        df, "k", workers=query["workers"], grouping=query["grouping"], ledger=ledger, seed=query["seed"],
        sample=query.get("sample", 1.0),
    )  # fmt: skip
    if "window" not in query:
        return grouped.agg(**_combiners(query))
    windowed = grouped.window("ts", query["window"]).agg(**_combiners(query))
    return windowed.select("k", sf.unix_seconds(sf.col("window.start")).alias("start"), *_combiners(query))


def _timed(df: DataFrame, query: Query) -> DataFrame:
    return df.withColumn("ts", sf.timestamp_seconds("seq")) if "window" in query else df


def _plain(df: DataFrame, query: Query) -> DataFrame:
    by = [sf.col("k")]
    if "window" in query:
        by.append(sf.unix_seconds(sf.window("ts", query["window"])["start"]).alias("start"))
    spread = [sf.var_samp("v")] if query.get("merged") else []
    return _timed(df, query).groupBy(*by).agg(sf.count("*"), sf.sum("v"), *spread)


def aggregate_batch(spark: SparkSession, query: Query) -> tuple[list[Row], list[Row]]:
    """Aggregate files."""
    df = _batch(spark, query)
    result = _aggregate(_timed(_disturbed(df), query), query)
    return _rows(result.mapInArrow(go, result.schema)), _rows(_plain(df, query))


def aggregate_stream(spark: SparkSession, query: Query) -> tuple[list[Row], list[Row]]:
    """Aggregate a stream of files, or of Kafka's records, into a sink that a repeated micro-batch overwrites."""
    folder = query["folder"]
    if "topic" in query:
        options = {"kafka.bootstrap.servers": query["kafka"], "subscribe": query["topic"]}
        source = spark.readStream.format("kafka").options(
            **options, startingOffsets="earliest", maxOffsetsPerTrigger=80
        )
        stream, df = _parsed(source.load()), _parsed(spark.read.format("kafka").options(**options).load())
    else:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(f"{folder}/input")
        df = _batch(spark, query)
    result = _aggregate(_timed(_disturbed(stream), query), query)
    _keep(result.mapInArrow(go, result.schema), folder)
    latest: dict[Row, Row] = {}
    n_keys = 2 if "window" in query else 1
    for row in given_rows(Path(folder) / "sink"):
        latest[row[:n_keys]] = row
    return [*latest.values()], _rows(_plain(df, query))


def _parsed(records: DataFrame) -> DataFrame:
    return records.select(sf.from_json(records["value"].cast("string"), SCHEMA).alias("row")).select("row.*")


def _keep(result: DataFrame, folder: str) -> None:
    """Write each micro-batch into a folder of its own."""

    def keep(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{folder}/sink/{batch}")

    _run(result.writeStream.outputMode("update").foreachBatch(keep), folder)


def _append(result: DataFrame, folder: str) -> None:
    """Write into Spark's own sink, as `stateful` does not know its micro-batch in `foreachBatch` of Connect."""
    _run(result.writeStream.outputMode("append").format("parquet").option("path", f"{folder}/sink"), folder)


def _run(writer: DataStreamWriter, folder: str) -> None:
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def process(spark: SparkSession, query: Query) -> tuple[list[Row], list[Row]]:
    """Keep ordered state of each key; output, final state and rejects are all compared."""
    folder, workers = query["folder"], query["workers"]
    groupings: dict[str, Callable[[], Grouping]] = {
        "random_owner": lambda: RandomOwner(workers=workers),
        "planned_owner": lambda: PlannedOwner(workers=workers),
        "even": lambda: Even(workers=workers, single_owner=True),
    }
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(f"{folder}/input")
    grouped = group(
        _disturbed(stream), "k", grouping=groupings[query["grouping"]](), ledger=f"{folder}/ledger", seed=query["seed"]
    )
    result = grouped.stateful(Chain(), state=f"{folder}/state", order_by="seq")
    _append(result.mapInArrow(go, result.schema), folder)
    found = [("output", *row) for row in _rows(spark.read.schema(result.schema).parquet(f"{folder}/sink"))]
    found += [("state", *key, *state.values()) for key, state in kept_states(Path(folder) / "state").items()]
    rejects = set_aside(Path(folder) / "state" / "rejects")
    found += [("reject", reject["key"][0], reject["row"]["v"], None, None) for reject in rejects]
    found = [row if row[0] != "state" else (*row[:2], None, *row[2:]) for row in found]
    df = _batch(spark, query)
    own = Window.partitionBy("k").orderBy("seq")
    running = df.where("v >= 0").select(
        "k", "v", sf.row_number().over(own).cast("bigint").alias("n"), sf.collect_list("v").over(own).alias("vs"), "seq"
    )
    words = running.select("k", "v", "n", sf.expr(_WORD).alias("word"), "seq")
    last = words.groupBy("k").agg(sf.max_by(sf.struct("n", "word"), "seq").alias("last"))
    nothing = sf.lit(None).cast("bigint")
    expected = (
        words.select(sf.lit("output"), "k", "v", "n", "word")
        .union(last.select(sf.lit("state"), "k", nothing, "last.n", "last.word"))
        .union(df.where("v < 0").select(sf.lit("reject"), "k", "v", nothing, nothing))
    )
    return found, _rows(expected)


def join_hot(spark: SparkSession, query: Query) -> tuple[list[Row], list[Row]]:
    """Join by a key that is hot on both sides."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    df, how, workers = _batch(spark, query), query["how"], query["workers"]
    right = df.where("seq % 50 < 2").selectExpr("k", "seq AS w")
    left = _disturbed(df)
    plan = plan_join(left, right, "k", how, workers=workers, sample=query["sample"], seed=query["seed"])
    result = join(left, right, "k", how, workers=workers, learn_from=plan, seed=query["seed"])
    return _rows(result.mapInArrow(go, result.schema)), _rows(df.join(right, "k", how))


def number_rows(spark: SparkSession, query: Query) -> tuple[list[Row], list[Row]]:
    """Compute window functions over a hot key."""
    df = _batch(spark, query)
    ordered = over(_disturbed(df), "k", order_by="seq", workers=query["workers"], least_rows=1, sample=query["sample"])
    result = ordered.select(n=RowNumber(), r=Rank(), before=Lag("v"), total=Running(Sum("v")))
    own = Window.partitionBy("k").orderBy("seq")
    plain = df.select("*", sf.row_number().over(own), sf.rank().over(own), sf.lag("v").over(own), sf.sum("v").over(own))
    return _rows(result.mapInArrow(go, result.schema)), _rows(plain)


def exchange(spark: SparkSession, query: Query) -> tuple[list[Row], list[Row]]:
    """Partition rows evenly."""
    df = _batch(spark, query)
    result = repartition(_disturbed(df), "k", workers=query["workers"], sample=query["sample"], seed=query["seed"])
    return _rows(result.mapInArrow(go, result.schema)), _rows(df)


OPERATIONS: Final[dict[str, Callable[[SparkSession, Query], tuple[list[Row], list[Row]]]]] = {
    "agg batch": aggregate_batch,
    "agg stream": aggregate_stream,
    "stateful": process,
    "join": join_hot,
    "over": number_rows,
    "repartition": exchange,
}
