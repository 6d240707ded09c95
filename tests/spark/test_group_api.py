"""What `group` and its methods accept, how they name things, and what they refuse before the query starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from services.settings import setting
from skewless import Auto, Even, PartialKey, SkewlessError
from skewless.combiners import ApproxTopK, Combiner, Count, Mean, Min, Sum, Variance
from skewless.errors import ColumnError, ConfigurationError
from skewless.processors import KeyState, Processor
from skewless.spark import Grouped, Ledger, Windowed, diagnose, explain, group, over, plan_keys, repartition
from skewless.spark.physical_plan import read_plan

pytestmark = pytest.mark.spark

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call] # workers have no tests

PARTITIONS = "spark.sql.shuffle.partitions"


def numbers(spark: SparkSession, **columns: str) -> DataFrame:
    """Return 60 rows of SQL expressions over `id`; names may be anything."""
    return spark.range(0, 60, 1, 2).select(*(sf.expr(text).alias(name) for name, text in columns.items()))


def as_set(df: DataFrame) -> set[Row]:
    rows = df.collect()
    assert len(set(rows)) == len(rows), "a group came twice"
    return set(rows)


def test_the_number_of_workers_is_stated_once(spark: SparkSession) -> None:
    df = spark.range(3)
    assert group(df, "id", workers=3, grouping=Even(slack=0.1)).grouping == Even(workers=3, slack=0.1)
    assert group(df, "id", grouping=PartialKey(workers=4)).grouping.workers == 4
    with setting(spark, PARTITIONS, "7"):
        result = group(df, "id", grouping=Even()).agg(n=Count())
        assert any(", 7), REPARTITION_BY_NUM" in node for node in read_plan(result).nodes)
    with pytest.raises(ConfigurationError, match="workers is 3, but the grouping was made for 4"):
        group(df, "id", workers=3, grouping=PartialKey(workers=4))


def test_a_number_of_partitions_that_is_no_number(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark itself refuses such a value; platforms with settings of their own, such as `auto`, do not."""
    df = spark.range(3)
    monkeypatch.setattr(type(spark.conf), "get", lambda *_: "auto")
    for grouping in ("key", Even()):
        with pytest.raises(ConfigurationError, match=f"^{PARTITIONS} is 'auto', not a number. Set workers$"):
            group(df, "id", grouping=grouping)


@pytest.mark.parametrize("grouping", ["auto", "even"])
def test_results_without_a_name_are_called_as_spark_calls_them(spark: SparkSession, grouping: str) -> None:
    df = numbers(spark, k="id % 3", x="id * 1.5D")
    plain = df.groupBy("k").agg(
        sf.count("*"), sf.count("x"), sf.sum("x"), sf.avg("x"), sf.min("x"), sf.sum("x").alias("total")
    )
    grouped = group(df, "k", workers=2, grouping=grouping)
    result = grouped.agg(Count(), Count("x"), Sum("x"), Mean("x"), Min("x"), total=Sum("x"))
    assert result.columns == plain.columns
    assert as_set(result) == as_set(plain)
    moments = df.groupBy("k").agg(sf.var_samp("x"), sf.var_pop("x"))
    assert grouped.agg(Variance("x"), Variance("x", ddof=0)).columns == moments.columns
    with pytest.raises(ColumnError, match=r"result 'sum\(x\)' has the name of another result. Name it with a keyword"):
        grouped.agg(Sum("x"), Sum("x"))


def test_window_gives_something_that_can_only_aggregate(spark: SparkSession) -> None:
    windowed = group(numbers(spark, k="id", ts="timestamp_seconds(id)"), "k").window("ts", "1 minute")
    assert isinstance(windowed, Windowed)
    assert [name for name in dir(windowed) if not name.startswith("_")] == ["agg", "explain"]
    assert windowed.agg(Count()).columns == ["k", "window", "count(1)"]


@pytest.mark.parametrize("start", ["0 seconds", "-3 minutes", "7 seconds"])
def test_windows_start_wherever_spark_lets_them(spark: SparkSession, start: str) -> None:
    df = numbers(spark, k="id % 2", ts="timestamp_seconds(id * 97)")
    expected = df.groupBy("k", sf.window("ts", "10 minutes", "5 minutes", start)).agg(sf.count("*").alias("n"))
    windowed = group(df, "k", workers=2, grouping="SG").window("ts", "10 minutes", "5 minutes", start=start)
    assert as_set(windowed.agg(n=Count())) == as_set(expected)


