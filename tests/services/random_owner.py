"""Groupings that move random substreams at every barrier, and a processor whose output depends on the exact rows.

They are for tests of ordered state: `RandomOwner` moves more than any real grouping does, `PlannedOwner` does the same
with a plan that Spark looks up, and output and state of `Chain` differ if a row is missing, comes twice or comes out of
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skewless import Router, State
from skewless.groupings import Coordinated
from skewless.groupings.planned import Planned
from skewless.processors import KeyState, Processor, Row
from skewless.processors.substreams import substreams_of


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomOwnerState(State):
    seed: int
    barriers: int = 0


@dataclass(frozen=True, kw_only=True)
class RandomOwner(Coordinated[RandomOwnerState]):
    """Draw a new owner for every substream at each barrier, from the seed and the number of barriers so far.

    At times it leaves workers without any substream.
    """

    name: ClassVar[str] = "random_owner"
    single_owner: ClassVar[bool] = True
    state_class = RandomOwnerState

    n_substreams: int = 16

    def first_state(self, _source: int, seed: int, /) -> RandomOwnerState:
        return RandomOwnerState(seed=seed)

    def resume(self, state: RandomOwnerState, /) -> Router[RandomOwnerState]:
        random = np.random.default_rng([state.seed, state.barriers])
        used = random.permutation(self.n_workers)[: random.integers(1, self.n_workers, endpoint=True)]
        return _RandomOwnerRouter(state, random.choice(used, self.n_substreams).astype(np.int32))

    def merge(self, states: Sequence[RandomOwnerState]) -> RandomOwnerState:
        return max(states, key=lambda state: state.barriers)

    def barrier(self, states: Sequence[RandomOwnerState], _now_ms: int, /) -> Sequence[RandomOwnerState]:
        ahead = self.merge(states)
        return [replace(ahead, barriers=ahead.barriers + 1) for _ in states]

    def remark(self, state: RandomOwnerState, /) -> str:
        return f"table {state.barriers}"


@dataclass(frozen=True, kw_only=True)
class PlannedOwner(RandomOwner, Planned[RandomOwnerState]):
    """The same, planned by one task of each micro-batch."""

    name: ClassVar[str] = "planned_owner"


class _RandomOwnerRouter(Router[RandomOwnerState]):
    def __init__(self, state: RandomOwnerState, table: NDArray[np.int32]) -> None:
        self._state, self._table = state, table

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers: NDArray[np.int32] = self._table[substreams_of(keys, self._table.size)]
        return workers

    def snapshot(self) -> RandomOwnerState:
        return self._state


class Chain(Processor):
    """Number the rows of a key, and mix each of them into a word that depends on all that came before, in order.

    Rows have a value `v`. It raises for those that are negative.
    """

    state = "n bigint, word bigint"
    output = "v bigint, n bigint, word bigint"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        output = []
        for row in rows:
            if row["v"] < 0:
                raise ValueError(f"{row['v']} is negative")
            state["n"] = state.get("n", 0) + 1
            state["word"] = (state.get("word", 0) * 31 + row["v"]) % 1_000_003
            output.append({"v": row["v"], **state})
        return output


def chained(rows: Iterable[tuple[Any, int]]) -> tuple[list[tuple[Any, int, int, int]], dict[Any, tuple[int, int]]]:
    """Do what `Chain` does, in one thread: return the output rows (key, v, n, word) and the state of each key."""
    output: list[tuple[Any, int, int, int]] = []
    states: dict[Any, tuple[int, int]] = {}
    for key, value in rows:
        if value < 0:
            continue
        n, word = states.get(key, (0, 0))
        states[key] = (n + 1, (word * 31 + value) % 1_000_003)
        output.append((key, value, *states[key]))
    return output, states
