"""Kernels compiled ahead are all that a query calls: what is missing is compiled by every Python worker at once."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
import numpy as np
from numba.core.dispatcher import Dispatcher
from skewless.groupings import Auto, Even
from skewless.groupings.base import pass_barrier
from skewless.spark.deploy.kernels import compile_kernels

def compiled():
    dispatchers = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    ours = [one for one in dispatchers if one.py_func.__module__.startswith("skewless")]
    return {f"{one.py_func.__qualname__}{signature}" for one in ours for signature in one.signatures}

compile_kernels()
ahead = compiled()
random = np.random.default_rng(0)
keys = np.where(random.random(20_000) < 0.6, 7, random.integers(0, 2_000, 20_000)).astype(np.uint64)
busy = np.full(10, 100), np.full(10, 1.0)
kinds = Even(), Auto(), Even(single_owner=True), Auto(single_owner=True), Even(measure_capacities=True)
for grouping in (kind.with_workers(10) for kind in kinds):
    routers = [grouping.start(source, 0) for source in (0, 1)]
    for batch in range(5):
        for router in routers:
            router.route(keys, 1_000 * batch)
        states = pass_barrier(grouping, [router.snapshot() for router in routers], 1_000 * batch, lambda: busy)
        routers = [grouping.resume(state) for state in states]
print(sorted(compiled() - ahead))
"""


def test_nothing_is_compiled_after_what_is_compiled_ahead() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.strip() == "[]"