def test_bad_output_modes_are_refused(spark: SparkSession) -> None:
    grouped = group(numbers(spark, k="id", ts="timestamp_seconds(id)"), "k")
    with pytest.raises(ConfigurationError, match="output_mode must be 'update' or 'append'; got 'complete'"):
        grouped.window("ts", "1 minute", output_mode="complete")  # type: ignore[arg-type]


def test_apply_takes_the_default_grouping_and_a_column_called_as_ours(spark: SparkSession) -> None:
    df = numbers(spark, k="id % 7", skewless_worker="id")
    expected = {Row(k=k, n=len(range(k, 60, 7)), columns="k,skewless_worker") for k in range(7)}

    def describe(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"k": [key[0]], "n": [len(rows)], "columns": [",".join(rows.columns)]})

    result = group(df, "k", workers=3).apply(describe, "k long, n long, columns string")
    assert as_set(result) == expected
    with pytest.raises(ConfigurationError, match="apply needs whole groups, but 'even' cuts keys"):
        group(df, "k", grouping=Even()).apply(describe, "n long")


@pytest.mark.parametrize("more", [{}, {"top": ApproxTopK("window", 1)}], ids=["native", "python"])
def test_columns_may_be_called_as_ours_are(spark: SparkSession, more: dict[str, Combiner]) -> None:
    """Names that are in use inside: of the worker, of renamed columns, of windows, and of states."""
    names = ["skewless_0", "skewless_worker", "n__count", "skewless_result_0"]
    columns = {name: f"id % {number + 2}" for number, name in enumerate(names)}
    df = numbers(spark, **columns, window="id", ts="timestamp_seconds(id * 7)")
    expected = df.groupBy(*names).agg(sf.count("*").alias("n"), sf.sum("window").alias("skewless_1"))
    result = group(df, *names, workers=3, grouping="SG").agg(n=Count(), skewless_1=Sum("window"), **more)
    assert as_set(result.drop(*more)) == as_set(expected)
    windows = df.groupBy("skewless_0", sf.window("ts", "1 minute")).agg(sf.sum("window").alias("n"))
    windowed = group(df, "skewless_0", workers=3, grouping="SG").window("ts", "1 minute")
    assert as_set(windowed.agg(n=Sum("window"), **more).drop(*more)) == as_set(windows)


def test_names_that_spark_cannot_tell_apart_are_refused_with_the_right_advice(spark: SparkSession) -> None:
    df = numbers(spark, k="id % 2", x="id", ts="timestamp_seconds(id)", window="id")
    grouped = group(df, "k", workers=2)
    with setting(spark, "spark.sql.caseSensitive", "true"):
        both = numbers(spark, k="id % 2", x="id", X="id + 1")
        result = group(both, "k", workers=2).agg(n=Sum("x"), N=Sum("X"))
        assert as_set(result) == {Row(k=0, n=870, N=900), Row(k=1, n=900, N=930)}
    attempts: dict[str, Callable[[], object]] = {
        "result 'N' has the name of another result, 'n', as Spark ignores case": lambda: grouped.agg(
            n=Count(), N=Count()
        ),
        "result 'K' has the name of a key column, 'k', as Spark ignores case": lambda: grouped.agg(K=Count()),
        "result 'k' has the name of a key column. Name it with a keyword of its own": lambda: grouped.agg(k=Count()),
        "result 'window' has the name of the window": lambda: grouped.window("ts", "1 hour").agg(window=Count()),
        "key column 'window' has the name of the column of windows. Rename it before group": lambda: group(
            df, "window"
        ).window("ts", "1 hour"),
        "key column 'k' is named twice. Name it once": lambda: group(df, "k", "k"),
        r"column 'x' in n=Sum\(column='x'\) is ambiguous: there are 'x', 'X'. Rename or drop": lambda: group(
            both, "k"
        ).agg(n=Sum("x")),
        r"unknown column 'price' in s=Sum\(column='price'\)\. Known: k, ": lambda: grouped.agg(s=Sum("price")),
    }
    for message, attempt in attempts.items():
        with pytest.raises(SkewlessError, match=message):
            attempt()


