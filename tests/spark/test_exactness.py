"""Exactness: whatever is grouped, by whatever route, the result is that of Spark's own `groupBy`.

Value, type, nullability and names must be the same, in a stream also the micro-batch in which a row comes. One query
has many small cases: the number of a case is one of its keys, and there is a key column for every type, of which a
case uses one or two. Time zone, window, grouping and combiners are drawn for each query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StringType, StructType

from services.representatives import ON_SPARK
from services.spark_version import collated
from skewless.combiners import Accumulator, Combiner, Count, Custom, Max, Mean, Min, Sum, Variance
from skewless.salting.plan import Plan
from skewless.spark import Grouped, group, plan_keys
from skewless.spark.keys import is_collated
from skewless.spark.merge import OutputMode, quoted
from skewless.spark.versions import from_table

pytestmark = pytest.mark.spark

CASES: Final = 35
ZONES: Final = ["UTC", "America/New_York", "Asia/Kolkata", "GMT+8"]
DST: Final = 1_699_160_400  # 2023-11-05 05:00 UTC; in New York the hour from then on comes twice
_LETTERS: Final = "'a', 'A', 'a ', 'b'"

# Key columns: odd names, and the values of each, of which keys take one by its number, or null.
KEYS: Final = {
    "skewless_0": "1L, 2L, -9223372036854775808L",
    "a b": "'a', 'A', '', 'ключ'",
    "c.d": f"{_LETTERS}",
    "x`y": f"{_LETTERS}",
    "rtrim": f"{_LETTERS}",
    "double": "0D, -0D, double('NaN'), -1.5D, double('-Infinity')",
    "float": "0F, -0F, float('NaN'), 0.1F",
    "wide": "1e-18BD, 12345678901234567890.123456789012345678BD, 0BD",
    "date": "date'0001-01-01', date'9999-12-31', date'2023-11-05'",
    "ts": f"timestamp_seconds({DST}), timestamp_seconds({DST + 3600}), timestamp_seconds({DST + 5400.000001})",
    "ntz": "timestamp_ntz'2023-11-05 01:30:00', timestamp_ntz'2023-03-12 02:30:00', timestamp_ntz'0001-01-01'",
    "skewless_rows": "true, false",
    "bytes": "X'00', X'', X'FF00'",
    "days": "interval '1 0:0:0.000001' day to second, interval '-1 0:0:0' day to second",
    "months": "interval '1-2' year to month, interval '14' month, interval '-1-0' year to month",
    "struct": "struct(-0D AS f, 'a' AS s), struct(0D AS f, 'A' AS s), struct(double('NaN') AS f, null AS s)",
    "array": "array(0D, null), array(-0D, null), array(), array(double('NaN'))",
}
TYPES: Final = {
    "c.d": collated("string collate UTF8_LCASE"),
    "x`y": collated("string collate UNICODE_CI"),
    "rtrim": collated("string collate UTF8_BINARY_RTRIM"),
    "wide": "decimal(38,18)",
    "months": "interval year to month",
    "struct": collated("struct<f: double, s: string collate UTF8_LCASE>"),
    "array": "array<double>",
}
TIMES: Final = [0, 1, 59, 60, 3599, 3600, 5400, 86_400, 60 * 86_400, 125 * 86_400]
WINDOWS: Final = [
    None,
    ("1 minute", None, None),
    ("1 hour", "20 minutes", None),
    ("40 seconds", "30 seconds", "7 seconds"),
    ("1 hour", None, "-3 minutes"),
    ("120 days", None, None),
]

Row = tuple[int, ...]  # case, key column, its value, second key column, its value, time, number, real, text


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Draw the rows of many cases. Values are drawn as numbers, which Spark turns into what they mean."""
    found = []
    for case in range(CASES):
        used = draw(st.lists(st.integers(0, len(KEYS) - 1), min_size=2, max_size=2))
        small = st.integers(0, 5)
        row = st.tuples(small, small, st.integers(0, len(TIMES)), st.integers(-3, 3), small, small)
        for first, second, *values in draw(st.lists(row, min_size=1, max_size=6)):
            found.append((case, used[0], first, used[1], second, *values))
    return found


