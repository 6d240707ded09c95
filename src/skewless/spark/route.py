"""Route: from the hash of a row's key to the worker that gets the row.

One Arrow UDF that receives only the hash and the clock of the micro-batch. What a source has learned goes from batch to
batch through the ledger; in a batch job it lives for the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column
from pyspark.sql import functions as sf

from skewless.groupings import Coordinated, Grouping, Router, pass_barrier
from skewless.processors.substreams import represented
from skewless.spark.deploy.kernels import log_compilation
from skewless.spark.routing import Routing, micro_batch
from skewless.spark.versions import require_feature
from skewless.storage.ledger import Ledger

_POSITION_BITS: Final = 40  # of a row's arrival; above them is the source


def begin(grouping: Grouping, ledger: Ledger | None, seed: int, batch: int | None, source: int) -> Router:
    """Return the router of a source for one micro-batch: from what the last batch left, or from scratch.

    The barrier has the time of the last batch, not of this one. So the router depends on the ledger alone, and every
    reader of it, workers without a row included, knows who owns what.
    """
    # Owners are single only if all sources make the same plan, so they must know the same.
    must_agree = grouping.single_owner and isinstance(grouping, Coordinated)
    if ledger is None or not batch:
        return grouping.start(source, seed)
    left, now_ms = ledger.last_sources(grouping.state_class, before=batch, must_agree=must_agree)
    if not left:
        return grouping.start(source, seed)
    measure = partial(ledger.last_work, batch, grouping.n_workers)
    states = pass_barrier(grouping, list(left.values()), now_ms, measure)
    return grouping.succeed(dict(zip(left, states, strict=True)), source)


def worker_column(hashed: Column, routing: Routing) -> Column:
    """Return the column of the worker that each row goes to, by the hash of its key."""

    def skewless_route(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        return _route(routing, batches)

    def skewless_route_untimed(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return _route(routing, ((hashes, None) for hashes in batches))

    timed = routing.ledger is not None
    return _column(hashed, skewless_route if timed else skewless_route_untimed, "int", timed=timed)


def worker_and_arrival(hashed: Column, routing: Routing, n_substreams: int) -> Column:
    """Return a column of two: `worker`, which owns the row's substream, and `arrival`, the row's place in the order.

    Rows are ordered source by source, and within a source as it reads them: the same in every attempt, if the sources
    are.
    """

    def skewless_route(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        return _with_arrival(_route(routing, _represented(batches, n_substreams)))

    def skewless_route_untimed(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        timeless = ((hashes, None) for hashes in batches)
        return _with_arrival(_route(routing, _represented(timeless, n_substreams)))

    timed = routing.ledger is not None
    function = skewless_route if timed else skewless_route_untimed
    return _column(hashed, function, "struct<worker int, arrival bigint>", timed=timed)


def arrival_column(any_column: Column) -> Column:
    """Return the column of each row's place in the order of a stream, as in `worker_and_arrival`.

    `monotonically_increasing_id` would do, but Spark refuses it in streams.
    """

    def skewless_arrival(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        position = _source() << _POSITION_BITS
        for rows in batches:
            yield pa.array(np.arange(position, position + len(rows)))
            position += len(rows)

    counted: Column = _arrow_udf()(skewless_arrival, "bigint").asNondeterministic()(any_column)
    return counted


def _arrow_udf() -> Any:
    hint = "take the default grouping, which needs no Python before the exchange"
    return require_feature("a grouping that decides row by row", "pyspark.sql.pandas.functions", "arrow_udf", hint)


def _column(hashed: Column, function: Callable[..., Iterator[pa.Array]], kind: str, *, timed: bool) -> Column:
    """Send the hash of each row to Python, with the clock where there is a ledger to write it to, and nothing else."""
    clock = sf.unix_millis(sf.current_timestamp())  # fixed per micro-batch, and the same when it is replayed
    routed = _arrow_udf()(function, kind).asNondeterministic()
    column: Column = routed(hashed, clock) if timed else routed(hashed)
    return column


def _represented(
    batches: Iterable[tuple[pa.Array, pa.Array | None]], n_substreams: int
) -> Iterator[tuple[pa.Array, pa.Array | None]]:
    for hashes, clock in batches:
        yield pa.array(represented(hashes.to_numpy().view(np.uint64), n_substreams)), clock


def _with_arrival(batches: Iterable[pa.Array]) -> Iterator[pa.Array]:
    position = _source() << _POSITION_BITS
    for workers in batches:
        arrival = pa.array(np.arange(position, position + len(workers)))
        yield pa.StructArray.from_arrays([workers, arrival], ["worker", "arrival"])
        position += len(workers)


def _source() -> int:
    context = TaskContext.get()
    assert context is not None, "routing runs in a Spark task"  # noqa: S101 - PySpark's type allows None
    return context.partitionId()


def _route(routing: Routing, batches: Iterable[tuple[pa.Array, pa.Array | None]]) -> Iterator[pa.Array]:
    """Route the batches of one task."""
    log_compilation()
    source, batch = _source(), micro_batch()
    router: Router | None = None
    now_ms = 0
    for hashes, clock in batches:
        if router is None and len(hashes):
            now_ms = 0 if clock is None else clock[0].as_py()
            routing.claim(batch)
            router = begin(routing.grouping, routing.ledger, routing.seed, batch, source)
        workers = np.empty(0, np.int32) if router is None else router.route(hashes.to_numpy().view(np.uint64), now_ms)
        yield pa.array(workers)
    if router is not None and routing.ledger is not None:
        routing.ledger.write_source(batch or 0, source, router.snapshot(), now_ms)
