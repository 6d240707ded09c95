"""Stateful work: each key's rows in their order, with a state that follows the key from worker to worker.

The unit that moves is a substream, a hash range of keys with the states of all of them. Owners are decided between two
micro-batches: by the planning task, which writes its plan to the ledger, where workers read it. For a grouping that
decides row by row every task computes them alone from the ledger, and all agree. The new owner reads the state where
the old one wrote it (see `state_store`): nothing is handed over, and no row waits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext

from skewless.errors import ConfigurationError, QueryError, StorageError
from skewless.groupings import GROUPINGS, Grouping
from skewless.groupings.planned import Planned
from skewless.processors.processing import END, HASH, Processed, Processing, Reject
from skewless.processors.substreams import substreams_of
from skewless.spark.grouping_plan import owners, units_of
from skewless.spark.merge import conform
from skewless.spark.route import begin
from skewless.spark.routing import micro_batch
from skewless.spark.work import Cost, make_report
from skewless.storage.batch_directory import BatchDirectory
from skewless.storage.ledger import Ledger
from skewless.storage.state_store import KEEP, Before, Manifest, Place, StateStore

ARRIVAL: Final = "skewless_arrival"
CLOCK: Final = "skewless_clock"
PARTITION: Final = "skewless_partition"

_ADDED: Final = (ARRIVAL, HASH, CLOCK, PARTITION)
_QUERY: Final = "sql.streaming.queryId"
_PER_WORKER: Final = 32


def substreams_for(grouping: Grouping) -> int:
    """Return the number of substreams: that of the grouping, or enough for an even spread."""
    return int(getattr(grouping, "n_substreams", _PER_WORKER * grouping.n_workers))


def require_single_owner(grouping: Grouping) -> None:
    """Refuse a grouping that splits keys, and name those that do not."""
    if not grouping.single_owner:
        known = [name for name, kind in GROUPINGS.items() if not kind.baseline and kind(workers=1).single_owner]
        raise ConfigurationError(
            f"stateful needs one owner per key, but {grouping.name!r} cuts keys",
            subject="grouping",
            hint=f"use Even(single_owner=True), or one of {', '.join(known)}",
        )


@dataclass(frozen=True, kw_only=True)
class EventTime:
    """Event time: the clock is the latest time of any row before this batch, less `delay_ms`."""

    column: str
    delay_ms: int


@dataclass(frozen=True, kw_only=True)
class StatefulWork:
    """The work on one worker's rows; sent to the executors and called there with Arrow batches.

    A batch has the columns that the processor sees, under other names, then arrival, hash, clock, and the identities of
    keys whose values do not identify them. Without a `store` it is a batch job: there is no earlier state, and
    everything expires at the end.
    """

    processing: Processing
    grouping: Grouping
    n_substreams: int
    seed: int
    order_by: str | None = None
    event_time: EventTime | None = None
    cost: Cost | None = None
    ledger: Ledger | None = None
    store: StateStore | None = None
    rejects: BatchDirectory | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "work runs in a Spark task"  # noqa: S101 - PySpark's type allows None
        batch, rows = micro_batch(), self._collect(batches)
        worker = self._worker(rows, context.partitionId())
        if self.store is None:
            output = self._run_once(rows, worker)
        elif batch is None:  # as if it were a batch job, every micro-batch would begin without a state
            raise QueryError(
                "the result of stateful is asked for outside of its stream, where no micro-batch is known: Spark "
                "Connect does so in foreachBatch",
                hint="write the stream to a sink of Spark's own, such as parquet or kafka, and go on from there",
            )
        else:
            query = str(context.getLocalProperty(_QUERY))
            output = _MicroBatch(work=self, store=self.store, worker=worker, batch=batch, query=query).run(rows)
        yield from output.to_batches()

    def _worker(self, rows: pa.Table, task: int) -> int:
        """Return the worker that got these rows: not the task's number, if the task does the work of several."""
        worker = int(rows[PARTITION][0].as_py()) if rows.num_rows else task
        if worker != task and self.store is not None:
            raise ConfigurationError(
                f"task {task} does the work of worker {worker}: the result of stateful was coalesced",
                hint="use repartition in place of coalesce",
            )
        return worker

    def _collect(self, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        """Return all rows in their order, with hashes as routers know them."""
        added = [pa.field(name, pa.int64()) for name in _ADDED]
        schema = pa.schema([*self.processing.row_schema, *added, *self.processing.identities])
        rows = pa.Table.from_batches([conform(batch, schema) for batch in batches], schema)
        hashes = pa.array(rows[HASH].to_numpy().view(np.uint64))
        rows = rows.set_column(rows.schema.get_field_index(HASH), HASH, hashes)
        own = [] if self.order_by is None else [(self.order_by, "ascending")]
        return rows.sort_by([*own, (ARRIVAL, "ascending")])

    def _run_once(self, rows: pa.Table, worker: int) -> pa.Table:
        """Process the rows of a batch job, then expire everything."""
        start, arrived = time.perf_counter(), rows
        rows, rejects = self.without_late(rows, None)
        clock = rows[CLOCK][0].as_py() if rows.num_rows and self.event_time is None else 0
        done = self.process(rows, self.processing.state_schema.empty_table(), clock)
        ended = self.processing.run(rows.slice(0, 0), done.states, END)
        rejects += done.rejects + ended.rejects
        self.set_aside(rejects, 0, worker)
        self.report(arrived, 0, worker, time.perf_counter() - start, rejected=len(rejects))
        return pa.concat_tables([done.output, ended.output])

    def process(self, rows: pa.Table, states: pa.Table, now_ms: int) -> Processed:
        """Run the processor, and pay the simulated cost of the rows."""
        if self.cost is not None:
            self.cost.pay(rows.num_rows)
        return self.processing.run(rows, states, now_ms)

    def without_late(self, rows: pa.Table, now_ms: int | None) -> tuple[pa.Table, list[Reject]]:
        """Separate the rows whose event time is missing or has passed, where there is event time."""
        if self.event_time is None:
            return rows, []
        times = _millis(rows[self.event_time.column])
        in_time = pc.is_valid(times) if now_ms is None else pc.greater_equal(times, now_ms).fill_null(False)
        late = rows.filter(pc.invert(in_time))
        error = f"its time in {self.event_time.column!r} is missing, or before the watermark of {now_ms}"
        columns = self.processing.row_schema.names
        keys = late.select(list(self.processing.keys)).to_pylist()
        rejects = [
            Reject(key=tuple(key.values()), row=row, error=error)
            for key, row in zip(keys, late.select(columns).to_pylist(), strict=True)
        ]
        return rows.filter(in_time), rejects

    def set_aside(self, rejects: Sequence[Reject], batch: int, worker: int) -> None:
        """Write rejects as lines of JSON, over those of an earlier attempt."""
        if self.rejects is None:
            return
        name = f"batch-{batch:012d}-worker-{worker}.jsonl"
        if rejects or _exists(self.rejects, name):
            lines = (json.dumps(_plain(asdict(reject)), default=str, ensure_ascii=False) for reject in rejects)
            self.rejects.write(name, "".join(f"{line}\n" for line in lines).encode(), durable=True)

    def report(self, arrived: pa.Table, batch: int, worker: int, busy_s: float, **more: int) -> None:
        """Write the worker's report to the ledger, if there is one."""
        if self.ledger is None:
            return
        hashes, first, tuples = np.unique(arrived[HASH].to_numpy(), return_index=True, return_counts=True)
        keys = arrived.select(list(self.processing.keys)).take(pa.array(first))
        grouping = self.grouping
        units = units_of(grouping, self.seed, self.n_substreams) if isinstance(grouping, Planned) else None
        self.ledger.write_worker(batch, make_report(worker, keys, tuples, hashes, busy_s, units, **more))

    def owned_by(self, worker: int, batch: int) -> NDArray[np.int64]:
        """Return the substreams that a worker owns in a batch, by the plan that its rows followed."""
        if isinstance(self.grouping, Planned) and self.ledger is not None:
            state = self.ledger.plan_of(batch, self.grouping.state_class)
        else:
            state = begin(self.grouping, self.ledger, self.seed, batch, 0).snapshot()
        return np.flatnonzero(owners(self.grouping, state, self.n_substreams) == worker)


@dataclass(frozen=True, kw_only=True)
class _MicroBatch:
    """One worker in one micro-batch of a stream."""

    work: StatefulWork
    store: StateStore
    worker: int
    batch: int
    query: str

    def run(self, arrived: pa.Table) -> pa.Table:
        start = time.perf_counter()
        work, store = self.work, self.store
        before = store.before(self.batch, self.query, work.n_substreams, has_begun=self._has_begun)
        now_ms = self._clock(arrived, before)
        rows, late = work.without_late(arrived, now_ms)
        substreams = substreams_of(rows[HASH].to_numpy(), work.n_substreams)
        held = self._held(before, substreams)
        touched = self._touched(held, substreams, now_ms)
        done = work.process(rows, store.read(touched.values()), now_ms or 0)
        places = {substream: place for substream, place in held.items() if substream not in touched}
        places |= store.write(self.batch, self.worker, _by_substream(done.states, work.n_substreams))
        rejects = late + done.rejects
        work.set_aside(rejects, self.batch, self.worker)
        latest_ms = self._latest(arrived, before)
        manifest = Manifest(
            query=self.query,
            workers=work.grouping.n_workers,
            substreams=work.n_substreams,
            latest_ms=latest_ms,
            places=places,
        )
        store.commit(self.batch, self.worker, manifest)
        work.report(
            arrived,
            self.batch,
            self.worker,
            time.perf_counter() - start,
            state_keys=sum(place.keys for place in places.values()),
            moved_keys=sum(place.keys for substream, place in held.items() if before.owners[substream] != self.worker),
            rejected=len(rejects),
        )
        return done.output

    def _has_begun(self) -> bool:
        """Whether any worker may have run before: Spark runs none in a micro-batch without any row."""
        return self.work.ledger is None or self.work.ledger.has_worked(self.batch)

    def _clock(self, rows: pa.Table, before: Before) -> int | None:
        """Return the time: by event time, or that of the batch, which a worker without rows takes from the ledger."""
        work = self.work
        if work.event_time is not None:
            return None if before.latest_ms is None else before.latest_ms - work.event_time.delay_ms
        if rows.num_rows:
            return int(rows[CLOCK][0].as_py())
        return None if work.ledger is None else work.ledger.clock(self.batch, must_agree=True)

    def _latest(self, rows: pa.Table, before: Before) -> int | None:
        if self.work.event_time is None:
            return None
        latest = pc.max(_millis(rows[self.work.event_time.column])).as_py()
        return max((time for time in (latest, before.latest_ms) if time is not None), default=None)

    def _held(self, before: Before, substreams: NDArray[np.int32]) -> dict[int, Place]:
        """Return the places of the worker's substreams; fail if a row belongs to another worker."""
        mine = self.work.owned_by(self.worker, self.batch)
        foreign = np.setdiff1d(substreams, mine)
        if foreign.size:
            raise StorageError(
                f"worker {self.worker} got rows of substream {foreign[0]}, which it does not own in batch "
                f"{self.batch}: the ledger changed while the batch ran",
                hint="start the query again",
            )
        return {substream: before.places[substream] for substream in mine.tolist() if substream in before.places}

    def _touched(
        self, held: Mapping[int, Place], substreams: NDArray[np.int32], now_ms: int | None
    ) -> dict[int, Place]:
        """Return the substreams to read and write: those with rows, those that expire, and those in too old a file."""
        with_rows = set(np.unique(substreams).tolist())
        return {
            substream: place
            for substream, place in held.items()
            if substream in with_rows or place.is_due(now_ms) or place.batch < self.batch - KEEP
        }


def _by_substream(states: pa.Table, n_substreams: int) -> dict[int, pa.Table]:
    substreams = substreams_of(states[HASH].to_numpy(), n_substreams)
    order = np.argsort(substreams, kind="stable")
    states = states.take(pa.array(order))
    found, starts = np.unique(substreams[order], return_index=True)
    ends = np.append(starts, substreams.size)[1:]
    return {
        int(substream): states.slice(start, end - start)
        for substream, start, end in zip(found, starts, ends, strict=True)
    }


def _exists(directory: BatchDirectory, name: str) -> bool:
    try:
        directory.read(name)
    except FileNotFoundError:
        return False
    return True


def _plain(value: Any) -> Any:
    """Return a value with dictionary keys that JSON can have."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _millis(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return timestamps as milliseconds since 1970, rounded down."""
    return pc.floor(
        pc.divide(times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).cast(pa.float64()), 1000.0)
    ).cast(pa.int64())
