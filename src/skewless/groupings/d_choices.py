"""D-Choices: two workers for most keys, as many as balance requires for the most frequent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil, isfinite
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError
from skewless.groupings.base import Grouping, Router, State, mean_loads
from skewless.hashing import lower_choice, mix, random_word, upper_choice
from skewless.seeding import make_salt
from skewless.sketches.key_table import FREE, find
from skewless.sketches.least_counter import NEXT_LEVEL, find_least, start_search
from skewless.sketches.space_saving import Counters, SpaceSaving, take_counter

# Positions in `progress`, around those of the search for the least loaded worker.
TUPLES: Final = 0  # tuples that the sketch has counted
N_CHOICES: Final = NEXT_LEVEL + 1  # workers that a key of the head may choose from; all if there are no more
DECIDE_AT: Final = NEXT_LEVEL + 2  # the number of tuples at which the choices are decided again
NEVER: Final = int(np.iinfo(np.int64).max)
_FEWEST: Final = 2  # choices of any key
_SMALLEST_SHARE: Final = 1e-6  # of a key of the head: two million counters
_COUNTERS_PER_SHARE: Final = 2  # so that a count is too high by half of what makes a key frequent, at most
_TUPLES_PER_SHARE: Final = 20  # between two decisions: a key that is barely frequent comes 20 times


@njit(cache=True)
def fewest_choices(shares: NDArray[np.float64], n_workers: int, tolerance: float) -> int:
    """Return the least number of choices d that keeps workers balanced, or `n_workers` if only that does.

    `shares` are the relative frequencies of the head, in descending order. The h most frequent keys reach b workers,
    as drawn by their h · d hashes. What these workers get in the end - those keys, the other keys of the head that
    have all of their d choices there, the keys of the tail that have both - must not exceed their part of the load
    by more than the tolerance, for every h.
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
def _shares_of_head(counts: NDArray[np.int64], tuples: int, head_share: float) -> NDArray[np.float64]:
    """Return the relative frequencies of at least `head_share`, in descending order."""
    frequent = counts[counts >= max(1.0, head_share * tuples)]
    shares: NDArray[np.float64] = np.sort(frequent)[::-1] / max(tuples, 1)
    return shares


class Sketch(NamedTuple):
    """The arrays of the sketch that tells frequent keys from the others."""

    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    errors: NDArray[np.int64]
    marks: NDArray[np.int64]
    salt: np.uint64


class Rules(NamedTuple):
    """When a key is frequent, how uneven loads may be, and after how many tuples choices are decided again."""

    head_share: float
    tolerance: float
    decide_every: int


@njit(cache=True)
def route_head_and_tail(
    keys: NDArray[np.uint64], loads: NDArray[np.int64], progress: NDArray[np.int64], sketch: Sketch, rules: Rules
) -> NDArray[np.int32]:
    """Return the least loaded of each key's workers: of two, or of N_CHOICES for a key of the head.

    Counts in `loads`, `progress` and the sketch, in place.
    """
    index, sketch_keys, counts, errors, marks, salt = sketch
    head_share = rules.head_share
    workers = np.empty(keys.size, dtype=np.int32)
    n_workers = loads.size
    start = 0
    while start < keys.size:
        tuples = progress[TUPLES]
        if tuples >= progress[DECIDE_AT]:
            shares = _shares_of_head(counts, tuples, head_share)
            progress[N_CHOICES] = fewest_choices(shares, n_workers, rules.tolerance)
            progress[DECIDE_AT] = tuples + min(max(tuples, 1), rules.decide_every)
        n_choices = progress[N_CHOICES]
        end = start + min(keys.size - start, progress[DECIDE_AT] - tuples)
        for i in range(start, end):
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
        start = end
    return workers


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
    """The number of tuples before which a frequent key may use all workers; then as few as balance needs."""

    head_share: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_share is not None and not _SMALLEST_SHARE <= self.head_share <= 1:
            expected = f"between {_SMALLEST_SHARE} and 1"
            raise ConfigurationError(subject="head_share", expected=expected, value=self.head_share)

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
        """Tuples of a source between two decisions; before the first of them, every doubling is one."""
        return ceil(_TUPLES_PER_SHARE / self.least_share)

    @property
    def load_tolerance(self) -> float:
        """By what fraction of the whole load a worker may exceed its fair share, where choices are decided."""
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
        self._loads = state.loads.copy()
        self._progress = state.progress.copy()
        self._sketch = grouping.sketch_of(state)
        self._rules = Rules(grouping.least_share, grouping.load_tolerance, grouping.decide_every)

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        sketch = self._sketch
        arrays = Sketch(sketch.index, sketch.keys, sketch.counts, sketch.errors, sketch.marks, sketch.salt)
        workers: NDArray[np.int32] = route_head_and_tail(keys, self._loads, self._progress, arrays, self._rules)
        return workers

    def snapshot(self) -> HeadAndTailState:
        return HeadAndTailState(
            salt=self._sketch.salt,
            loads=self._loads.copy(),
            progress=self._progress.copy(),
            sketch=self._sketch.snapshot(),
        )


@dataclass(frozen=True, kw_only=True)
class DChoices(HeadAndTail):
    """Send a tuple to the less loaded of two workers of its key; a frequent key has as many as an even load requires.

    Loads are the source's own count, and its own sketch finds the frequent keys. All frequent keys have the same number
    of choices: the least for which no group of them is expected to overload the workers that it reaches. Where that
    takes as many choices as there are workers, they may use all workers, as in W-Choices. With no frequent key this is
    partial key grouping.

    Parameters
    ----------
    head_share : float, optional
        Relative frequency from which a key is frequent (theta in the paper). Default: 1 / (5 n_workers); the paper
        recommends values from there up to 2 / n_workers.
    tolerance : float
        By what fraction of the whole load a worker may exceed its fair share (epsilon in the paper).

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
            raise ConfigurationError(subject="tolerance", expected="a number of at least 0", value=self.tolerance)

    @property
    def load_tolerance(self) -> float:
        return float(self.tolerance)
