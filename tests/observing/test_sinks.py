"""What every sink keeps to: it never raises, and it does not fill the log."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.batches import batch_metrics, write_batches
from skewless.errors import SkewlessError
from skewless.observing import BatchMetrics, LogSink, Query, Sink, observe
from skewless.observing.sink import LONGEST_LABEL, label
from skewless.storage.ledger import Ledger

QUERY = Query(name="clicks", tags={"grouping": "even"})


class Fragile(Sink):
    """Fails as long as it has an error; remembers the rest."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.got: list[tuple[Query, BatchMetrics]] = []
        self.closed = False

    def __repr__(self) -> str:
        return "Fragile()"

    def send(self, query: Query, metrics: BatchMetrics) -> None:
        if self.error is not None:
            raise self.error
        self.got.append((query, metrics))

    def close(self) -> None:
        self.closed = True


def test_a_failure_is_one_warning_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    sink, metrics = Fragile(), batch_metrics()
    sink.error = ConnectionRefusedError("nobody\nthere")
    for now_s in (1_000.0, 1_001.0, 1_059.0, 1_060.0, 1_061.0):
        sink.write(QUERY, metrics, now_s)
    assert [record.getMessage() for record in caplog.records] == [
        "Fragile() could not write metrics, the query continues: nobody␊there",
        "Fragile() could not write metrics, the query continues (4 times in a row): nobody␊there",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    caplog.clear()
    sink.error = None
    with caplog.at_level(logging.INFO):
        sink.write(QUERY, metrics, 1_062.0)
        sink.write(QUERY, metrics, 1_063.0)
    assert [record.getMessage() for record in caplog.records] == ["Fragile() takes metrics again"]
    caplog.clear()
    sink.error = RuntimeError()
    sink.write(QUERY, metrics, 1_064.0)  # a new failure is logged at once
    assert "the query continues: RuntimeError" in caplog.text
    assert sink.got == [(QUERY, metrics)] * 2


def test_log_lines_are_those_of_the_reference(caplog: pytest.LogCaptureFixture) -> None:
    first, second = batch_metrics(), batch_metrics(batch=1, hot="a,b\n")
    with caplog.at_level(logging.INFO, logger="skewless.observing.log"):
        LogSink().write(QUERY, first, 0)
        LogSink().write(QUERY, second, 0)
        LogSink().write(QUERY, batch_metrics(batch=2, loads=(0, 0)), 0)  # nothing came, nothing is said
    assert [record.getMessage() for record in caplog.records] == [
        "#DIST: TotalCount: 400, Duration(ms): 2000, StdDev: 25.0000, DistCost: 1.5000, ThroughputRatio(rec/sec): 200",
        "#HOTTEST KEYS:\nTürkiye,290,2\nkey 0,10,1",
        "#DIST: TotalCount: 400, Duration(ms): 2000, StdDev: 25.0000, DistCost: 1.5000, ThroughputRatio(rec/sec): 200",
        "#HOTTEST KEYS:\na,b␊,290,2\nkey 0,10,1",
    ]
    assert {(vars(record)["query"], vars(record)["tags"]["grouping"]) for record in caplog.records} == {
        ("clicks", "even")
    }


@given(texts=st.lists(st.text(), min_size=2, max_size=2, unique=True))
def test_labels_stay_on_their_line_and_within_bounds(texts: list[str]) -> None:
    one, other = map(label, texts)
    assert 1 <= len(one) <= LONGEST_LABEL
    assert len(one.splitlines()) == 1
    assert one.encode().decode() == one
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in one)
    if all(text.isprintable() and text not in {"", '""'} for text in texts):
        assert one != other


def test_long_labels_stay_apart() -> None:
    assert label("x" * 500) != label("x" * 501)
    assert label("x" * LONGEST_LABEL) == "x" * LONGEST_LABEL
    assert label("\ud800") == "?"


