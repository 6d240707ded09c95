"""Full knowledge (O-apx): longest first over all keys, with the frequencies of the stream ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError
from skewless.groupings.base import Foresighted, Router
from skewless.groupings.distribution_aware import Table, look_up, make_table
from skewless.groupings.longest_first import longest_first
from skewless.groupings.universal import UniversalState
from skewless.hashing import universal_salts


@dataclass(frozen=True, kw_only=True)
class FullKnowledge(Foresighted[UniversalState]):
    """Assign every key to an owner with the whole stream ahead in view: about the best that one owner per key can do.

    The most frequent key is placed first, each on the worker with the least load: the most loaded worker gets at most
    4/3 - 1/(3 n_workers) times what it would get in the best of all assignments. The stream ahead is unknown in
    practice: this is a baseline. A simulation reads its stream twice to learn the frequencies; elsewhere they come with
    `of`. Keys without a frequency are routed by hash as `universal` does.

    Parameters
    ----------
    keys : array, optional
        The distinct keys of the stream, as hashes.
    counts : array, optional
        How often each of them occurs.

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
            raise ConfigurationError(
                "{keys} and {counts} belong together", subject="counts", hint="set both or neither"
            )
        if self.keys is None:
            return
        keys, counts = np.asarray(self.keys, dtype=np.uint64), np.asarray(self.counts, dtype=np.int64)
        if keys.ndim != 1 or keys.shape != counts.shape:
            problem = f"{{counts}} must be one number per key {keys.shape}; got an array of shape {counts.shape}"
            raise ConfigurationError(problem, subject="counts")
        if np.unique(keys).size != keys.size:
            problem = f"{{keys}} must be distinct; got {keys.size}, of which {np.unique(keys).size} are"
            raise ConfigurationError(problem, subject="keys")
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], *, workers: int | None = None) -> FullKnowledge:
        """Return the grouping that knows a stream, which is given as the hash of each tuple's key."""
        keys, counts = np.unique(hashes, return_counts=True)
        return cls(workers=workers, keys=keys, counts=counts)

    @property
    def needs_frequencies(self) -> bool:
        return self.keys is None

    def informed(self, keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> FullKnowledge:
        return replace(self, keys=keys, counts=counts)

    @cached_property
    def _owners(self) -> NDArray[np.int32]:
        counts = np.empty(0) if self.counts is None else self.counts
        return longest_first(counts, self.n_workers)

    def table(self, salts: NDArray[np.uint64]) -> Table:
        """Return the tables that tuples are routed by."""
        keys = np.empty(0, dtype=np.uint64) if self.keys is None else self.keys
        return make_table(salts, np.arange(self.n_workers, dtype=np.int32), keys, self._owners)

    def first_state(self, _source: int, seed: int, /) -> UniversalState:
        return UniversalState(salts=universal_salts(seed))

    def resume(self, state: UniversalState, /) -> Router[UniversalState]:
        return _FullKnowledgeRouter(state, self.table(state.salts))

    def merge(self, states: Sequence[UniversalState]) -> UniversalState:
        return states[0]


class _FullKnowledgeRouter(Router[UniversalState]):
    def __init__(self, state: UniversalState, table: Table) -> None:
        self._state = state
        self._table = table

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers: NDArray[np.int32] = look_up(keys, self._table)
        return workers

    def snapshot(self) -> UniversalState:
        return self._state
