"""Metrics of a micro-batch, and ledgers to read them from, for tests of sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skewless.groupings import State
from skewless.observing import BatchMetrics, HotKey, Metrics
from skewless.storage.ledger import Ledger
from skewless.storage.worker_report import WorkerReport


def batch_metrics(
    *,
    batch: int = 0,
    loads: Sequence[int] = (75, 225),
    hot: str = "Türkiye",
    began_ms: int | None = 1_000,
    **other: Any,
) -> BatchMetrics:
    """Return the metrics of a batch in which one key has nearly all rows."""
    common: dict[str, Any] = {
        "workers": len(loads),
        "stddev": 25.0,
        "imbalance": 50.0,
        "dist_cost": 1.5,
        "throughput": 200.0,
        "latency_ms": {"p50": 250.0, "p95": 900.0, "p99": 1_000.0},
        "variance": 5_625.0,
        "state_keys": 40,
        "moved": 10.0,
    }
    now: dict[str, Any] = {"tuples": sum(loads), "loads": [*loads], "elapsed_ms": 1_500, "busy_s": [0.5 for _ in loads]}
    start: dict[str, Any] = {
        "tuples": 400,
        "loads": [load + 50 for load in loads],
        "elapsed_ms": 2_000,
        "busy_s": [1.5 for _ in loads],
    }
    hottest = [
        HotKey(key=hot, tuples=290, share=290 / 300, workers=2),
        HotKey(key="key 0", tuples=10, share=10 / 300, workers=1),
    ]
    parts = {"batch": batch, "began_ms": began_ms, "hottest": hottest, "remark": 'even: "a" is cut', **other}
    return BatchMetrics(
        **{**common, **now, "moved_keys": 4, "rejected": 1, **parts},
        total=Metrics(**common, **start, moved_keys=9, rejected=2),
    )


def write_batches(
    ledger: Ledger, batches: Sequence[Sequence[int]], *, first: int = 0, hot: str = "DE", silent: Sequence[int] = ()
) -> None:
    """Write batches into a ledger: the tuples of each worker, all but one of the hot key, each batch 1 s long."""
    ledger.claim({"grouping": "even", "workers": len(batches[0])})
    for batch, loads in enumerate(batches, first):
        began_ms = 1_700_000_000_000 + 1_000 * batch
        ledger.write_source(batch, 0, State(), began_ms)
        for worker, load in enumerate(loads):
            report = WorkerReport(
                worker=worker, tuples=load, keys=2, busy_s=load / 100, finished_ms=began_ms + 1_000,
                hashes=np.array([1, 10 + worker], dtype=np.uint64), top_keys=[hot, f"key {worker}"],
                top_counts=[load - 1, 1], state_keys=20, moved_keys=2, rejected=1,
            )  # fmt: skip
            if worker not in silent:
                ledger.write_worker(batch, report)
