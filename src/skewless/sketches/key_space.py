"""Key items in three generations: which keys have been frequent for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.sketches.key_table import capacity_for, grown, make_index

BABY: Final = 0
TEENAGE: Final = 1
OLD: Final = 2

_COLUMNS: Final[dict[str, type[np.signedinteger[Any]]]] = {
    "counts": np.int64,
    "seen_s": np.int32,
    "checked_s": np.int32,
    "widths": np.int16,
    "spaces": np.int8,
}


@njit(cache=True)
def promote(
    source: NDArray[np.int64], target: NDArray[np.int64], capacity: int, counts: NDArray[np.int64], swap_ties: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Move the most frequent items of one space to the next, up to `capacity` of them (Algorithm 3).

    `source` and `target` are slots in descending order of `counts`. The head of the source fills a free place of the
    target; if there is none, it changes places with the tail of the target unless the tail has a larger count, or, if
    not `swap_ties`, an equal one.
    Returns the new source and the new target.
    """
    n_target = target.size
    sources = np.empty(source.size + capacity, dtype=np.int64)
    sources[: source.size] = source
    targets = np.empty(capacity + n_target, dtype=np.int64)
    targets[capacity:] = target
    source_head, source_tail = 0, source.size
    target_head, target_tail = capacity, capacity + n_target
    for _ in range(capacity):
        if source_head == source_tail:
            break
        first = sources[source_head]
        if target_tail - target_head >= capacity:
            last = targets[target_tail - 1]
            if counts[last] > counts[first] or (counts[last] == counts[first] and not swap_ties):
                break
            target_tail -= 1
            sources[source_tail] = last
            source_tail += 1
        source_head += 1
        target_head -= 1
        targets[target_head] = first
    return sources[source_head:source_tail], targets[target_head:target_tail]


