"""Correlation-based load balancing (CLB): substreams that rise and fall together are kept apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, UnknownNameError, require_at_least
from skewless.groupings.substream import SubstreamGrouping, SubstreamState, dealt

VARIANTS: Final = ("levelled", "printed")
_TINY: Final = 1e-9  # of all variance: less than that is rounding
_LEVEL: Final = 1.05  # times the mean: up to that, the most loaded set counts as level
_MOST_SUBSTREAMS: Final = 4096  # their matrix of covariances takes 128 MB


@njit(cache=True)
def covary(histograms: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean load of each substream and the covariances of all; a row is a window.

    Written as loops: a library's matrix product may round differently on another machine, and all sources must agree.
    """
    m, n = histograms.shape
    means = np.zeros(n)
    for t in range(m):
        for i in range(n):
            means[i] += histograms[t, i]
    means /= m
    covariances = np.zeros((n, n))
    for t in range(m):
        for i in range(n):
            above = histograms[t, i] - means[i]
            for j in range(n):
                covariances[i, j] += above * (histograms[t, j] - means[j])
    covariances /= m
    return means, covariances


@njit(cache=True)
def _weigh(
    covariances: NDArray[np.float64],
    least: NDArray[np.float64],
    members: NDArray[np.int64],
    weights: NDArray[np.float64],
    ties: NDArray[np.float64],
) -> None:
    """Sum the covariances of each member of a set: with all others, and with those it may part from (lines 2-7).

    The former go to `ties`, the latter to `weights`, in place.
    """
    for i in members:
        weights[i] = ties[i] = 0.0
        for j in members:
            if i != j:
                ties[i] += covariances[i, j]
                if covariances[i, j] >= least[i] * least[j]:
                    weights[i] += covariances[i, j]


@njit(cache=True)
def _part(
    covariances: NDArray[np.float64],
    least: NDArray[np.float64],
    tiny: float,
    ties: NDArray[np.float64],
    sets: NDArray[np.int32],
    pivot: int,
    new: int,
) -> int:
    """Move substreams that co-vary with the pivot from its set to a new one, in place; return how many (lines 10-13).

    Each leaves only if that raises the cross covariance: its covariance with those that stay is larger than with those
    that have left before it. Its covariance with the whole set is in `ties`.
    """
    old = sets[pivot]
    n_left = 0
    ties = ties.copy()
    for i in range(sets.size):
        may_leave = sets[i] == old and i != pivot and covariances[pivot, i] >= least[pivot] * least[i]
        if may_leave and ties[i] > tiny:
            sets[i] = new
            n_left += 1
            ties -= 2 * covariances[i]
    return n_left


@njit(cache=True)
def split(covariances: NDArray[np.float64], least: NDArray[np.float64], n_sets: int) -> NDArray[np.int32]:
    """Return the set of each substream: one set of all is split repeatedly until there are `n_sets` (Algorithm 2).

    Two substreams may be parted if their covariance is at least the product of their values in `least`. Each split
    raises the cross covariance; if none would, there are fewer sets.
    """
    n = covariances.shape[0]
    tiny = 0.0
    for i in range(n):
        tiny += _TINY * covariances[i, i]
    sets = np.zeros(n, dtype=np.int32)
    weights, ties = np.zeros(n), np.zeros(n)
    _weigh(covariances, least, np.arange(n), weights, ties)
    n_made = 1
    while n_made < n_sets:
        pivot = int(np.argmax(weights))
        if weights[pivot] <= tiny:
            break
        if _part(covariances, least, tiny, ties, sets, pivot, n_made):
            _weigh(covariances, least, np.flatnonzero(sets == n_made), weights, ties)
            _weigh(covariances, least, np.flatnonzero(sets == sets[pivot]), weights, ties)
            n_made += 1
        else:
            weights[pivot] = 0.0
    return sets


@njit(cache=True)
def split_as_printed(covariances: NDArray[np.float64], threshold: float, n_sets: int) -> NDArray[np.int32]:
    """Return the set of each substream by the lines of Algorithm 2, whatever that does to the cross covariance.

    In each run those leave the set of the heaviest substream whose covariance with it is at most the threshold (line
    11). In the first run the new set is the old one (line 1), so that only weights change.
    """
    n = covariances.shape[0]
    sets = np.zeros(n, dtype=np.int32)
    weights = np.zeros(n)
    for one in range(n):
        for other in range(n):
            if one != other and covariances[one, other] >= threshold:
                weights[one] += covariances[one, other]
    for new in range(n_sets):
        pivot = int(np.argmax(weights))
        old = int(sets[pivot])
        for i in np.flatnonzero(sets == old):
            if covariances[pivot, i] <= threshold:
                sets[i] = new
                weights[i] = 0.0
                for j in range(n):
                    if sets[j] == old and j != i:
                        weights[j] -= covariances[i, j]
                    if sets[j] == new and j != i:
                        weights[j] += covariances[i, j]
    return sets


