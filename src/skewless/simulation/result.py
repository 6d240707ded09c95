"""The result of a simulation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from skewless import notebook
from skewless.simulation.keyed_state import StateResult


@dataclass(frozen=True)
class Result:
    """The result of a simulation. All but `routing_mtps` is the same in every run with the same seed.

    Parameters
    ----------
    grouping, stream : str
        What was simulated.
    tuples, workers, sources, seed : int
        With which numbers.
    stddev : float
        Standard deviation of the workers' load in percent.
    imbalance : float
        λ: by how many percent the largest load exceeds the mean.
    sigma : float
        Standard deviation of the workers' load in tuples.
    dist_cost : float
        Workers per key, on average.
    states : int
        (key, worker) pairs.
    throughput : float
        Tuples per second of virtual time.
    latency_ms : dict
        `p50`, `p95`, `p99`, `mean` and `max` of the time from arrival to completion.
    load : list of int
        Tuples of each worker.
    routing_mtps : float
        Measured speed of the routing itself, in millions of tuples per second.
    remark : str
        What the grouping reports about its decisions.
    state : StateResult, optional
        If keys have state.
    waited_s : list of float, optional
        If queues are bounded: the virtual seconds for which each source waited for room in one.
    partials : int, optional
        If merging costs something: the partial results that were merged.
    """

    grouping: str
    stream: str
    tuples: int
    workers: int
    sources: int
    seed: int
    stddev: float
    imbalance: float
    sigma: float
    dist_cost: float
    states: int
    throughput: float
    latency_ms: dict[str, float]
    load: list[int]
    routing_mtps: float
    remark: str = ""
    state: StateResult | None = None
    waited_s: list[float] | None = None
    partials: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; without those that there are none of."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def _repr_html_(self) -> str:
        heads = ["grouping", "stddev", "λ %", "dist_cost", "tuples/s", "p50 ms", "p99 ms"]
        numbers = [f"{self.stddev:.3f}", f"{self.imbalance:.1f}", f"{self.dist_cost:.2f}", f"{self.throughput:,.0f}"]
        row = [self.grouping, *numbers, *(f"{self.latency_ms[at]:,.1f}" for at in ("p50", "p99"))]
        data = notebook.paragraph(f"{self.stream}: {self.tuples:,} tuples on {self.workers} workers")
        return data + notebook.table(heads, [row]) + notebook.loads(self.load, "tuples")
