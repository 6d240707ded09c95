"""The plan of a grouping, made by one task of the query: from the ledger in a stream, from counts in a batch job."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.errors import ConfigurationError
from skewless.groupings import Even
from skewless.groupings.base import Grouping, pass_barrier
from skewless.groupings.planned import Planned, Seen
from skewless.processors.substreams import representatives
from skewless.salting.plan import Plan
from skewless.salting.planning_task import Counter
from skewless.salting.table import Placement, table_of
from skewless.salting.units import Units
from skewless.spark.routing import Routing, micro_batch
from skewless.storage.worker_report import WorkerReport

_LEARNED_ROWS: Final = 1 << 20  # rows that a plan at hand counts as, whatever its sample was
_NAMED: Final = 32  # keys per worker that a batch job can name
_FINER: Final = 16  # times as many substreams as keys may have names: all of them

G = TypeVar("G", bound=Grouping)


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
    substreams : int
        Ranges of hashes that have one owner each and are planned as if they were keys; 0 if keys are planned. All who
        look at the plan of a micro-batch must then see the same one, so it is that which the ledger has.
    """

    routing: Routing
    learned: Plan | None = None
    substreams: int = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batch, ledger = micro_batch(), self.routing.ledger
        if batch is None:
            now_ms = time.time_ns() // 1_000_000
            seen = self._counted(batches) if self.learned is None else self._learned(self.learned)
            state = self._first_plan(seen, now_ms)
        else:
            now_ms = next(iter(batches)).column(0)[0].as_py()
            state, seen = self._continued(batch)
        if ledger is not None:
            self.routing.claim(batch)
            if batch is not None and self.substreams:
                state = ledger.agree_on_plan(batch, state, now_ms)
            else:
                ledger.write_source(batch or 0, 0, state, now_ms)
        placements = self._owners(state) if self.substreams else self.grouping.placements(state, seen, now_ms)
        yield table_of(placements, self.grouping.n_workers)

    def _owners(self, state: Any) -> Iterator[Placement]:
        for substream, owner in enumerate(owners(self.routing.grouping, state, self.substreams).tolist()):
            yield substream, (owner,), (1.0,)

    @property
    def grouping(self) -> Planned[Any]:
        """The grouping, which is one that plans."""
        grouping = self.routing.grouping
        if not isinstance(grouping, Planned):
            raise ConfigurationError(f"{grouping.name!r} decides row by row: there is nothing to plan")
        return _of_substreams(grouping) if self.substreams else grouping

    @property
    def units(self) -> Units:
        """What rows are counted by."""
        return units_of(self.grouping, self.routing.seed, self.substreams)

    def _first_plan(self, seen: Seen, now_ms: int) -> Any:
        """Return the first state: nothing is anywhere yet, so nothing is moved, however much the plan changes."""
        grouping = self.grouping
        unlimited = replace(grouping, max_moved=1.0) if isinstance(grouping, Even) else grouping
        return _planned(unlimited, grouping.first_state(0, self.routing.seed), seen, now_ms)

    def _continued(self, batch: int) -> tuple[Any, Seen]:
        """Return the state for a micro-batch, and what was seen in the one before."""
        ledger, kind = self.routing.ledger, self.grouping.state_class
        left = None if ledger is None or not batch else ledger.last_plan(
            kind, before=batch, must_agree=self.grouping.single_owner
        )  # fmt: skip
        if left is not None:
            state, now_ms, reports = left
            seen = self._reported(reports)
            return _planned(self.grouping, state, seen, now_ms, self._busy(reports)), seen
        seen = self._reported([]) if self.learned is None else self._learned(self.learned)
        return self._first_plan(seen, 0), seen

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
        return self._seen(
            hashes,
            np.bincount(groups, rows, hashes.size).astype(np.int64),
            np.sum([nothing, *(report.units for report in usable)], axis=0),
            by_worker,
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

    def _seen(self, hashes: Any, counts: Any, units: Any, by_worker: Any = None) -> Seen:
        n_workers, rows = self.grouping.n_workers, np.rint(units).astype(np.int64)
        if by_worker is None:  # nobody has got a row yet, so nobody is ahead
            by_worker = np.full(n_workers, rows.sum() / n_workers)
        if self.substreams:
            hashes, counts = representatives(self.substreams), rows
            rows = self.grouping.units(self.routing.seed).count(hashes, counts)
        return Seen(hashes=hashes, counts=counts, units=rows, by_worker=by_worker)


def units_of(grouping: Planned[Any], seed: int, substreams: int) -> Units:
    """Return what the rows of a grouping are counted by: substreams if there are any."""
    units = grouping.units(seed)
    return replace(units, n_ranges=substreams) if substreams else units


def owners(grouping: Grouping, state: Any, substreams: int) -> NDArray[np.int32]:
    """Return the worker that owns each substream, by the state with which a micro-batch was planned."""
    return _of_substreams(grouping).resume(state).route(representatives(substreams), 0)


def _of_substreams(grouping: G) -> G:
    """Return the grouping for keys that are substreams: there are few of them, so that small ones have names, too."""
    return replace(grouping, resolution=_FINER * grouping.resolution) if isinstance(grouping, Even) else grouping


def _planned(
    grouping: Planned[Any], state: Any, seen: Seen, now_ms: int, busy_s: NDArray[np.float64] | None = None
) -> Any:
    """Return the state after a batch in which this was seen."""
    if not seen.units.any():
        return state
    observed = grouping.observe(state, seen, now_ms)
    measured = seen.by_worker.astype(np.int64), np.zeros(grouping.n_workers) if busy_s is None else busy_s
    return pass_barrier(grouping, [observed], now_ms, lambda: measured)[0]
