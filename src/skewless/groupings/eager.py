"""Eager load balancing (ELB): after every window, excess load moves from some workers to others."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import ClassVar, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.groupings.substream import SubstreamGrouping, SubstreamState, dealt, largest_first, worker_loads

_log: Final = logging.getLogger(__name__)


@njit(cache=True)
def least_loaded(loads: NDArray[np.int64], among: NDArray[np.bool_]) -> int:
    """Return the first of the least loaded workers among those marked; -1 if none is."""
    best = -1
    for worker in range(loads.size):
        if among[worker] and (best < 0 or loads[worker] < loads[best]):
            best = worker
    return best


@njit(cache=True)
def reassign(
    histogram: NDArray[np.int64],
    order: NDArray[np.int64],
    active: NDArray[np.bool_],
    centre: float,
    half_width: float,
    loads: NDArray[np.int64],
    table: NDArray[np.int32],
) -> None:
    """Move substreams from workers above the mean to workers below it (lines 12-30); changes `loads` and `table`.

    Substreams are considered in `order`, largest first. Those of inactive workers all move. `centre` is the middle of
    the range that loads should be in.
    """
    mean = loads.sum() / active.sum()
    over = active & (loads > mean)
    under = active & ~over
    leaves = np.zeros(table.size, dtype=np.bool_)
    for substream in order:
        owner, load = table[substream], histogram[substream]
        if not active[owner] or (over[owner] and 0 < load < min(loads[owner] - mean, half_width)):
            leaves[substream] = True
            loads[owner] -= load
    for substream in order:
        if leaves[substream]:
            worker = least_loaded(loads, under)
            if worker < 0:
                worker = least_loaded(loads, active)
            table[substream] = worker
            loads[worker] += histogram[substream]
            if loads[worker] >= centre:
                under[worker] = False


@njit(cache=True)
def part_large(
    histogram: NDArray[np.int64],
    active: NDArray[np.bool_],
    ceiling: float,
    loads: NDArray[np.int64],
    table: NDArray[np.int32],
) -> None:
    """Relieve workers above the ceiling while a move lowers their load and makes no other as high; in place.

    The most loaded worker comes first. Its substreams move to the least loaded worker, each time the one whose move
    leaves the higher of the two lowest. Changes `loads` and `table`.
    """
    movable = active.copy()
    while True:
        most, least = -1, least_loaded(loads, active)
        for worker in range(loads.size):
            if movable[worker] and loads[worker] > ceiling and (most < 0 or loads[worker] > loads[most]):
                most = worker
        if most < 0:
            return
        best, lowest = -1, loads[most]
        for substream in range(table.size):
            load = histogram[substream]
            if table[substream] == most and load > 0:
                higher = max(loads[most] - load, loads[least] + load)
                if higher < lowest:
                    best, lowest = substream, higher
        if best < 0:
            movable[most] = False
            continue
        table[best] = least
        loads[most] -= histogram[best]
        loads[least] += histogram[best]


def engaged(active: NDArray[np.bool_], loads: NDArray[np.int64], n_active: int) -> NDArray[np.bool_]:
    """Return which workers are active if `n_active` are: the least loaded leave, the first idle join (lines 5-10).

    >>> engaged(np.array([True, True, True, False]), np.array([5, 1, 3, 0]), 2).tolist()
    [True, False, True, False]
    """
    active = active.copy()
    in_use = [worker for worker in largest_first(loads) if active[worker]]
    active[in_use[n_active:]] = False
    active[np.flatnonzero(~active)[: max(n_active - len(in_use), 0)]] = True
    return active


def rebalanced(
    table: NDArray[np.int32],
    histogram: NDArray[np.int64],
    active: NDArray[np.bool_],
    *,
    upper: float,
    lower: float,
    n_active: int,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the next table and the workers that are active in it (Algorithm 1, where `n_active` is π).

    >>> table, active = np.array([0, 0, 0, 1], dtype=np.int32), np.array([True, True, False])
    >>> rebalanced(table, np.array([3, 2, 4, 1]), active, upper=8, lower=2, n_active=2)[0].tolist()
    [0, 1, 0, 1]
    """
    table = table.copy()
    loads = worker_loads(histogram, table, active.size)
    active = engaged(active, loads, n_active)
    half_width = (upper - lower) / 2
    centre = max((upper + lower) / 2, histogram.sum() / n_active)
    reassign(histogram, largest_first(histogram), active, centre, half_width, loads, table)
    if (histogram > half_width).any():
        part_large(histogram, active, centre + half_width, loads, table)
    return table, active


@dataclass(frozen=True, kw_only=True, eq=False)
class EagerState(SubstreamState):
    """What a source keeps, with the workers that can own substreams, and whether it has warned of large ones."""

    active: NDArray[np.bool_]
    warned: bool = False