@dataclass(frozen=True, kw_only=True)
class Query:
    """What is computed in one query, and how it is routed."""

    zone: str
    window: tuple[str, str | None, str | None] | None
    time: str
    in_python: bool
    grouping: str
    workers: int

    @property
    def combiners(self) -> dict[str, Combiner]:
        own = {"spread": Variance("number")} if self.in_python else {}
        return {
            "n": Count(),
            "n__count": Count("real"),
            "sum of": Sum("number"),
            "low": Min("text"),
            "high`est": Max("real"),
            "me.an": Mean("number"),
            "last": Max("at"),
            **own,
        }

    @property
    def functions(self) -> dict[str, Column]:
        own = {"spread": sf.var_samp("number")} if self.in_python else {}
        return {
            "n": sf.count("*"),
            "n__count": sf.count("real"),
            "sum of": sf.sum("number"),
            "low": sf.min("text"),
            "high`est": sf.max("real"),
            "me.an": sf.avg("number"),
            "last": sf.max("at"),
            **own,
        }

    def keys(self, df: DataFrame) -> list[str]:
        """Name the key columns: Spark has no streams by keys with a collation."""
        known = [name for name in KEYS if name in df.columns]
        return [name for name in known if not (df.isStreaming and is_collated(df.schema[name].dataType))]

    def plain(self, df: DataFrame) -> DataFrame:
        """Aggregate with Spark alone."""
        by: list[Any] = ["case", *map(quoted, self.keys(df))]
        if self.window is not None:
            by.append(sf.window(self.time, *self.window))
        return df.groupBy(*by).agg(*(column.alias(name) for name, column in self.functions.items()))

    def native(self, df: DataFrame) -> DataFrame:
        """Aggregate with skewless by default: Spark combines these functions itself."""
        return self._aggregated(group(df, "case", *self.keys(df)))

    def routed(self, df: DataFrame, ledger: Path, mode: OutputMode = "update") -> DataFrame:
        """Aggregate with skewless by way of the workers."""
        keys = ("case", *self.keys(df))
        grouped = group(df, *keys, workers=self.workers, grouping=self.grouping, ledger=str(ledger))
        return self._aggregated(grouped, mode)

    def planned(self, df: DataFrame, plan: Plan) -> DataFrame:
        """Aggregate with skewless by a plan at hand, beside a function that Spark does not have."""
        grouped = group(df, "case", *self.keys(df), workers=self.workers, learn_from=plan)
        return self._aggregated(grouped, foreign=foreign()).drop("foreign")

    def _aggregated(self, grouped: Grouped, mode: OutputMode = "update", **others: Combiner) -> DataFrame:
        if self.window is None:
            return grouped.agg(**self.combiners, **others)
        duration, slide, start = self.window
        windowed = grouped.window(self.time, duration, slide, start=start, output_mode=mode)
        return windowed.agg(**self.combiners, **others)


def foreign() -> Custom:
    """Return a combiner that Spark has no function for; its class is local, so that it travels with the query."""

    class Rows(Accumulator):
        result = pa.int64()

        def create(self) -> int:
            return 0

        def add_many(self, state: int, rows: int, *_: pa.Array) -> int:
            return state + rows

        def merge(self, one: int, other: int) -> int:
            return one + other

        def extract(self, state: int) -> int:
            return state

    return Custom(Rows())


def queries(windows: list[Any], times: list[str]) -> st.SearchStrategy[Query]:
    return st.builds(
        Query,
        zone=st.sampled_from(ZONES),
        window=st.sampled_from(windows),
        time=st.sampled_from(times),
        in_python=st.booleans(),
        grouping=st.sampled_from(ON_SPARK),
        workers=st.integers(1, 5),
    )


@contextmanager
def session_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


NAMES: Final = ["case", "used", "first", "used2", "second", "time", "number", "real", "text"]


def table(drawn: list[Row]) -> pa.Table:
    columns = zip(*drawn, strict=True) if drawn else [[] for _ in NAMES]
    return pa.table([pa.array(column, pa.int64()) for column in columns], names=NAMES)


def meant(numbers: DataFrame) -> DataFrame:
    """Turn drawn numbers into what they mean."""

    def value(pool: str, kind: str | None, number: str) -> str:
        values = f"array({pool})" if kind is None else f"cast(array({pool}) AS array<{kind}>)"
        return f"try_element_at({values}, cast({number} AS int) + 1)"

    columns = [sf.col("case"), sf.col("number")]
    for place, (name, pool) in enumerate(KEYS.items()):
        first, second = (value(pool, TYPES.get(name), number) for number in ("first", "second"))
        chosen = f"CASE WHEN used = {place} THEN {first} WHEN used2 = {place} THEN {second} END"
        columns.append(sf.expr(chosen).alias(name))
    seconds = f"try_element_at(array({', '.join(map(str, TIMES))}), cast(time AS int) + 1)"
    columns += [
        sf.expr(value("0D, -0D, double('NaN'), 1.5D", None, "real")).alias("real"),
        sf.expr(value(_LETTERS, collated("string collate UTF8_LCASE"), "text")).alias("text"),
        sf.expr(f"timestamp_seconds({DST} + {seconds})").alias("at"),
        sf.expr(f"timestamp_ntz'2023-11-05 00:00:00' + make_dt_interval(0, 0, 0, {seconds})").alias("at_ntz"),
    ]
    return numbers.select(*columns)


def shown(df: DataFrame) -> DataFrame:
    """Write rows as text. Of strings that are equal under a collation, any may come: they are written alike."""
    columns = []
    for column in df.schema:
        value = sf.col(quoted(column.name))
        if isinstance(column.dataType, StringType) and is_collated(column.dataType):
            value = sf.rtrim(value.cast("string"))
        if column.name == "high`est":  # of 0.0 and -0.0, which are equal, either is the greatest
            value = sf.when(value == 0, 0.0).otherwise(value)
        text = sf.to_json(sf.struct((sf.round(value, 9) if column.name == "spread" else value).alias("v")))
        columns.append(sf.lower(text) if is_collated(column.dataType) else text)
    return df.select(sf.concat_ws("  ", *columns).alias("row"))