@pytest.mark.parametrize(
    ("name", "tags", "message"),
    [
        ("", {}, "name must be a name that is not empty"),
        ("q", {"worker": "1"}, "the tag 'worker' is reserved"),
        ("q", {"two words": "1"}, "the name of a tag consists of letters"),
        ("q", {"größe": "1"}, "the name of a tag consists of letters"),
        ("q", {"__name__": "1"}, "the name of a tag consists of letters"),
        ("q", {"team": ""}, "the tag 'team' needs a value"),
    ],
)
def test_bad_names_and_tags_are_refused(name: str, tags: dict[str, str], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        Query(name=name, tags=tags)


def test_a_query_is_called_like_its_ledger(tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path / "clicks"))
    assert Query.of(ledger) == Query(name="clicks")
    ledger.claim({"grouping": "even", "workers": 2})
    assert Query.of(ledger, tags={"team": "ads"}) == Query(name="clicks", tags={"grouping": "even", "team": "ads"})
    assert Query.of(ledger, "mine", {"grouping": "other"}) == Query(name="mine", tags={"grouping": "other"})


def test_the_sink_of_the_documentation_works(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "(Sink)" in block)
    names: dict[str, Any] = {"__name__": "example"}
    exec(example, names)  # noqa: S102 - our own page
    sink = names["CsvSink"](str(tmp_path / "metrics.csv"))
    for batch in (0, 1):
        sink.write(QUERY, batch_metrics(batch=batch), 0)
    sink.write(QUERY, batch_metrics(batch=2, hottest=[]), 0)
    expected = ["clicks,0,300,50.0,Türkiye", "clicks,1,300,50.0,Türkiye", "clicks,2,300,50.0,"]
    assert sink.path.read_text().splitlines() == expected


# ---- in a thread -----------------------------------------------------------------------------------------------


class Ticking:
    """A clock of which a test can wait for further ticks: the observer reads it before each poll."""

    def __init__(self) -> None:
        self.ticks = 0
        self.ticked = threading.Condition()

    def __call__(self) -> float:
        with self.ticked:
            self.ticks += 1
            self.ticked.notify_all()
        return 0.0

    def wait(self, polls: int) -> None:
        """Wait until `polls` more polls have started; all of them but the last have ended then."""
        with self.ticked:
            wanted = self.ticks + polls
            assert self.ticked.wait_for(lambda: self.ticks >= wanted, timeout=60)


@pytest.fixture
def no_thread_stays() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@pytest.mark.usefixtures("no_thread_stays")
def test_a_query_is_observed_from_its_start_to_its_end(tmp_path: Path) -> None:
    sinks, clock = [Fragile(), Fragile()], Ticking()
    sinks[0].error = OSError("broken")
    with observe(str(tmp_path / "ledger"), sinks, tags={"team": "ads"}, interval_s=0.01, clock=clock):
        clock.wait(2)  # there is no ledger yet
        ledger = Ledger(uri=str(tmp_path / "ledger"))
        write_batches(ledger, [(10, 90), (10, 90)])
        clock.wait(3)
        assert [metrics.batch for _, metrics in sinks[1].got] == [0, 1]
        write_batches(ledger, [(50, 50)], first=2, silent=[1])  # a worker without a report: complete at the end only
        clock.wait(3)
        assert len(sinks[1].got) == 2
    assert [metrics.batch for _, metrics in sinks[1].got] == [0, 1, 2]
    assert sinks[1].got[0][0] == Query(name="ledger", tags={"grouping": "even", "team": "ads"})
    assert [sink.closed for sink in sinks] == [True, True]
    assert sinks[0].got == []


@pytest.mark.usefixtures("no_thread_stays")
def test_a_broken_ledger_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Ticking()
    (tmp_path / "ledger.json").write_text("{")
    with observe(str(tmp_path), [Fragile()], interval_s=0.01, clock=clock):
        clock.wait(4)
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        f"cannot observe the ledger {tmp_path}, the query continues"
    ]


@pytest.mark.usefixtures("no_thread_stays")
def test_what_is_wrong_with_the_options_is_said_at_once(tmp_path: Path) -> None:
    with (
        pytest.raises(SkewlessError, match="interval_s must be a number above 0"),
        observe(str(tmp_path), [], interval_s=0),
    ):
        pass
    with pytest.raises(SkewlessError, match="is reserved"), observe(str(tmp_path), [], tags={"key": "x"}):
        pass
