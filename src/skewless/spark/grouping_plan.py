"""The plan of a grouping, made by one task of the query: from the ledger in a stream, from counts in a batch job."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.errors import ConfigurationError
from skewless.groupings.base import pass_barrier
from skewless.groupings.planned import Planned, Seen, Units
from skewless.salting.plan import Plan
from skewless.salting.planning_task import Counter
from skewless.salting.table import table_of
from skewless.spark.route import Routing, micro_batch
from skewless.storage.worker_report import WorkerReport

_LEARNED_ROWS: Final = 1 << 20  # rows that a plan at hand counts as, whatever its sample was
_NAMED: Final = 32  # keys per worker that a batch job can name


@dataclass(frozen=True, kw_only=True)
class GroupingPlan:
    """The planning task; sent to the executors and called there with Arrow batches.

    In a stream there is one row, the clock of the micro-batch. The task takes the state with which the last
    micro-batch was planned and what its workers reported, passes the barrier, and writes the new state: it depends on
    the ledger alone, so a replayed micro-batch has the same plan. In a batch job the rows are hashes of keys, with
    their counts if these are all.

    Parameters
    ----------
    routing : Routing
        The grouping, the ledger, the seed.
    learned : Plan, optional
        What a first micro-batch, or a batch job, starts from.
    """

    routing: Routing
    learned: Plan | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batch, ledger = micro_batch(), self.routing.ledger
        if batch is None:
            now_ms = time.time_ns() // 1_000_000
            seen = self._counted(batches) if self.learned is None else self._learned(self.learned)
            state = self._planned(self._first_state(), seen, now_ms)
        else:
            now_ms = next(iter(batches)).column(0)[0].as_py()
            state, seen = self._continued(batch)
        if ledger is not None:
            self.routing.claim(batch)
            ledger.write_source(batch or 0, 0, state, now_ms)
        placements = self.grouping.placements(state, seen, now_ms)
        yield table_of(placements, self.grouping.n_workers)

    @property
    def grouping(self) -> Planned[Any]:
        """The grouping, which is one that plans."""
        grouping = self.routing.grouping
        if not isinstance(grouping, Planned):
            raise ConfigurationError(f"{grouping.name!r} decides row by row: there is nothing to plan")
        return grouping

    @property
    def units(self) -> Units:
        """What rows are counted by."""
        return self.grouping.units(self.routing.seed)

    def _first_state(self) -> Any:
        return self.grouping.first_state(0, self.routing.seed)

    def _planned(self, state: Any, seen: Seen, now_ms: int, busy_s: NDArray[np.float64] | None = None) -> Any:
        """Return the state after a batch in which this was seen."""
        if not seen.units.any():
            return state
        observed = self.grouping.observe(state, seen, now_ms)
        idle = np.zeros(self.grouping.n_workers)
        measured = seen.by_worker.astype(np.int64), idle if busy_s is None else busy_s
        return pass_barrier(self.grouping, [observed], now_ms, lambda: measured)[0]

    def _continued(self, batch: int) -> tuple[Any, Seen]:
        """Return the state for a micro-batch, and what was seen in the one before."""
        ledger, kind = self.routing.ledger, self.grouping.state_class
        left = None if ledger is None or not batch else ledger.last_plan(
            kind, before=batch, must_agree=self.grouping.single_owner
        )  # fmt: skip
        if left is not None:
            state, now_ms, reports = left
            seen = self._reported(reports)
            return self._planned(state, seen, now_ms, self._busy(reports)), seen
        seen = self._reported([]) if self.learned is None else self._learned(self.learned)
        return self._planned(self._first_state(), seen, 0), seen

    def _busy(self, reports: Sequence[WorkerReport]) -> NDArray[np.float64]:
        busy_s = np.zeros(self.grouping.n_workers)
        for report in reports:
            if report.worker < busy_s.size:
                busy_s[report.worker] = report.busy_s
        return busy_s

    def _reported(self, reports: Sequence[WorkerReport]) -> Seen:
        """Combine what workers reported; reports of another layout count as missing."""
        units, n_workers = self.units, self.grouping.n_workers
        nothing = units.count(np.empty(0, np.uint64), np.empty(0, np.int64))
        usable = [report for report in reports if report.units.size == nothing.size and report.worker < n_workers]
        by_worker = np.zeros(n_workers, np.int64)
        for report in usable:
            by_worker[report.worker] = report.tuples
        hashes, groups = np.unique(
            np.concatenate([np.empty(0, np.uint64), *(report.large_hashes for report in usable)]), return_inverse=True
        )
        rows = np.concatenate([np.empty(0, np.int64), *(report.large_rows for report in usable)])
        return Seen(
            hashes=hashes,
            counts=np.bincount(groups, rows, hashes.size).astype(np.int64),
            units=np.sum([nothing, *(report.units for report in usable)], axis=0),
            by_worker=by_worker,
        )

    def _counted(self, batches: Iterator[pa.RecordBatch]) -> Seen:
        """Count the sampled rows of a batch job."""
        counter = Counter(self.units.count)
        for batch in batches:
            counter.add(batch)
        return self._seen(*counter.largest(_NAMED * self.grouping.n_workers), counter.totals())

    def _learned(self, plan: Plan) -> Seen:
        """Return what a plan at hand knows of the keys."""
        units = self.units
        hashes, known = plan.known(units.n_workers, units.salt)
        scale = min(1.0, _LEARNED_ROWS / max(plan.rows, 1.0))
        counts = np.rint(known.loads * scale).astype(np.int64)
        if not units.n_ranges:
            return self._seen(hashes, counts, known.totals * scale)
        others = np.full(units.n_ranges, max(0.0, plan.rows * scale - counts.sum()) / units.n_ranges)
        return self._seen(hashes, counts, others + units.count(hashes, counts))

    def _seen(self, hashes: Any, counts: Any, units: Any) -> Seen:
        n_workers, rows = self.grouping.n_workers, np.rint(units).astype(np.int64)
        # Nobody has got a row yet, so nobody is ahead.
        return Seen(hashes=hashes, counts=counts, units=rows, by_worker=np.full(n_workers, rows.sum() / n_workers))