@njit(cache=True)
def _best_move(ties: NDArray[np.float64], sets: NDArray[np.int32], most: int, least_gain: float) -> tuple[int, int]:
    """Return the substream of a set, and the set to move it to, that gain most; -1 if none gains enough."""
    best, target, gain = -1, -1, least_gain
    for i in range(sets.size):
        for other in range(ties.shape[1]):
            if sets[i] == most and other != most and ties[i, most] - ties[i, other] > gain:
                best, target, gain = i, other, ties[i, most] - ties[i, other]
    return best, target


@njit(cache=True)
def even_out(moments: NDArray[np.float64], means: NDArray[np.float64], sets: NDArray[np.int32], n_sets: int) -> None:
    """Move substreams off the sets with the largest mean loads, while that lowers the overall imbalance; in place.

    `moments` are the means of the products of two substreams' loads. The overall imbalance over all windows is their
    sum over all pairs within a set, up to a constant. Substreams leave the fullest set until it is level with the mean
    or no move would help; then it is settled, and the next one follows.
    """
    n = sets.size
    ties = np.zeros((n, n_sets))
    loads = np.zeros(n_sets)
    for i in range(n):
        loads[sets[i]] += means[i]
        for j in range(n):
            if i != j:
                ties[i, sets[j]] += moments[i, j]
    mean, tiny = loads.sum() / n_sets, _TINY * moments.sum()
    settled = np.zeros(n_sets, dtype=np.bool_)
    while not settled.all():
        most = int(np.argmax(np.where(settled, -1.0, loads)))
        best, target = _best_move(ties, sets, most, tiny) if loads[most] > _LEVEL * mean else (-1, -1)
        if best < 0:
            settled[most] = True
            continue
        sets[best] = target
        loads[most] -= means[best]
        loads[target] += means[best]
        for i in range(n):
            if i != best:
                ties[i, most] -= moments[i, best]
                ties[i, target] += moments[i, best]


@njit(cache=True)
def relabel(
    sets: NDArray[np.int32], table: NDArray[np.int32], weights: NDArray[np.float64], n_workers: int
) -> NDArray[np.int32]:
    """Assign workers to sets so that little moves: next are always the set and worker with most in common."""
    common = np.zeros((n_workers, n_workers))
    for i in range(sets.size):
        common[sets[i], table[i]] += weights[i]
    owners = np.empty(n_workers, dtype=np.int32)
    for _ in range(n_workers):
        best = np.argmax(common)
        one, worker = best // n_workers, best % n_workers
        owners[one] = worker
        common[one, :] = -1.0
        common[:, worker] = -1.0
    return owners[sets]


def overall_imbalance(table: NDArray[np.int32], histograms: NDArray[np.int64], n_workers: int) -> int:
    """Return the sum of the variances of all windows' loads (ħ in section 2.2), times n_workers squared: exactly.

    >>> overall_imbalance(np.array([0, 1, 1]), np.array([[4, 2, 2], [1, 2, 3]]), 2)
    16
    """
    imbalance = 0
    for histogram in histograms:
        loads = [int(load) for load in np.bincount(table, weights=histogram, minlength=n_workers)]
        imbalance += n_workers * sum(load * load for load in loads) - sum(loads) ** 2
    return imbalance


