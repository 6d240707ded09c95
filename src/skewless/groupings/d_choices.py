"""D-Choices: two workers for most keys, as many as balance asks for for the most frequent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil, isfinite
from typing import Any, ClassVar, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import SkewlessError
from skewless.groupings.base import Grouping, Router, State, mean_loads
from skewless.hashing import lower_choice, make_salt, mix, random_word, upper_choice
from skewless.sketches.key_table import FREE, find
from skewless.sketches.least_counter import NEXT_LEVEL, find_least, start_search
from skewless.sketches.space_saving import Counters, SpaceSaving, take_counter

# What stands where in `progress`, around the search for the least loaded worker.
TUPLES: Final = 0  # tuples that the sketch has counted
N_CHOICES: Final = NEXT_LEVEL + 1  # workers that a key of the head may choose from; all if there are no more
DECIDE_AT: Final = NEXT_LEVEL + 2  # the number of tuples at which the choices are decided anew
NEVER: Final = int(np.iinfo(np.int64).max)
_FEWEST: Final = 2  # choices of any key
_SMALLEST_SHARE: Final = 1e-6  # of a key of the head: two million counters
_COUNTERS_PER_SHARE: Final = 2  # so that a count is too high by half of what makes a key frequent, at most
_TUPLES_PER_SHARE: Final = 20  # between two decisions: a key that is barely frequent comes 20 times


@njit(cache=True)
def fewest_choices(shares: Any, n_workers: int, tolerance: float) -> Any:
    """Give the least number of choices d that keeps workers balanced, or `n_workers` if only that does.

    `shares` are the relative frequencies of the head, in descending order. The h most frequent keys reach b workers,
    as drawn by their h · d hashes. What these workers get in the end - those keys, the other keys of the head that
    have all of their d choices there, the keys of the tail that have both - must not exceed their part of the load
    by more than the tolerance. That is asked for every h.
    """
    head = 0.0
    for share in shares:
        head += share
    tail = max(0.0, 1.0 - head)
    for n_choices in range(_FEWEST, n_workers):
        taken = 0.0
        balanced = True
        for position in range(shares.size):
            taken += shares[position]
            reached = 1.0 - ((n_workers - 1.0) / n_workers) ** float((position + 1) * n_choices)
            load = taken + reached ** float(n_choices) * max(0.0, head - taken) + reached * reached * tail
            if load > reached * (1.0 + n_workers * tolerance):
                balanced = False
                break
        if balanced:
            return n_choices
    return n_workers


@njit(cache=True)
def _shares_of_head(counts: Any, tuples: int, head_share: float) -> Any:
    """Give the relative frequencies of at least `head_share`, in descending order."""
    frequent = counts[counts >= max(1.0, head_share * tuples)]
    return np.sort(frequent)[::-1] / max(tuples, 1)


@njit(cache=True)
def route_head_and_tail(
    keys: Any,
    workers: Any,
    salt: Any,
    loads: Any,
    progress: Any,
    index: Any,
    sketch_keys: Any,
    counts: Any,
    errors: Any,
    marks: Any,
    head_share: float,
    tolerance: float,
    decide_every: int,
) -> None:
    """Send each tuple to the least loaded of its key's workers: two of them, or N_CHOICES for a key of the head.

    Writes `workers`; counts in `loads`, `progress` and the sketch, in place.
    """
    n_workers = loads.size
    begin = 0
    while begin < keys.size:
        tuples = progress[TUPLES]
        if tuples >= progress[DECIDE_AT]:
            shares = _shares_of_head(counts, tuples, head_share)
            progress[N_CHOICES] = fewest_choices(shares, n_workers, tolerance)
            progress[DECIDE_AT] = tuples + min(max(tuples, 1), decide_every)
        n_choices = progress[N_CHOICES]
        end = begin + min(keys.size - begin, progress[DECIDE_AT] - tuples)
        for i in range(begin, end):
            key = keys[i]
            word = mix(key ^ salt)
            slot = find(index, sketch_keys, key, word)
            if slot == FREE:
                slot = take_counter(index, sketch_keys, counts, errors, marks, salt, key, word)
            else:
                counts[uint64(slot)] += 1
            tuples += 1
            is_frequent = counts[uint64(slot)] >= head_share * tuples
            if is_frequent and n_choices >= n_workers:
                best = find_least(loads, progress)
            else:
                best = upper_choice(word, n_workers)
                other = lower_choice(word, n_workers)
                best = other if loads[uint64(other)] < loads[uint64(best)] else best
                if is_frequent:
                    for choice in range(_FEWEST, n_choices):
                        other = upper_choice(random_word(word, choice), n_workers)
                        best = other if loads[uint64(other)] < loads[uint64(best)] else best
            loads[uint64(best)] += 1
            workers[i] = best
        progress[TUPLES] = tuples
        begin = end


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadAndTailState(State):
    """What a source keeps: its own count of the tuples of each worker, its sketch, and how far it has come."""

    salt: np.uint64
    loads: NDArray[np.int64]
    progress: NDArray[np.int64]
    sketch: Counters


@dataclass(frozen=True, kw_only=True)
class HeadAndTail(Grouping[HeadAndTailState]):
    """What D-Choices and W-Choices share: a sketch that tells frequent keys, the *head*, from the others."""

    state_class = HeadAndTailState
    first_decision: ClassVar[int]
    """The number of tuples before which all workers are open to frequent keys, and then as few as balance needs."""

    head_share: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_share is not None and not _SMALLEST_SHARE <= self.head_share <= 1:
            raise SkewlessError(f"head_share must be between {_SMALLEST_SHARE} and 1; got {self.head_share}")

    @property
    def least_share(self) -> float:
        """The relative frequency from which a key is of the head: given, or a fifth of a worker's fair share."""
        return max(_SMALLEST_SHARE, 1 / (5 * self.n_workers)) if self.head_share is None else self.head_share

    @property
    def n_counters(self) -> int:
        """Counters of the sketch of a source: two per key that could be frequent."""
        return ceil(_COUNTERS_PER_SHARE / self.least_share)

    @property
    def decide_every(self) -> int:
        """Tuples of a source between two decisions; before there are so many, at every doubling of them."""
        return ceil(_TUPLES_PER_SHARE / self.least_share)

    @property
    def load_tolerance(self) -> float:
        """By how much of the whole load a worker may exceed its fair share; for groupings that decide on choices."""
        return 0.0

    def first_state(self, _source: int, seed: int, /) -> HeadAndTailState:
        salt = make_salt(seed)
        loads = np.zeros(self.n_workers, dtype=np.int64)
        return self._first_state(loads, 0, SpaceSaving(self.n_counters, salt=salt))

    def resume(self, state: HeadAndTailState, /) -> Router[HeadAndTailState]:
        return _HeadAndTailRouter(self, state)

    def merge(self, states: Sequence[HeadAndTailState]) -> HeadAndTailState:
        loads = mean_loads([state.loads for state in states])
        tuples = sum(int(state.progress[TUPLES]) for state in states)
        return self._first_state(loads, tuples, reduce(SpaceSaving.merge, map(self.sketch_of, states)))

    def sketch_of(self, state: HeadAndTailState) -> SpaceSaving:
        """Return the sketch of a source."""
        sketch = SpaceSaving(self.n_counters, salt=state.salt)
        sketch.restore(state.sketch)
        return sketch

    def _first_state(self, loads: NDArray[np.int64], tuples: int, sketch: SpaceSaving) -> HeadAndTailState:
        progress = np.zeros(DECIDE_AT + 1, dtype=np.int64)
        start_search(loads, progress)
        progress[TUPLES] = tuples
        progress[N_CHOICES] = self.n_workers
        progress[DECIDE_AT] = self.first_decision
        return HeadAndTailState(salt=sketch.salt, loads=loads, progress=progress, sketch=sketch.snapshot())


