# ruff: noqa: S608 - SQL is put together from names and numbers of a seed
"""Jobs whose keys, sizes, settings and operators come from a seed: sets of logs that the doctor was not written on.

Work is sleep, as in `spark_jobs.py`: a log shows when tasks ran, and a busy machine should not decide that.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, GroupedData, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import pandas_udf

from doctor.drawn import CORES, EVEN, HOT, NULL, SHUFFLE, Drawn
from doctor.drawn_streams import streams
from doctor.spark_jobs import Job

Run = Callable[[SparkSession, Path], object]


def drawn_jobs(seed: int) -> dict[str, Job]:
    """Return the jobs of a seed, with what a doctor should find in each."""
    return {
        **_aggregates(seed),
        **_joins(seed),
        **_windows(seed),
        **_python(seed),
        **_outputs(seed),
        **_inputs(seed),
        **_few(seed),
        **_slow_hosts(seed),
        **streams(seed),
        **_even(seed),
    }


def drain(df: DataFrame) -> None:
    """Compute all rows."""
    df.write.format("noop").mode("overwrite").save()


def _job(drawn: Drawn, run: Callable[[Drawn, SparkSession], DataFrame], operator: str, cause: str, **more: Any) -> Job:
    """Return a job of one query."""
    settings = drawn.settings(**more.pop("settings", {}))
    keys = more.pop("keys", (drawn.key,)) if cause in {"hot key", "null key"} else ()
    return Job(lambda spark, _: drain(run(drawn, spark)), operator, cause, settings, keys=keys, **more)


def _listed(drawn: Drawn, spark: SparkSession) -> DataFrame:
    return drawn.facts(spark).groupBy(drawn.key).agg(sf.collect_list("v").alias("vs")).select(drawn.slow_list("vs"))


def _listed_in_sql(drawn: Drawn, spark: SparkSession) -> DataFrame:
    drawn.facts(spark).createOrReplaceTempView("facts")
    inner = f"SELECT {drawn.key}, collect_list(struct(v, ts)) AS vs FROM facts GROUP BY {drawn.key}"
    return spark.sql(f"SELECT {drawn.key}, {drawn.slow_text('vs')} AS n FROM ({inner})")


def _set(drawn: Drawn, spark: SparkSession) -> DataFrame:
    found = drawn.facts(spark).groupBy(drawn.key).agg(sf.sort_array(sf.collect_set("v")).alias("vs"), sf.max("ts"))
    return found.select(drawn.key, drawn.slow_list("vs"))


def _pivoted(drawn: Drawn, spark: SparkSession) -> DataFrame:
    found = drawn.facts(spark).groupBy(drawn.key).pivot("part", [0, 1, 2]).agg(sf.collect_list("v"))  # noqa: PD010 - not pandas
    return found.select(*(drawn.slow_list(f"`{part}`").alias(f"n{part}") for part in range(3)))


def _by_two(drawn: Drawn, spark: SparkSession) -> DataFrame:
    facts = drawn.facts(spark).withColumn("day", sf.expr("date_add(DATE'2026-01-01', CAST(part % 1 AS INT))"))
    return facts.groupBy("day", drawn.key).agg(sf.collect_list("v").alias("vs")).select(drawn.slow_list("vs"))


def _rolled_up(drawn: Drawn, spark: SparkSession) -> DataFrame:
    drawn.facts(spark).createOrReplaceTempView("facts")
    inner = f"SELECT {drawn.key}, part, collect_list(v) AS vs FROM facts GROUP BY ROLLUP ({drawn.key}, part)"
    return spark.sql(f"SELECT {drawn.slow_text('vs')} AS n FROM ({inner})")


def _union(drawn: Drawn, spark: SparkSession) -> DataFrame:
    even = spark.range(200).groupBy((sf.col("id") % 100).alias("z")).agg(sf.collect_list("id").alias("vs"))
    return _listed(drawn, spark).toDF("n").union(even.select(sf.size("vs")))


def _several(drawn: Drawn, spark: SparkSession) -> DataFrame:
    """Run some queries without a problem, then the one that has it."""
    calm = Drawn(drawn.seed, f"{drawn.job} calm", EVEN)
    calm.lost_s /= 3
    drain(_listed(calm, spark))
    drain(_ranked(calm, spark))
    return _joined("inner", "merge")(drawn, spark)


def _aggregates(seed: int) -> dict[str, Job]:
    ways = {
        "sql_list": _listed_in_sql, "set": _set, "pivot": _pivoted, "rollup": _rolled_up, "union": _union,
        "two_columns": _by_two,
    }  # fmt: skip
    keys = {"rollup": ("part", "spark_grouping_id"), "two_columns": ("day",)}
    jobs = {}
    for name, run in ways.items():
        drawn = Drawn(seed, name)
        jobs[name] = _job(drawn, run, "aggregate", "hot key", keys=(drawn.key, *keys.get(name, ())))
    jobs["null_list"] = _job(Drawn(seed, "null_list", NULL), _listed_in_sql, "aggregate", "null key")
    jobs["several"] = _job(Drawn(seed, "several"), _several, "inner join", "hot key")
    return jobs


def _joined(how: str, hint: str) -> Callable[[Drawn, SparkSession], DataFrame]:
    def run(drawn: Drawn, spark: SparkSession) -> DataFrame:
        facts, things = drawn.facts(spark), drawn.things(spark)
        if how == "left_anti":
            things = things.where("w < 0")
        if how == "right":
            return things.hint(hint).join(facts, drawn.key, how).withColumn("z", drawn.slow())
        return facts.join(things.hint(hint), drawn.key, how).withColumn("z", drawn.slow())

    return run


def _joined_in_sql(drawn: Drawn, spark: SparkSession) -> DataFrame:
    drawn.facts(spark).createOrReplaceTempView("facts")
    drawn.things(spark).withColumnRenamed(drawn.key, "thing").createOrReplaceTempView("things")
    on = f"f.{drawn.key} = t.thing"
    inner = f"SELECT /*+ MERGE(t) */ f.v, t.w FROM facts f LEFT JOIN things t ON {on}"
    return spark.sql(f"SELECT v + coalesce(w, 0) AS n FROM ({inner})").withColumn("z", drawn.slow())


def _joined_by_two(drawn: Drawn, spark: SparkSession) -> DataFrame:
    facts = drawn.facts(spark).withColumn("shop", sf.expr("IF(v < 0, 8, 7)"))
    things = drawn.things(spark).withColumn("shop", sf.expr("IF(w < 0, 8, 7)"))
    return facts.join(things.hint("merge"), ["shop", drawn.key]).withColumn("z", drawn.slow())


def _hot_on_both_sides(drawn: Drawn, spark: SparkSession) -> DataFrame:
    facts, things = drawn.facts(spark), drawn.things(spark)
    twice = things.union(things)
    return facts.join(twice.hint("shuffle_hash"), drawn.key).where("w >= 0").withColumn("z", drawn.slow())


def _joins(seed: int) -> dict[str, Job]:
    jobs = {}
    for name, how, hint, operator in (
        ("join_right", "right", "merge", "right outer join"),
        ("join_full", "full", "merge", "full outer join"),
        ("join_semi", "left_semi", "merge", "left semi join"),
        ("join_anti", "left_anti", "shuffle_hash", "left anti join"),
        ("join_hash_left", "left", "shuffle_hash", "left outer join"),
    ):
        jobs[name] = _job(Drawn(seed, name), _joined(how, hint), operator, "hot key")
    for name, run, operator, keys in (
        ("sql_join", _joined_in_sql, "left outer join", ()),
        ("join_two_columns", _joined_by_two, "inner join", ("shop",)),
        ("join_both", _hot_on_both_sides, "inner join", ()),
    ):
        drawn = Drawn(seed, name)
        jobs[name] = _job(drawn, run, operator, "hot key", keys=(drawn.key, *keys))
    drawn = Drawn(seed, "null_full", NULL)
    jobs["null_full"] = _job(drawn, _joined("full", "merge"), "full outer join", "null key")
    return jobs


def _ranked(drawn: Drawn, spark: SparkSession) -> DataFrame:
    order = Window.partitionBy(drawn.key).orderBy(sf.desc("ts"), "v")
    ranked = drawn.facts(spark).select("*", sf.rank().over(order).alias("n"), sf.lag("v").over(order).alias("before"))
    return ranked.withColumn("z", drawn.slow())


def _ranked_by_two(drawn: Drawn, spark: SparkSession) -> DataFrame:
    facts = drawn.facts(spark).withColumn("year", sf.year("ts"))
    order = Window.partitionBy("year", drawn.key).orderBy("v")
    return facts.withColumn("n", sf.dense_rank().over(order)).withColumn("z", drawn.slow())


def _summed_in_sql(drawn: Drawn, spark: SparkSession) -> DataFrame:
    drawn.facts(spark).createOrReplaceTempView("facts")
    over = f"(PARTITION BY {drawn.key} ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)"
    return spark.sql(f"SELECT *, sum(v) OVER {over} AS s FROM facts").withColumn("z", drawn.slow())


def _windows(seed: int) -> dict[str, Job]:
    two = Drawn(seed, "window_two_columns")
    return {
        "window_lag": _job(Drawn(seed, "window_lag"), _ranked, "window", "hot key"),
        "window_two_columns": _job(two, _ranked_by_two, "window", "hot key", keys=("year", two.key)),
        "sql_window": _job(Drawn(seed, "sql_window"), _summed_in_sql, "window", "hot key"),
        "null_window": _job(Drawn(seed, "null_window", NULL), _ranked, "window", "null key"),
    }


def _applied(drawn: Drawn, spark: SparkSession) -> DataFrame:
    key, seconds, kind = drawn.key, drawn.sleep_ms / 1_000, "long" if drawn.number else "string"

    def work(group: pd.DataFrame) -> pd.DataFrame:
        time.sleep(len(group) * seconds)
        return pd.DataFrame({key: group[key].head(1), "n": [len(group)]})

    return drawn.facts(spark).groupBy(key).applyInPandas(work, f"{key} {kind}, n long")


def _applied_to_arrow(drawn: Drawn, spark: SparkSession) -> DataFrame:
    seconds = drawn.sleep_ms / 1_000

    def work(table: pa.Table) -> pa.Table:
        time.sleep(table.num_rows * seconds)
        return pa.table({"n": pa.array([table.num_rows], pa.int64())})

    return drawn.facts(spark).groupBy(drawn.key).applyInArrow(work, "n long")


def _averaged(drawn: Drawn, spark: SparkSession) -> DataFrame:
    seconds = drawn.sleep_ms / 1_000

    def mean(values: pd.Series) -> float:
        time.sleep(len(values) * seconds)
        return float(values.mean())

    averaged: Any = pandas_udf  # its overloads do not know functions with annotations
    return drawn.facts(spark).groupBy(drawn.key).agg(averaged(mean, "double")("v"))


def _cogrouped(drawn: Drawn, spark: SparkSession) -> DataFrame:
    seconds = drawn.sleep_ms / 1_000

    def work(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        time.sleep(len(left) * seconds)
        return pd.DataFrame({"n": [len(left) + len(right)]})

    groups = drawn.facts(spark).groupBy(drawn.key).cogroup(drawn.things(spark).groupBy(drawn.key))
    return groups.applyInPandas(work, "n long")


def _costly(drawn: Drawn, spark: SparkSession) -> DataFrame:
    """Return groups of one size, of which one costs much more."""
    key, seconds = drawn.key, drawn.lost_s / drawn.rows

    def work(group: pd.DataFrame) -> pd.DataFrame:
        dear = str(group[key].iloc[0]).endswith("key 5") or group[key].iloc[0] == 5
        time.sleep(len(group) * seconds + (2 * CORES * drawn.lost_s / 4 if dear else 0.0))
        return pd.DataFrame({"n": [len(group)]})

    return drawn.facts(spark).groupBy(key).applyInPandas(work, "n long")


def _rdd(how: str) -> Callable[[Drawn], Run]:
    def of(drawn: Drawn) -> Run:
        rows, seconds, share, cold = drawn.rows, drawn.sleep_ms / 1_000, drawn.share, drawn.kind == EVEN

        def pair(number: int) -> tuple[int, int]:
            return (0 if not cold and number % 100 < 100 * share else 1 + number % 499), number

        def work(values: Iterable[Any]) -> int:
            count = sum(1 for _ in values)
            time.sleep(count * seconds)
            return count

        def run(spark: SparkSession, _: Path) -> None:
            pairs = spark.sparkContext.parallelize(range(rows), CORES).map(pair)
            if how == "group":
                pairs.groupByKey(drawn.partitions).map(lambda group: work(group[1])).count()
            elif how == "join":
                others = spark.sparkContext.parallelize([(number, "x") for number in range(500)], CORES)
                pairs.join(others, drawn.partitions).map(lambda one: work([one])).count()
            else:
                pairs.sortByKey(numPartitions=drawn.partitions).map(lambda one: work([one])).count()

        return run

    return of


def _python(seed: int) -> dict[str, Job]:
    jobs = {
        "apply_pandas": _job(Drawn(seed, "apply_pandas"), _applied, "Python group map", "hot key", python=True),
        "udf_mean": _job(Drawn(seed, "udf_mean"), _averaged, "Python group map", "hot key", python=True),
        "cogroup_two": _job(Drawn(seed, "cogroup_two"), _cogrouped, "Python group map", "hot key", python=True),
        "null_apply": _job(Drawn(seed, "null_apply", NULL), _applied, "Python group map", "null key", python=True),
        "costly": _job(Drawn(seed, "costly", EVEN), _costly, "Python group map", "costly rows", python=True),
    }
    if hasattr(GroupedData, "applyInArrow"):  # from Spark 4 on
        drawn = Drawn(seed, "apply_arrow")
        jobs["apply_arrow"] = _job(drawn, _applied_to_arrow, "Python group map", "hot key", python=True)
    for name, how in (("rdd_group", "group"), ("rdd_join", "join")):
        jobs[name] = Job(_rdd(how)(Drawn(seed, name)), "RDD", "hot key", python=True)
    return jobs


def _written(drawn: Drawn) -> Run:
    def run(spark: SparkSession, folder: Path) -> None:
        cut = drawn.facts(spark).repartition(drawn.partitions, drawn.key).withColumn("z", drawn.slow())
        cut.write.partitionBy("part").parquet(str(folder / "out"))

    return run


def _inserted(drawn: Drawn) -> Run:
    def run(spark: SparkSession, folder: Path) -> None:
        drawn.facts(spark).createOrReplaceTempView("facts")
        inner = f"SELECT /*+ REPARTITION({drawn.partitions}, {drawn.key}) */ * FROM facts"
        work = f"java_method('java.lang.Thread', 'sleep', {drawn.sleep_ms}L)"
        query = f"SELECT *, {work} AS z FROM ({inner})"
        spark.sql(f"INSERT OVERWRITE DIRECTORY '{folder / 'out'}' USING json {query}")

    return run


def _sorted(drawn: Drawn, spark: SparkSession) -> DataFrame:
    return drawn.facts(spark).orderBy(drawn.key).withColumn("z", drawn.slow())


def _outputs(seed: int) -> dict[str, Job]:
    by_part, inserted = Drawn(seed, "write_by_part"), Drawn(seed, "sql_insert")
    return {
        "write_by_part": Job(_written(by_part), "write", "hot key", by_part.settings(), keys=(by_part.key,)),
        "sql_insert": Job(_inserted(inserted), "write", "hot key", inserted.settings(), keys=(inserted.key,)),
        "sort": _job(Drawn(seed, "sort"), _sorted, "sort", "hot key"),
    }


def _files(drawn: Drawn, form: str, sizes: list[int]) -> Run:
    """Return a job that reads files with so many rows each, and works on each row."""

    def run(spark: SparkSession, folder: Path) -> None:
        where = folder / "input"
        where.mkdir()
        for number, size in enumerate(sizes):
            rows = [{"id": at, "text": os.urandom(40).hex()} for at in range(size)]
            if form == "parquet":  # a row group each
                pq.write_table(pa.Table.from_pylist(rows), where / f"{number}.parquet", row_group_size=size)
            elif form == "csv":
                lines = "\n".join(f"{row['id']},{row['text']}" for row in rows)
                (where / f"{number}.csv.gz").write_bytes(gzip.compress(lines.encode()))
            elif form == "json":  # an array over many lines
                (where / f"{number}.json").write_text(json.dumps(rows, indent=1))
            else:
                (where / f"{number}.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
        reader = spark.read.schema("id long, text string").option("multiLine", str(form == "json").lower())
        read = reader.format(form.removesuffix("l")).load(str(where))
        drain(read.withColumn("z", drawn.slow()))

    return run


def _inputs(seed: int) -> dict[str, Job]:
    jobs = {}
    for name, form, uneven in (
        ("csv_gzip", "csv", True), ("json_lines_gzip", "jsonl", False), ("json_multiline", "json", True),
        ("parquet_group", "parquet", True),
    ):  # fmt: skip
        drawn = Drawn(seed, name)
        drawn.shape = "one"
        large = round(drawn.rows * drawn.share)
        small = drawn.chance.randrange(7, 14)
        sizes = [large] + [max(1, (drawn.rows - large) // small)] * small if uneven else [drawn.rows]
        most = 80 * drawn.rows // 16  # Spark would cut files of this size into many pieces
        settings = {"spark.sql.files.maxPartitionBytes": f"{most}b", "spark.sql.files.openCostInBytes": "512b"}
        jobs[name] = Job(_files(drawn, form, sizes), "scan", "unsplittable input", settings)
    return jobs


def _global_window(drawn: Drawn, spark: SparkSession) -> DataFrame:
    everything = Window.orderBy("v")
    return drawn.facts(spark).withColumn("n", sf.row_number().over(everything)).withColumn("z", drawn.slow())


def _global_list(drawn: Drawn, spark: SparkSession) -> DataFrame:
    return drawn.facts(spark).agg(sf.collect_list("v").alias("vs")).select(drawn.slow_list("vs"))


def _few(seed: int) -> dict[str, Job]:
    jobs = {}
    for name, run, operator, partitions in (
        ("few_global_window", _global_window, "window", 8),
        ("few_global_list", _global_list, "aggregate", 8),
        ("few_shuffle_partitions", _listed, "aggregate", 2),
        ("few_join", _joined("inner", "merge"), "inner join", 2),
    ):
        drawn = Drawn(seed, name, EVEN)
        drawn.lost_s /= 3
        jobs[name] = _job(drawn, run, operator, "few partitions", settings={SHUFFLE: str(partitions)})
    slices = Drawn(seed, "few_slices", EVEN)
    slices.lost_s /= 3

    def write_slices(spark: SparkSession, folder: Path) -> None:
        slices.facts(spark).coalesce(2).withColumn("z", slices.slow()).write.csv(str(folder / "out"))

    jobs["few_slices"] = Job(write_slices, "scan", "few partitions", slices.settings())
    return jobs


def _applied_on_hosts(drawn: Drawn, spark: SparkSession) -> DataFrame:
    fast, slow = drawn.sleep_ms / 1_000, 30 * drawn.sleep_ms / 1_000

    def work(group: pd.DataFrame) -> pd.DataFrame:
        time.sleep(len(group) * (slow if os.environ.get("DOCTOR_SLOW") else fast))
        return pd.DataFrame({"n": [len(group)]})

    return drawn.facts(spark).groupBy(drawn.key).applyInPandas(work, "n long")


def _ranked_on_hosts(drawn: Drawn, spark: SparkSession) -> DataFrame:
    order = Window.partitionBy(drawn.key).orderBy("v")
    return drawn.facts(spark).withColumn("n", sf.row_number().over(order)).withColumn("z", drawn.slow_on_host(30))


def _scanned_on_hosts(drawn: Drawn, spark: SparkSession) -> DataFrame:
    return drawn.facts(spark, slices=drawn.partitions).withColumn("z", drawn.slow_on_host(30))


def _slow_hosts(seed: int) -> dict[str, Job]:
    jobs = {}
    for name, run, operator in (
        ("slow_host_apply", _applied_on_hosts, "Python group map"),
        ("slow_host_window", _ranked_on_hosts, "window"),
        ("slow_host_scan", _scanned_on_hosts, "scan"),
    ):
        drawn = Drawn(seed, name, EVEN)
        drawn.lost_s /= 6
        jobs[name] = _job(drawn, run, operator, "slow host", python=operator == "Python group map", hosts=2)
    return jobs


def _distinct(drawn: Drawn, spark: SparkSession) -> DataFrame:
    """Return a hot key that does no harm: rows with equal numbers meet first, then one row per task and key."""
    facts = drawn.facts(spark).withColumn("z", drawn.slow())
    return facts.groupBy(drawn.key).agg(sf.countDistinct("v"), sf.max("z"))


def _summed(drawn: Drawn, spark: SparkSession) -> DataFrame:
    """Return a hot key that does no harm: sums are combined before the exchange."""
    return drawn.facts(spark).withColumn("z", drawn.slow()).groupBy(drawn.key).agg(sf.sum("v"), sf.max("z"))


def _broadcast(drawn: Drawn, spark: SparkSession) -> DataFrame:
    """Return a hot key that does no harm: rows stay where they are."""
    things = drawn.things(spark)
    return drawn.facts(spark).join(sf.broadcast(things), drawn.key, "left").withColumn("z", drawn.slow())


def _waves(drawn: Drawn, spark: SparkSession) -> DataFrame:
    """Return a warm key among so many tasks that no core waits long for it."""
    key = f"IF(pmod(id, 16) = 0, 1, 2 + pmod(id * 7919, {drawn.rows}))"
    facts = spark.range(0, drawn.rows, 1, CORES).selectExpr(f"{key} AS k", "id AS v")
    return facts.repartition(24, "k").withColumn("z", drawn.slow())


def _spread(drawn: Drawn, spark: SparkSession) -> DataFrame:
    """Return rows with a hot key, exchanged without regard to it."""
    return drawn.facts(spark).repartition(drawn.partitions).withColumn("z", drawn.slow())


def _even(seed: int) -> dict[str, Job]:
    jobs = {}
    for name, run in (
        ("even_sql_list", _listed_in_sql), ("even_pivot", _pivoted), ("even_join_full", _joined("full", "merge")),
        ("even_join_hash", _joined("left", "shuffle_hash")), ("even_sql_window", _summed_in_sql),
        ("even_apply_pandas", _applied), ("even_udf_mean", _averaged), ("even_sort", _sorted), ("even_waves", _waves),
    ):  # fmt: skip
        jobs[name] = _job(Drawn(seed, name, EVEN), run, "", "", python=run in (_applied, _averaged))
    for name, run in (
        ("even_distinct", _distinct), ("even_sum", _summed), ("even_broadcast", _broadcast), ("even_spread", _spread),
    ):  # fmt: skip
        drawn = Drawn(seed, name, HOT)
        drawn.lost_s *= 2
        jobs[name] = _job(drawn, run, "", "")
    split = Drawn(seed, "even_split_by_spark")
    split.shape = "one"
    jobs["even_split_by_spark"] = _job(
        split,
        lambda drawn, spark: (
            drawn.facts(spark, slices=16)
            .join(drawn.things(spark).hint("merge"), drawn.key)
            .withColumn("z", drawn.slow())
        ),
        "",
        "",
        settings={
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "200b",
            "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.5",
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": "300b",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        },
    )
    jobs["even_rdd"] = Job(_rdd("group")(Drawn(seed, "even_rdd", EVEN)), python=True)
    return jobs
