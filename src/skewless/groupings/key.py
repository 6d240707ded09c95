"""Key grouping (KG): one worker per key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.groupings.base import Grouping, Router, State
from skewless.hashing import make_salt, mix, upper_choice


@njit(cache=True)
def home(keys: Any, salt: Any, n_workers: int) -> Any:
    """Give each key the worker that its hash alone decides."""
    workers = np.empty(keys.size, dtype=np.int32)
    for i in range(keys.size):
        workers[i] = upper_choice(mix(keys[i] ^ salt), n_workers)
    return workers


@dataclass(frozen=True, kw_only=True)
class Key(Grouping):
    """Send every tuple of a key to the one worker that the key's hash names.

    Nothing has to be merged; a hot key makes a hot worker.

    >>> router = Key(workers=10).start(source=0, n_sources=1, seed=0)
    >>> first, again = router.route(np.array([7, 7], dtype=np.uint64), 0)
    >>> bool(first == again)
    True

    Reference
    ---------
    Dalabasmaz & Can, *Dynamic Key Grouping*, eq. 1. Deviations: the hash is reduced to a worker by
    multiply-and-shift, which spreads as evenly as the remainder and costs no division.
    """

    name: ClassVar[str] = "key"
    aliases: ClassVar[tuple[str, ...]] = ("KG",)
    single_owner: ClassVar[bool] = True

    def start(self, source: int, n_sources: int, seed: int) -> Router:  # noqa: ARG002
        return _KeyRouter(self.n_workers, make_salt(seed))

    def resume(self, state: State) -> Router:
        return _KeyRouter(self.n_workers, np.uint64(state["salt"]))

    def merge(self, states: Sequence[State]) -> State:
        return states[0]


class _KeyRouter(Router):
    def __init__(self, n_workers: int, salt: np.uint64) -> None:
        self._n_workers = n_workers
        self._salt = salt

    def route(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:  # noqa: ARG002
        workers: NDArray[np.int32] = home(keys, self._salt, self._n_workers)
        return workers

    def snapshot(self) -> State:
        return {"salt": np.array(self._salt)}
