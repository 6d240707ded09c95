"""Flux: after every window load moves from the most to the least loaded worker, the second to the second last, …."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.groupings.substream import SubstreamGrouping, SubstreamState, dealt, largest_first, worker_loads


@njit(cache=True)
def even_out_pairs(
    histogram: NDArray[np.int64],
    order: NDArray[np.int64],
    partners: NDArray[np.int64],
    loads: NDArray[np.int64],
    table: NDArray[np.int32],
) -> None:
    """Move substreams that fit from each worker to its partner, in `order`; changes `loads` and `table` in place.

    A substream fits if it has no more than half the difference, so that the giver still has no less than the taker. A
    worker without a partner has -1.
    """
    for substream in order:
        giver, load = table[substream], histogram[substream]
        taker = partners[giver]
        if taker >= 0 and 0 < 2 * load <= loads[giver] - loads[taker]:
            table[substream] = taker
            loads[giver] -= load
            loads[taker] += load


def paired(loads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the partner of each worker of the more loaded half, -1 for the others: the most has the least loaded one.

    >>> paired(np.array([10, 50, 30, 20, 40])).tolist()
    [-1, 0, -1, -1, 3]
    """
    ranked = largest_first(loads)
    partners = np.full(loads.size, -1)
    half = loads.size // 2
    partners[ranked[:half]] = ranked[::-1][:half]
    return partners


def rebalanced(table: NDArray[np.int32], histogram: NDArray[np.int64], n_workers: int) -> NDArray[np.int32]:
    """Return the next table: load moves from the most to the least loaded worker, the second to the second, and so on.

    >>> rebalanced(np.array([0, 0, 0, 1], dtype=np.int32), np.array([5, 3, 1, 1]), 2).tolist()
    [0, 1, 1, 1]
    """
    table = table.copy()
    loads = worker_loads(histogram, table, n_workers)
    even_out_pairs(histogram, largest_first(histogram), paired(loads), loads, table)
    return table


@dataclass(frozen=True, kw_only=True)
class Flux(SubstreamGrouping[SubstreamState]):
    """Pair the most with the least loaded worker, and so on, and level each pair, after every window.

    No move makes a difference larger, so a new table never increases the load of the most loaded worker. The number of
    workers is fixed, and how much state moves is not limited: a baseline for `eager`.

    Parameters
    ----------
    n_substreams : int
        Substreams that keys are hashed to.
    window_ms : int
        Length of a statistics window; 0 ends a window at every barrier.
    change : float, optional
        As in `eager`: a new table only after a change.

    >>> Flux(workers=2, n_substreams=5).first_state(0, 0).table.tolist()
    [0, 1, 0, 1, 0]

    Reference
    ---------
    Shah, Hellerstein, Chandrasekaran & Franklin, *Flux: An Adaptive Partitioning Operator for Continuous Query Systems*
    (2003); Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 1.1.

    Deviations: balance of tuples only, without Flux's buffers for short and its replicas for lost workers. The
    substreams of a pair that move are taken to be the largest that fit.
    """

    name: ClassVar[str] = "flux"
    baseline: ClassVar[bool] = True
    state_class = SubstreamState

    def first_state(self, _source: int, _seed: int, /) -> SubstreamState:
        table = dealt(self.n_substreams, self.n_workers)
        return SubstreamState(table=table, counts=self._no_counts(), window=self._no_counts())

    def _revised(self, state: SubstreamState, histogram: NDArray[np.int64]) -> SubstreamState:
        return replace(state, table=rebalanced(state.table, histogram, self.n_workers))
