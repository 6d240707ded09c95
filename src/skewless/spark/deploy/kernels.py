"""Kernels, compiled ahead: `python -m skewless.spark.deploy.kernels` fills Numba's cache.

Numba compiles a kernel when it is first called. On a cold cache every Python worker of a query would compile the same
kernels at the same time, inside its first task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache

import numpy as np
import pyarrow as pa
from numba.core import event

from skewless.groupings import Auto, Even, Grouping, Key, PartialKey, Shuffle, pass_barrier
from skewless.hashing import hash_keys
from skewless.processors.substreams import represented
from skewless.streams import Stream, make_stream

_LOG = logging.getLogger("skewless")
_WORKERS = 4
_BATCHES = 3
_ROWS = 2000


def compile_kernels(groupings: Iterable[Grouping] | None = None, stream: Stream | None = None) -> None:
    """Compile everything that the operator calls with these groupings; takes a second when it is done already.

    Parameters
    ----------
    groupings : iterable of Grouping, optional
        Default: those of `skewless demo`, and `auto`.
    stream : Stream, optional
        A stream that Spark will read; its generator is compiled too.
    """
    log_compilation()
    # Half of the rows have one key: groupings that plan do so only where there is skew.
    keys = np.where(np.arange(_ROWS) % 2, 0, np.arange(_ROWS)).astype(np.uint64)
    hash_keys(pa.array(["key"]))
    represented(keys, _WORKERS)
    for grouping in (Auto(), Even(), Key(), PartialKey(), Shuffle()) if groupings is None else groupings:
        _route(grouping if grouping.workers else grouping.with_workers(_WORKERS), keys)
    if stream is not None:
        next(iter(stream.generate(tuples=1)))


def _route(grouping: Grouping, keys: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> None:
    """Route rows over some barriers, as two sources of a streaming query do."""
    routers = [grouping.start(source, 0) for source in (0, 1)]
    loads = np.full(grouping.n_workers, keys.size)
    for batch in range(_BATCHES):
        for router in routers:
            router.route(keys, 1000 * batch)
        snapshots = [router.snapshot() for router in routers]
        states = pass_barrier(grouping, snapshots, 1000 * batch, lambda: (loads, loads / 1000))
        routers = [grouping.resume(states[0]), grouping.resume(grouping.merge(states))]


@cache
def log_compilation() -> None:
    """Log, once per process, that kernels are being compiled, as soon as the first one is."""
    event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call] # Numba ships no types


class _Announcement(event.Listener):
    announced = False

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002
        if not self.announced:
            self.announced = True
            _LOG.warning("compiling kernels once, about 20 s; later runs take them from Numba's cache")

    def on_end(self, event: event.Event) -> None:
        pass


if __name__ == "__main__":
    compile_kernels(stream=make_stream("country-skew-r80"))
