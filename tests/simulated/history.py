"""Histories of micro-batches without Spark: plan or route, exchange, work, commit; broken off anywhere, and repeated.

What Spark would keep in its own checkpoint (which micro-batches are done, and their output) survives everything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypeVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simulated.disk import Crash, CrashPoint, Disk, Kind
from simulated.exchange import send, send_by_range
from simulated.memory import Memory, Recorded
from simulated.surroundings import simulated
from skewless.errors import QueryError, SkewlessError
from skewless.groupings import Even, Grouping, make_grouping
from skewless.hashing import rehash
from skewless.processors import KeyState, Processing, Processor, Row
from skewless.processors.processing import HASH
from skewless.processors.substreams import substreams_of
from skewless.spark import route
from skewless.spark.grouping_plan import GroupingPlan
from skewless.spark.routing import Routing
from skewless.spark.stateful import ARRIVAL, CLOCK, EventTime, StatefulWork, _MicroBatch
from skewless.spark.work import make_report
from skewless.storage import BatchDirectory, Ledger, StateStore
from skewless.storage.file_system import FAILURES

Stage = Literal["stateful", "planned", "routed"]
Answer = tuple[dict[int, list[Any]], list[str], list[str]]
"""Output by micro-batch, final state, rejects."""

_STATEFUL: Final = ("even", "distribution_aware", "key_isolator", "eager", "correlation", "key")
_PLANNED: Final = ("even", "auto", "consistent", "shuffle")
_ROUTED: Final = ("partial_key", "dynamic_key", "d_choices", "popularity_aware")
_ATTEMPTS: Final = 4  # of a task, as in Spark
_RESTARTS: Final = 12
_BATCH_MS: Final = 10_000

_Result = TypeVar("_Result")


class Summing(Processor):
    """Sums the values of a key; refuses those below zero; reports and forgets a key after some silence."""

    state = "total bigint, n bigint"
    output = "total bigint, n bigint"

    def process(self, _key: tuple[Any, ...], rows: Sequence[Row], state: KeyState, /) -> Iterable[Row]:
        for row in rows:
            if row["v"] < 0:
                raise ValueError(f"{row['v']} is below zero")
            state.update(total=state.get("total", 0) + row["v"], n=state.get("n", 0) + 1)
            state.expires_ms = state.now_ms + 2 * _BATCH_MS
        return [dict(state)]

    def expire(self, _key: tuple[Any, ...], state: KeyState, /) -> Iterable[Row]:
        last = {"total": -state["total"], "n": state["n"]}
        state.clear()
        return [last]


_NUMBERS: Final = pa.schema([("total", pa.int64()), ("n", pa.int64())])
_SUMMING: Final = Processing(
    processor=Summing(),
    keys=("k",),
    row_schema=pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.timestamp("us", "UTC"))]),
    state_columns=_NUMBERS,
    output_columns=_NUMBERS,
    on_error="reject",
)


class NotRecoveredError(AssertionError):
    """A query that fails however often it is started again."""


@dataclass(frozen=True)
class History:
    """A query and its input, all of it drawn from a seed."""

    seed: int
    stage: Stage
    kind: Kind
    grouping: Grouping
    n_batches: int
    n_sources: int
    keep: int
    event_time: EventTime | None
    fails: bool

    @classmethod
    def of(cls, seed: int) -> History:
        """Draw a history; seeds take turns at what is done and where it is stored."""
        draw = Random(seed)
        stage: Stage = ("stateful", "stateful", "planned", "routed")[seed // 2 % 4]
        workers = draw.choice((1, 2, 2, 3))
        name = draw.choice({"stateful": _STATEFUL, "planned": _PLANNED, "routed": _ROUTED}[stage])
        more = {"n_substreams": draw.choice((4, 6))} if name in {"eager", "correlation"} else {}
        if name in {"even", "auto"} and stage == "stateful":
            grouping: Grouping = Even(single_owner=True, workers=workers)
        else:
            grouping = make_grouping(name, workers=workers, **more)
        event_time = EventTime(column="t", delay_ms=draw.choice((0, 5_000))) if draw.random() < 0.4 else None
        return cls(
            seed=seed,
            stage=stage,
            kind=("local", "object")[seed % 2],
            grouping=grouping,
            n_batches=draw.choice((3, 4, 5)),
            n_sources=draw.choice((1, 2, 3)),
            keep=draw.choice((0, 1, 2)),
            event_time=event_time,
            fails=draw.random() < 0.7,
        )

    @property
    def n_substreams(self) -> int:
        return int(getattr(self.grouping, "n_substreams", 6))

    @cached_property
    def batches(self) -> list[pa.Table]:
        """The rows of each micro-batch, in their order, with hashes and clock as workers get them."""
        return [self._rows(batch) for batch in range(self.n_batches)]

    def _rows(self, batch: int) -> pa.Table:
        draw = Random(f"{self.seed} rows {batch}")
        n = draw.choice((0, 1, 4, 9, 14)) if batch else 8
        keys = [0 if draw.random() < 0.4 else draw.randrange(1, 9) for _ in range(n)]
        values = [draw.randrange(-1, 9) for _ in range(n)]
        millis = [batch * _BATCH_MS + draw.randrange(-_BATCH_MS, _BATCH_MS) for _ in range(n)]
        return pa.table(
            {
                "k": pa.array(keys, pa.int64()),
                "v": pa.array(values, pa.int64()),
                "t": pa.array([1000 * time for time in millis], pa.int64()).cast(pa.timestamp("us", "UTC")),
                ARRIVAL: pa.array(range(n), pa.int64()),
                HASH: pa.array(rehash(np.array(keys, dtype=np.uint64), 5), pa.uint64()),
                CLOCK: pa.array([self.clock(batch)] * n, pa.int64()),
            }
        )

    def clock(self, batch: int) -> int:
        return (batch + 1) * _BATCH_MS

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(uri="/ledger", keep=1 + self.keep)

    @cached_property
    def store(self) -> StateStore:
        return StateStore(uri="/state", schema=_SUMMING.state_schema)

    @cached_property
    def routing(self) -> Routing:
        return Routing(grouping=self.grouping, ledger=self.ledger, seed=3, keys=("k",))

    @cached_property
    def rejects(self) -> BatchDirectory:
        return BatchDirectory("/rejects")

    @cached_property
    def work(self) -> StatefulWork:
        return StatefulWork(
            processing=_SUMMING,
            grouping=self.grouping,
            n_substreams=self.n_substreams,
            seed=3,
            event_time=self.event_time,
            ledger=self.ledger,
            store=self.store,
            rejects=self.rejects,
        )

    @cached_property
    def memory(self) -> Memory:
        return Memory()

    def empty_disk(self, *, fails: bool | None = None) -> Disk:
        return Disk(kind=self.kind, seed=str(self.seed), fails=self.fails if fails is None else fails)


class Begun(NamedTuple):
    """A micro-batch at the start of one of its tasks: the disk, and what the tasks before it have returned."""

    disk: Disk
    results: tuple[Any, ...]


@dataclass
class Query:
    """A history that runs on a disk; `outputs` is what Spark would have committed."""

    history: History
    disk: Disk
    outputs: dict[int, list[Any]] = field(default_factory=dict)

    def copy(self) -> Query:
        return Query(self.history, self.disk.copy(), dict(self.outputs))

    def run_batch(
        self, batch: int, attempt: int = 0, crash_at: CrashPoint | None = None, tasks: list[Begun] | None = None
    ) -> None:
        """Run a micro-batch once; `Crash` or an error if it does not come to its end.

        An empty list of tasks gets all that are begun. With the tasks up to one of an earlier run, that are the same
        in this one, the micro-batch goes on from there.
        """
        self.disk.begin(f"{batch}/{attempt}", crash_at)
        run = _Batch(self.history, self.disk, batch)
        if tasks:
            run.disk, run.known = tasks[-1].disk.copy(), tasks[-1].results
            run.disk.crash_at = crash_at
            self.disk = run.disk
        else:
            run.begun = tasks
        self.outputs[batch] = sorted(run.run())

    def finish_batch(self, batch: int, attempt: int = 0) -> None:
        """Run a micro-batch, as often as it takes."""
        error: BaseException | None = None
        for again in range(attempt, attempt + _RESTARTS):
            try:
                self.run_batch(batch, again)
            except (SkewlessError, *FAILURES) as failure:  # noqa: PERF203 - as in Spark
                error = failure
                self.disk.sleep(5.0)
            else:
                return
        raise NotRecoveredError(f"batch {batch}: {error}") from error

    def answer(self) -> Answer:
        """Read all that the query has left, when nothing fails any more."""
        history, disk = self.history, self.disk.copy()
        if history.stage != "stateful":
            return self.outputs, [], []
        disk.fails = False
        disk.sleep(1_000.0)
        disk.begin("answer")
        states, rejects = history.memory.run("answer", disk, partial(_left, history))
        assert len(set(states)) == len(states), "a key has two states"
        return self.outputs, states, rejects


def _left(history: History, disk: Recorded) -> tuple[list[str], list[str]]:
    """Return the final states, and the rejects with their micro-batches."""
    with simulated(history.keep, disk, history.n_batches):
        before = history.store.before(history.n_batches, "query", history.n_substreams)
        states = history.store.read(before.places.values()).drop_columns([HASH]).to_pylist()
        try:
            files = history.rejects.names()
        except FileNotFoundError:
            files = []
        lines = [
            f"{name.partition('-worker')[0]} {line}"
            for name in files
            for line in history.rejects.read(name).decode().splitlines()
        ]
    return sorted(json.dumps(state, default=str) for state in states), sorted(lines)


@dataclass
class _Batch:
    """One micro-batch: the tasks of its stages, one after the other, each tried several times."""

    history: History
    disk: Disk
    batch: int
    known: tuple[Any, ...] = ()
    begun: list[Begun] | None = None
    results: list[Any] = field(default_factory=list)

    def run(self) -> list[Any]:
        history = self.history
        rows = history.batches[self.batch]
        hashes = rows[HASH].to_numpy()
        if history.stage == "routed":
            workers = self._routed(hashes)
        else:
            workers = np.array(self._attempted("plan", lambda: tuple(self._sent(self._plan(), hashes).tolist())))
        order = list(range(history.grouping.n_workers))
        Random(f"{history.seed} order {self.batch}").shuffle(order)
        output: list[Any] = []
        for worker in order:
            own = np.flatnonzero(workers == worker)
            output += self._attempted((worker, *own.tolist()), partial(self._work, rows, own, worker), worker)
        return output if history.stage == "stateful" else sorted(_summed(output).items())

    def _attempted(self, name: Hashable, task: Callable[[], _Result], worker: int = 0) -> _Result:
        """Run a task, several times if it fails or is killed; see `Memory`."""
        if len(self.results) < len(self.known):
            self.results.append(self.known[len(self.results)])
            return self.results[-1]  # type: ignore[no-any-return]
        if self.begun is not None:
            self.begun.append(Begun(self.disk.copy(), tuple(self.results)))
        for attempt in range(_ATTEMPTS):
            self.disk.begin_task(f"{name}/{attempt}")
            try:
                live = partial(self._live, task, worker)
                result: _Result = self.history.memory.run((self.batch, name), self.disk, live)
            except Crash:
                if self.disk.crash_at is None or self.disk.crash_at.damage != "task":
                    raise
                self.disk.crash_at = None
                if attempt == _ATTEMPTS - 1:
                    raise QueryError("a task failed too often") from None
            except (SkewlessError, *FAILURES):
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                self.results.append(result)
                return result
        raise AssertionError("unreachable")

    def _live(self, task: Callable[[], _Result], worker: int, disk: Recorded) -> _Result:
        with simulated(self.history.keep, disk, self.batch, worker):
            return task()

    def _plan(self) -> pa.RecordBatch:
        history = self.history
        substreams = history.n_substreams if history.stage == "stateful" else 0
        clock = pa.record_batch([pa.array([history.clock(self.batch)])], ["clock"])
        (table,) = GroupingPlan(routing=history.routing, substreams=substreams)(iter([clock]))
        return table

    def _sent(self, table: pa.RecordBatch, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        history = self.history
        if history.stage == "planned":
            return send(table, history.grouping, hashes, 3)
        ranges = substreams_of(hashes, history.n_substreams)
        return send_by_range(table, history.grouping.n_workers, hashes, ranges, 3)

    def _routed(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        workers = np.empty(hashes.size, dtype=np.int64)
        for source in range(self.history.n_sources):
            own = slice(source, None, self.history.n_sources)
            workers[own] = self._attempted(f"source {source}", partial(self._route, hashes[own], source))
        return workers

    def _route(self, hashes: NDArray[np.uint64], source: int) -> NDArray[np.int32]:
        if not hashes.size:
            return np.empty(0, np.int32)
        clock = pa.array([self.history.clock(self.batch)] * hashes.size)
        with patch.object(route, "_source", lambda: source):
            (workers,) = route._route(self.history.routing, [(pa.array(hashes.view(np.int64)), clock)])  # noqa: SLF001
        found: NDArray[np.int32] = workers.to_numpy()
        return found

    def _work(self, arrived: pa.Table, own: NDArray[np.int64], worker: int) -> list[Any]:
        history, rows = self.history, arrived.take(pa.array(own))
        if history.stage == "stateful":
            run = _MicroBatch(work=history.work, store=history.store, worker=worker, batch=self.batch, query="query")
            return [tuple(row.values()) for row in run.run(rows).to_pylist()]
        hashes, first, counts = np.unique(rows[HASH].to_numpy(), return_index=True, return_counts=True)
        units = history.grouping.units(3) if history.stage == "planned" else None  # type: ignore[attr-defined]
        names = rows.select(["k"]).take(pa.array(first))
        history.ledger.write_worker(self.batch, make_report(worker, names, counts, hashes, 1.0, units))
        return list(zip(names["k"].to_pylist(), counts.tolist(), strict=True))


def _summed(pairs: Iterable[tuple[int, int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for key, count in pairs:
        total[key] += count
    return total
