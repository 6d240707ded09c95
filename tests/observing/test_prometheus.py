"""The text that Prometheus scrapes, against a plain reader of it, promtool and a real server."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.batches import batch_metrics, write_batches
from services.command import SKEWLESS
from services.prometheus import running_prometheus
from services.servers import require_server
from services.standalone import wait_for
from skewless.errors import SkewlessError
from skewless.observing import HotKey, PrometheusSink, Query
from skewless.observing.prometheus import FAMILIES
from skewless.observing.sink import label
from skewless.storage.ledger import Ledger

QUERY = Query(name="clicks", tags={"grouping": "even"})
_SAMPLE = re.compile(r'(\w+)\{((?:\w+="(?:\\.|[^"\\])*",?)*)\} (\S+)')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
_LABEL = re.compile(r'(\w+)="((?:\\.|[^"\\])*)"')


@pytest.fixture(scope="module")
def shared_sink() -> Iterator[PrometheusSink]:
    sink = PrometheusSink(0)
    yield sink
    sink.close()


@pytest.fixture
def sink() -> Iterator[PrometheusSink]:
    sink = PrometheusSink(0)
    yield sink
    sink.close()


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Read samples by name and labels; every metric must have been described before, once."""
    described: set[str] = set()
    samples = {}
    for line in text.split("\n")[:-1]:
        if line.startswith("#"):
            what, name = line.split()[1:3]
            assert f"{what} {name}" not in described
            described.add(f"{what} {name}")
            continue
        match = _SAMPLE.fullmatch(line)
        assert match is not None, line
        name, labels, value = match.groups()
        assert {f"HELP {name}", f"TYPE {name}"} <= described
        pairs = {(one, re.sub(r"\\.", lambda m: _ESCAPES[m[0]], other)) for one, other in _LABEL.findall(labels)}
        assert (name, frozenset(pairs)) not in samples
        samples[name, frozenset(pairs)] = float(value)
    return samples


def scraped(sink: PrometheusSink, **labels: str) -> dict[str, float]:
    """Return the samples that have these labels beside the query's own, by name."""
    wanted = {("query", "clicks"), ("grouping", "even"), *labels.items()}
    return {name: value for (name, found), value in read(sink.text()).items() if found == wanted}


def test_everything_is_shown_by_name(sink: PrometheusSink) -> None:
    assert sink.text() == ""
    sink.write(QUERY, batch_metrics(batch=7), 0)
    assert scraped(sink) == {
        "skewless_batch": 7, "skewless_batch_began_seconds": 1.0, "skewless_batch_tuples": 300, "skewless_stddev": 25,
        "skewless_imbalance_percent": 50, "skewless_variance": 5_625, "skewless_dist_cost": 1.5,
        "skewless_throughput": 200, "skewless_state_keys": 40, "skewless_moved_percent": 10,
        "skewless_tuples_total": 400, "skewless_moved_keys_total": 9, "skewless_rejected_total": 2,
    }  # fmt: skip
    assert scraped(sink, percentile="95") == {"skewless_latency_seconds": 0.9}
    assert scraped(sink, worker="1") == {
        "skewless_worker_load_percent": 75, "skewless_worker_tuples_total": 275,
        "skewless_worker_busy_seconds_total": 1.5,
    }  # fmt: skip
    assert scraped(sink, key="Türkiye") == {
        "skewless_key_tuples": 290, "skewless_key_share_percent": pytest.approx(96.67, abs=0.01),
        "skewless_key_workers": 2,
    }  # fmt: skip
    assert {name for name, _ in read(sink.text())} == set(FAMILIES)


@given(keys=st.lists(st.text(), min_size=1, max_size=10, unique_by=label))
def test_any_key_is_written_so_that_it_can_be_read(shared_sink: PrometheusSink, keys: list[str]) -> None:
    name = 'ours: "x"\\'
    hottest = [HotKey(key=key, tuples=i, share=0.1, workers=1) for i, key in enumerate(keys)]
    shared_sink.write(Query(name=name), batch_metrics(hottest=hottest), 0)
    found = {
        dict(labels)["key"]: value
        for (family, labels), value in read(shared_sink.text()).items()
        if family == "skewless_key_tuples" and ("query", label(name)) in labels
    }
    assert found == {label(key): i for i, key in enumerate(keys)}


def test_keys_that_leave_are_gone_and_queries_stay_apart(sink: PrometheusSink) -> None:
    sink.write(QUERY, batch_metrics(), 0)
    before = len(read(sink.text()))
    for number in range(50):
        sink.write(QUERY, batch_metrics(batch=number, hot=f"key number {number}"), number)
    assert len(read(sink.text())) == before
    assert scraped(sink, key="Türkiye") == {}
    assert scraped(sink, key="key number 49")["skewless_key_workers"] == 2
    sink.write(Query(name="other"), batch_metrics(), 51)
    assert len(read(sink.text())) == 2 * before
    sink.write(QUERY, batch_metrics(began_ms=None), 52)
    assert "skewless_batch_began_seconds" not in scraped(sink)


