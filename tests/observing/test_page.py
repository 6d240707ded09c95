"""The live page without a browser: what it answers, to whom, and what a ledger may do to it."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from services.batches import write_batches
from services.command import run_here
from services.standalone import wait_for
from skewless.errors import ConfigurationError, SetupError
from skewless.groupings import State
from skewless.observing.page import PageServer
from skewless.observing.page.api import Api
from skewless.observing.page.history import History
from skewless.observing.page.placement import changes
from skewless.observing.page.record import BatchRecord, make_record
from skewless.storage import Ledger, WorkerReport
from skewless.storage.batch_directory import file_of

HOSTILE: Final = '<img src=x onerror="alert(1)">\u202e\x1b[2J'


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(uri=str(tmp_path / "ledger"))
    write_batches(ledger, [[30, 10], [20, 20], [10, 30]], hot=HOSTILE)
    return ledger


@pytest.fixture
def page(ledger: Ledger) -> Iterator[PageServer]:
    with PageServer(ledger) as page:
        yield page


def opened(url: str, **headers: str) -> Any:
    return urlopen(Request(url, headers=headers), timeout=30)  # noqa: S310 - our own


def ask(page: PageServer, path: str, **headers: str) -> Any:
    with opened(page.url + path, **headers) as answer:
        return json.load(answer)


def refused(page: PageServer, path: str, **headers: str) -> tuple[int, str]:
    with pytest.raises(HTTPError) as caught:
        ask(page, path, **headers)
    with caught.value as answer:
        return answer.code, json.load(answer)["error"]


def test_the_run_and_its_batches(page: PageServer) -> None:
    run = ask(page, "api/run")
    assert (run["name"], run["grouping"], run["workers"], run["batches"]) == ("ledger", "even", 2, 3)
    assert (run["first"], run["last"], run["problem"], run["masked"]) == (0, 2, "", False)
    found = ask(page, "api/batches")
    first, *_, last = found["columns"]
    assert (first["batch"], first["rows"], first["heat"], first["imbalance"]) == (0, 40, [30, 10], 50)
    assert (first["skew"], first["stddev"], first["throughput"]) == (50, 25, 40)
    assert (first["elapsed_ms"], first["latency_ms"], first["rejected"]) == (1_000, [1_000] * 3, 2)
    assert (last["batch"], last["state_keys"], last["moved_keys"]) == (2, 40, 4)
    assert [one["batch"] for one in ask(page, "api/batches?from=1&to=1")["columns"]] == [1]
    assert [one["batch"] for one in ask(page, "api/batches?most=2")["columns"]] == [0, 2]
    assert [(one["batch"], one["what"]) for one in found["events"]] == [(0, "cut")]


def test_the_docs_name_every_field(page: PageServer) -> None:
    text = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
    columns, batch = ask(page, "api/batches"), ask(page, "api/batch/2")
    news = next(events_of(page))
    for found in (
        ask(page, "api/run"),
        columns,
        columns["columns"][0],
        columns["events"][0],
        batch,
        batch["keys"][0],
        news,
    ):
        missing = [name for name in found if f"`{name}`" not in text]
        assert missing == []


def test_a_batch_has_keys_with_their_owners_and_age(page: PageServer) -> None:
    ask(page, "api/batches")
    batch = ask(page, "api/batch/2")
    hot = batch["keys"][0]
    assert (hot["rows"], hot["share"], hot["workers"], hot["owners"]) == (38, 0.95, 2, [[0, 9], [1, 29]])
    assert (hot["age_batches"], hot["age_ms"]) == (2, 2_000)
    assert (batch["loads"], batch["busy_s"], batch["states"], batch["rejects"]) == (
        [10, 30],
        [0.1, 0.3],
        [20, 20],
        [1, 1],
    )
    assert sum(batch["by_home"]) == 40
    assert refused(page, "api/batch/9") == (404, "nothing is known of batch 9")
    assert refused(page, "api/nothing")[0] == 404


def test_nothing_is_loaded_from_elsewhere_and_nothing_inline_runs(page: PageServer) -> None:
    for name, kind in (
        ("", "text/html"),
        ("app.js", "text/javascript"),
        ("charts.js", "text/javascript"),
        ("app.css", "text/css"),
    ):
        with opened(page.url + name) as answer:
            text = answer.read().decode()
            policy = answer.headers["Content-Security-Policy"]
            assert answer.headers["Content-Type"].startswith(kind)
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "innerHTML" not in text
        for part in ("default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"):
            assert part in policy
        assert "unsafe" not in policy


def test_keys_are_text_and_can_be_masked(ledger: Ledger, page: PageServer) -> None:
    shown = ask(page, "api/batch/0")["keys"][0]["key"]
    assert shown.startswith("<img src=x")  # as text: the browser's tests show that it stays text
    assert "\x1b" not in shown
    with PageServer(ledger, mask_keys=True) as masked, PageServer(ledger, mask_keys=True) as other:
        texts = [json.dumps([ask(one, "api/batches"), ask(one, "api/batch/0")]) for one in (masked, other)]
        assert not any("img" in text or "key 0" in text for text in texts)
        keys = [ask(one, "api/batch/0")["keys"][0]["key"] for one in (masked, other)]
        assert all(len(key) == 13 and key.startswith("#") for key in keys)
        assert keys[0] != keys[1]  # nobody can look them up
        assert ask(masked, "api/batch/1")["keys"][0]["key"] == keys[0]


def test_other_machines_need_the_token(ledger: Ledger) -> None:
    with PageServer(ledger, host="0.0.0.0") as page:  # noqa: S104 - that is the point
        base, token = page.url.partition("?token=")[::2]
        assert token == page.token
        local = base.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        for url in (local, f"{local}?token=wrong", f"{local}api/run", f"{local}api/stream"):
            with pytest.raises(HTTPError) as caught:
                opened(url)
            assert caught.value.code == 401
            caught.value.close()
        with opened(f"{local}?token={token}") as answer:
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        for headers in ({"Cookie": cookie.partition(";")[0]}, {"Authorization": f"Bearer {token}"}):
            with opened(f"{local}api/run", **headers) as answer:
                assert json.load(answer)["workers"] == 2


def test_a_page_of_another_site_does_not_reach_it(page: PageServer) -> None:
    assert refused(page, "api/run", Host="evil.example:80")[0] == 403
    assert ask(page, "api/run", Host="localhost:1234")["workers"] == 2


def events_of(page: PageServer) -> Iterator[dict[str, Any]]:
    with opened(page.url + "api/stream") as answer:
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


def test_news_come_by_themselves(ledger: Ledger, page: PageServer) -> None:
    news = events_of(page)
    assert next(news)["columns"][0]["batch"] == 2
    write_batches(ledger, [[5, 35]], first=3, hot="calm")
    found = next(one for one in news if one["columns"][0]["batch"] == 3 and one["columns"][0]["reports"] == 2)
    assert found["run"]["last"] == 3
    assert found["columns"][0]["heat"] == [5, 35]
    assert [event["what"] for event in found["events"]] == ["cut"]


def test_a_batch_is_shown_when_its_reports_are_there_or_no_more_come(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(ledger)
    history.poll()
    write_batches(ledger, [[5, 35]], first=3, silent=[1])
    history.poll()
    assert history.batches()[-1] == 2  # or the worker that has not reported yet would look idle
    write_batches(ledger, [[5, 35]], first=3)
    history.poll()
    assert history.batches()[-1] == 3
    write_batches(ledger, [[5, 35]], first=4, silent=[1])
    history.poll()
    assert history.batches()[-1] == 3
    ledger.write_source(5, 0, State(), 0)
    history.poll()
    assert history.batches()[-1] == 4  # the next has begun: nobody waits for its reports any more
    write_batches(ledger, [[7, 33]], first=5, silent=[1])
    monkeypatch.setattr("skewless.observing.page.history.SETTLE_S", 0)
    history.poll()
    newest = history.record(5)
    assert newest is not None
    before = history.record(4)
    assert newest.reports == 1
    assert history.is_complete(newest, before)  # as many as before: the other may have no rows
    write_batches(ledger, [[7, 33]], first=5)
    history.poll()
    write_batches(ledger, [[7, 33]], first=6, silent=[1])
    history.poll()
    late, newest = history.record(5), history.record(6)
    assert late is not None
    assert newest is not None
    assert (late.reports, newest.reports, history.is_complete(newest, late)) == (2, 1, False)
    events = Api(history, "x").newest()["events"]
    assert {event["batch"] for event in events} <= {5}  # keys on the silent worker are not merged in the newest


def test_a_ledger_may_come_late_vanish_and_start_again(tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path / "ledger"))
    with PageServer(ledger) as page:
        assert ask(page, "api/run")["problem"].startswith("waiting for a ledger at ")
        assert ask(page, "api/batches") == {"columns": [], "events": []}
        write_batches(ledger, [[3, 1]] * 4)
        wait_for(lambda: ask(page, "api/run")["last"] == 3 or None, "the batches", seconds=20)
        ask(page, "api/batches")
        shutil.rmtree(tmp_path / "ledger")
        wait_for(lambda: "vanished" in ask(page, "api/run")["problem"] or None, "the remark", seconds=20)
        assert len(ask(page, "api/batches")["columns"]) == 4  # what was read stays
        write_batches(ledger, [[1, 3]])
        wait_for(lambda: ask(page, "api/run")["last"] == 0 or None, "the new run", seconds=20)
        assert [one["heat"] for one in ask(page, "api/batches")["columns"]] == [[1, 3]]


@pytest.mark.parametrize(
    "owner",
    [b"", b"[]", b'{"workers": 1e99}', b'{"workers": 1000000000}', b'{"workers": "<b>"}', b'{"workers": true}'],
)
def test_an_owner_that_makes_no_sense_is_a_remark(tmp_path: Path, owner: bytes) -> None:
    ledger = Ledger(uri=str(tmp_path / "ledger"))
    ledger.directory.write("ledger.json", owner)
    history = History(ledger)
    history.poll()
    assert history.problem
    assert history.n_workers == 0


def test_reports_that_make_no_sense_do_no_harm(ledger: Ledger) -> None:
    strange: list[Any] = ["x" * 100_000, 7, None]
    report = WorkerReport(
        worker=0, tuples=2**62, keys=1, busy_s=float("nan"), finished_ms=2**62, hashes=np.array([1], np.uint64),
        top_keys=strange, top_counts=[2**62, 1, -5], rejected=2**62, state_keys=2**62,
        units=np.array([-1, 2**62]),
    )  # fmt: skip
    ledger.write_worker(3, report)
    ledger.write_worker(3, WorkerReport.from_arrays({**report.as_arrays(), "worker": np.asarray(99)}))
    ledger.directory.write(file_of(3, "worker-1.npz"), b"no archive")
    with PageServer(ledger) as page:
        column = ask(page, "api/batches")["columns"][-1]
        assert (column["batch"], column["reports"]) == (3, 1)
        assert len(json.dumps(ask(page, "api/batch/3"))) < 5_000


def test_a_port_in_use_is_one_line(ledger: Ledger) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"cannot serve the page on 127.0.0.1:{port}: Address already in use"):
            PageServer(ledger, port)
        done = run_here("watch", ledger.uri, "--page", str(port))
        assert done.returncode == 2
        assert done.stderr == (
            f"skewless: --page: cannot serve the page on 127.0.0.1:{port}: Address already in use. "
            "Use another port, or 0 for any free one\n"
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--page", "nowhere"], "--page must be PORT or HOST:PORT"),
        (["--page", "0", "--once"], "--once ends before a browser can open the page. Leave out --once or --page"),
    ],
)
def test_wrong_options_are_one_line(ledger: Ledger, arguments: list[str], said: str) -> None:
    done = run_here("watch", ledger.uri, *arguments)
    assert (done.returncode, said in done.stderr, done.stderr.count("\n")) == (2, True, 1)


def test_an_empty_host_is_refused(ledger: Ledger) -> None:
    with pytest.raises(ConfigurationError, match="the host to listen on is empty"):
        PageServer(ledger, 0, "")


def record(batch: int, *owners: tuple[str, dict[int, int]], workers: int = 4) -> BatchRecord:
    """Return a batch from the rows of each key on each worker."""
    reports = []
    for worker in range(workers):
        rows = {key: counts[worker] for key, counts in owners if worker in counts}
        hashes = np.sort(np.array([hash_of(key) for key in rows], np.uint64))
        reports.append(
            WorkerReport(
                worker=worker,
                tuples=sum(rows.values()),
                keys=len(rows),
                busy_s=sum(rows.values()) / 100,
                finished_ms=10 * sum(rows.values()),
                hashes=hashes,
                top_keys=[*rows],
                top_counts=[*rows.values()],
                large_hashes=np.array([hash_of(key) for key in rows], np.uint64),
                large_rows=np.array([*rows.values()], np.int64),
            )
        )
    return make_record(batch, 0, reports, workers, 0)


def hash_of(key: str) -> int:
    return int.from_bytes(key.encode(), "little")


def test_what_happens_to_a_key_is_an_event() -> None:
    whole, cut = record(0, ("a", {1: 90}), ("b", {2: 10})), record(1, ("a", {1: 30, 2: 30, 3: 30}), ("b", {2: 10}))
    moved, merged = record(2, ("a", {0: 30, 2: 30, 3: 30}), ("b", {2: 10})), record(3, ("a", {3: 90}), ("b", {2: 10}))
    steps = [*zip([None, whole, cut, moved], [whole, cut, moved, merged], strict=True)]
    found = [[(event["what"], event["key"]) for event in changes(before, now)] for before, now in steps]
    assert found == [[], [("cut", "a")], [("moved", "a")], [("merged", "a")]]
    (event,) = changes(whole, cut)
    assert event["why"] == "1 → 3 workers; 90.0 % of the rows, 3.6 times a worker's fair share, 90.0 % before"
    assert list(changes(whole, whole)) == []
    assert [event["what"] for event in changes(record(0, ("b", {2: 10})), whole)] == ["hot"]


def test_the_time_with_key_grouping_is_that_of_the_most_loaded_home() -> None:
    spread = record(0, ("a", {0: 100, 1: 100, 2: 100, 3: 100}))
    assert spread.elapsed_ms == 1_000  # 100 rows of 10 ms each
    assert spread.by_home.max() == 400
    assert spread.key_grouping_ms == 4_000
    assert spread.latency_ms(0.5) == 1_000
    whole = record(0, ("a", {2: 400}))
    assert (whole.elapsed_ms, whole.key_grouping_ms) == (4_000, 4_000)


def test_memory_is_bounded(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skewless.observing.page.history.MOST_RECORDS", 2)
    history = History(ledger)
    history.poll()
    assert all(history.record(batch) is not None for batch in (0, 1, 2, 0))
    assert len(history._records) == 2  # noqa: SLF001
