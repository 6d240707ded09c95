"""Kernels, compiled once for all processes that run tests: `python tests/services/kernels.py` fills Numba's cache."""

from __future__ import annotations

import logging

import numpy as np

from skewless import GROUPINGS, Simulation, make_stream, simulate
from skewless.processors.substreams import substreams_of


def compile_kernels() -> None:
    """Route a few keys by every grouping, over a barrier."""
    keys = np.arange(5, dtype=np.uint64)
    for make in GROUPINGS.values():
        grouping = make(workers=2)
        routers = [grouping.start(source, 2, 0) for source in (0, 1)]
        for router in routers:
            router.route(keys, 0)
        states = grouping.barrier([router.snapshot() for router in routers], 1)
        grouping.resume(grouping.merge(states)).route(keys, 1)
    substreams_of(keys, 2)


def _compile_more() -> None:
    """Do what makes plans, serves tuples and keeps state as well: for tests that do not go to Spark."""
    for make in GROUPINGS.values():
        simulate(Simulation(make(workers=5), make_stream("country-skew-r80")), tuples=20_000)
    for stream in ("zipf", "topics", "trades", "drift", "debs2013"):
        make_stream(stream).slice(0, 10, tuples=10, seed=0)


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # groupings remark on so few keys
    compile_kernels()
    _compile_more()
