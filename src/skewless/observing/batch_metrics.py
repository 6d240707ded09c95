"""The metrics of a micro-batch, as the observer computes them and sinks take them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from skewless import notebook


@dataclass(frozen=True, kw_only=True)
class HotKey:
    """A frequent key of a micro-batch.

    Parameters
    ----------
    key : str
        The key, as text.
    tuples : int
        Its rows.
    share : float
        Its part of all rows, from 0 to 1.
    workers : int
        Number of workers that got rows of it.
    """

    key: str
    tuples: int
    share: float
    workers: int


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The load of the workers and what it cost, in one micro-batch or several; definitions in `skewless.metrics`.

    Times are 0 if no source of a batch has recorded when it started.

    Parameters
    ----------
    tuples : int
        Rows that the workers got.
    workers : int
        Number of workers.
    loads : list of int
        Rows of each worker.
    stddev : float
        Standard deviation of the workers' load in percent.
    imbalance : float
        λ: by how many percent the largest load exceeds the mean.
    dist_cost : float
        Workers per key, on average.
    throughput : float
        Rows per second.
    elapsed_ms : int
        From the start of a batch to the end of its last worker; summed over batches.
    latency_ms : dict
        `p50`, `p95` and `p99` of the latency of a row: from the start of its batch to the end of its worker.
    busy_s : list of float
        Seconds of work of each worker.
    variance : float
        Variance of `loads`.
    state_keys : int
        Keys that have a state; of several batches, in the last.
    moved_keys : int
        Keys whose state changed its worker.
    moved : float
        `moved_keys` in percent of the keys that have a state.
    rejected : int
        Rows that were set aside.
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
    """The metrics of one micro-batch, and of all that the observer has seen up to this one.

    Parameters
    ----------
    batch : int
        Number of the batch.
    began_ms : int or None
        When it started, in milliseconds since 1970; None if no source has recorded it.
    hottest : list of HotKey
        The most frequent keys, as far as they are among the most frequent of a worker.
    remark : str
        What the grouping reports about its decisions.
    total : Metrics
        Of all batches since the observer started.
    """

    batch: int
    began_ms: int | None
    hottest: list[HotKey]
    remark: str
    total: Metrics

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"batch": self.batch, **asdict(self)}

    def _repr_html_(self) -> str:
        numbers = f"λ {self.imbalance:.1f} %, dist_cost {self.dist_cost:.2f}, {self.throughput:,.0f} rows/s"
        keys = [[hot.key, f"{hot.share:.2%}", str(hot.workers)] for hot in self.hottest]
        shown = notebook.paragraph(f"micro-batch {self.batch}: {self.tuples:,} rows, {numbers}")
        shown += notebook.loads(self.loads)
        return shown + notebook.table(["hottest keys", "share", "workers"], keys, [hot.share for hot in self.hottest])
