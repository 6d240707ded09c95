"""The simulator at a thousand million tuples: time, memory, and whether a tuple costs the same at the end.

CPU time counts, not what a busy machine makes of it. The cost of a tuple is taken over tenths of the stream: the first
tenth is left out, as most keys are new there, and so is what is done once (compiled kernels, the table of the stream).

    python benchmarks/simulator_scale.py [--tuples N] [--keys N] [--workers N] [--grouping NAME] [--json]

Fails if it takes 10 minutes or 2 GB, or if the last tenth costs a quarter more than the second.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import process_time
from typing import Final

import numpy as np

from skewless import Zipf, make_grouping
from skewless.simulation import Simulation, simulate

_MOST_S: Final = 600.0
_MOST_BYTES: Final = 2_000_000_000
_MOST_GROWTH: Final = 1.25
_PARTS: Final = 10


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a simulation cost.

    Parameters
    ----------
    cpu_s : float
        CPU time in all, with the compilation of kernels.
    peak_bytes : int
        The most memory that the process had.
    ns_per_tuple : list of float
        CPU time of a tuple, by tenths of the stream.
    growth : float
        That of the last tenth as a multiple of that of the second.
    """

    tuples: int
    keys: int
    workers: int
    grouping: str
    imbalance: float
    dist_cost: float
    cpu_s: float
    peak_bytes: int
    ns_per_tuple: list[float]
    growth: float

    @property
    def failures(self) -> list[str]:
        """What was more than it should be."""
        found = []
        if self.cpu_s >= _MOST_S:
            found.append(f"{self.cpu_s:.0f} s of CPU time, not below {_MOST_S:.0f}")
        if self.peak_bytes >= _MOST_BYTES:
            found.append(f"{self.peak_bytes / 1e9:.2f} GB, not below {_MOST_BYTES / 1e9:.0f}")
        if self.growth > _MOST_GROWTH:
            found.append(f"a tuple costs {self.growth:.2f} times as much at the end, more than {_MOST_GROWTH}")
        return found


def by_parts(marks: Sequence[tuple[int, float]], tuples: int) -> list[float]:
    """Return nanoseconds per tuple in each tenth, from the times at which numbers of tuples were done."""
    done, seconds = zip(*marks, strict=True)
    times = np.interp(np.linspace(0, tuples, _PARTS + 1), done, seconds)
    costs: list[float] = (np.diff(times) / (tuples / _PARTS) * 1e9).tolist()
    return costs


def measure(tuples: int, keys: int, workers: int, name: str) -> Cost:
    """Run one simulation."""
    simulation = Simulation(make_grouping(name, workers=workers), Zipf(exponent=1.0, n_keys=keys), learn=10_000)
    marks = [(0, process_time())]
    result = simulate(simulation, tuples=tuples, progress=lambda done: marks.append((done, process_time())))
    costs = by_parts(marks, tuples)
    return Cost(
        tuples=tuples,
        keys=keys,
        workers=workers,
        grouping=name,
        imbalance=result.imbalance,
        dist_cost=result.dist_cost,
        cpu_s=process_time(),
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        ns_per_tuple=[round(cost, 1) for cost in costs],
        growth=costs[-1] / costs[1],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=float, default=1e9)
    parser.add_argument("--keys", type=float, default=1e7)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--grouping", default="even")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    cost = measure(int(given.tuples), int(given.keys), given.workers, given.grouping)
    if given.json:
        print(json.dumps(asdict(cost)))
    else:
        print(f"{cost.tuples:,} tuples, {cost.keys:,} keys, {cost.workers:,} workers, {cost.grouping}:")
        print(f"  {cost.cpu_s:.0f} s of CPU time, {cost.peak_bytes / 1e9:.2f} GB, {cost.ns_per_tuple} ns per tuple")
        print(f"  imbalance {cost.imbalance:.3f} %, dist_cost {cost.dist_cost:.4f}")
    for failure in cost.failures:
        print(failure, file=sys.stderr)
    return 1 if cost.failures else 0


if __name__ == "__main__":
    sys.exit(main())