@dataclass(frozen=True, kw_only=True, eq=False)
class CorrelationState(SubstreamState):
    """What a source keeps, with the histograms of the last windows."""

    histograms: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Correlation(SubstreamGrouping[CorrelationState]):
    """Part, every `n_windows` windows, the substreams whose loads rise and fall together; nothing moves in between.

    The table is made to fit all histograms of the period, so that the peaks of a worker's substreams do not coincide.
    Each split of a set raises the cross covariance, the sum of all covariances between substreams on different workers.
    State moves once in a period.

    Parameters
    ----------
    n_substreams : int
        Substreams that keys are hashed to (p), at most 4096.
    window_ms : int
        Length of a statistics window (Δ); 0 ends a window at every barrier.
    n_windows : int
        Windows from one table to the next, and histograms that it is made from (m).
    change : float, optional
        As in `eager`: a new table after a change instead of every `n_windows` windows, from up to as many histograms.
    threshold : float
        Correlation from which two substreams may be parted (θ); 0 to less than 1. As printed, it is one of covariances.
    variant : {"levelled", "printed"}
        `printed` is Algorithm 2 line by line, which lets one worker get several times the mean: substreams leave whose
        covariance with the heaviest is *at most* θ, weights are updated as they leave, and set r belongs to worker r.
        `levelled` is the one to use: those leave that co-vary (the text of section 4), if that raises the cross
        covariance; mean loads of the sets are levelled as well; sets are numbered such that much stays where it is; and
        the old table stays if its overall imbalance in the same windows is no higher.

    >>> moving = np.array([[9, 1, 9, 1], [1, 9, 1, 9]])  # two windows: the first and the third go together
    >>> Correlation(workers=2, n_substreams=4, n_windows=2).assign(moving, np.array([0, 1, 0, 1])).tolist()
    [1, 1, 0, 0]

    Reference
    ---------
    Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 4, Algorithm 2.

    Deviations: of `printed` none, as far as the lines are clear. Text and lines 11-13 disagree on which substreams
    leave a set, and neither always raises the cross covariance; minimal variances over time mean minimal imbalance (eq.
    3 and 4) only if mean loads are equal: hence `levelled`. There, if no substream leaves, the next heaviest is chosen,
    and the threshold is one of correlations, as covariances have no scale from 0 to 1.
    """

    name: ClassVar[str] = "correlation"
    fewest_windows: ClassVar[int] = 2
    aliases: ClassVar[tuple[str, ...]] = ("CLB",)
    state_class = CorrelationState

    n_windows: int = 24
    threshold: float = 0.0
    variant: str = "levelled"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("n_windows", self.n_windows, 2)
        if isinstance(self.threshold, bool) or not (
            isinstance(self.threshold, (int, float)) and 0 <= self.threshold < 1
        ):
            raise ConfigurationError(
                subject="threshold", expected="a number of at least 0 and below 1", value=self.threshold
            )
        if self.variant not in VARIANTS:
            raise UnknownNameError("variant", self.variant, VARIANTS, subject="variant")
        if self.n_substreams > _MOST_SUBSTREAMS:
            raise ConfigurationError(
                f"{self.name} takes at most {_MOST_SUBSTREAMS} {{n_substreams}}; got {self.n_substreams}",
                subject="n_substreams",
            )

    def assign(self, histograms: NDArray[np.int64], table: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the table that fits histograms, one row per window; `levelled`, it differs little from the old one."""
        means, covariances = covary(histograms)
        if self.variant == "printed":
            printed: NDArray[np.int32] = split_as_printed(covariances, self.threshold, self.n_workers)
            return printed
        least = np.sqrt(self.threshold * np.diagonal(covariances))
        sets: NDArray[np.int32] = split(covariances, least, self.n_workers)
        even_out(covariances + np.outer(means, means), means, sets, self.n_workers)
        assigned: NDArray[np.int32] = relabel(sets, table.astype(np.int32), means, self.n_workers)
        before, after = (overall_imbalance(one, histograms, self.n_workers) for one in (table, assigned))
        return assigned if after < before else table

    def first_state(self, _source: int, _seed: int, /) -> CorrelationState:
        return CorrelationState(
            table=dealt(self.n_substreams, self.n_workers),
            counts=self._no_counts(),
            window=self._no_counts(),
            histograms=np.zeros((self.n_windows, self.n_substreams), dtype=np.int64),
        )

    def _observed(self, state: CorrelationState, histogram: NDArray[np.int64], /) -> CorrelationState:
        histograms = state.histograms.copy()
        histograms[state.windows % self.n_windows] = histogram
        return replace(state, histograms=histograms)

    def _revised(self, state: CorrelationState, histogram: NDArray[np.int64]) -> CorrelationState:
        observed = self._observed(state, histogram)
        if self.change is None and (state.windows + 1) % self.n_windows:
            return observed
        known = observed.histograms[: min(state.windows + 1, self.n_windows)]
        return replace(observed, table=self.assign(known, state.table))
