"""Flux: after every window the most loaded worker gives to the least loaded, the second most to the second least …."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.groupings.substream import SubstreamGrouping, SubstreamState, dealt, largest_first, worker_loads


@njit(cache=True)
def even_out_pairs(histogram: Any, order: Any, partners: Any, loads: Any, table: Any) -> None:
    """Let each worker give its partner what fits, in the order given; changes `loads` and `table` in place.

    What fits is a substream of no more than half the difference: after it, the giver has still no less than the taker.
    A worker with no one to give to has -1 for a partner.
    """
    for substream in order:
        giver, load = table[substream], histogram[substream]
        taker = partners[giver]
        if taker >= 0 and 0 < 2 * load <= loads[giver] - loads[taker]:
            table[substream] = taker
            loads[giver] -= load
            loads[taker] += load


def paired(loads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the partner of each worker of the more loaded half, -1 for the others: the first takes to the last.

    >>> paired(np.array([10, 50, 30, 20, 40])).tolist()
    [-1, 0, -1, -1, 3]
    """
    ranked = largest_first(loads)
    partners = np.full(loads.size, -1)
    half = loads.size // 2
    partners[ranked[:half]] = ranked[::-1][:half]
    return partners


def rebalanced(table: NDArray[np.int32], histogram: NDArray[np.int64], n_workers: int) -> NDArray[np.int32]:
    """Give the next table: the most loaded worker gives to the least loaded, the second to the second, and so on.

    >>> rebalanced(np.array([0, 0, 0, 1], dtype=np.int32), np.array([5, 3, 1, 1]), 2).tolist()
    [0, 1, 1, 1]
    """
    table = table.copy()
    loads = worker_loads(histogram, table, n_workers)
    even_out_pairs(histogram, largest_first(histogram), paired(loads), loads, table)
    return table


@dataclass(frozen=True, kw_only=True)
class Flux(SubstreamGrouping[SubstreamState]):
    """Pair the most with the least loaded worker, and so on, and let each pair share its load, after every window.

    No move makes a difference larger, so the most loaded worker never gets more by a new table. The number of workers
    is fixed, and how much state moves is not limited: this is what `eager` is measured by.

    Parameters
    ----------
    n_substreams: substreams that keys are hashed to.
    window_ms: length of a statistic window; 0 ends a window at every barrier.

    >>> Flux(workers=2, n_substreams=5).first_state(0, 0).table.tolist()
    [0, 1, 0, 1, 0]

    Reference
    ---------
    Shah, Hellerstein, Chandrasekaran & Franklin, *Flux: An Adaptive Partitioning Operator for Continuous Query Systems*
    (2003); Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 1.1.

    Deviations: balance of tuples only, without Flux's buffers for short and its replicas for lost workers. Which
    substreams of a pair move is taken to be the largest that fit.
    """

    name: ClassVar[str] = "flux"
    baseline: ClassVar[bool] = True
    state_class = SubstreamState

    def first_state(self, _source: int, _seed: int, /) -> SubstreamState:
        table = dealt(self.n_substreams, self.n_workers)
        return SubstreamState(table=table, counts=self._no_counts(), window=self._no_counts())

    def _revised(self, state: SubstreamState, histogram: NDArray[np.int64]) -> SubstreamState:
        return replace(state, table=rebalanced(state.table, histogram, self.n_workers))
