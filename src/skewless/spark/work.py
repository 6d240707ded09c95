"""Work: the rows of one worker become one partial per (key, pane of time)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from skewless.combiners import Combiner, Count, Max
from skewless.combiners.partials import Partials
from skewless.errors import SkewlessError
from skewless.hashing import hash_keys
from skewless.spark.merge import PACKED, TIME, pack, safe_names
from skewless.spark.route import micro_batch
from skewless.storage.ledger import Ledger
from skewless.storage.worker_report import SAMPLE, TOP, WorkerReport

PANE: Final = "skewless_pane"
ROWS: Final = "skewless_rows"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A simulated cost per row, for experiments: `ms` milliseconds of sleep, or of busy CPU."""

    ms: float
    kind: Literal["sleep", "cpu"] = "sleep"

    def __post_init__(self) -> None:
        if not (isfinite(self.ms) and self.ms >= 0):
            raise SkewlessError(f"the cost per row must be at least 0 ms; got {self.ms}")
        if self.kind not in {"sleep", "cpu"}:
            raise SkewlessError(f"the cost per row is 'sleep' or 'cpu'; got {self.kind!r}")

    def pay(self, rows: int) -> None:
        """Spend the time that so many rows cost."""
        seconds = rows * self.ms / 1000
        if self.kind == "sleep":
            time.sleep(seconds)
        else:
            begin = time.thread_time()
            while time.thread_time() - begin < seconds:
                pass


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a worker does with its rows; shipped to the executors and called there with Arrow batches.

    A *pane* is the longest stretch of time whose rows lie in the same windows: the window itself if windows do not
    overlap. A partial carries the latest time among its rows, so that Spark assigns it to windows, and judges its
    lateness, as it would the rows.

    `columns` are the names that the columns of a batch have here: on the way they bear `safe_names`.
    """

    columns: tuple[str, ...]
    keys: tuple[str, ...]
    combiners: Mapping[str, Combiner]
    time: str | None = None
    pane_us: int = 0
    offset_us: int = 0
    cost: Cost | None = None
    ledger: Ledger | None = None
    packed: bool = False

    @property
    def group_keys(self) -> tuple[str, ...]:
        return self.keys if self.time is None else (*self.keys, PANE)

    def partials(self, schema: pa.Schema) -> Partials:
        """Make the accumulator for rows of this schema."""
        combiners = dict(self.combiners)
        if self.time is not None:
            combiners[TIME] = Max(self.time)
            schema = schema.append(pa.field(PANE, pa.int64()))
        return Partials(schema, self.group_keys, {**combiners, ROWS: Count()})

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """Give the schema of the partials: keys, the latest time, and the states, each a column or all packed."""
        states = self.partials(schema).state_schema
        time = [] if self.time is None else [states.field(_state_of(states, TIME)).with_name(TIME)]
        columns = (
            [pa.field(PACKED, pa.binary())] if self.packed else [states.field(name) for name in self._columns(states)]
        )
        keys = [states.field(key).with_name(name) for key, name in zip(self.keys, safe_names(self.keys), strict=True)]
        return pa.schema([*keys, *time, *columns])

    def _columns(self, states: pa.Schema) -> list[str]:
        """Name the columns that hold the states of the user's combiners."""
        own = {*self.group_keys, *(name for name in states.names if name.startswith((f"{ROWS}__", f"{TIME}__")))}
        return [name for name in states.names if name not in own]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partials: Partials | None = None
        schema: pa.Schema | None = None
        busy = 0.0
        for batch in batches:
            begin = time.perf_counter()
            named = batch.rename_columns(list(self.columns))
            rows = self._with_pane(named)
            if partials is None:
                schema = named.schema
                partials = self.partials(schema)
            partials.add_rows(rows)
            if self.cost is not None:
                self.cost.pay(batch.num_rows)
            busy += time.perf_counter() - begin
        if partials is None or schema is None:
            return
        begin = time.perf_counter()
        states = partials.states()
        busy += time.perf_counter() - begin
        if self.ledger is not None:
            self._report(states, busy)
        yield from self._output(states, schema).to_batches()

    def _output(self, states: pa.Table, schema: pa.Schema) -> pa.Table:
        columns = [states.column(key) for key in self.keys]
        if self.time is not None:
            columns.append(states.column(_state_of(states.schema, TIME)))
        own = states.select(self._columns(states.schema))
        columns += [pack(own)] if self.packed else own.columns
        output = self.output_schema(schema)
        return pa.table(columns, names=output.names).cast(output)

    def _with_pane(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.time is None:
            return batch
        times = batch.column(self.time)
        if times.null_count:  # a row without a time lies in no window
            batch = batch.filter(times.is_valid())
            times = batch.column(self.time)
        micros = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).to_numpy(zero_copy_only=False)
        return batch.append_column(PANE, pa.array((micros - self.offset_us) // self.pane_us))

    def _report(self, states: pa.Table, busy: float) -> None:
        context = TaskContext.get()
        if context is None or self.ledger is None:
            return
        counted = _state_of(states.schema, ROWS)
        per_key = states.select([*self.keys, counted]).group_by(list(self.keys), use_threads=False)
        counts = per_key.aggregate([(counted, "sum")])
        keys = counts.select(list(self.keys))
        tuples = counts.column(f"{counted}_sum").to_numpy()
        report = make_report(context.partitionId(), keys, tuples, hash_keys(*keys.columns), busy)
        self.ledger.write_worker(micro_batch() or 0, report)


def make_report(
    worker: int,
    keys: pa.Table,
    tuples: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    busy_s: float,
    **more: int,
) -> WorkerReport:
    """Make the report of a worker on its distinct keys: how many tuples each of them had, and its hash."""
    top = np.argsort(-tuples, kind="stable")[:TOP]
    return WorkerReport(
        worker=worker,
        tuples=int(tuples.sum()),
        keys=int(tuples.size),
        busy_s=busy_s,
        finished_ms=time.time_ns() // 1_000_000,
        hashes=np.sort(hashes)[:SAMPLE],
        top_keys=[_name(row) for row in keys.take(pa.array(top)).to_pylist()],
        top_counts=tuples[top].tolist(),
        **more,
    )


def _state_of(states: pa.Schema, name: str) -> str:
    """Find the column of a combiner whose state is a single column."""
    return next(str(column) for column in states.names if column.startswith(f"{name}__"))


def _name(row: dict[str, Any]) -> str:
    return " | ".join("null" if value is None else str(value) for value in row.values())
