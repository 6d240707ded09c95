"""Key isolator partitioner (KIP): heavy keys are placed one by one, all others by a weighted hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum, isfinite
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.groupings.base import Coordinated, Router, State
from skewless.groupings.key import home_of
from skewless.groupings.planned import Planned
from skewless.hashing import mix
from skewless.seeding import make_salt
from skewless.sketches.key_table import FREE, capacity_for, find, make_index
from skewless.sketches.space_saving import Counters, SpaceSaving

_ROUNDING: Final = 1e-9  # loads that differ by less are alike


class Table(NamedTuple):
    """A plan in the form in which the kernel reads it."""

    salt: np.uint64
    hosts: NDArray[np.int32]
    slots: NDArray[np.int32]
    heavy_keys: NDArray[np.uint64]
    heavy_workers: NDArray[np.int32]


@njit(cache=True)
def owners_of(keys: NDArray[np.uint64], table: Table) -> NDArray[np.int32]:
    """Return the worker of each key: its own for a heavy key, else that of the host it hashes to."""
    workers = np.empty(keys.size, dtype=np.int32)
    salt, hosts, index, heavy_keys, heavy_workers = table
    for i in range(keys.size):
        word = mix(keys[i] ^ salt)
        slot = find(index, heavy_keys, keys[i], word)
        if slot != FREE:
            workers[i] = heavy_workers[uint64(slot)]
        else:
            workers[i] = hosts[uint64(home_of(keys[i], salt, hosts.size))]
    return workers


@njit(cache=True)
def place_heavy(
    shares: NDArray[np.float64],
    present: NDArray[np.int32],
    hashed: NDArray[np.int32],
    allowed: float,
    n_workers: int,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Place keys, heaviest first: where they are if they fit, else where they hash to if they fit, else least loaded.

    `shares` are their fractions of the load, in descending order. Returns the worker of each key and the load of each
    worker.
    """
    workers = np.empty(shares.size, dtype=np.int32)
    loads = np.zeros(n_workers, dtype=np.float64)
    for i in range(shares.size):
        worker = present[i]
        if loads[worker] + shares[i] > allowed:
            worker = hashed[i]
        if loads[worker] + shares[i] > allowed:
            worker = np.int32(np.argmin(loads))
        workers[i] = worker
        loads[worker] += shares[i]
    return workers, loads


@njit(cache=True)
def place_hosts(hosts: NDArray[np.int32], loads: NDArray[np.float64], share: float, allowed: float) -> None:
    """Keep each host, with its share of the load, where it is if it fits; then move the others to the least loaded.

    `loads` are those of the heavy keys. Changes `hosts` and `loads` in place.
    """
    homeless = np.zeros(hosts.size, dtype=np.bool_)
    for host in range(hosts.size):
        if loads[hosts[host]] + share > allowed:
            homeless[host] = True
        else:
            loads[hosts[host]] += share
    for host in range(hosts.size):
        if homeless[host]:
            hosts[host] = np.argmin(loads)
            loads[hosts[host]] += share


@dataclass(frozen=True, kw_only=True, eq=False)
class Isolation:
    """What all sources agree on: the plan, the counts that it was made from, and what plans have cost so far.

    Parameters
    ----------
    hosts : array
        The worker of each host.
    heavy_keys, heavy_workers : array
        The heaviest keys, and their workers.
    known_keys, known_counts : array
        Keys known, the most frequent first, and how often they occurred, older tuples weighing less.
    known_total : float
        What all tuples weigh together.
    barrier_ms : int
        When the counts were last brought up to date; -1 before the first time.
    n_plans : int
        Plans that took effect.
    moved_keys : int
        Known keys that changed their worker.
    moved_hosts : int
        Hosts that changed their worker.
    moved_load : float
        The fraction of the load that plans moved, summed over all plans.
    """

    hosts: NDArray[np.int32]
    heavy_keys: NDArray[np.uint64]
    heavy_workers: NDArray[np.int32]
    known_keys: NDArray[np.uint64]
    known_counts: NDArray[np.float64]
    known_total: float = 0.0
    barrier_ms: int = -1
    n_plans: int = 0
    moved_keys: int = 0
    moved_hosts: int = 0
    moved_load: float = 0.0

    def table(self, salt: np.uint64) -> Table:
        """Return the tables that tuples are routed by."""
        index = make_index(self.heavy_keys, capacity_for(self.heavy_keys.size), salt)
        return Table(salt, self.hosts, index, self.heavy_keys, self.heavy_workers)

    def owners(self, keys: NDArray[np.uint64], salt: np.uint64) -> NDArray[np.int32]:
        """Return the worker of each key."""
        owners: NDArray[np.int32] = owners_of(keys, self.table(salt))
        return owners


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyIsolatorState(State):
    """What a source keeps: what it counted since the last barrier, and what all agree on."""

    salt: np.uint64
    tuples: int
    sketch: Counters
    agreed: Isolation


