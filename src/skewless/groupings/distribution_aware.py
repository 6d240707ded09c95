"""Distribution-aware key grouping (DAKG): learn the hot keys, then place them and the rest longest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, UnknownNameError, require_at_least
from skewless.groupings.base import Coordinated, Router, State, mean_loads
from skewless.groupings.longest_first import longest_first
from skewless.groupings.planned import Planned
from skewless.groupings.rebalance import rebalance
from skewless.hashing import mix, universal_buckets, universal_choice, universal_salts
from skewless.sketches.distinct_count import DistinctCount
from skewless.sketches.key_table import FREE, capacity_for, find, make_index
from skewless.sketches.space_saving import Counters, SpaceSaving

_COSTS: Final = ("linear", "quadratic")
_NOISE: Final = 3.0  # standard deviations of a worker's mean load: what a window shows below that may be chance


class Table(NamedTuple):
    """A plan in the form in which kernels read it; `salts` select the hash function of buckets and index."""

    salts: NDArray[np.uint64]
    bucket_owners: NDArray[np.int32]
    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    owners: NDArray[np.int32]


def make_table(
    salts: NDArray[np.uint64],
    bucket_owners: NDArray[np.int32],
    keys: NDArray[np.uint64],
    owners: NDArray[np.int32],
) -> Table:
    """Return the table of named keys, with an index of them, and of buckets."""
    return Table(salts, bucket_owners, make_index(keys, capacity_for(keys.size), salts[2]), keys, owners)


@njit(cache=True)
def count_buckets(keys: NDArray[np.uint64], salts: NDArray[np.uint64], histogram: NDArray[np.int64]) -> None:
    """Count each key in its bucket, in place (Listing 3.1, line 9)."""
    a, b, c = salts[0], salts[1], salts[2]
    for i in range(keys.size):
        histogram[universal_choice(keys[i], a, b, c, histogram.size)] += 1


@njit(cache=True)
def look_up(keys: NDArray[np.uint64], table: Table) -> NDArray[np.int32]:
    """Return the owner of each named key, and that of the bucket for every other key (Listing 3.2, GETINSTANCE)."""
    workers = np.empty(keys.size, dtype=np.int32)
    salts, bucket_owners, index, named, owners = table
    a, b, c = salts[0], salts[1], salts[2]
    for i in range(keys.size):
        key = keys[i]
        worker = bucket_owners[uint64(universal_choice(key, a, b, c, bucket_owners.size))]
        slot = find(index, named, key, mix(key ^ c))
        workers[i] = owners[uint64(slot)] if slot != FREE else worker
    return workers


@njit(cache=True)
def look_up_split(keys: NDArray[np.uint64], table: Table, loads: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return as `look_up`, but for a named key the less loaded of its two owners; counts in `loads`, in place."""
    workers = np.empty(keys.size, dtype=np.int32)
    salts, bucket_owners, index, named, owners = table
    a, b, c = salts[0], salts[1], salts[2]
    for i in range(keys.size):
        key = keys[i]
        worker = bucket_owners[uint64(universal_choice(key, a, b, c, bucket_owners.size))]
        slot = find(index, named, key, mix(key ^ c))
        if slot != FREE:
            worker, second = owners[uint64(slot), 0], owners[uint64(slot), 1]
            if loads[uint64(second)] < loads[uint64(worker)]:
                worker = second
        loads[uint64(worker)] += 1
        workers[i] = worker
    return workers


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Who owns which key.

    Parameters
    ----------
    keys : array
        Hashes of the named keys.
    owners : array
        A row for each named key: its owner, or both of them where hot keys are cut in two.
    bucket_owners : array
        The owner of each bucket of other keys.
    """

    keys: NDArray[np.uint64]
    owners: NDArray[np.int32]
    bucket_owners: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Moved:
    """What changed its owner when plans were made, all of them together since the stream began.

    The first plan moves away from routing by hash.

    Parameters
    ----------
    plans : int
        Plans so far.
    keys : int
        Named keys that got another owner.
    buckets : int
        Buckets of other keys that got another owner.
    load : float
        Tuples of these keys and buckets, as far as they were learned from.
    learned : int
        All tuples that plans were learned from.
    """

    plans: int = 0
    keys: int = 0
    buckets: int = 0
    load: float = 0.0
    learned: int = 0

    @property
    def share(self) -> float:
        """The load that moved, as a fraction of all tuples that plans were learned from."""
        return self.load / self.learned if self.learned else 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """What is known of a stream: how many tuples, how many of them per bucket, the most frequent keys, least hashes."""

    tuples: int
    histogram: NDArray[np.int64]
    sketch: Counters
    least: NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, eq=False)
class DistributionAwareState(State):
    """What a source keeps.

    Parameters
    ----------
    salts : array
        The hash function that was drawn.
    plan : Plan
        Made at a barrier, the same in every state.
    moved : Moved
        What plans have cost so far.
    pooled : Learned
        By all sources together up to the last barrier, the same in every state.
    own : Learned
        By this source since the last barrier.
    loads : array
        Tuples of each worker since there is the plan; empty where keys have one owner.
    """

    salts: NDArray[np.uint64]
    plan: Plan
    moved: Moved
    pooled: Learned
    own: Learned
    loads: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class DistributionAware(Coordinated[DistributionAwareState], Planned[DistributionAwareState]):
    """Learn which keys are hot and how the others hash to buckets; then assign an owner to each hot key and bucket.

    A key has one worker at any time, the same for all sources. The largest item is placed first, each on the worker
    with the least load: the most loaded worker gets at most 4/3 - 1/(3 n_workers) times the least that is possible with
    these items. A key with more than its worker's fair share gets a worker for itself; it is never cut, unless
    `split_heavy` cuts it in two. Until sources have learned enough, keys are routed by hash as `universal` does.

    Parameters
    ----------
    heavy_share : float
        Fraction of all tuples from which a key is hot (Θ).
    error : float, optional
        By what fraction of all tuples a count may be too high (ε); half of `heavy_share` by default.
    buckets_per_worker : int
        Buckets of other keys per worker (μ).
    learn_tuples : int
        Tuples of all sources together to learn from (m). 10,000 was enough for the paper on Zipf-1 and more than enough
        with more skew (Figure 9).
    relearn_every : int, optional
        Tuples of a window after which the plan is revised, over and over; None or 0 is never.
    max_moved : float
        Fraction of a window's tuples whose keys may get another owner by a revised plan.
    split_heavy : bool
        Cut each hot key in two: a tuple goes to the owner that got less ("DKG PKG" in the paper).
    map_sparse : bool
        Place buckets by plan, too; if not, other keys go to workers by hash ("DKG WOSIM").
    cost : str
        What n tuples of a key weigh: n ("linear") or its square ("quadratic").
    count_distinct : bool
        With quadratic cost: estimate how many different keys a bucket has on average, so that its n tuples weigh as
        those of so many equally frequent keys (section 5.2); otherwise they weigh as those of one.

    >>> DistributionAware(workers=10).n_buckets
    20

    Reference
    ---------
    Rivetti, Querzoni, Anceaume, Busnel & Sericola, *Efficient Key Grouping for Near-Optimal Load Balancing in Stream
    Processing Systems* (2015), Listings 3.1 and 3.2, Figures 5, 13 and 14; section 7 for what it leaves open.

    Deviations: the plan is made at the first barrier at which all sources together have learned enough, not within a
    batch, so that a key has one owner between barriers; a source learns from no more than was missing when its batch
    began. Learning in parallel and again later, both future work in the paper, is done by merging what sources have
    learned and by moving items off the most loaded worker of the old plan, as long as that gains more than chance
    explains. A formerly hot key keeps its own entry while its bucket is elsewhere. The count of a hot key is an
    over-estimate: where it exceeds the bucket that it is taken from (line 15), nothing is left of the bucket.
    """

    name: ClassVar[str] = "distribution_aware"
    aliases: ClassVar[tuple[str, ...]] = ("DAKG",)
    state_class = DistributionAwareState

    heavy_share: float = 0.1
    error: float | None = None
    buckets_per_worker: int = 2
    learn_tuples: int = 10_000
    relearn_every: int | None = None
    max_moved: float = 0.1
    split_heavy: bool = False
    map_sparse: bool = True
    cost: str = "linear"
    count_distinct: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("heavy_share", "max_moved"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and 0 < value <= 1):
                raise ConfigurationError(subject=name, expected="a number above 0 and at most 1", value=value)
        if self.error is not None and not (isinstance(self.error, (int, float)) and 0 < self.error < self.heavy_share):
            expected = f"above 0 and below {{heavy_share}} ({self.heavy_share})"
            raise ConfigurationError(subject="error", expected=expected, value=self.error)
        require_at_least("buckets_per_worker", self.buckets_per_worker, 1)
        require_at_least("learn_tuples", self.learn_tuples, 1)
        require_at_least("relearn_every", self.relearn_every or 0, 0)
        if self.cost not in _COSTS:
            raise UnknownNameError("cost", self.cost, _COSTS, subject="cost")
        if self.count_distinct and self.cost == "linear":
            raise ConfigurationError(
                "{count_distinct} needs quadratic cost", subject="count_distinct", hint="add cost=quadratic"
            )
        if self.workers is not None and self.n_buckets >= 2**31:
            problem = f"{{workers}} * {{buckets_per_worker}} must be below 2**31; got {self.n_buckets}"
            raise ConfigurationError(problem, subject="buckets_per_worker")

    @property
    def single_owner(self) -> bool:
        return not self.split_heavy

    @property
    def n_buckets(self) -> int:
        """Buckets that other than hot keys hash to (kμ)."""
        return self.n_workers * self.buckets_per_worker if self.map_sparse else self.n_workers

    @property
    def n_counters(self) -> int:
        """Counters of the sketch that finds hot keys."""
        return ceil(1 / (self.heavy_share / 2 if self.error is None else self.error))

    def first_state(self, _source: int, seed: int, /) -> DistributionAwareState:
        salts = universal_salts(seed)
        nothing = _Learner(self, salts).snapshot()
        buckets = np.arange(self.n_buckets, dtype=np.int64)
        return DistributionAwareState(
            salts=salts,
            plan=Plan(
                keys=np.empty(0, dtype=np.uint64),
                owners=np.empty((0, self._parts), dtype=np.int32),
                bucket_owners=(buckets * self.n_workers // self.n_buckets).astype(np.int32),
            ),
            moved=Moved(),
            pooled=nothing,
            own=nothing,
            loads=self._no_loads(),
        )

    def resume(self, state: DistributionAwareState, /) -> Router[DistributionAwareState]:
        return _DistributionAwareRouter(self, state)

    def merge(self, states: Sequence[DistributionAwareState]) -> DistributionAwareState:
        # Without what it learned on its own: that counts once, with the source that learned it.
        ahead = _furthest(states)
        nothing = _Learner(self, ahead.salts).snapshot()
        return replace(ahead, own=nothing, loads=mean_loads([state.loads for state in states]))

    def barrier(self, states: Sequence[DistributionAwareState], _now_ms: int, /) -> Sequence[DistributionAwareState]:
        ahead = _furthest(states)
        pooled = _Learner.restore(self, ahead.salts, ahead.pooled)
        for state in states:
            if state.own.tuples:
                pooled.add(_Learner.restore(self, state.salts, state.own))
        nothing = _Learner(self, ahead.salts).snapshot()
        if 0 < self.window(ahead) <= pooled.tuples:
            plan, moved = self._plan(ahead, pooled)
            return [
                replace(state, plan=plan, moved=moved, pooled=nothing, own=nothing, loads=self._no_loads())
                for state in states
            ]
        known = pooled.snapshot()
        return [replace(state, plan=ahead.plan, moved=ahead.moved, pooled=known, own=nothing) for state in states]

    def remark(self, state: DistributionAwareState, /) -> str:
        moved = state.moved
        if not moved.plans:
            return "learning: hashing until there is a plan"
        what = f"{moved.keys} keys and {moved.buckets} buckets, {moved.share:.1%} of the load"
        return f"plans: {moved.plans}, moved: {what}"

    def window(self, state: DistributionAwareState) -> int:
        """Return the number of tuples to learn from before the next plan; 0 if there will be none."""
        return (self.relearn_every or 0) if state.moved.plans else self.learn_tuples

    @property
    def _parts(self) -> int:
        """Owners of a hot key."""
        return 2 if self.split_heavy else 1

    def _no_loads(self) -> NDArray[np.int64]:
        return np.zeros(self.n_workers if self.split_heavy else 0, dtype=np.int64)

    def _plan(self, state: DistributionAwareState, learned: _Learner) -> tuple[Plan, Moved]:
        """Return a plan made from what was learned (Listing 3.2, BUILD), or from the last one, and what has moved."""
        old = state.plan
        keys, counts, released = self._named(old, learned)
        buckets = learned.buckets_of(keys)
        rest = learned.histogram - np.bincount(buckets, weights=counts, minlength=self.n_buckets)
        known = dict(zip(old.keys.tolist(), old.owners, strict=True))
        at_home = np.repeat(old.bucket_owners[buckets], self._parts).reshape(-1, self._parts)
        before = [known.get(key, home) for key, home in zip(keys.tolist(), at_home, strict=True)]
        sizes = np.repeat(counts / self._parts, self._parts)
        owners = np.array(before, dtype=np.int32).ravel()
        n_parts = keys.size * self._parts
        if self.map_sparse:
            sizes = np.concatenate([sizes, np.maximum(rest, 0.0)])
            owners = np.concatenate([owners, old.bucket_owners])
        loads = self.weigh(sizes, n_parts, learned.distinct.estimate() - keys.size)
        placed = self._place(loads, sizes, owners, learned.tuples, first=not state.moved.plans)
        moved = placed != owners
        moved_keys = moved[:n_parts].reshape(-1, self._parts).any(axis=1).sum() + released
        plan = Plan(
            keys=keys,
            owners=placed[:n_parts].reshape(-1, self._parts),
            bucket_owners=placed[n_parts:] if self.map_sparse else old.bucket_owners,
        )
        return plan, Moved(
            plans=state.moved.plans + 1,
            keys=state.moved.keys + int(moved_keys),
            buckets=state.moved.buckets + int(moved[n_parts:].sum()),
            load=state.moved.load + float(sizes[moved].sum()),
            learned=state.moved.learned + learned.tuples,
        )

    def _named(self, plan: Plan, learned: _Learner) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
        """Return the keys that get owners of their own, their counts, and how many go back to another worker's bucket.

        These are the hot keys, and formerly hot ones whose bucket is elsewhere: those would move for nothing. For
        such keys without a counter there is room as long as the state does not grow.
        """
        keys, counts, _ = learned.sketch.items()
        hot = counts >= self.heavy_share * learned.tuples
        homes = plan.bucket_owners[learned.buckets_of(plan.keys)]
        apart = plan.keys[(plan.owners != homes[:, None]).any(axis=1) & ~np.isin(plan.keys, keys[hot])]
        estimates = learned.sketch.estimate(apart)
        order = np.argsort(-estimates, kind="stable")
        kept = order[: 2 * self.n_counters - int(hot.sum())]
        named = np.concatenate([keys[hot], apart[kept]])
        return named, np.concatenate([counts[hot], estimates[kept]]), order.size - kept.size

    def weigh(self, sizes: NDArray[np.float64], n_named: int, n_others: float) -> NDArray[np.float64]:
        """Return the load of each item, of which the first are named keys, and the others buckets of other keys."""
        if self.cost == "linear":
            return sizes
        loads = sizes * sizes
        if self.count_distinct:  # those of buckets over the keys in one; multiplied, as whole numbers add up exactly
            loads[:n_named] *= max(self.n_buckets, round(n_others))
            loads[n_named:] *= self.n_buckets
        return loads

    def _place(
        self,
        loads: NDArray[np.float64],
        sizes: NDArray[np.float64],
        owners: NDArray[np.int32],
        tuples: int,
        *,
        first: bool,
    ) -> NDArray[np.int32]:
        if first:
            return longest_first(loads, self.n_workers)
        noise = _NOISE * loads.sum() / sqrt(tuples * self.n_workers)
        return rebalance(loads, owners, self.n_workers, sizes=sizes, budget=self.max_moved * tuples, least_gain=noise)


def _furthest(states: Sequence[DistributionAwareState]) -> DistributionAwareState:
    """Return the state that knows most of what all agreed on: sources that lost theirs have started afresh."""
    return max(states, key=lambda state: (state.moved.plans, state.pooled.tuples))


class _Learner:
    """Learns which keys are frequent, how many tuples hash to each bucket, and how many keys there are if asked to."""

    def __init__(self, grouping: DistributionAware, salts: NDArray[np.uint64]) -> None:
        self.salts = salts
        self.tuples = 0
        self.histogram = np.zeros(grouping.n_buckets, dtype=np.int64)
        self.sketch = SpaceSaving(grouping.n_counters, salt=salts[2])
        self.distinct = DistinctCount()
        self._counts_distinct = grouping.count_distinct

    def update(self, keys: NDArray[np.uint64]) -> None:
        self.tuples += keys.size
        self.sketch.update(keys)
        count_buckets(keys, self.salts, self.histogram)
        if self._counts_distinct:
            self.distinct.update(keys)

    def add(self, other: _Learner) -> None:
        self.tuples += other.tuples
        self.histogram += other.histogram
        self.sketch = self.sketch.merge(other.sketch)
        self.distinct = self.distinct.merge(other.distinct)

    def buckets_of(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        buckets: NDArray[np.int64] = universal_buckets(keys, self.salts, self.histogram.size)
        return buckets

    def snapshot(self) -> Learned:
        return Learned(
            tuples=self.tuples,
            histogram=self.histogram.copy(),
            sketch=self.sketch.snapshot(),
            least=self.distinct.least,
        )

    @classmethod
    def restore(cls, grouping: DistributionAware, salts: NDArray[np.uint64], learned: Learned) -> _Learner:
        learner = cls(grouping, salts)
        learner.tuples = learned.tuples
        learner.histogram = learned.histogram.copy()
        learner.sketch.restore(learned.sketch)
        learner.distinct = DistinctCount(least=learned.least)
        return learner


class _DistributionAwareRouter(Router[DistributionAwareState]):
    def __init__(self, grouping: DistributionAware, state: DistributionAwareState) -> None:
        self._state = state
        self._loads = state.loads.copy()
        self._own = _Learner.restore(grouping, state.salts, state.own)
        self._window = grouping.window(state) - state.pooled.tuples
        self._split = grouping.split_heavy
        plan = state.plan
        owners = plan.owners if self._split else np.ascontiguousarray(plan.owners[:, 0])
        self._table = make_table(state.salts, plan.bucket_owners, plan.keys, owners)

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        missing = self._window - self._own.tuples
        if missing > 0:
            self._own.update(keys[:missing])
        table, loads = self._table, self._loads
        workers: NDArray[np.int32] = look_up_split(keys, table, loads) if self._split else look_up(keys, table)
        return workers

    def snapshot(self) -> DistributionAwareState:
        return replace(self._state, own=self._own.snapshot(), loads=self._loads.copy())
