"""Line protocol against a plain reader of it, requests as a server sees them, and a real InfluxDB."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from naive.line_protocol import parse
from services.batches import batch_metrics, write_batches
from services.command import SKEWLESS
from services.influx import PASSWORD, USER, running_influx
from skewless.errors import SkewlessError
from skewless.observing import InfluxSink, Query
from skewless.observing.influx import KEPT, RETRY_S, line, lines
from skewless.observing.sink import label
from skewless.storage.ledger import Ledger

QUERY = Query(name="clicks", tags={"grouping": "even"})
NASTY = ["a b", "a,b", "a=b", 'a "b"', "a\\b", "a\\,b", "a\\ b=", "end\\", "two\nlines", "", "Türkiye ☃", "\\", "# x"]


def stored(text: str) -> str:
    """What becomes of a tag: as it is, but for backslashes that would escape what follows, a separator or the end."""
    characters = [*text]
    for i, character in enumerate(text):
        if character == "\\" and text[i + 1 : i + 2] in {"", ",", "=", " "}:
            characters[i] = "\uff3c"
    return "".join(characters)


values = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(
    tags=st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text().map(label), max_size=4),
    fields=st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), values, min_size=1, max_size=4),
    at_ms=st.none() | st.integers(0, 2**50),
)
@example(tags={"key": "a\\"}, fields={"x": 'say \\"no\\" \\'}, at_ms=5)
@example(tags={"a": '"'}, fields={"x": 0}, at_ms=None)
@example(tags={"a": "b\\,c=d e"}, fields={"x": ", =", "y": -0.0}, at_ms=None)
def test_a_plain_reader_finds_what_was_written(
    tags: dict[str, str], fields: dict[str, int | float | str], at_ms: int | None
) -> None:
    text = line("load", tags, fields, at_ms)
    assert len(text.splitlines()) == 1
    expected = {name: label(value) if isinstance(value, str) else value for name, value in fields.items()}
    assert parse(text) == ("load", {name: stored(value) for name, value in tags.items()}, expected, at_ms)


def test_what_is_not_a_number_is_left_out() -> None:
    assert line("load", {}, {"a": float("nan"), "b": 1.0, "c": float("inf")}, None) == "load b=1.0"


@pytest.mark.parametrize("key", NASTY)
def test_a_batch_is_a_point_for_itself_its_workers_and_its_keys(key: str) -> None:
    metrics = batch_metrics(hot=key)
    batch, *others = map(parse, lines(QUERY, metrics))
    tags = {"query": "clicks", "grouping": "even"}
    names = ("tuples", "stddev", "imbalance", "variance", "dist_cost", "throughput", "elapsed_ms", "state_keys",
             "moved_keys", "moved", "rejected")  # fmt: skip
    expected: dict[str, Any] = {name: asdict(metrics)[name] for name in names}
    expected |= {f"total_{name}": asdict(metrics.total)[name] for name in names}
    expected |= {
        f"{part}latency_{name}_ms": time for part in ("", "total_") for name, time in metrics.latency_ms.items()
    }
    assert batch == ("skewless", tags, {"batch": 0, "remark": 'even: "a" is cut', **expected}, 1_000)
    assert others[:2] == [
        ("skewless_worker", {**tags, "worker": str(worker)}, {
            "tuples": load, "load": 100 * load / 300, "busy_s": 0.5,
            "total_tuples": load + 50, "total_load": 100 * (load + 50) / 400, "total_busy_s": 1.5,
        }, 1_000)
        for worker, load in enumerate((75, 225))
    ]  # fmt: skip
    assert others[2:] == [
        ("skewless_key", {**tags, "key": stored(label(key))},
         {"tuples": 290, "share": 100 * 290 / 300, "workers": 2}, 1_000),
        ("skewless_key", {**tags, "key": "key 0"}, {"tuples": 10, "share": 100 * (10 / 300), "workers": 1}, 1_000),
    ]  # fmt: skip


def test_without_a_clock_the_server_takes_its_own() -> None:
    assert {parse(text)[3] for text in lines(QUERY, batch_metrics(began_ms=None))} == {None}


# ---- addresses and secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "environ", "address", "authorization"),
    [
        ("http://h:8086?db=m", {}, "http://h:8086/write?db=m&precision=ms", None),
        ("http://h:8086/?db=m&rp=a b&precision=s", {}, "http://h:8086/write?db=m&rp=a+b&precision=ms", None),
        ("https://h/proxy/write?db=m", {}, "https://h/proxy/write?db=m&precision=ms", None),
        ("http://me:p%40ss@h:1?db=m", {}, "http://h:1/write?db=m&precision=ms", b"me:p@ss"),
        ("http://h?db=m&u=me&p=pass", {}, "http://h/write?db=m&precision=ms", b"me:pass"),
        ("http://[::1]:8086?db=m", {"INFLUX_USERNAME": "me", "INFLUX_PASSWORD": "p"},
         "http://[::1]:8086/write?db=m&precision=ms", b"me:p"),
        ("http://h?org=o&bucket=b", {}, "http://h/api/v2/write?org=o&bucket=b&precision=ms", None),
        ("http://h/api/v2/write?org=o&bucket=b&token=se==", {}, "http://h/api/v2/write?org=o&bucket=b&precision=ms",
         "se=="),
        ("http://h?orgID=1&bucket=b", {"INFLUX_TOKEN": "secret\n"}, "http://h/api/v2/write?orgID=1&bucket=b&precision=ms",
         "secret"),
    ],
)  # fmt: skip
def test_addresses_are_free_of_secrets(
    url: str, environ: dict[str, str], address: str, authorization: bytes | str | None
) -> None:
    sink = InfluxSink(url, environ=environ)
    assert repr(sink) == f"InfluxSink({address!r})"
    header = vars(sink)["_headers"].get("Authorization")
    if authorization is None:
        assert header is None
    elif isinstance(authorization, str):
        assert header == f"Token {authorization}"
    else:
        assert b64decode(header.removeprefix("Basic ")) == authorization


@pytest.mark.parametrize(
    "url",
    [
        "", "h:8086", "ftp://x:secret@h?db=m", "http://x:secret@?db=m", "http://x:secret@h", "http://x:secret@h?db=",
        "http://x:secret@h?db=m&bucket=b", "http://h?bucket=b&token=secret", "http://x:secret@h:port?db=m",
        "http://x:secret@[h?db=m", "http://x:secret@h?db", "http://h?org=o&bucket=b&token=secret%0a1",
    ],
)  # fmt: skip
def test_bad_addresses_are_refused_without_showing_secrets(url: str) -> None:
    with pytest.raises(SkewlessError, match=r"influx must|influx is not a URL|token of the InfluxDB") as error_info:
        InfluxSink(url, environ={})
    assert "secret" not in str(error_info.value)


# ---- a server that answers as it is told ------------------------------------------------------------------------


class Scripted(HTTPServer):
    """Answers with the codes that it is given, 204 when they are used up, and remembers what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ScriptedHandler)
        self.codes: list[int] = []
        self.asked: list[tuple[str, dict[str, str], str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class ScriptedHandler(BaseHTTPRequestHandler):
    server: Scripted

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.path, dict(self.headers), body))
        code = self.server.codes.pop(0) if self.server.codes else 204
        self.send_response(code)
        told = f'{{"message": "no:\\n{self.headers["Authorization"]}"}}'.encode() if code != 502 else b"<html>"
        if code in {301, 307}:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Content-Length", str(len(told) if code != 204 else 0))
        self.end_headers()
        if code != 204:
            self.wfile.write(told)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def numbers(server: Scripted) -> list[int | float | str]:
    """Give the batches that were asked for, one after the other."""
    return [parse(body.splitlines()[0])[2]["batch"] for _, _, body in server.asked]


