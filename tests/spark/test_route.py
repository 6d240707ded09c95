"""How a source begins a micro-batch, from what lies in the ledger; no Spark needed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skewless import DistributionAware, Even, Grouping, Key, SkewlessError
from skewless.groupings import State
from skewless.spark.route import begin
from skewless.spark.routing import has_retry_guards, require_retry_guards
from skewless.storage.batch_directory import BatchDirectory
from skewless.storage.ledger import Ledger
from skewless.storage.worker_report import WorkerReport

pytest.importorskip("pyspark")

WORKERS = 4
KEYS = np.random.default_rng(0).integers(0, 2**64, size=40_000, dtype=np.uint64)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(uri=str(tmp_path / "ledger"))


def run_batch(ledger: Ledger, grouping: Grouping, batch: int, seconds_per_tuple: list[float]) -> list[int]:
    """Route a batch on two sources and report on it as workers of these speeds would; gives the load of each."""
    loads = np.zeros(WORKERS, dtype=np.int64)
    for source in (0, 1):
        router = begin(grouping, ledger, 0, batch, source)
        loads += np.bincount(router.route(KEYS[source::2], 1000 * batch), minlength=WORKERS)
        ledger.write_source(batch, source, router.snapshot(), 1000 * batch)
    for worker, load in enumerate(loads.tolist()):
        report = WorkerReport(
            worker=worker, tuples=load, keys=0, busy_s=load * seconds_per_tuple[worker], finished_ms=0,
            hashes=np.empty(0, dtype=np.uint64), top_keys=[], top_counts=[],
        )  # fmt: skip
        ledger.write_worker(batch, report)
    return loads.tolist()


def test_busy_times_of_the_ledger_decide_who_gets_how_much(ledger: Ledger) -> None:
    grouping = Even(workers=WORKERS, measure_capacities=True, max_moved=1.0)
    for batch in range(6):
        loads = run_batch(ledger, grouping, batch, [0.004, 0.001, 0.001, 0.001])
    shares = np.array(loads) / KEYS.size
    assert shares == pytest.approx([1 / 13, 4 / 13, 4 / 13, 4 / 13], abs=0.02)


def test_without_measuring_they_do_not(ledger: Ledger) -> None:
    for batch in range(3):
        loads = run_batch(ledger, Even(workers=WORKERS), batch, [0.004, 0.001, 0.001, 0.001])
    assert np.array(loads) / KEYS.size == pytest.approx([0.25] * WORKERS, abs=0.02)


@pytest.fixture
def unreachable(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let every attempt to read a state fail; gives the names of the files that were tried."""
    for source in (0, 1):
        ledger.write_source(0, source, Even(workers=WORKERS).start(source, 0).snapshot(), 0)
    tried: list[str] = []

    def read(_: BatchDirectory, path: str) -> bytes:
        tried.append(path)
        raise OSError("the store does not answer")

    monkeypatch.setattr(BatchDirectory, "read", read)
    monkeypatch.setattr("skewless.storage.batch_directory.sleep", lambda _: None)
    return tried


def test_single_owners_rather_fail_than_disagree(ledger: Ledger, unreachable: list[str]) -> None:
    for grouping in (Even(workers=WORKERS, single_owner=True), DistributionAware(workers=WORKERS)):
        unreachable.clear()
        with pytest.raises(SkewlessError, match=r"batch 0: the store does not answer"):
            begin(grouping, ledger, 0, 1, 0)
        assert len(unreachable) == 4  # it was patient


def test_all_others_begin_anew(ledger: Ledger, unreachable: list[str]) -> None:
    router = begin(Even(workers=WORKERS), ledger, 0, 1, 0)
    assert router.snapshot().forecast.batches == 0
    assert len(unreachable) == 1


def test_a_store_that_answers_again_costs_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    grouping = Even(workers=WORKERS, single_owner=True)
    run_batch(ledger, grouping, 0, [0.001] * WORKERS)
    failures = [OSError("busy"), OSError("busy")]
    read = BatchDirectory.read

    def sometimes(self: BatchDirectory, path: str) -> bytes:
        if failures:
            raise failures.pop()
        return read(self, path)

    monkeypatch.setattr(BatchDirectory, "read", sometimes)
    monkeypatch.setattr("skewless.storage.batch_directory.sleep", lambda _: None)
    assert begin(grouping, ledger, 0, 1, 0).snapshot().forecast.batches == 1


def test_what_is_broken_is_broken_for_all(ledger: Ledger) -> None:
    grouping = Even(workers=WORKERS, single_owner=True)
    for batch in (0, 1):
        run_batch(ledger, grouping, batch, [0.001] * WORKERS)
    broken = Path(ledger.uri) / f"{1:012d}" / "source-1.npz"
    broken.write_bytes(broken.read_bytes()[:50])
    routers = [begin(grouping, ledger, 0, 2, source) for source in (0, 1, 2)]
    first, *others = [router.route(KEYS, 2000) for router in routers]
    assert all(np.array_equal(first, other) for other in others)
    assert {router.snapshot().forecast.batches for router in routers} == {1}


@pytest.mark.parametrize(
    ("version", "by_default", "settings", "expected"),
    [
        ("4.3.0", "true", {}, True),
        ("4.3.0", "true", {"enabled": "false"}, False),
        ("4.10.1", "true", {"enableFullRetryOnMismatch": "false"}, False),
        ("4.1.0", "false", {}, False),
        ("4.1.0", "false", {"enabled": "true"}, False),
        ("4.1.0", "false", {"enabled": "true", "enableFullRetryOnMismatch": "true"}, True),
        ("4.0.1", None, {}, False),
        ("3.5.7-amzn-1", None, {"enabled": "true", "enableFullRetryOnMismatch": "true"}, False),  # set, and unknown
    ],
)
def test_a_guard_that_nobody_has_set_is_what_spark_has_it_by_default(
    version: str, by_default: str | None, settings: dict[str, str], expected: bool
) -> None:
    names = dict.fromkeys(("enabled", "enableFullRetryOnMismatch"), by_default) | settings
    found = {f"spark.sql.shuffle.orderIndependentChecksum.{name}": value for name, value in names.items()}
    session: Any = SimpleNamespace(version=version, conf=found)
    assert has_retry_guards(session) == expected
    if not expected:
        with pytest.raises(SkewlessError, match=r"a retried task could|no guards against retried tasks") as refused:
            require_retry_guards(session)
        assert "default since" not in str(refused.value)


def test_work_is_that_of_the_last_batch_with_reports(ledger: Ledger) -> None:
    run_batch(ledger, Key(workers=WORKERS), 0, [0.5] * WORKERS)
    ledger.write_source(1, 0, State(), 1000)
    tuples, busy_s = ledger.last_work(2, WORKERS)
    assert tuples.sum() == KEYS.size
    assert busy_s == pytest.approx(tuples / 2)
    assert [values.tolist() for values in ledger.last_work(0, 2)] == [[0, 0], [0.0, 0.0]]
    assert ledger.last_work(2, 2)[0].tolist() == tuples[:2].tolist()
