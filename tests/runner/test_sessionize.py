"""`run --app sessions`: an application with state of its own, whole runs compared with plain Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skewless.cli.main import main
from skewless.errors import SkewlessError
from skewless.groupings import make_grouping

pytest.importorskip("pyspark")

from skewless.runner.applications.catalogue import SESSIONS
from skewless.runner.inputs.file import FileInput
from skewless.runner.inputs.named_stream import NamedStream
from skewless.runner.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STREAM = NamedStream(name="zipf-1.0-300", tuples=3000, sources=2, batch_size=1000, rate=100)


@pytest.mark.parametrize(("grouping", "batch"), [("eager", False), ("auto", True)])
def test_sessions_are_those_of_plain_spark(spark: SparkSession, grouping: str, batch: bool) -> None:
    app = replace(SESSIONS, gap="3s")
    made = make_grouping(grouping, workers=3)
    report = Pipeline(app=app, input=STREAM, grouping=made, batch=batch, verify=True).run(spark)
    assert (report.exact, report.differences, report.tuples) == (True, [], 3000)
    assert report.rows > 500  # most keys have several
    assert set(report.top[0]) == {"key", "window_start", "seconds", "n"}
    if not batch:
        assert report.batches == 3
        assert 200 < report.state_keys <= 300
        assert report.moved > 0


def test_a_gap_ends_a_session_when_it_is_over_and_not_before(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").write_text("who,at\na,100\na,109.5\na,119.501\nb,100\na,129.501\n")
    source = FileInput(path=str(tmp_path / "clicks.csv"), key="who", time="at")
    app = replace(SESSIONS, gap="10s")
    report = Pipeline(app=app, input=source, grouping=make_grouping("key", workers=2), verify=True).run(spark)
    assert report.exact
    begins = [row["window_start"].removesuffix("+00:00")[-3:] for row in report.top]
    found = [(row["key"], begin, row["seconds"], row["n"]) for row, begin in zip(report.top, begins, strict=True)]
    assert sorted(found) == [("a", "000", 10.0, 2), ("a", ":40", 9.5, 2), ("b", ":40", 0.0, 1)]


def test_what_sessions_cannot_do_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grouping = make_grouping("key", workers=2)
    with pytest.raises(SkewlessError, match="Leave out window"):
        Pipeline(app=SESSIONS, input=STREAM, grouping=grouping, window="1m")
    (tmp_path / "clicks.csv").write_text("who,at\na,100\n")
    with pytest.raises(SkewlessError, match="holds it as time"):
        Pipeline(app=SESSIONS, input=FileInput(path=str(tmp_path / "clicks.csv"), key="who"), grouping=grouping)
    with pytest.raises(SkewlessError, match="length of time"):
        replace(SESSIONS, gap="soon")
    with pytest.raises(SystemExit):
        main(["run", "--app", "sessions", "--window", "1m"])
    assert "sessions: this application has windows of its own. Leave out --window" in capsys.readouterr().err


def test_a_grouping_that_splits_keys_is_refused(spark: SparkSession) -> None:
    splitting = Pipeline(app=SESSIONS, input=STREAM, grouping=make_grouping("partial_key", workers=2))
    with pytest.raises(SkewlessError, match="one owner per key"):
        splitting.run(spark)
