"""The sources of a simulation."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from skewless.groupings import Coordinated, Even, Grouping, Router, pass_barrier
from skewless.simulation.simulation import Simulation


class Sources:
    """The routers of all sources: gives tuples to them in turn, collects their choices, runs the barriers.

    Parameters
    ----------
    simulation : Simulation
        The grouping, the number of sources and the seed.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._grouping = simulation.grouping
        self._n = simulation.sources
        states = [simulation.grouping.first_state(source, simulation.seed) for source in range(self._n)]
        if simulation.learn and isinstance(simulation.grouping, Even):
            sample = simulation.sample()
            states = [simulation.grouping.learned(state, sample) for state in states]
        self._routers: list[Router] = [simulation.grouping.resume(state) for state in states]
        self._turn = 0
        self.seconds = 0.0
        _compile(simulation.grouping)

    def route(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:
        """Return the worker of each tuple."""
        workers = np.empty(keys.size, dtype=np.int32)
        for source, router in enumerate(self._routers):
            own = slice((source - self._turn) % self._n, None, self._n)
            own_keys = np.ascontiguousarray(keys[own])
            started = perf_counter()
            choices = router.route(own_keys, now_ms)
            self.seconds += perf_counter() - started
            workers[own] = choices
        self._turn = (self._turn + keys.size) % self._n
        return workers

    def owners(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:
        """Return the owner of each key from now on, without routing a tuple; sources agree if keys have one owner."""
        return self._grouping.resume(self._routers[0].snapshot()).route(keys, now_ms)

    @property
    def remark(self) -> str:
        """What the grouping reports about its decisions."""
        return self._grouping.remark(self._routers[0].snapshot())

    def barrier(self, now_ms: int, tuples: NDArray[np.int64], busy_s: NDArray[np.float64]) -> None:
        """Let sources share what they learned, and what the workers did in the batch that ends."""
        if isinstance(self._grouping, Coordinated):
            before = [router.snapshot() for router in self._routers]
            states = pass_barrier(self._grouping, before, now_ms, lambda: (tuples, busy_s))
            self._routers = [self._grouping.resume(state) for state in states]


def _compile(grouping: Grouping) -> None:
    """Call a router once, and once more a day later, so that no kernel is compiled while routing is measured."""
    router = grouping.start(0, 0)
    for now_ms in (0, 86_400_000):
        router.route(np.zeros(1, dtype=np.uint64), now_ms)
