"""Full knowledge (O-apx): longest first over all keys, with the frequencies of the stream ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skewless.errors import SkewlessError
from skewless.groupings.base import Foresighted, Router
from skewless.groupings.distribution_aware import look_up
from skewless.groupings.longest_first import longest_first
from skewless.groupings.universal import UniversalState
from skewless.hashing import universal_salts
from skewless.sketches.key_table import capacity_for, make_index


@dataclass(frozen=True, kw_only=True)
class FullKnowledge(Foresighted[UniversalState]):
    """Give every key the owner that is right for the whole stream ahead: what one owner per key can achieve at best.

    The most frequent key is placed first, each on the worker with the least: the most loaded worker gets at most
    4/3 - 1/(3 n_workers) times what it would get in the best of all assignments. Nobody knows the stream ahead in
    earnest: this is a yardstick. A simulation reads its stream once more to tell the frequencies; elsewhere they are
    given with `of`. Keys that were not foretold, or all of them if none were, are routed by hash as `universal` does.

    Parameters
    ----------
    keys: the distinct keys of the stream, as hashes.
    counts: how often each of them occurs.

    >>> stream = np.array([5, 5, 5, 8, 8, 9], dtype=np.uint64)
    >>> FullKnowledge.of(stream, workers=2).start(source=0, seed=0).route(stream, 0)
    array([0, 0, 0, 1, 1, 1], dtype=int32)

    Reference
    ---------
    Rivetti et al., *Efficient Key Grouping for Near-Optimal Load Balancing in Stream Processing Systems* (2015),
    section 5.1, "Optimal approximation". Deviations: none.
    """

    name: ClassVar[str] = "full_knowledge"
    aliases: ClassVar[tuple[str, ...]] = ("O_APX",)
    baseline: ClassVar[bool] = True
    single_owner: ClassVar[bool] = True
    state_class = UniversalState

    keys: NDArray[np.uint64] | None = field(default=None, repr=False, compare=False)
    counts: NDArray[np.int64] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.keys is None) != (self.counts is None):
            raise SkewlessError("keys and counts belong together: give both or neither")
        if self.keys is None:
            return
        keys, counts = np.asarray(self.keys, dtype=np.uint64), np.asarray(self.counts, dtype=np.int64)
        if keys.ndim != 1 or keys.shape != counts.shape:
            raise SkewlessError(f"counts must be one number per key {keys.shape}; got an array of shape {counts.shape}")
        if np.unique(keys).size != keys.size:
            raise SkewlessError(f"keys must be distinct; got {keys.size}, of which {np.unique(keys).size} are")
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], *, workers: int | None = None) -> FullKnowledge:
        """Make the grouping that knows a stream, given as the hash of each tuple's key."""
        keys, counts = np.unique(hashes, return_counts=True)
        return cls(workers=workers, keys=keys, counts=counts)

    @property
    def needs_frequencies(self) -> bool:
        return self.keys is None

    def informed(self, keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> FullKnowledge:
        return replace(self, keys=keys, counts=counts)

    @cached_property
    def _plan(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        if self.keys is None or self.counts is None:
            return np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int32)
        return self.keys, longest_first(self.counts, self.n_workers)

    def first_state(self, _source: int, seed: int, /) -> UniversalState:
        return UniversalState(salts=universal_salts(seed))

    def resume(self, state: UniversalState, /) -> Router[UniversalState]:
        return _FullKnowledgeRouter(self.n_workers, state, *self._plan)

    def merge(self, states: Sequence[UniversalState]) -> UniversalState:
        return states[0]


class _FullKnowledgeRouter(Router[UniversalState]):
    def __init__(
        self, n_workers: int, state: UniversalState, keys: NDArray[np.uint64], owners: NDArray[np.int32]
    ) -> None:
        self._state = state
        self._by_hash = np.arange(n_workers, dtype=np.int32)
        self._keys = keys
        self._owners = owners
        self._index = make_index(keys, capacity_for(keys.size), state.salts[2])

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers: NDArray[np.int32] = look_up(
            keys, self._state.salts, self._by_hash, self._index, self._keys, self._owners
        )
        return workers

    def snapshot(self) -> UniversalState:
        return self._state
