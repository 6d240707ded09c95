"""The observer: outside the pipeline, it tails the ledger and computes the metrics (DKG, 4.7)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import SkewlessError, require_at_least
from skewless.groupings import make_grouping
from skewless.metrics import LatencyHistogram, imbalance, stddev, throughput, variance
from skewless.metrics.latency import bucket_of
from skewless.storage.ledger import Ledger
from skewless.storage.worker_report import SAMPLE, WorkerReport, sample_hashes

SETTLE_S: Final = 30.0
"""Seconds without a new report after which the last batch counts as complete."""
HOTTEST: Final = 10
"""Keys that a batch's metrics name at most."""

_EVERY_HASH: Final = np.uint64(2**64 - 1)
_LONGEST_NS: Final = 2**63 - 1

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The load of the workers and what it cost; definitions in `skewless.metrics`.

    Latency is a worker's end minus the batch's beginning, for each of its tuples. Times are 0 where no source of a
    batch tells when it began. `state_keys` are the keys with a state, of the last batch where there are several;
    `moved_keys` those whose state changed its worker, and `moved` how many percent of all that is per batch.
    `elapsed_ms` is the time from a batch's beginning to the end of its last worker, summed where there are several.
    """

    tuples: int
    workers: int
    loads: list[int]
    stddev: float
    imbalance: float
    dist_cost: float
    throughput: float
    elapsed_ms: int
    latency_ms: dict[str, float]
    busy_s: list[float]
    variance: float
    state_keys: int
    moved_keys: int
    moved: float
    rejected: int


@dataclass(frozen=True, kw_only=True)
class BatchMetrics(Metrics):
    """The metrics of one batch, and of all batches that the observer has seen up to this one.

    hottest: key, tuples, share and number of workers of the most frequent keys, as far as they are among the most
    frequent of a worker
    remark: what the grouping says it has decided
    began_ms: the batch's clock, in milliseconds since 1970; None if no source tells it
    """

    batch: int
    began_ms: int | None
    hottest: list[dict[str, Any]]
    remark: str
    total: Metrics

    def as_dict(self) -> dict[str, Any]:
        """Give plain values, for JSON."""
        return {"batch": self.batch, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class KeySample:
    """All keys of a worker whose hashes are at most `limit`: which keys these are depends on their hashes alone."""

    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    limit: np.uint64 = _EVERY_HASH

    @classmethod
    def of(cls, report: WorkerReport) -> KeySample:
        """Take the sample out of a report: complete if the worker had few keys."""
        return cls(hashes=report.hashes, limit=report.hashes.max() if report.keys > SAMPLE else _EVERY_HASH)

    def merge(self, other: KeySample) -> KeySample:
        """Make one sample of two, again of bounded size."""
        limit = min(self.limit, other.limit)
        both = np.concatenate([self.hashes, other.hashes])
        kept = np.unique(both[both <= limit])
        return KeySample(hashes=sample_hashes(kept), limit=kept[SAMPLE - 1] if kept.size > SAMPLE else limit)


def dist_cost(samples: Sequence[KeySample]) -> float:
    """Estimate (key, worker) pairs per key from one sample per worker; exact if all are complete (DKG eq. 8).

    >>> a, b = (KeySample(hashes=np.array(keys, dtype=np.uint64)) for keys in ([1, 2, 3], [3]))
    >>> round(dist_cost([a, b]), 2)
    1.33
    """
    limit = min((sample.limit for sample in samples), default=_EVERY_HASH)
    within = [np.unique(sample.hashes[sample.hashes <= limit]) for sample in samples]
    n_keys = np.unique(np.concatenate(within)).size if within else 0
    return sum(hashes.size for hashes in within) / n_keys if n_keys else 1.0


class _Tally:
    """Sums over one batch or many, in memory that does not grow with their number."""

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
        # Clocks of two machines differ a little: nothing ends before it began.
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
    """Reads each batch of a ledger once, as soon as it is complete, and keeps totals since it started.

    Parameters
    ----------
    ledger: the ledger of a running or a finished query
    workers: how many workers it has; by default what the ledger says. A worker without a report had no tuples

    """

    def __init__(self, ledger: Ledger, workers: int | None = None) -> None:
        self.ledger = ledger
        self.n_workers = _workers_of(ledger) if workers is None else workers
        require_at_least("workers", self.n_workers, 1)
        self._total = _Tally(self.n_workers)
        self._seen = -1
        self._waiting: tuple[int, list[int]] = (-1, [])
        self._since_s = 0.0

    def poll(self, now_s: float, settle_s: float = SETTLE_S) -> list[BatchMetrics]:
        """Give the metrics of the batches that have become complete since the last call, in their order.

        A batch is complete when a later one exists, when all workers have reported, or when no report has come for
        `settle_s` seconds. `now_s` is any clock that does not go back. Reports that come later still are not counted.
        """
        batches = self.ledger.batches()
        if batches and batches[-1] < self._seen:  # deleted and begun anew
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
            _log.warning("batch %d has reports of workers beyond the %d there are", batch, self.n_workers)
        if clock is None and not reports:
            return None  # removed while we looked
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
        """Let the grouping speak that the ledger was claimed for."""
        owner, (states, _) = self.ledger.owner() or {}, self.ledger.last_sources(before=batch + 1)
        try:
            grouping = make_grouping(owner["grouping"], workers=self.n_workers, **owner["parameters"])
            return grouping.remark(next(iter(states.values())))
        except (LookupError, TypeError, ValueError, StopIteration) as error:
            _log.debug("batch %d: the grouping has nothing to say: %s", batch, error)
            return ""


def _hottest(reports: Sequence[WorkerReport]) -> list[dict[str, Any]]:
    tuples, workers = Counter[str](), Counter[str]()
    for report in reports:
        workers.update(set(report.top_keys))
        for key, count in zip(report.top_keys, report.top_counts, strict=True):
            tuples[key] += count
    total = max(1, sum(report.tuples for report in reports))
    ranked = sorted(tuples, key=lambda key: (-tuples[key], key))[:HOTTEST]
    return [
        {"key": key, "tuples": tuples[key], "share": tuples[key] / total, "workers": workers[key]} for key in ranked
    ]


def _workers_of(ledger: Ledger) -> int:
    owner = ledger.owner()
    if owner is None:
        raise SkewlessError(f"no ledger at {ledger.uri}: give the directory that the query got as its ledger")
    workers = owner.get("workers")
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise SkewlessError(
            f"the ledger {ledger.uri} does not say how many workers there are; it has workers={workers!r}"
        )
    return workers
