"""Work: the rows of one worker become one partial per (key, pane of time)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from skewless.combiners import Combiner, Count, Max
from skewless.combiners.partials import Partials, group_rows
from skewless.errors import ConfigurationError
from skewless.salting.units import Units
from skewless.spark.merge import PACKED, TIME, UTC, conform, pack
from skewless.spark.routing import micro_batch
from skewless.spark.versions import with_column
from skewless.storage.ledger import Ledger
from skewless.storage.worker_report import LARGEST, SAMPLE, TOP, WorkerReport

PANE: Final = "skewless_pane"
ROWS: Final = "skewless_rows"
KEY_HASH: Final = "skewless_key_hash"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A simulated cost per row, for experiments.

    Parameters
    ----------
    ms : float
        Milliseconds per row.
    kind : str
        "sleep", or "cpu" to keep a core busy.
    """

    ms: float
    kind: Literal["sleep", "cpu"] = "sleep"

    def __post_init__(self) -> None:
        if not (isfinite(self.ms) and self.ms >= 0):
            raise ConfigurationError(f"the cost per row must be at least 0 ms; got {self.ms}", value=self.ms)
        if self.kind not in {"sleep", "cpu"}:
            raise ConfigurationError(f"the cost per row is 'sleep' or 'cpu'; got {self.kind!r}", value=self.kind)

    def pay(self, rows: int) -> None:
        """Spend the time that these rows cost."""
        seconds = rows * self.ms / 1000
        if self.kind == "sleep":
            time.sleep(seconds)
        else:
            start = time.thread_time()
            while time.thread_time() - start < seconds:
                pass


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a worker does with its rows; shipped to the executors and called there with Arrow batches.

    A *pane* is the longest stretch of time whose rows lie in the same windows: the window itself if windows do not
    overlap. A partial carries the latest time among its rows, so that Spark assigns it to windows, and drops it as too
    late, as it would the rows.

    Parameters
    ----------
    inputs : pa.Schema
        The columns of a batch, with names of our own and with timestamps in UTC.
    keys : tuple of str
        The columns that identify a key.
    shown : tuple of str
        The columns that show it; they may be the same.
    outputs : tuple of str
        Those of both that leave with the partials.
    combiners : mapping of str to Combiner
        What is computed.
    reads : mapping of str to tuple of str
        The columns that each combiner reads.
    time : str or None
        The column that windows are cut by.
    pane_us, offset_us : int
        The length of panes, and where one of them starts.
    latest : pa.DataType
        The type in which the latest time of a partial leaves.
    packed : bool
        Whether the columns that show a key, and its states, leave as one binary value.
    units : Units, optional
        What the planner counts rows by; None if nothing is planned.
    """

    inputs: pa.Schema
    keys: tuple[str, ...]
    shown: tuple[str, ...]
    outputs: tuple[str, ...]
    combiners: Mapping[str, Combiner]
    reads: Mapping[str, tuple[str, ...]]
    time: str | None = None
    pane_us: int = 0
    offset_us: int = 0
    latest: pa.DataType = UTC
    packed: bool = False
    cost: Cost | None = None
    ledger: Ledger | None = None
    units: Units | None = None

    def partials(self) -> Partials:
        """Make the accumulator of the rows."""
        combiners, keys = dict(self.combiners), self.keys
        if self.time is not None:
            combiners[TIME] = Max(self.time)
            keys = (*keys, PANE)
        carried = [column for column in self.shown if column not in self.keys]
        if self.ledger is not None:
            combiners[ROWS] = Count()
            carried.append(KEY_HASH)
        schema = self.inputs.append(pa.field(PANE, pa.int64()))
        return Partials(schema, keys, combiners, carried=carried, reads=self.reads)

    @property
    def output_schema(self) -> pa.Schema:
        """The columns of the partials: those of keys, the latest time, and the states, each a column or all packed."""
        return self._output(self._finished(self.partials())).schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partials = self.partials()
        busy, is_idle = 0.0, True
        for batch in batches:
            start, is_idle = time.perf_counter(), False
            partials.add_rows(self._with_pane(conform(batch, self.inputs)))
            if self.cost is not None:
                self.cost.pay(batch.num_rows)
            busy += time.perf_counter() - start
        if is_idle:
            return
        start = time.perf_counter()
        states = self._finished(partials)
        busy += time.perf_counter() - start
        if self.ledger is not None:
            self._report(states, busy)
        yield from self._output(states).to_batches()

    def _finished(self, partials: Partials) -> pa.Table:
        return partials.states()

    def _output(self, states: pa.Table) -> pa.Table:
        columns = {name: states[name] for name in self.outputs}
        if self.time is not None:
            columns[TIME] = states[f"{TIME}__max"].cast(self.latest)
        own = [name for name in states.column_names if name.split("__")[0] in self.combiners]
        if self.packed:
            columns[PACKED] = pack(states.select([*self.shown, *own]))
        else:
            columns |= {name: states[name] for name in own}
        return pa.table(columns)

    def _with_pane(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.time is None:
            return batch
        times = batch.column(self.time)
        if times.null_count:  # a row without a time lies in no window
            batch = batch.filter(times.is_valid())
            times = batch.column(self.time)
        micros = times.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return with_column(batch, PANE, pa.array((micros - self.offset_us) // self.pane_us))

    def _report(self, states: pa.Table, busy: float) -> None:
        context = TaskContext.get()
        if context is None or self.ledger is None:
            return
        keys = [states[key].combine_chunks() for key in self.keys]
        groups, first = group_rows(keys, states.num_rows)  # a key may have several panes
        tuples = np.bincount(groups, weights=states[f"{ROWS}__count"].to_numpy()).astype(np.int64)
        distinct = states.take(pa.array(first))
        hashes = distinct[KEY_HASH].to_numpy().view(np.uint64)
        report = make_report(context.partitionId(), distinct.select(self.shown), tuples, hashes, busy, self.units)
        self.ledger.write_worker(micro_batch() or 0, report)


@dataclass(frozen=True, kw_only=True)
class WholeWork(Work):
    """The same where all rows of a key are on one worker, and there is no window: it returns results."""

    def _finished(self, partials: Partials) -> pa.Table:
        return partials.results()


def make_report(
    worker: int,
    keys: pa.Table,
    tuples: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    busy_s: float,
    units: Units | None,
    *,
    state_keys: int = 0,
    moved_keys: int = 0,
    rejected: int = 0,
) -> WorkerReport:
    """Make the report of a worker on its distinct keys, from the number of rows and the hash of each."""
    order = np.argsort(-tuples, kind="stable")
    top, large = order[:TOP], order[:LARGEST]
    report = WorkerReport(
        worker=worker,
        tuples=int(tuples.sum()),
        keys=int(tuples.size),
        busy_s=busy_s,
        finished_ms=time.time_ns() // 1_000_000,
        hashes=np.sort(hashes)[:SAMPLE],
        top_keys=_names(keys.take(pa.array(top))),
        top_counts=tuples[top].tolist(),
        state_keys=state_keys,
        moved_keys=moved_keys,
        rejected=rejected,
    )
    if units is None:
        return report
    return replace(report, large_hashes=hashes[large], large_rows=tuples[large], units=units.count(hashes, tuples))


def _names(keys: pa.Table) -> list[str]:
    """Name keys as text; years that Python's dates do not know are no obstacle."""
    columns = [[_text(value) for value in column] for column in keys.columns]
    return [" | ".join(parts) for parts in zip(*columns, strict=True)]


def _text(value: pa.Scalar) -> str:
    try:
        return "null" if value.as_py() is None else str(value.as_py())
    except (ValueError, OverflowError):
        return str(value.cast(pa.int64()).as_py())