@dataclass(frozen=True, kw_only=True)
class Eager(SubstreamGrouping[EagerState]):
    """Move, after every window, substreams from workers above the mean to workers below it; elastic if it has bounds.

    Substreams leave only workers above the mean, and only for others, so little state moves. If no substream of the
    window has (upper - lower) / 2 tuples or more, no worker is left with more than `upper`, or than the mean plus that
    if there are too few workers; nor with less than the mean minus n_workers - 1 times the largest substream. With
    bounds, as many workers are active as bring the mean to the middle of the two; the others get no tuples.

    Parameters
    ----------
    n_substreams : int
        Substreams that keys are hashed to (p).
    window_ms : int
        Length of a statistics window (Δ); 0 ends a window at every barrier.
    change : float, optional
        Rebalance only after a window whose histogram differs from that of the last rebalancing by more than so many
        standard deviations of what chance makes them differ; by default after every window. Not with bounds, as what
        is compared are shares, and the number of workers follows the total.
    upper : float, optional
        Most tuples that a worker should get in a window (u).
    lower : float, optional
        Least tuples that an active worker should get in a window (v). If both are None, all workers are active and the
        bounds are the mean load, plus and minus `slack` of it.
    slack : float
        Half the width of that range, as a fraction of the mean load. Larger substreams do not move, unless that lowers
        the most loaded worker and that one is out of range: less slack moves less and balances less.
    start_workers : int, optional
        Workers that are active at first; all by default.

    >>> grouping = Eager(workers=10, upper=1200, lower=800)
    >>> grouping.parallelism(4_100)
    5

    Reference
    ---------
    Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 3, Algorithm 1.

    Deviations: what may leave a worker is bounded after each substream by the rest of its excess; line 20 as printed
    would let (u - v) / 2 leave in total, however far above u the worker is. Substreams without a tuple stay. The
    parallelism has a maximum, `n_workers`; where that is too little, the range moves up with the mean. Of substreams
    larger than the paper assumes it warns once; they move only off a worker out of range, and if that lowers its load
    without making the taker as high.
    """

    name: ClassVar[str] = "eager"
    aliases: ClassVar[tuple[str, ...]] = ("ELB",)
    state_class = EagerState

    upper: float | None = None
    lower: float | None = None
    slack: float = 0.25
    start_workers: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_bounds()
        if isinstance(self.slack, bool) or not (isinstance(self.slack, (int, float)) and 0 < self.slack <= 1):
            raise ConfigurationError(subject="slack", expected="a number above 0 and at most 1", value=self.slack)
        if self.start_workers is not None:
            require_at_least("start_workers", self.start_workers, 1)
            if self.workers is not None and self.start_workers > self.workers:
                raise ConfigurationError(
                    subject="start_workers",
                    expected=f"at most the number of workers ({self.workers})",
                    value=self.start_workers,
                )
            if self.workers is not None and self.upper is None and self.start_workers < self.workers:
                raise ConfigurationError(
                    "{start_workers} needs {upper} and {lower}: without them all workers are active",
                    subject="start_workers",
                )

    def _check_bounds(self) -> None:
        if (self.upper is None) != (self.lower is None):
            raise ConfigurationError(
                "{upper} and {lower} must be set both or neither; "
                f"got {{upper}}={self.upper!r} and {{lower}}={self.lower!r}",
                subject="upper",
            )
        if self.upper is not None and self.change is not None:
            raise ConfigurationError(
                "{change} excludes {upper} and {lower}: the number of workers follows the total load, not its shares",
                subject="change",
            )
        if self.upper is not None and self.lower is not None:
            for name, bound in (("upper", self.upper), ("lower", self.lower)):
                if isinstance(bound, bool) or not (isinstance(bound, (int, float)) and isfinite(bound) and bound >= 0):
                    raise ConfigurationError(subject=name, expected="a number of at least 0", value=bound)
            if self.upper <= self.lower:
                raise ConfigurationError(subject="upper", expected=f"above {{lower}} ({self.lower})", value=self.upper)

    def parallelism(self, load: int) -> int:
        """Return the number of active workers for a window with a number of tuples (line 4: π)."""
        if self.upper is None or self.lower is None:
            return self.n_workers
        return max(ceil(min(2 * load / (self.upper + self.lower), self.n_workers)), 1)

    def first_state(self, _source: int, _seed: int, /) -> EagerState:
        n_active = self.n_workers if self.start_workers is None else self.start_workers
        return EagerState(
            table=dealt(self.n_substreams, n_active),
            counts=self._no_counts(),
            window=self._no_counts(),
            active=np.arange(self.n_workers) < n_active,
        )

    def _revised(self, state: EagerState, histogram: NDArray[np.int64]) -> EagerState:
        total = int(histogram.sum())
        n_active = self.parallelism(total)
        mean = total / n_active
        upper = (1 + self.slack) * mean if self.upper is None else self.upper
        lower = (1 - self.slack) * mean if self.lower is None else self.lower
        largest, most = int(histogram.max()), (upper - lower) / 2
        if largest > most and n_active > 1 and not state.warned:
            _log.warning(
                "eager: a substream has %d of %d tuples in a window, more than half the range of loads (%g), so it "
                "seldom moves; take more than %d substreams, or a wider range, if it is more than a single key",
                largest,
                total,
                most,
                self.n_substreams,
            )
        table, active = rebalanced(state.table, histogram, state.active, upper=upper, lower=lower, n_active=n_active)
        return replace(state, table=table, active=active, warned=state.warned or (largest > most and n_active > 1))
