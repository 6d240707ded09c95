"""Kernels, compiled once for all processes that run tests: `python tests/services/kernels.py` fills Numba's cache."""

from __future__ import annotations

import logging

from skewless import GROUPINGS, Simulation, make_stream, simulate
from skewless.spark.deploy.kernels import compile_kernels


def compile_all() -> None:
    """Compile what routes on Spark, and what plans, serves tuples and keeps state in the simulator."""
    compile_kernels(make(workers=2) for make in GROUPINGS.values())
    for make in GROUPINGS.values():
        simulate(Simulation(make(workers=5), make_stream("country-skew-r80")), tuples=20_000)
    for stream in ("zipf", "topics", "trades", "drift", "debs2013"):
        make_stream(stream).slice(0, 10, tuples=10, seed=0)


if __name__ == "__main__":
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.name == "skewless")  # not the groupings: they remark on having so few keys
    logging.basicConfig(handlers=[handler])
    compile_all()
