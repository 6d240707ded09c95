"""Pipeline files as a user runs them, on one session: that of `skewless init` and those of `examples/`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
import pytest

from services.command import run_here

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES: Final = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def settings(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run on the session that is there, and tell what another would have been given."""
    told: dict[str, Any] = {}

    @contextmanager
    def session(master: str, log: str | None, **settings: Any) -> Iterator[SparkSession]:
        told.update(master=master, log=log, **settings)
        yield spark

    monkeypatch.setattr("skewless.cli.run.spark_session", session)
    monkeypatch.chdir(tmp_path)
    return told


def run(*arguments: str) -> tuple[int, str, str]:
    done = run_here("run", *arguments)
    return done.returncode, done.stdout, done.stderr


def example(name: str, tmp_path: Path, *directories: str) -> str:
    """Give an example that writes here: Spark, which runs elsewhere, would write its directories there."""
    text = (EXAMPLES / name).read_text()
    for directory in directories:
        assert f'"{directory}"' in text
        text = text.replace(f'"{directory}"', f'"{tmp_path / directory}"')
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


FEW: Final = ["--tuples", "400", "--sources", "1", "--workers", "2", "--batch-size", "200"]


def test_what_init_writes_runs_as_it_is(settings: dict[str, Any]) -> None:
    assert run_here("init", "mine.toml").returncode == 0
    code, out, err = run("mine.toml", *FEW, "--batch")
    assert (code, err) == (0, "")
    assert "batch 0: the largest of the rows it changed" in out
    assert "even on country-skew-r80 (Spark, batch)" in out
    assert settings == {"master": "local[12]", "log": None, "quick": True}


def test_clicks_into_a_directory(tmp_path: Path) -> None:
    file = example("clicks.toml", tmp_path, "clicks-per-country")
    code, out, _ = run(file, *FEW, "--json")
    report = json.loads(out)
    assert (code, report["tuples"], report["batches"]) == (0, 400, 2)
    rows = pq.read_table(tmp_path / "clicks-per-country").to_pylist()
    assert sum(row["n"] for row in rows) == 400


TRADES: Final = """symbol,price,size,at
 aa,10.5,2,1700000000000
AA,11.5,2,1700000001000
bb,7,1,1700000000000
bb,seven,1,1700000000000
bb,7,0,1700000000000
bb,7,1,
"""


def test_trades_to_average_prices(tmp_path: Path) -> None:
    """The whole example, and what it says of an expression that Spark does not understand."""
    (tmp_path / "trades").mkdir()
    (tmp_path / "trades" / "monday.csv").write_text(TRADES)
    file = example("vwap.toml", tmp_path, "vwap-per-hour", "bad-trades")
    code, out, err = run(file, "--verify", "--workers", "2")
    assert (code, err) == (0, "")
    assert "equal to a plain groupBy │ yes" in out
    assert "the field 'price' is not of type decimal(12, 4)" in out
    rows = {row["key"]: row for row in pq.read_table(tmp_path / "vwap-per-hour").to_pylist()}
    assert {key: (row["vwap"], row["n"]) for key, row in rows.items()} == {"AA": (11.0, 2), "BB": (7.0, 1)}
    assert (str(rows["AA"]["low"]), str(rows["AA"]["high"]), rows["AA"]["median_size"]) == ("10.5000", "11.5000", 2)
    lines = [line for file in (tmp_path / "bad-trades").rglob("*.json") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["reason"] for line in lines) == [
        "no time: timestamp_millis(at)", "the field 'price' is not of type decimal(12, 4)",
    ]  # fmt: skip
    broken = Path(file).read_text().replace("upper(trim(symbol))", "uper(symbol").replace("price * size", "p")
    (tmp_path / "broken.toml").write_text(broken)
    code, out, err = run("broken.toml")
    assert (code, out) == (2, "")
    first, second = (line for line in err.splitlines() if line.startswith("skewless: "))  # PySpark logs as well
    assert first.startswith("skewless: broken.toml:15: sql.key: Spark does not understand 'uper(symbol': ")
    assert second.startswith("skewless: broken.toml:18: sql.values.turnover: Spark does not understand 'p': ")