def form(schema: StructType) -> list[tuple[str, DataType, bool]]:
    return [(column.name, column.dataType, column.nullable) for column in schema]


def assert_equal(got: Counter[Any], expected: Counter[Any]) -> None:
    wrong, missing = sorted((got - expected).items()), sorted((expected - got).items())
    assert not wrong, f"not in Spark's answer: {wrong[:3]}; missing: {missing[:3]}"
    assert not missing, f"missing: {missing[:3]}"


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(drawn=rows(), query=queries(WINDOWS, ["at", "at_ntz"]), sources=st.integers(1, 3))
def test_batch(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, drawn: list[Row], query: Query, sources: int
) -> None:
    with session_zone(spark, query.zone):
        df = meant(from_table(spark, table(drawn)).repartition(sources))
        plain, native, routed = query.plain(df), query.native(df), query.routed(df, tmp_path_factory.mktemp("ledger"))
        assert form(native.schema) == form(routed.schema) == form(plain.schema)
        ways = [shown(way).withColumn("way", sf.lit(n)) for n, way in enumerate((plain, native, routed))]
        found = reduce(DataFrame.union, ways).collect()
    expected, *others = (Counter(row["row"] for row in found if row["way"] == way) for way in range(3))
    for got in others:
        assert_equal(got, expected)


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(
    drawn=rows(),
    query=queries(WINDOWS, ["at", "at_ntz"]),
    placed=st.none() | st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=9),
)
def test_planned(spark: SparkSession, drawn: list[Row], query: Query, placed: list[list[int]] | None) -> None:
    """Keys are whole, moved or cut in any way; where none is cut, and there is no window, nothing is merged."""
    with session_zone(spark, query.zone):
        df = meant(from_table(spark, table(drawn)).repartition(2))
        # only Spark can compare keys with this collation, so nothing is planned for them
        df = df.select(*(quoted(name) for name in df.columns if name != "x`y"))
        plan = plan_keys(df, "case", *query.keys(df), workers=query.workers, sample=1.0)
        if placed is not None:
            wanted = [sorted({worker % query.workers for worker in workers}) for workers in placed]
            keys = [
                replace(key, workers=tuple(to), shares=(1 / len(to),) * len(to))
                for key, to in zip(plan.keys, cycle(wanted), strict=False)
            ]
            plan = replace(plan, keys=tuple(keys))
        with pytest.MonkeyPatch.context() as patch:
            if placed is not None:  # auto would leave keys whole where that is good enough
                patch.setattr("skewless.spark.grouped.own_plan", lambda *_: plan)
            plain, planned = query.plain(df), query.planned(df, plan)
        assert form(planned.schema) == form(plain.schema)
        ways = [shown(way).withColumn("way", sf.lit(n)) for n, way in enumerate((plain, planned))]
        found = reduce(DataFrame.union, ways).collect()
    expected, got = (Counter(row["row"] for row in found if row["way"] == way) for way in range(2))
    assert_equal(got, expected)


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(drawn=rows(), query=queries(WINDOWS[1:], ["at"]), mode=st.sampled_from(["append", "update"]))
def test_stream(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, drawn: list[Row], query: Query, mode: OutputMode
) -> None:
    """Watermarks of Spark are on timestamps with a zone; windows close, and rows come too late."""
    tmp = tmp_path_factory.mktemp("stream")
    (tmp / "input").mkdir()
    # In any case there is a window that closes: it has the first of these rows, the second moves the watermark past it.
    first, last = (0, 0, 0, 0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 0, len(TIMES) - 1, 1, 0, 0)
    for number, chunk in enumerate([[first, *drawn[::3]], drawn[1::3], [*drawn[2::3], last]]):
        pq.write_table(table(chunk), tmp / "input" / f"{number}.parquet")
    expected, *others = counters = [Counter[Any]() for _ in range(3)]
    with session_zone(spark, query.zone):
        schema = ", ".join(f"{quoted(name)} bigint" for name in NAMES)
        numbers = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp / "input"))
        df = meant(numbers).withWatermark(query.time, "1 minute")
        ways = {
            "plain": query.plain(df), "native": query.native(df), "routed": query.routed(df, tmp / "ledger", mode)
        }  # fmt: skip
        for (name, result), found in zip(ways.items(), counters, strict=True):
            assert form(result.schema) == form(ways["plain"].schema)

            def keep(batch: DataFrame, number: int, found: Counter[Any] = found) -> None:
                found.update((number, row["row"]) for row in shown(batch).collect())

            stream = result.writeStream.outputMode(mode).foreachBatch(keep).trigger(availableNow=True)
            stream.option("checkpointLocation", str(tmp / name)).start().awaitTermination()
    assert expected
    for got in others:
        assert_equal(got, expected)