def test_the_second_version_gets_token_and_bucket(scripted: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    sink = InfluxSink(f"{scripted.url}?org=us&bucket=metrics", environ={"INFLUX_TOKEN": "s3cret"})
    sink.write(QUERY, batch_metrics(), 0)
    ((path, headers, body),) = scripted.asked
    assert (urlsplit(path).path, urlsplit(path).query) == ("/api/v2/write", "org=us&bucket=metrics&precision=ms")
    assert headers["Authorization"] == "Token s3cret"
    assert body.splitlines() == [*lines(QUERY, batch_metrics())]
    assert caplog.text == ""


@pytest.mark.parametrize("code", [301, 307, 400, 401, 404, 502, 503])
def test_a_refusal_is_a_warning_without_secrets(
    scripted: Scripted, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    sink = InfluxSink(f"{scripted.url}?org=us&bucket=metrics", environ={"INFLUX_TOKEN": "s3cret"})
    scripted.codes = [code, code]
    with caplog.at_level(logging.DEBUG):
        for number in range(3):
            sink.write(QUERY, batch_metrics(batch=number), number)
    warning, again = (record.getMessage() for record in caplog.records)
    assert f"HTTP {code}" in warning
    assert ("no:␊Token ***" in warning) == (code != 502)
    assert "takes metrics again" in again
    assert "s3cret" not in caplog.text
    assert {path.partition("?")[0] for path, _, _ in scripted.asked} == {"/api/v2/write"}  # not led elsewhere
    # What the server cannot take is dropped; what it could not take yet is sent again, in order.
    assert numbers(scripted) == ([0, 1, 2] if code == 400 else [0, 0, 0, 1, 2])


def test_no_more_waits_than_fits(scripted: Scripted) -> None:
    sink = InfluxSink(f"{scripted.url}?db=metrics", environ={})
    scripted.codes = [503] * (KEPT + 5)
    for number in range(KEPT + 6):
        sink.write(QUERY, batch_metrics(batch=number), number)
    assert numbers(scripted)[KEPT + 5 :] == [*range(6, KEPT + 6)]


def connections(server: socket.socket) -> int:
    """Count the connections that wait to be taken."""
    number = 0
    server.settimeout(0.2)
    with suppress(TimeoutError):
        while True:
            server.accept()[0].close()
            number += 1
    return number


def test_a_server_that_does_not_answer_is_not_asked_for_every_batch(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, says nothing
        sink = InfluxSink(f"http://127.0.0.1:{silent.getsockname()[1]}?db=metrics", environ={}, timeout_s=0.05)
        for number in range(50):
            sink.write(QUERY, batch_metrics(batch=number), 100.0)
        sink.write(QUERY, batch_metrics(batch=50), 100.0 + RETRY_S)
        assert connections(silent) == 2
    assert "timed out" in caplog.text
    assert len(caplog.records) == 1


# ---- a real server ---------------------------------------------------------------------------------------------


def test_a_real_server_gives_back_what_was_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = quote(PASSWORD, safe="")
    with running_influx(tmp_path) as influx:
        sink = InfluxSink(f"http://{USER}:{secret}@{influx.address}?db=metrics", environ={})
        sink.write(QUERY, batch_metrics(batch=0), 0)  # there is no such database yet: it waits
        assert "database not found" in caplog.text
        influx.ask("CREATE DATABASE metrics")
        for number, key in enumerate(NASTY, 1):
            metrics = batch_metrics(batch=number, hot=key, began_ms=1_000 * number)
            sink.write(QUERY, metrics, number)
            sink.write(QUERY, metrics, number)  # sent twice, stored once
        wrong = InfluxSink(f"http://{USER}:wrong@{influx.address}?db=metrics", environ={})
        wrong.write(QUERY, batch_metrics(), 0)
        assert "HTTP 401: authorization failed" in caplog.text
        assert "wrong" not in caplog.text

        rows = influx.rows("SELECT * FROM skewless GROUP BY *", db="metrics", epoch="ms")
        assert [(row["time"], row["batch"]) for row in rows] == [(1_000 * n, n) for n in range(1, len(NASTY) + 1)]
        expected = parse(next(lines(QUERY, batch_metrics())))
        assert {name: rows[0][name] for name in expected[2] if name != "batch"} == {
            name: value for name, value in expected[2].items() if name != "batch"
        }
        assert (rows[0]["query"], rows[0]["grouping"]) == ("clicks", "even")
        loads = influx.rows("SELECT last(load) FROM skewless_worker GROUP BY worker", db="metrics")
        assert [(row["worker"], row["last"]) for row in loads] == [("0", 25.0), ("1", 75.0)]
        keys = influx.rows('SELECT last(workers) FROM skewless_key GROUP BY "key"', db="metrics")
        hot = ["Türkiye", *NASTY]
        assert {row["key"]: row["last"] for row in keys} == {**{stored(label(key)): 2 for key in hot}, "key 0": 1}


def test_a_server_that_restarts_gets_what_it_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    environ = {"INFLUX_USERNAME": USER, "INFLUX_PASSWORD": PASSWORD}
    with running_influx(tmp_path) as influx:
        influx.ask("CREATE DATABASE metrics")
        sink = InfluxSink(f"http://{influx.address}?db=metrics", environ=environ)
        sink.write(QUERY, batch_metrics(batch=0, began_ms=1_000), 0)
        port = influx.port
    assert caplog.text == ""
    for number in (1, 2):
        sink.write(QUERY, batch_metrics(batch=number, began_ms=1_000 * (number + 1)), number)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "refused" in caplog.text
    with running_influx(tmp_path, port=port) as influx:
        sink.write(QUERY, batch_metrics(batch=3, began_ms=4_000), 2 + RETRY_S)
        rows = influx.rows("SELECT batch FROM skewless", db="metrics", epoch="ms")
    assert [(row["time"], row["batch"]) for row in rows] == [(1_000 * (n + 1), n) for n in range(4)]


def test_the_command_writes_to_a_real_server(tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path / "clicks"))
    write_batches(ledger, [(10, 90), (50, 50)])
    with running_influx(tmp_path) as influx:
        influx.ask("CREATE DATABASE metrics")
        url = f"http://{influx.address}?db=metrics"
        command = [*SKEWLESS, "watch"]
        done = subprocess.run(
            [*command, ledger.uri, "--once", "--quiet", "--log", "--influx", url, "--tag", "team=ads"],
            env={**os.environ, "INFLUX_USERNAME": USER, "INFLUX_PASSWORD": PASSWORD},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert "clicks #DIST: TotalCount: 100, Duration(ms): 1000, StdDev: 40.0000" in done.stderr
        assert "clicks #HOTTEST KEYS:\nDE,98,2\nkey 0,1,1\nkey 1,1,1\n" in done.stderr
        rows = influx.rows("SELECT batch, stddev FROM skewless GROUP BY *", db="metrics", epoch="ms")
    assert [(row["time"], row["stddev"]) for row in rows] == [(1_700_000_000_000, 40.0), (1_700_000_001_000, 0.0)]
    assert {(row["query"], row["grouping"], row["team"]) for row in rows} == {("clicks", "even", "ads")}