class Nothing(Processor):
    state = "n bigint"
    output = "n bigint"

    def process(self, key: tuple[Any, ...], rows: Any, state: KeyState) -> Any:  # noqa: ARG002 - it has no work
        return ()


def test_what_is_neither_a_name_nor_a_dataframe_is_refused(spark: SparkSession) -> None:
    df = numbers(spark, k="id % 2", b="id")
    wrong: Any
    of_keys: dict[str, Callable[..., object]] = {
        "group": group,
        "over": lambda df, *keys: over(df, *keys, order_by="b"),
        "plan_keys": plan_keys,
        "repartition": repartition,
    }
    for name, operator in of_keys.items():
        with pytest.raises(
            SkewlessError, match=rf"^{name} takes .* not list. Give .* one by one: {name}\(df, 'k', 'b'"
        ):
            operator(df, ["k", "b"])
    not_frames = {"list": [1], "pandas.DataFrame. Make one with spark.createDataFrame": pd.DataFrame({"k": [1]})}
    for name, operator in {**of_keys, "diagnose": diagnose}.items():
        with pytest.raises(SkewlessError, match=f"^{name} takes names of columns, not pyspark.Column. Give the name"):
            operator(df, sf.col("k"))
        for kind, wrong in not_frames.items():
            with pytest.raises(SkewlessError, match=f"^df must be a DataFrame of Spark, not {kind}"):
                operator(wrong, "k")
    wrong = 3
    with pytest.raises(SkewlessError, match=r"^df must be a DataFrame of Spark, not int$"):
        explain(wrong)


def on_disk(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_building_and_explaining_leave_nothing_on_disk(spark: SparkSession, tmp_path: Path) -> None:
    ledger, state = str(tmp_path / "ledger"), str(tmp_path / "state")
    stream = spark.readStream.format("rate").load()
    for df in (spark.range(10).withColumnRenamed("id", "value"), stream):
        grouped = group(df, "value", workers=2, ledger=ledger)
        explain(grouped.agg(n=Count()))
        grouped.explain(n=Count())
        explain(grouped.stateful(Nothing(), state=state))
    assert on_disk(tmp_path) == []


def test_a_ledger_of_another_configuration_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """While the query is built if it can be seen then, and when it runs if another query was quicker."""

    def counted(grouping: str) -> DataFrame:
        return group(spark.range(9), "id", workers=2, grouping=grouping, ledger=str(tmp_path / "ledger")).agg(n=Count())

    early, late = counted("PKG"), counted("DKG")
    early.collect()
    owner = Ledger(uri=str(tmp_path / "ledger")).owner()
    assert owner is not None
    assert owner["grouping"] == "partial_key"
    with pytest.raises(ConfigurationError, match=r"belongs to another configuration: grouping .* Use another"):
        counted("DKG")
    with pytest.raises(Exception, match="belongs to another configuration"):
        late.collect()
    assert early.count() == 9


def test_a_ledger_that_cannot_be_written_is_an_error_of_the_first_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    grouped = group(spark.range(9), "id", workers=2, ledger=str(tmp_path / "file" / "ledger"))
    with pytest.raises(Exception, match=r"cannot (read|write) the ledger"):
        grouped.agg(n=Count()).collect()


def test_explain_knows_stateful_work(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    explain(group(spark.range(9), "id", workers=2).stateful(Nothing()))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("stateful by ")
    assert lines[0].endswith(": intact")
    assert "  work      MapInArrow StatefulWork, on the workers" in lines
    assert "  merge     none: workers have whole groups" in lines


def test_settings_of_auto_survive(spark: SparkSession, tmp_path: Path) -> None:
    auto = Auto(capacities=(1, 3), half_life_s=30, worthwhile=0.5)
    grouped = group(spark.range(9), "id", workers=2, grouping=auto, ledger=str(tmp_path / "ledger"))
    assert isinstance(grouped, Grouped)
    grouped.stateful(Nothing()).collect()
    owner = Ledger(uri=str(tmp_path / "ledger")).owner()
    assert owner is not None
    assert owner["grouping"] == "auto"
    kept = {name: owner["parameters"][name] for name in ("single_owner", "capacities", "half_life_s", "worthwhile")}
    assert kept == {"single_owner": True, "capacities": [1, 3], "half_life_s": 30, "worthwhile": 0.5}
