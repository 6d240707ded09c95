"""The observer: outside the pipeline, it tails the ledger and computes metrics (DKG, 4.7)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from skewless.errors import StorageError, require_at_least
from skewless.groupings import make_grouping
from skewless.metrics import LatencyHistogram, imbalance, stddev, throughput, variance
from skewless.metrics.latency import bucket_of
from skewless.observing.batch_metrics import BatchMetrics, HotKey, Metrics
from skewless.observing.key_sample import KeySample, dist_cost
from skewless.storage.ledger import Ledger
from skewless.storage.worker_report import WorkerReport

SETTLE_S: Final = 30.0
"""Seconds without a new report after which the last batch counts as complete."""
HOTTEST: Final = 10
"""Most keys that a batch's metrics name."""

_LONGEST_NS: Final = 2**63 - 1

_log: Final = logging.getLogger(__name__)


class _Tally:
    """Sums over one batch or many, in constant memory."""

    def __init__(self, n_workers: int) -> None:
        self.loads = np.zeros(n_workers, dtype=np.int64)
        self.busy_s = np.zeros(n_workers)
        self.samples = [KeySample()] * n_workers
        self.latency = LatencyHistogram()
        self.timed_tuples = 0
        self.elapsed_ms = 0
        self.state_keys = 0
        self.moved_keys = 0
        self.held_keys = 0
        self.rejected = 0

    def add(self, reports: Sequence[WorkerReport], clock: int | None) -> None:
        for report in reports:
            self.loads[report.worker] += report.tuples
            self.busy_s[report.worker] += report.busy_s
            self.samples[report.worker] = self.samples[report.worker].merge(KeySample.of(report))
        self.state_keys = sum(report.state_keys for report in reports)
        self.held_keys += self.state_keys
        self.moved_keys += sum(report.moved_keys for report in reports)
        self.rejected += sum(report.rejected for report in reports)
        if clock is None or not reports:
            return
        # Clocks of two machines differ a little: nothing ends before it starts.
        times = [max(0, report.finished_ms - clock) for report in reports]
        for report, time_ms in zip(reports, times, strict=True):
            self.latency.buckets[bucket_of.py_func(min(time_ms * 1_000_000, _LONGEST_NS))] += report.tuples
        self.timed_tuples += sum(report.tuples for report in reports)
        self.elapsed_ms += max(times)

    def metrics(self) -> dict[str, Any]:
        quantiles = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        return {
            "tuples": int(self.loads.sum()),
            "workers": self.loads.size,
            "loads": self.loads.tolist(),
            "stddev": stddev(self.loads),
            "imbalance": imbalance(self.loads),
            "dist_cost": dist_cost(self.samples),
            "throughput": throughput(self.timed_tuples, self.elapsed_ms),
            "elapsed_ms": self.elapsed_ms,
            "latency_ms": {name: self.latency.quantile_ms(share) for name, share in quantiles},
            "busy_s": self.busy_s.tolist(),
            "variance": variance(self.loads),
            "state_keys": self.state_keys,
            "moved_keys": self.moved_keys,
            "moved": 100 * self.moved_keys / self.held_keys if self.held_keys else 0.0,
            "rejected": self.rejected,
        }


class Observer:
    """Reads each batch of a ledger once, as soon as it is complete, and keeps totals.

    Parameters
    ----------
    ledger : Ledger
        The ledger of a running or finished query.
    workers : int, optional
        Number of workers; by default what the ledger says. A worker without a report had no rows.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     Observer(Ledger(uri=directory), workers=4).poll(now_s=0)
    []
    """

    def __init__(self, ledger: Ledger, workers: int | None = None) -> None:
        self.ledger = ledger
        self.n_workers = _workers_of(ledger) if workers is None else workers
        require_at_least("workers", self.n_workers, 1)
        self._total = _Tally(self.n_workers)
        self._seen = -1
        self._waiting: tuple[int, list[int]] = (-1, [])
        self._since_s = 0.0

    def _repr_html_(self) -> str:
        """Return the charts of the ledger, which a notebook shows."""
        from skewless.observing.notebook import Snapshot  # noqa: PLC0415 - few observers are shown

        return Snapshot(self.ledger).html()

    def poll(self, now_s: float, settle_s: float = SETTLE_S) -> list[BatchMetrics]:
        """Return the metrics of the batches that have become complete since the last call, in order.

        A batch is complete when a later one exists, when all workers have reported, or when no report has come for
        some time. Reports that come later are not counted.

        Parameters
        ----------
        now_s : float
            The time in seconds, of any monotonic clock.
        settle_s : float
            Seconds without a new report after which the last batch counts as complete.
        """
        batches = self.ledger.batches()
        if batches and batches[-1] < self._seen:  # the directory was deleted, and the query started again
            self._seen, self._total = -1, _Tally(self.n_workers)
        new = [batch for batch in batches if batch > self._seen]
        if new and not self._is_complete(new[-1], now_s, settle_s):
            del new[-1]
        return [metrics for metrics in map(self._observe, new) if metrics is not None]

    def _is_complete(self, batch: int, now_s: float, settle_s: float) -> bool:
        workers = self.ledger.workers(batch)
        if (batch, workers) != self._waiting:
            self._waiting, self._since_s = (batch, workers), now_s
        return len(workers) >= self.n_workers or (bool(workers) and now_s - self._since_s >= settle_s)

    def _observe(self, batch: int) -> BatchMetrics | None:
        self._seen = batch
        clock = self.ledger.clock(batch)
        found = self.ledger.read_workers(batch)
        reports = [report for report in found if report.worker < self.n_workers]
        if len(reports) < len(found):
            _log.warning("batch %d has reports of more than %d workers; ignoring those", batch, self.n_workers)
        if clock is None and not reports:
            return None  # removed in the meantime
        tally = _Tally(self.n_workers)
        tally.add(reports, clock)
        self._total.add(reports, clock)
        return BatchMetrics(
            **tally.metrics(),
            batch=batch,
            began_ms=clock,
            hottest=_hottest(reports),
            remark=self._remark(batch),
            total=Metrics(**self._total.metrics()),
        )

    def _remark(self, batch: int) -> str:
        """Return what the grouping of the query reports about its decisions."""
        owner = self.ledger.owner() or {}
        try:
            grouping = make_grouping(owner["grouping"], workers=self.n_workers, **owner["parameters"])
            states, _ = self.ledger.last_sources(grouping.state_class, before=batch + 1)
            return grouping.remark(next(iter(states.values())))
        except (LookupError, TypeError, ValueError, StopIteration) as error:
            _log.debug("batch %d: no remark of the grouping: %s", batch, error)
            return ""


def _hottest(reports: Sequence[WorkerReport]) -> list[HotKey]:
    tuples, workers = Counter[str](), Counter[str]()
    for report in reports:
        workers.update(set(report.top_keys))
        for key, count in zip(report.top_keys, report.top_counts, strict=True):
            tuples[key] += count
    total = max(1, sum(report.tuples for report in reports))
    ranked = sorted(tuples, key=lambda key: (-tuples[key], key))[:HOTTEST]
    return [HotKey(key=key, tuples=tuples[key], share=tuples[key] / total, workers=workers[key]) for key in ranked]


def _workers_of(ledger: Ledger) -> int:
    owner = ledger.owner()
    if owner is None:
        raise StorageError(
            f"no ledger at {ledger.uri}", subject="ledger", hint="use the directory that the query has as its ledger"
        )
    workers = owner.get("workers")
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise StorageError(
            f"the ledger {ledger.uri} does not say how many workers there are; it has workers={workers!r}",
            subject="ledger",
        )
    return workers
