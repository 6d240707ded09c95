"""Files that `skewless produce` wrote, read by Spark: they hold what the stream holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skewless.producing import make_feed, open_target, produce
from skewless.streams import make_stream

pytest.importorskip("pyspark")

from skewless.runner.applications.catalogue import COUNT, VWAP
from skewless.runner.inputs.file import FileInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_trades_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    trades = make_stream("trades-0.001").records(0, 500, tuples=500, seed=0).to_pylist()
    for name in ("trades.csv.gz", "trades.jsonl"):
        feed = make_feed(stream="trades-0.001", part="records", tuples=500)
        produce(feed, open_target(str(tmp_path / name), feed))
        rows = FileInput(path=str(tmp_path / name)).open(spark, VWAP).rows(False).collect()
        assert [(row["key"], row["price"], row["volume"]) for row in rows] == [tuple(one.values()) for one in trades]


def test_keys_are_the_same_whatever_is_in_them(spark: SparkSession, tmp_path: Path) -> None:
    keys = ["", " tea ", 'a "quoted" one', "comma, too", "#tag", "ünï", "\t", "\\", "null", "'"]
    (tmp_path / "keys.txt").write_text("".join(f"{key}\n" for key in keys))
    feed = make_feed(path=str(tmp_path / "keys.txt"))
    produce(feed, open_target(str(tmp_path / "keys.csv"), feed))
    rows = FileInput(path=str(tmp_path / "keys.csv"), key="key").open(spark, COUNT).rows(False).collect()
    assert sorted(row["key"] for row in rows) == sorted(keys)