class _HeadAndTailRouter(Router[HeadAndTailState]):
    def __init__(self, grouping: HeadAndTail, state: HeadAndTailState) -> None:
        self._grouping = grouping
        self._salt = state.salt
        self._loads = state.loads.copy()
        self._progress = state.progress.copy()
        self._sketch = grouping.sketch_of(state)

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers = np.empty(keys.size, dtype=np.int32)
        grouping, sketch = self._grouping, self._sketch
        route_head_and_tail(
            keys,
            workers,
            self._salt,
            self._loads,
            self._progress,
            sketch.index,
            sketch.keys,
            sketch.counts,
            sketch.errors,
            sketch.marks,
            grouping.least_share,
            grouping.load_tolerance,
            grouping.decide_every,
        )
        return workers

    def snapshot(self) -> HeadAndTailState:
        return HeadAndTailState(
            salt=self._salt,
            loads=self._loads.copy(),
            progress=self._progress.copy(),
            sketch=self._sketch.snapshot(),
        )


@dataclass(frozen=True, kw_only=True)
class DChoices(HeadAndTail):
    """Give each key two workers by its hash, and a frequent key as many as it takes for the load to be even.

    A tuple goes to the least loaded worker of its key, by the source's own count. A key is frequent from
    `least_share` on, as the source's own sketch tells. All frequent keys have the same number of choices: the least
    for which no group of them is expected to overload the workers that it reaches. Where that takes as many choices
    as there are workers, all workers are open to them, as in W-Choices. With no frequent key this is partial key
    grouping.

    Parameters
    ----------
    head_share: the paper's theta, from which relative frequency on a key is frequent; None is 1 / (5 n_workers). The
        paper recommends from there up to 2 / n_workers.
    tolerance: the paper's epsilon, by how much of the whole load a worker may exceed its fair share.

    >>> router = DChoices(workers=50).start(source=0, seed=0)
    >>> keys = np.where(np.arange(20_000) % 10 == 0, np.uint64(7), np.arange(20_000, dtype=np.uint64))
    >>> workers = router.route(keys, 0)
    >>> len(set(workers[keys == 7].tolist())) > 4  # a tenth of the load is that of five workers
    True

    Reference
    ---------
    Nasir, De Francisci Morales, Kourtellis & Serafini, *When Two Choices Are not Enough: Balancing at Scale in
    Distributed Stream Processing* (2016), sections III and IV.

    Deviations: none in the rule. What the paper leaves open: the sketch has 2 / theta counters; the choices are decided
    at 1, 2, 4, 8 … tuples of the source and from 20 / theta on at every 20 / theta; further choices are drawn from the
    hash that gives the first two. Of several least loaded workers the first choice takes it, and among all workers
    the next in turn.
    """

    name: ClassVar[str] = "d_choices"
    aliases: ClassVar[tuple[str, ...]] = ("D-CHOICES", "DC")
    first_decision: ClassVar[int] = 0

    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.tolerance) and self.tolerance >= 0):
            raise SkewlessError(f"tolerance must be a number of at least 0; got {self.tolerance}")

    @property
    def load_tolerance(self) -> float:
        return float(self.tolerance)