def most_frequent(counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return the positions of the n largest counts, largest first; ties are broken by position.

    >>> most_frequent(np.array([5, 9, 5, 7]), 3).tolist()
    [1, 3, 0]
    """
    if n == 0:
        return np.empty(0, dtype=np.int64)
    if n < counts.size:
        least = np.partition(counts, counts.size - n)[counts.size - n]
        above = np.flatnonzero(counts > least)
        equal = np.flatnonzero(counts == least)[: n - above.size]
        candidates = np.sort(np.concatenate([above, equal]))
    else:
        candidates = np.arange(counts.size)
    order: NDArray[np.int64] = candidates[np.argsort(-counts[candidates], kind="stable")]
    return order


def space_sizes(expected_keys: int) -> tuple[int, int, int]:
    """Return the sizes of the baby, the teenage and the old space.

    >>> space_sizes(100)
    (50, 40, 10)
    """
    return (
        max(1, expected_keys * 50 // 100),
        max(1, expected_keys * 40 // 100),
        max(1, expected_keys * 10 // 100),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Items:
    """A snapshot of a key space."""

    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    seen_s: NDArray[np.int32]
    checked_s: NDArray[np.int32]
    widths: NDArray[np.int16]
    spaces: NDArray[np.int8]


class KeySpace:
    """Key items in a baby, a teenage and an old space of bounded size, as a heap keeps objects by age.

    A new key enters the baby space, which is unbounded between two cycles. A cycle removes keys that were not seen
    for long, trims the baby space to its size and promotes the most frequent keys. Arrays are public: the routing
    kernel of dynamic key grouping, which counts the keys, reads and writes them.

    Parameters
    ----------
    expected_keys : int
        Sizes the spaces.
    salt : np.uint64
        Selects the hash function of the index.

    Reference
    ---------
    Dalabasmaz & Can, *Dynamic Key Grouping*, sections 4.1.1-4.1.3, Algorithms 1-3. Deviations: Algorithm 3 does not
    say how an empty space is ever filled; as in the authors' code, the next item fills a free place. Items of equal
    count are in order of arrival.
    """

    def __init__(self, expected_keys: int, salt: np.uint64) -> None:
        self._salt = salt
        self.sizes = space_sizes(expected_keys)
        self.n = 0
        self.keys = np.zeros(capacity_for(0), dtype=np.uint64)
        self.index = make_index(self.keys[:0], self.keys.size, salt)
        for name, kind in _COLUMNS.items():
            setattr(self, name, np.zeros(self.keys.size, dtype=kind))

    counts: NDArray[np.int64]
    seen_s: NDArray[np.int32]
    checked_s: NDArray[np.int32]
    widths: NDArray[np.int16]
    spaces: NDArray[np.int8]

    def grow(self) -> None:
        """Double the capacity."""
        self._resize(2 * self.keys.size)

    def cycle(self, now_s: int, forget_after_s: int, *, to_old: bool, swap_ties: bool = True) -> None:
        """Remove, trim and promote (Algorithm 1, and Algorithm 2 if `to_old`), see `promote`."""
        spaces, counts = self.spaces[: self.n], self.counts[: self.n]
        alive = now_s - self.seen_s[: self.n] <= forget_after_s
        baby, teenage, old = (np.flatnonzero(alive & (spaces == space)) for space in (BABY, TEENAGE, OLD))
        baby = baby[most_frequent(counts[baby], min(baby.size, self.sizes[BABY]))]
        teenage = teenage[most_frequent(counts[teenage], teenage.size)]
        baby, teenage = promote(baby, teenage, self.sizes[TEENAGE], counts, swap_ties)
        if to_old:
            teenage = np.sort(teenage)  # order of arrival again, which breaks ties
            teenage = teenage[most_frequent(counts[teenage], teenage.size)]
            old = old[most_frequent(counts[old], old.size)]
            teenage, old = promote(teenage, old, self.sizes[OLD], counts, swap_ties)
        for space, slots in ((BABY, baby), (TEENAGE, teenage), (OLD, old)):
            spaces[slots] = space
        self._keep(np.sort(np.concatenate([baby, teenage, old])))

    def _keep(self, slots: NDArray[np.int64]) -> None:
        if slots.size == self.n:
            return
        room = capacity_for(self.n)  # what one cycle needed, the next will need
        for name in ("keys", *_COLUMNS):
            array = getattr(self, name)
            array[: slots.size] = array[slots]
        self.n = slots.size
        self._resize(room)

    def _resize(self, capacity: int) -> None:
        if capacity != self.keys.size:
            for name in ("keys", *_COLUMNS):
                setattr(self, name, grown(getattr(self, name)[: self.n], capacity))
        self.index = make_index(self.keys[: self.n], capacity, self._salt)

    def snapshot(self) -> Items:
        """Copy the items, for `restore`."""
        return Items(**{name: getattr(self, name)[: self.n].copy() for name in ("keys", *_COLUMNS)})

    def restore(self, state: Items) -> None:
        """Replace the items by those of a snapshot."""
        self.n = state.keys.size
        capacity = capacity_for(self.n)
        for name in ("keys", *_COLUMNS):
            setattr(self, name, grown(getattr(state, name), capacity))
        self.index = make_index(self.keys[: self.n], capacity, self._salt)


def merge_items(states: Sequence[Items], expected_keys: int) -> Items:
    """Merge sets of items: mean counts, the latest times, the widest spread, the oldest space.

    Spaces stay within their sizes: the most frequent keys stay, the others go down by one.
    """
    keys, where = np.unique(np.concatenate([state.keys for state in states]), return_inverse=True)
    merged: dict[str, NDArray[Any]] = {}
    for name, kind in _COLUMNS.items():
        values = np.concatenate([getattr(state, name) for state in states])
        if name == "counts":
            merged[name] = np.zeros(keys.size, dtype=kind)
            np.add.at(merged[name], where, values)
        else:
            merged[name] = np.full(keys.size, np.iinfo(kind).min, dtype=kind)
            np.maximum.at(merged[name], where, values)
    merged["counts"] = np.maximum(1, merged["counts"] // len(states))
    sizes = space_sizes(expected_keys)
    for space in (OLD, TEENAGE):
        members = np.flatnonzero(merged["spaces"] == space)
        stay = most_frequent(merged["counts"][members], min(members.size, sizes[space]))
        merged["spaces"][np.setdiff1d(members, members[stay])] = space - 1
    return Items(keys=keys, **merged)