def test_it_is_served_over_http(sink: PrometheusSink) -> None:
    sink.write(QUERY, batch_metrics(), 0)
    assert sink.url == f"http://127.0.0.1:{sink.port}/metrics"
    with urlopen(sink.url, timeout=10) as answer:  # noqa: S310 - our own server
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert answer.read().decode() == sink.text()
    with pytest.raises(HTTPError, match="404") as error_info:
        urlopen(f"{sink.url}/other", timeout=10)  # noqa: S310 - as above
    error_info.value.close()


def test_it_listens_on_other_addresses_too() -> None:
    sink = PrometheusSink(0, "::1")
    if sink.url is None:
        pytest.skip("this machine has no IPv6")
    with urlopen(sink.url, timeout=10) as answer:  # noqa: S310 - as above
        assert answer.status == 200
    sink.close()


def test_a_port_that_is_taken_is_a_warning_until_it_is_free(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sink = PrometheusSink(port)
        assert (sink.port, sink.url) == (None, None)
        for now_s in (1_000.0, 1_010.0, 1_059.0):
            sink.write(QUERY, batch_metrics(), now_s)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert f"PrometheusSink({port}, host='127.0.0.1') could not write metrics" in caplog.text
        assert "in use" in caplog.text
        sink.write(QUERY, batch_metrics(), 1_060.0)
        assert len(caplog.records) == 2
    sink.write(QUERY, batch_metrics(), 1_061.0)
    assert sink.port == port
    sink.close()
    sink.close()  # twice is no harm


@pytest.mark.parametrize("port", [-1, 65_536, True, "9108", 1.5])
def test_bad_ports_are_refused(port: int) -> None:
    with pytest.raises(SkewlessError, match="port must be a number from 0"):
        PrometheusSink(port)
    with pytest.raises(SkewlessError, match="the host to listen on is empty"):
        PrometheusSink(0, "")


# ---- the real ones ---------------------------------------------------------------------------------------------


def test_promtool_finds_nothing_to_blame(sink: PrometheusSink) -> None:
    sink.write(QUERY, batch_metrics(hot='a "b"\\\n'), 0)
    done = subprocess.run(
        [require_server("promtool"), "check", "metrics"], input=sink.text(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_real_server_finds_what_was_sent(sink: PrometheusSink, tmp_path: Path) -> None:
    nasty = 'a "b" \\ {c="d"}\n'
    sink.write(QUERY, batch_metrics(hot=nasty), 0)
    with running_prometheus(tmp_path, f"127.0.0.1:{sink.port}") as prometheus:

        def seen(query: str) -> list[tuple[dict[str, str], float]]:
            return wait_for(lambda: prometheus.values(query) or None, query, seconds=30, pause=0.05)

        assert seen("skewless_stddev")[0][1] == 25.0
        labels, value = seen("skewless_key_workers > 1")[0]
        assert (labels["key"], labels["query"], labels["grouping"], value) == (label(nasty), "clicks", "even", 2.0)
        assert seen('skewless_worker_load_percent{worker="1"}')[0][1] == 75.0
        kinds = {name: told[0]["type"] for name, told in prometheus.ask("metadata").items()}
        assert kinds == {name: family.kind for name, family in FAMILIES.items()}
        sink.write(QUERY, batch_metrics(batch=1, hot="other"), 1)
        seen('skewless_key_workers{key="other"}')
        assert {labels["key"] for labels, _ in prometheus.values("skewless_key_workers")} == {"other", "key 0"}


def test_the_command_serves_metrics_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path / "clicks"))
    write_batches(ledger, [(10, 90), (50, 50)])
    process = subprocess.Popen(
        [*SKEWLESS, "watch", ledger.uri,
         "--quiet", "--prometheus", "0", "--interval", "0.05", "--name", "mine"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        told = re.fullmatch(r"metrics for Prometheus: (http://127\.0\.0\.1:\d+/metrics)\n", process.stderr.readline())
        assert told is not None

        def last_batch() -> bool | None:
            with urlopen(told[1], timeout=10) as answer:  # noqa: S310 - as above
                return 'skewless_batch{query="mine",grouping="even"} 1\n' in answer.read().decode() or None

        wait_for(last_batch, "the last batch", seconds=60, pause=0.05)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, stdout, stderr) == (130, "", "skewless: interrupted\n")