@dataclass(frozen=True, kw_only=True)
class KeyIsolator(Coordinated[KeyIsolatorState], Planned[KeyIsolatorState]):
    """Place the heaviest keys one by one, and let hosts of all other keys fill up what they leave.

    Every key has one owner. Keys hash to many more hosts than there are workers, and a table maps hosts to workers; a
    second table holds the heavy keys. Each source counts keys with Space-Saving. At a barrier all counts become one,
    older ones fade, and a new plan is made from the old one with as few moves as possible. It takes effect if it lowers
    the load of the busiest worker by enough. Until the first plan this is key grouping.

    No worker is planned to carry more than the mean or the heaviest key, whichever is more, plus `slack` means, if the
    heavy keys fit and `slack` is at least one host (1 / hosts_per_worker). A single key is never cut: a stream with
    one key of 80 % keeps a worker with 80 %.

    Parameters
    ----------
    heavy_per_worker : int
        Heavy keys per worker (lambda in the paper).
    hosts_per_worker : int
        Hosts of all other keys, per worker.
    slack : float
        What a worker may carry above the bound, as a fraction of the mean load (epsilon times n_workers in the paper).
    min_gain : float
        By how much the busiest worker's load must fall for a plan to take effect, as a fraction of the mean load.
    half_life_s : float
        Seconds after which a tuple counts half.
    counters_per_worker : int
        Counters of each source's sketch, per worker.

    >>> grouping = KeyIsolator(workers=2)
    >>> router = grouping.start(source=0, seed=1)
    >>> keys = np.array([3, 3, 3, 8, 8, 8, 9, 9], dtype=np.uint64)
    >>> router.route(keys, 0).tolist()
    [0, 0, 0, 0, 0, 0, 0, 0]
    >>> [state] = grouping.barrier([router.snapshot()], 1000)
    >>> grouping.resume(state).route(keys, 1000).tolist()
    [0, 0, 0, 1, 1, 1, 0, 0]

    Reference
    ---------
    Zvara, Szabó, Lóránt & Benczúr, *System-aware dynamic partitioning for batch and streaming workloads* (2021),
    arXiv 2105.15023: the partitioner and its update, KIPUpdate.

    Deviations: the sketch is Space-Saving, of whose counts only what is certain is used. Every barrier is a chance to
    plan, and the gain alone decides, not the cost of moving. It is predicted from all keys that are known, not from the
    heavy ones alone: in a stream without skew the heaviest keys of the moment are chance. Hosts move only off workers
    above the bound, where the authors' code fills all workers up to one level; it has 2 heavy keys per worker, here the
    default is 4.
    """

    name: ClassVar[str] = "key_isolator"
    aliases: ClassVar[tuple[str, ...]] = ("KIP",)
    single_owner: ClassVar[bool] = True
    state_class = KeyIsolatorState

    heavy_per_worker: int = 4
    hosts_per_worker: int = 100
    slack: float = 0.01
    min_gain: float = 0.05
    half_life_s: float = 3.0
    counters_per_worker: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("heavy_per_worker", self.heavy_per_worker, 1)
        require_at_least("hosts_per_worker", self.hosts_per_worker, 1)
        require_at_least("counters_per_worker", self.counters_per_worker, self.heavy_per_worker)
        if self.workers is not None and self.workers * max(self.hosts_per_worker, self.counters_per_worker) >= 2**30:
            each = max(self.hosts_per_worker, self.counters_per_worker)
            problem = (
                f"{{workers}} times hosts or counters per worker must be below 2**30; got {self.workers} times {each}"
            )
            raise ConfigurationError(problem, subject="workers")
        for name in ("slack", "min_gain"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise ConfigurationError(subject=name, expected="a number of at least 0", value=value)
        if not self.half_life_s > 0:
            raise ConfigurationError(subject="half_life_s", expected="a number above 0", value=self.half_life_s)

    @property
    def n_counters(self) -> int:
        """Counters of each source's sketch, and keys known at most."""
        return self.n_workers * self.counters_per_worker

    def first_state(self, _source: int, seed: int, /) -> KeyIsolatorState:
        agreed = Isolation(
            hosts=np.tile(np.arange(self.n_workers, dtype=np.int32), self.hosts_per_worker),
            heavy_keys=np.zeros(0, dtype=np.uint64),
            heavy_workers=np.zeros(0, dtype=np.int32),
            known_keys=np.zeros(0, dtype=np.uint64),
            known_counts=np.zeros(0),
        )
        return self._nothing_counted(make_salt(seed), agreed)

    def resume(self, state: KeyIsolatorState, /) -> Router[KeyIsolatorState]:
        return _KeyIsolatorRouter(self, state)

    def merge(self, states: Sequence[KeyIsolatorState]) -> KeyIsolatorState:
        """Return the state of a source that has counted nothing yet, so that nothing is ever counted twice."""
        return self._nothing_counted(states[0].salt, _agreed(states))

    def remark(self, state: KeyIsolatorState, /) -> str:
        agreed = state.agreed
        return f"plans: {agreed.n_plans}, moved: {agreed.moved_keys} keys and {agreed.moved_hosts} hosts"

    def barrier(self, states: Sequence[KeyIsolatorState], now_ms: int, /) -> Sequence[KeyIsolatorState]:
        agreed = _agreed(states)
        if any(state.tuples for state in states):
            agreed = self._plan(states[0].salt, self._learn(agreed, states, now_ms))
            return [self._nothing_counted(state.salt, agreed) for state in states]
        return [replace(state, agreed=agreed) for state in states]

    def sketch_of(self, state: KeyIsolatorState) -> SpaceSaving:
        """Return what a source has counted since the last barrier."""
        sketch = SpaceSaving(self.n_counters, salt=state.salt)
        sketch.restore(state.sketch)
        return sketch

    def _nothing_counted(self, salt: np.uint64, agreed: Isolation) -> KeyIsolatorState:
        sketch = SpaceSaving(self.n_counters, salt=salt).snapshot()
        return KeyIsolatorState(salt=salt, tuples=0, sketch=sketch, agreed=agreed)

    def _learn(self, agreed: Isolation, states: Sequence[KeyIsolatorState], now_ms: int) -> Isolation:
        """Add what all sources counted since the last barrier to what was known before, which fades."""
        elapsed_s = max(0, now_ms - agreed.barrier_ms) / 1000
        kept = 0.5 ** (elapsed_s / self.half_life_s)
        sketches = [self.sketch_of(state).items() for state in states]
        keys, where = np.unique(
            np.concatenate([agreed.known_keys, *(own_keys for own_keys, _, _ in sketches)]), return_inverse=True
        )
        n_known = agreed.known_keys.size
        certain = np.concatenate([counts - errors for _, counts, errors in sketches])
        counts = np.zeros(keys.size)
        np.add.at(counts, where[n_known:], certain)
        counts[where[:n_known]] += kept * agreed.known_counts
        order = np.lexsort((keys, -counts))[: self.n_counters]
        total = kept * agreed.known_total + sum(state.tuples for state in states)
        return replace(agreed, known_keys=keys[order], known_counts=counts[order], known_total=total, barrier_ms=now_ms)

    def _plan(self, salt: np.uint64, agreed: Isolation) -> Isolation:
        """Make a plan from the last one (KIPUpdate), and return it if it gains enough, else the last one."""
        keys, shares = agreed.known_keys, agreed.known_counts / agreed.known_total
        n_heavy = min(self.n_workers * self.heavy_per_worker, keys.size)
        allowed = max(1 / self.n_workers, shares[0]) + self.slack / self.n_workers + _ROUNDING
        before = agreed.owners(keys, salt)
        hashed = replace(agreed, heavy_keys=keys[:0]).owners(keys[:n_heavy], salt)
        heavy_workers, loads = place_heavy(shares[:n_heavy], before[:n_heavy], hashed, allowed, self.n_workers)
        hosts = agreed.hosts.copy()
        place_hosts(hosts, loads, max(0.0, 1 - fsum(shares[:n_heavy])) / hosts.size, allowed)
        plan = replace(agreed, hosts=hosts, heavy_keys=keys[:n_heavy], heavy_workers=heavy_workers)
        after = plan.owners(keys, salt)
        gain = self._busiest(agreed, before, shares) - self._busiest(plan, after, shares)
        if gain * self.n_workers <= self.min_gain + _ROUNDING:
            return agreed
        moved_hosts = int(np.count_nonzero(hosts != agreed.hosts))
        moved_load = shares[before != after].sum() + max(0.0, 1 - shares.sum()) * moved_hosts / hosts.size
        return replace(
            plan,
            n_plans=agreed.n_plans + 1,
            moved_keys=agreed.moved_keys + int(np.count_nonzero(before != after)),
            moved_hosts=agreed.moved_hosts + moved_hosts,
            moved_load=agreed.moved_load + float(moved_load),
        )

    def _busiest(self, plan: Isolation, owners: NDArray[np.int32], shares: NDArray[np.float64]) -> float:
        """Predict the load of the busiest worker: known keys at their owners, all others evenly over the hosts."""
        known = np.bincount(owners, weights=shares, minlength=self.n_workers)
        hosts = np.bincount(plan.hosts, minlength=self.n_workers) / plan.hosts.size
        return float(np.max(known + max(0.0, 1 - shares.sum()) * hosts))


def _agreed(states: Sequence[KeyIsolatorState]) -> Isolation:
    """Return what all sources agree on. If one had to start without a history, the latest barrier counts."""
    return max((state.agreed for state in states), key=lambda agreed: agreed.barrier_ms)


class _KeyIsolatorRouter(Router[KeyIsolatorState]):
    def __init__(self, grouping: KeyIsolator, state: KeyIsolatorState) -> None:
        self._state = state
        self._tuples = state.tuples
        self._sketch = grouping.sketch_of(state)
        self._table = state.agreed.table(state.salt)

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        self._sketch.update(keys)
        self._tuples += keys.size
        workers: NDArray[np.int32] = owners_of(keys, self._table)
        return workers

    def snapshot(self) -> KeyIsolatorState:
        return replace(self._state, tuples=self._tuples, sketch=self._sketch.snapshot())
