"""Key grouping (KG): one worker per key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import float64, njit, uint32, uint64
from numpy.typing import NDArray

from skewless.groupings.base import Router, State
from skewless.groupings.planned import Planned, Seen
from skewless.salting.slots import murmur3
from skewless.salting.table import Placement
from skewless.seeding import make_salt

_murmur3 = njit(inline="always")(murmur3)


@njit(inline="always")
def home_of(key: np.uint64, salt: np.uint64, n_workers: int) -> np.int64:
    """Return the worker that a key's hash alone decides: the same as `skewless.salting.slots.homes`."""
    word = key ^ salt
    slot = _murmur3((word & uint64(0xFFFFFFFF), word >> uint64(32)), uint64(8))
    number = float64(np.int32(uint32(_murmur3((slot,), uint64(4)))))
    # Its remainder, without a division of integers, which no processor can do for several keys at a time.
    rest = number - np.floor(number * (1.0 / n_workers)) * n_workers
    rest = rest + n_workers if rest < 0 else rest
    return np.int64(rest - n_workers if rest >= n_workers else rest)


@njit(cache=True)
def home(keys: NDArray[np.uint64], salt: np.uint64, n_workers: int) -> NDArray[np.int32]:
    """Return the worker that each key's hash alone decides."""
    workers = np.empty(keys.size, dtype=np.int32)
    for i in range(keys.size):
        workers[i] = home_of(keys[i], salt, n_workers)
    return workers


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyState(State):
    """What a source keeps: nothing but the salt of the hash."""

    salt: np.uint64


@dataclass(frozen=True, kw_only=True)
class Key(Planned[KeyState]):
    """Send every tuple of a key to the one worker that the key's hash names.

    Nothing has to be merged; a hot key makes a hot worker.

    >>> router = Key(workers=10).start(source=0, seed=0)
    >>> first, again = router.route(np.array([7, 7], dtype=np.uint64), 0)
    >>> bool(first == again)
    True

    Reference
    ---------
    Dalabasmaz & Can, *Dynamic Key Grouping*, eq. 1. Deviations: the hash is that of Spark's own exchange, so that a
    simulation places every key as Spark does.
    """

    name: ClassVar[str] = "key"
    aliases: ClassVar[tuple[str, ...]] = ("KG",)
    single_owner: ClassVar[bool] = True
    by_home: ClassVar[bool] = True
    state_class = KeyState

    def first_state(self, _source: int, seed: int, /) -> KeyState:
        return KeyState(salt=make_salt(seed))

    def resume(self, state: KeyState, /) -> Router[KeyState]:
        return _KeyRouter(self.n_workers, state)

    def merge(self, states: Sequence[KeyState]) -> KeyState:
        return states[0]

    @property
    def n_ranges(self) -> int:
        return 0

    def observe(self, state: KeyState, _seen: Seen, _now_ms: int, /) -> KeyState:
        return state

    def placements(self, _state: KeyState, _seen: Seen, _now_ms: int, /) -> Iterator[Placement]:
        return iter(())


class _KeyRouter(Router[KeyState]):
    def __init__(self, n_workers: int, state: KeyState) -> None:
        self._n_workers = n_workers
        self._state = state

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers: NDArray[np.int32] = home(keys, self._state.salt, self._n_workers)
        return workers

    def snapshot(self) -> KeyState:
        return self._state
