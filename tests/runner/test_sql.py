"""SQL expressions as an application: computed as by plain Spark, and rows that cannot be computed set aside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewless.combiners import ApproxDistinct, ApproxQuantile, ApproxTopK, Count, Max, Mean, Min, Sum, Variance, Vwap
from skewless.errors import CombinedError
from skewless.groupings import make_grouping

pytest.importorskip("pyspark")

from skewless.runner.applications.sql import SqlApplication
from skewless.runner.inputs.base import Input
from skewless.runner.inputs.file import FileInput
from skewless.runner.inputs.named_stream import NamedStream
from skewless.runner.pipeline import Pipeline
from skewless.runner.run_report import RunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = """shop,price,pieces,at,item
North,10,2,1000,tea
north,20,0,2000,tea
NORTH,5,1,3000,milk
south,much,1,4000,tea
south,7,1,never,tea
south,7,1,,tea
closed,7,0,never,tea
south,9,3,6000,"a,b"
south,9
"""
COMBINERS = {
    "total": Sum("each"), "doubled": Sum("twice"), "kinds": ApproxDistinct("item"),
    "middle": ApproxQuantile("price", 0.5), "first": Min("item"),
    "last": Max("item"), "mean": Mean("each"), "spread": Variance("price"),
    "paid": Vwap("price", "pieces"), "best": ApproxTopK("item", 1), "priced": Count("price"),
}  # fmt: skip


def run(spark: SparkSession, source: Input, app: SqlApplication, **settings: Any) -> RunReport:
    grouping = make_grouping("even", workers=2)
    return Pipeline(input=source, app=app, grouping=grouping, verify=True, **settings).run(spark)


@pytest.mark.parametrize("batch", [True, False])
def test_every_combiner_over_expressions(spark: SparkSession, tmp_path: Path, batch: bool) -> None:
    """A comment in an expression, a part that two have in common, and rows that `where` saves from being computed."""
    (tmp_path / "rows.csv").write_text(ROWS)
    app = SqlApplication(
        key="lower(shop) -- as people write it",
        expressions={"each": "price / pieces", "twice": "price / pieces * 2"},
        where="shop <> 'closed'",
        time="timestamp_millis(bigint(at))",
        fields={"price": "double", "pieces": "int"},
        combiners=COMBINERS,
    )
    source = FileInput(path=str(tmp_path / "rows.csv"), columns=(("field price", "price"), ("field pieces", "pieces")))
    report = run(spark, source, app, window="5s", batch=batch, rejects=str(tmp_path / "rejects"))
    assert (report.exact, report.differences, report.tuples) == (True, [], 3)
    assert report.reasons == {
        "the row does not have 5 columns": 1,
        "the field 'price' is not of type double": 1,
        "cannot compute price / pieces": 1,
        "cannot compute timestamp_millis(bigint(at))": 1,
        "no time: timestamp_millis(bigint(at))": 1,
    }
    rows = {(row["key"], row["window_start"][17:19]): row for row in report.top}
    north = rows["north", "00"]
    assert (north["n"], north["total"], north["doubled"], north["kinds"]) == (2, 10, 20, 2)
    assert (north["first"], north["last"]) == ("milk", "tea")
    assert (north["middle"], north["mean"], north["spread"], north["priced"]) == (5, 5, 12.5, 2)
    assert north["paid"] == pytest.approx(25 / 3)
    assert rows["south", "05"]["best"] == [{"item": "a,b", "count": 1}]
    lines = [line for file in (tmp_path / "rejects").rglob("*.json") for line in file.read_text().splitlines()]
    (told,) = (line["row"] for line in map(json.loads, lines) if "not of type" in line["reason"])
    assert json.loads(told)["price"] == "much"  # as it was read, not as it was understood


def test_files_with_types_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a", "a", None], "n of": [1, 2, 3]}), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text('{"k": "a", "in": {"x": 1}, "at": 5}\n{"k": "a", "in": {"x": 2}}\n{"k": 1')
    app = SqlApplication(
        key="k", expressions={"more": "`n of` + 1"}, combiners={"sum": Sum("more"), "top": Max("n of")}
    )
    report = run(spark, FileInput(path=str(tmp_path / "rows.parquet")), app, batch=True)
    assert (report.exact, report.rejected) == (True, 0)
    assert {row["key"]: (row["sum"], row["top"], row["n"]) for row in report.top} == {"a": (5, 2, 2), None: (4, 3, 1)}
    app = SqlApplication(key="k", expressions={"x": "in.x"}, combiners={"sum": Sum("x")})
    source = FileInput(path=str(tmp_path / "rows.jsonl"), time="at")
    report = run(spark, source, app, batch=True, window="1h")
    assert (report.exact, report.reasons) == (True, {"no time in column 'at'": 1, "the row is not valid JSON": 1})
    assert report.top[0]["sum"] == 1


def test_streams_of_records(spark: SparkSession) -> None:
    app = SqlApplication(key="left(symbol, 1)", where="volume > 10", combiners={"high": Max("price")})
    report = run(spark, NamedStream(name="trades-0.001", tuples=200, sources=1, batch_size=200), app, window="1s")
    assert report.exact
    assert 0 < report.tuples < 200


def test_expressions_that_make_no_sense_are_told_all_at_once(spark: SparkSession) -> None:
    app = SqlApplication(
        key="left((symbol, 1)",
        where="nope > 1",
        time="array(ts)",
        expressions={"a": "sum(price)"},
        combiners={"s": Sum("a"), "t": Sum("zz")},
    )
    with pytest.raises(CombinedError) as caught:
        run(spark, NamedStream(name="trades-0.001", tuples=9, sources=1), app)
    assert [error.subject for error in caught.value.each] == [
        "where", "key", "time", "expressions.a", "combiners.t",
    ]  # fmt: skip
    assert "`nope` cannot be resolved" in str(caught.value.each[0])
