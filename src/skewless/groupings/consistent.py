"""Consistent grouping (CG): many equal virtual workers, shared out by what each worker can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import ClassVar, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.groupings.base import Coordinated, Measuring, Router, State, mean_loads
from skewless.groupings.planned import Planned
from skewless.hashing import random_word, upper_choice
from skewless.seeding import make_salt

_N_MEMOS: Final = 256  # searches that a call remembers; a power of two
_KEPT: Final = 0.5  # weight of older measurements when there is a new one
_CERTAIN: Final = 2.0  # standard deviations by which two busy times must differ to count as different


@njit(inline="always")
def candidate(key: np.uint64, salt: np.uint64, step: int | np.int64, n_virtual: int) -> np.int64:
    """Return a key's virtual worker number `step`: random up to `n_virtual`, then round the ring from there."""
    if step < n_virtual:
        chosen: np.int64 = upper_choice(random_word(key ^ salt, step), n_virtual)
        return chosen
    last: np.int64 = upper_choice(random_word(key ^ salt, n_virtual - 1), n_virtual)
    return (last + step - n_virtual + 1) % n_virtual


@njit(cache=True)
def first_with_room(
    keys: NDArray[np.uint64], salt: np.uint64, loads: NDArray[np.int64], owners: NDArray[np.int32], slack: float
) -> NDArray[np.int32]:
    """Return the owner of each key's first virtual worker below the bound; counts in `loads`, in place.

    The bound is (1 + slack) times the mean load, this tuple included. Loads are whole numbers, so only its integer part
    matters. Until that grows a full virtual worker stays full, and the search for a hot key continues where its last
    one ended.
    """
    n_virtual = loads.size
    workers = np.empty(keys.size, dtype=np.int32)
    memo_keys = np.zeros(_N_MEMOS, dtype=np.uint64)
    memo_bounds = np.zeros(_N_MEMOS, dtype=np.int64)
    memo_steps = np.zeros(_N_MEMOS, dtype=np.int64)
    per_tuple = (1.0 + slack) / n_virtual
    total = loads.sum()
    bound = np.int64(np.ceil((total + 1) * per_tuple))
    for i in range(keys.size):
        key = keys[i]
        total += 1
        if total * per_tuple > bound:
            bound = np.int64(np.ceil(total * per_tuple))
        chosen = candidate(key, salt, 0, n_virtual)
        if loads[uint64(chosen)] >= bound:
            memo = key & uint64(_N_MEMOS - 1)
            known = memo_bounds[memo] == bound and memo_keys[memo] == key
            step = memo_steps[memo] if known else np.int64(1)
            chosen = candidate(key, salt, step, n_virtual)
            while loads[uint64(chosen)] >= bound:
                step += 1
                chosen = candidate(key, salt, step, n_virtual)
            memo_keys[memo], memo_bounds[memo], memo_steps[memo] = key, bound, step
        loads[uint64(chosen)] += 1
        workers[i] = owners[uint64(chosen)]
    return workers


@njit(cache=True)
def hand_over(owners: NDArray[np.int32], tuples: NDArray[np.float64], busy_s: NDArray[np.float64]) -> int:
    """Let each of the busier half of the workers hand one virtual worker to its partner; changes all in place.

    The busiest worker is paired with the idlest, the second with the second, and so on. A pair acts if its partner,
    with one virtual worker more, would still be less busy, by more than chance explains. `tuples` and `busy_s` are
    adjusted as if it had always been so. Returns the number of virtual workers handed over.
    """
    n_workers = tuples.size
    n_tuples, n_seconds = tuples.sum(), busy_s.sum()
    if n_tuples <= 0:
        return 0
    hosted = np.bincount(owners, minlength=n_workers)
    seconds_each = np.empty(n_workers, dtype=np.float64)
    for worker in range(n_workers):
        measured = tuples[worker] > 0
        seconds_each[worker] = busy_s[worker] / tuples[worker] if measured else n_seconds / n_tuples
    order = np.argsort(busy_s, kind="mergesort")
    n_moved = 0
    for rank in range(n_workers // 2):
        idle, busy = order[rank], order[n_workers - 1 - rank]
        moved = min(n_tuples / owners.size, tuples[busy])
        gain = busy_s[busy] - busy_s[idle] - moved * seconds_each[idle]
        chance = np.sqrt(busy_s[busy] * seconds_each[busy] + busy_s[idle] * seconds_each[idle])
        if hosted[busy] < 2 or gain <= _CERTAIN * chance:
            continue
        for virtual in range(owners.size):
            if owners[virtual] == busy:
                owners[virtual] = idle
                break
        for worker, change in ((busy, -moved), (idle, moved)):
            tuples[worker] += change
            busy_s[worker] += change * seconds_each[worker]
        n_moved += 1
    return n_moved


def share_out(n_virtual: int, capacities: Sequence[float]) -> NDArray[np.int32]:
    """Return the owner of each virtual worker: in proportion to capacities, by largest remainder.

    >>> np.bincount(share_out(10, (1.0, 2.0, 4.0))).tolist()
    [1, 3, 6]
    """
    weights = np.array(capacities, dtype=np.float64) / max(capacities)
    exact = n_virtual * weights / weights.sum()
    counts = np.floor(exact).astype(np.int64)
    remainders = np.argsort(counts - exact, kind="stable")
    counts[remainders[: n_virtual - counts.sum()]] += 1
    return np.repeat(np.arange(counts.size, dtype=np.int32), counts)


@dataclass(frozen=True, kw_only=True, eq=False)
class Assignment:
    """What all sources agree on: who owns which virtual worker, and the measurements that it follows.

    Parameters
    ----------
    owners : array
        The worker of each virtual worker.
    tuples : array
        Tuples of each worker, older ones weighing less.
    busy_s : array
        Seconds that each worker was busy with them.
    measurements : int
        Measurements so far.
    rounds : int
        Measurements that virtual workers have been handed over by.
    moves : int
        Virtual workers handed over so far.
    """

    owners: NDArray[np.int32]
    tuples: NDArray[np.float64]
    busy_s: NDArray[np.float64]
    measurements: int = 0
    rounds: int = 0
    moves: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class ConsistentState(State):
    """What a source keeps: its own count of the tuples of each virtual worker, and what all agree on."""

    salt: np.uint64
    loads: NDArray[np.int64]
    agreed: Assignment


@dataclass(frozen=True, kw_only=True)
class Consistent(Coordinated[ConsistentState], Measuring[ConsistentState], Planned[ConsistentState]):
    """Spread tuples evenly over many small virtual workers; each worker hosts as many as it can serve.

    A key tries one virtual worker after another, always in the same order, and takes the first that holds less than
    1 + slack times the mean. So a cold key stays where it is and a hot one spills over to as many as it needs. Loads
    are the source's own count. No virtual worker gets more than (1 + slack) · tuples / virtual workers + 1 tuples of a
    source; a worker gets at most that times the virtual workers it hosts, however skewed the keys are.

    Parameters
    ----------
    virtual_per_worker : int
        Virtual workers per worker, on average. More of them follow capacities more closely and spill more keys: one
        with a larger fraction of the stream than a virtual worker's is cut.
    slack : float
        How far above the mean a virtual worker may be (epsilon in the paper). Less is more even and spills more keys.
    capacities : tuple of float, optional
        What each worker can do, in any unit; one that is too small for a virtual worker gets none. By default workers
        start equal and are measured: at each barrier overloaded workers hand one virtual worker each to an idle one,
        until no such move would help.

    >>> router = Consistent(workers=3, capacities=(1, 2, 4), virtual_per_worker=70).start(source=0, seed=0)
    >>> np.bincount(router.route(np.full(7000, 7, dtype=np.uint64), 0)).tolist()
    [1011, 1949, 4040]

    Reference
    ---------
    Nasir, Horii, Serafini, Kourtellis, Raymond, Girdzijauskas & Osogami, *Load Balancing for Skewed Streams on
    Heterogeneous Clusters* (2017), arXiv 1705.09073: virtual workers, power of random choices, paired migration.

    Deviations: after as many random tries as there are virtual workers, a search goes round the ring, so that it ends.
    Who is overloaded is decided by busy times between two barriers, not by queues, and a move must gain more than two
    standard deviations of chance. A worker keeps its last virtual worker, or it could no longer be measured. Which one
    it hands over is open in the paper: here the first. The defaults are ours.
    """

    name: ClassVar[str] = "consistent"
    aliases: ClassVar[tuple[str, ...]] = ("CG",)
    state_class = ConsistentState

    virtual_per_worker: int = 10
    slack: float = 0.01
    capacities: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("virtual_per_worker", self.virtual_per_worker, 1)
        if self.workers is not None and self.n_virtual >= 2**31:
            problem = f"{{workers}} times {{virtual_per_worker}} must be below 2**31; got {self.n_virtual}"
            raise ConfigurationError(problem, subject="virtual_per_worker")
        if not (isfinite(self.slack) and self.slack >= 0):
            raise ConfigurationError(subject="slack", expected="a number of at least 0", value=self.slack)
        if self.capacities is None:
            return
        object.__setattr__(self, "capacities", tuple(self.capacities))
        if self.workers is not None and len(self.capacities) != self.workers:
            expected = f"one per worker ({self.workers})"
            raise ConfigurationError(subject="capacities", expected=expected, value=len(self.capacities))
        for capacity in self.capacities:
            if not (isfinite(capacity) and capacity > 0):
                raise ConfigurationError(subject="capacities", expected="numbers above 0", value=capacity)

    @property
    def n_virtual(self) -> int:
        """The number of virtual workers."""
        return self.n_workers * self.virtual_per_worker

    def first_state(self, _source: int, seed: int, /) -> ConsistentState:
        agreed = Assignment(
            owners=share_out(self.n_virtual, self.capacities or (1.0,) * self.n_workers),
            tuples=np.zeros(self.n_workers),
            busy_s=np.zeros(self.n_workers),
        )
        return ConsistentState(salt=make_salt(seed), loads=np.zeros(self.n_virtual, dtype=np.int64), agreed=agreed)

    def resume(self, state: ConsistentState, /) -> Router[ConsistentState]:
        return _ConsistentRouter(self.slack, state)

    def merge(self, states: Sequence[ConsistentState]) -> ConsistentState:
        return ConsistentState(
            salt=states[0].salt, loads=mean_loads([state.loads for state in states]), agreed=_agreed(states)
        )

    @property
    def measures(self) -> bool:
        return self.capacities is None

    def calibrate(
        self, states: Sequence[ConsistentState], tuples: NDArray[np.int64], busy_s: NDArray[np.float64]
    ) -> Sequence[ConsistentState]:
        if self.capacities is not None or not tuples.any():
            return states
        return [
            replace(
                state,
                agreed=replace(
                    state.agreed,
                    tuples=_KEPT * state.agreed.tuples + tuples,
                    busy_s=_KEPT * state.agreed.busy_s + busy_s,
                    measurements=state.agreed.measurements + 1,
                ),
            )
            for state in states
        ]

    def remark(self, state: ConsistentState, /) -> str:
        return f"virtual workers moved: {state.agreed.moves}"

    def barrier(self, states: Sequence[ConsistentState], _now_ms: int, /) -> Sequence[ConsistentState]:
        agreed = _agreed(states)
        if agreed.measurements > agreed.rounds:
            owners, tuples, busy_s = agreed.owners.copy(), agreed.tuples.copy(), agreed.busy_s.copy()
            moves = agreed.moves + hand_over(owners, tuples, busy_s)
            agreed = replace(
                agreed, owners=owners, tuples=tuples, busy_s=busy_s, rounds=agreed.measurements, moves=moves
            )
        return [replace(state, agreed=agreed) for state in states]


def _agreed(states: Sequence[ConsistentState]) -> Assignment:
    """Return what all sources agree on. Where one started without a history, most measurements win."""
    return max((state.agreed for state in states), key=lambda agreed: agreed.measurements)


class _ConsistentRouter(Router[ConsistentState]):
    def __init__(self, slack: float, state: ConsistentState) -> None:
        self._slack = float(slack)
        self._state = replace(state, loads=state.loads.copy())  # routing changes nothing else

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        state = self._state
        workers: NDArray[np.int32] = first_with_room(keys, state.salt, state.loads, state.agreed.owners, self._slack)
        return workers

    def snapshot(self) -> ConsistentState:
        return replace(self._state, loads=self._state.loads.copy())
