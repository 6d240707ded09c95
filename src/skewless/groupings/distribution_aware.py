"""Distribution-aware key grouping (DAKG): learn the hot keys, then place them and the rest longest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import SkewlessError, UnknownNameError, require_at_least
from skewless.groupings.base import Grouping, Router, State, mean_loads
from skewless.groupings.longest_first import longest_first
from skewless.groupings.rebalance import rebalance
from skewless.hashing import mix, universal_buckets, universal_choice, universal_salts
from skewless.sketches.key_table import FREE, capacity_for, make_index
from skewless.sketches.space_saving import SpaceSaving

_COSTS: Final = ("linear", "quadratic")
_NOISE: Final = 3.0  # standard deviations of a worker's mean load: what a window shows below that may be chance
_PLAN: Final = ("plan_keys", "plan_owners", "bucket_owners")
_MOVED: Final = ("n_plans", "moved_keys", "moved_buckets", "moved_load", "planned_load")
_OWN: Final = "own_"  # what a source has learned since the last barrier
_POOLED: Final = "pooled_"  # what all sources together have learned up to it, the same in every state


@njit(inline="always")
def _find(index: Any, named: Any, key: Any, salt: Any) -> Any:
    """Give the slot of a named key, FREE for any other."""
    mask = uint64(index.size - 1)
    at = mix(key ^ salt) & mask
    slot = index[at]
    while slot != FREE and named[uint64(slot)] != key:
        at = (at + uint64(1)) & mask
        slot = index[at]
    return slot


@njit(cache=True)
def count_buckets(keys: Any, salts: Any, histogram: Any) -> None:
    """Count each key in its bucket, in place (Listing 3.1, line 9)."""
    a, b, c = salts[0], salts[1], salts[2]
    for i in range(keys.size):
        histogram[universal_choice(keys[i], a, b, c, histogram.size)] += 1


@njit(cache=True)
def look_up(keys: Any, salts: Any, bucket_owners: Any, index: Any, named: Any, owners: Any) -> Any:
    """Give each named key its own owner, every other key that of its bucket (Listing 3.2, GETINSTANCE)."""
    workers = np.empty(keys.size, dtype=np.int32)
    a, b, c = salts[0], salts[1], salts[2]
    for i in range(keys.size):
        key = keys[i]
        worker = bucket_owners[uint64(universal_choice(key, a, b, c, bucket_owners.size))]
        slot = _find(index, named, key, c)
        workers[i] = owners[uint64(slot)] if slot != FREE else worker
    return workers


@njit(cache=True)
def look_up_split(keys: Any, salts: Any, bucket_owners: Any, index: Any, named: Any, owners: Any, loads: Any) -> Any:
    """As `look_up`, but a named key goes to the less loaded of its two owners; counts all in `loads`, in place."""
    workers = np.empty(keys.size, dtype=np.int32)
    a, b, c = salts[0], salts[1], salts[2]
    for i in range(keys.size):
        key = keys[i]
        worker = bucket_owners[uint64(universal_choice(key, a, b, c, bucket_owners.size))]
        slot = _find(index, named, key, c)
        if slot != FREE:
            worker, second = owners[uint64(slot), 0], owners[uint64(slot), 1]
            if loads[uint64(second)] < loads[uint64(worker)]:
                worker = second
        loads[uint64(worker)] += 1
        workers[i] = worker
    return workers


class Moved(NamedTuple):
    """What changed its owner when plans were made, all of them together since the stream began."""

    plans: int
    keys: int
    """Named keys that got another owner."""
    buckets: int
    """Buckets of other keys that got another owner."""
    load: float
    """Tuples of these keys and buckets, as far as they were learned from."""
    share: float
    """That load as a share of all tuples that plans were learned from."""


@dataclass(frozen=True, kw_only=True)
class DistributionAware(Grouping):
    """Learn which keys are hot and how the others hash to buckets; then give each hot key and each bucket an owner.

    A key has one worker at any time, the same for all sources. The largest item is placed first, each on the worker
    with the least: the most loaded worker gets at most 4/3 - 1/(3 n_workers) times the least that is possible with
    these items. A key with more than its worker's fair share gets a worker for itself; it is never cut, unless
    `split_heavy` cuts it in two. Until sources have learned enough, keys are routed by hash as `universal` does.

    Parameters
    ----------
    heavy_share: a key with this share of all tuples is hot (Θ).
    error: by what share of all tuples a count may be too high (ε); half of `heavy_share` if None.
    buckets_per_worker: buckets of other keys per worker (μ).
    learn_tuples: tuples of all sources together to learn from (m). 10,000 was enough for the paper on Zipf-1 and more
        than enough with more skew (Figure 9).
    relearn_every: learn anew in windows of so many tuples, and plan anew after each; None or 0 is never.
    max_moved: the share of a window's tuples whose keys may get another owner by a new plan.
    split_heavy: give each hot key two owners; each tuple goes to the one that got less (the paper's "DKG PKG").
    map_sparse: place buckets by plan, too; if not, other keys go to workers by hash ("DKG WOSIM").
    cost: what n tuples of a key weigh, n ("linear") or its square ("quadratic").

    >>> DistributionAware(workers=10).n_buckets
    20

    Reference
    ---------
    Rivetti, Querzoni, Anceaume, Busnel & Sericola, *Efficient Key Grouping for Near-Optimal Load Balancing in Stream
    Processing Systems* (2015), Listings 3.1 and 3.2, Figures 5, 13 and 14; section 7 for what it leaves open.

    Deviations: the plan is made at the first barrier at which all sources together have learned enough, not within a
    batch, so that a key has one owner between barriers; a source learns from no more than was missing when its batch
    began. Learning in parallel and anew, both future work in the paper, is done by merging what sources have learned
    and by moving items off the most loaded worker of the old plan, as long as it gains more than chance explains. A
    formerly hot key keeps its own entry while its bucket is elsewhere. The count of a hot key is an over-estimate:
    where it exceeds the bucket that it is taken from (line 15), nothing is left of the bucket.
    """

    name: ClassVar[str] = "distribution_aware"
    aliases: ClassVar[tuple[str, ...]] = ("DAKG",)
    coordinated: ClassVar[bool] = True

    heavy_share: float = 0.1
    error: float | None = None
    buckets_per_worker: int = 2
    learn_tuples: int = 10_000
    relearn_every: int | None = None
    max_moved: float = 0.1
    split_heavy: bool = False
    map_sparse: bool = True
    cost: str = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("heavy_share", "max_moved"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and 0 < value <= 1):
                raise SkewlessError(f"{name} must be a number above 0 and at most 1; got {value!r}")
        if self.error is not None and not (isinstance(self.error, (int, float)) and 0 < self.error < self.heavy_share):
            raise SkewlessError(f"error must be above 0 and below heavy_share ({self.heavy_share}); got {self.error!r}")
        require_at_least("buckets_per_worker", self.buckets_per_worker, 1)
        require_at_least("learn_tuples", self.learn_tuples, 1)
        require_at_least("relearn_every", self.relearn_every or 0, 0)
        if self.cost not in _COSTS:
            raise UnknownNameError("cost", self.cost, _COSTS)
        if self.workers is not None and self.n_buckets >= 2**31:
            raise SkewlessError(f"workers * buckets_per_worker must be below 2**31; got {self.n_buckets}")

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

    def start(self, source: int, n_sources: int, seed: int) -> Router:  # noqa: ARG002
        salts = universal_salts(seed)
        nothing = _Learned(self, salts)
        buckets = np.arange(self.n_buckets, dtype=np.int64)
        state: State = {
            "salts": salts,
            "plan_keys": np.empty(0, dtype=np.uint64),
            "plan_owners": np.empty((0, self._parts), dtype=np.int32),
            "bucket_owners": (buckets * self.n_workers // self.n_buckets).astype(np.int32),
            **{name: np.array(0.0 if name == "moved_load" else 0) for name in _MOVED},
            **nothing.snapshot(_POOLED),
            **nothing.snapshot(_OWN),
            "loads": self._no_loads(),
        }
        return _DistributionAwareRouter(self, state)

    def resume(self, state: State) -> Router:
        return _DistributionAwareRouter(self, state)

    def merge(self, states: Sequence[State]) -> State:
        # Without what it learned on its own: that counts once, with the source that learned it.
        ahead = _furthest(states)
        return {**ahead, **_Learned(self, ahead["salts"]).snapshot(_OWN), "loads": mean_loads(states)}

    def barrier(self, states: Sequence[State], now_ms: int) -> Sequence[State]:  # noqa: ARG002
        ahead = _furthest(states)
        pooled = _Learned.restore(self, ahead, _POOLED)
        for state in states:
            if state[_OWN + "tuples"]:
                pooled.add(_Learned.restore(self, state, _OWN))
        nothing = _Learned(self, ahead["salts"])
        agreed = {name: ahead[name] for name in (*_PLAN, *_MOVED)}
        if 0 < self.window(ahead) <= pooled.tuples:
            agreed |= {**self._plan(ahead, pooled), "loads": self._no_loads()}
            pooled = nothing
        agreed |= {**pooled.snapshot(_POOLED), **nothing.snapshot(_OWN)}
        return [{**state, **agreed} for state in states]

    @staticmethod
    def moved(state: State) -> Moved:
        """Read from a state what the plans so far have moved; the first one moves away from routing by hash."""
        plans, keys, buckets, load, learned = (state[name].item() for name in _MOVED)
        return Moved(plans, keys, buckets, load, load / learned if learned else 0.0)

    def remark(self, state: State) -> str:
        moved = self.moved(state)
        if not moved.plans:
            return "learning: hashing until there is a plan"
        what = f"{moved.keys} keys and {moved.buckets} buckets, {moved.share:.1%} of the load"
        return f"plans: {moved.plans}, moved: {what}"

    def window(self, state: State) -> int:
        """Give the number of tuples to learn from before the next plan; 0 if there will be none."""
        return (self.relearn_every or 0) if state["n_plans"] else self.learn_tuples

    @property
    def _parts(self) -> int:
        """Owners of a hot key."""
        return 2 if self.split_heavy else 1

    def _no_loads(self) -> NDArray[np.int64]:
        return np.zeros(self.n_workers if self.split_heavy else 0, dtype=np.int64)

    def _plan(self, state: State, learned: _Learned) -> State:
        """Make a plan from what was learned (Listing 3.2, BUILD), or mend the one that is there."""
        keys, counts, released = self._named(state, learned)
        buckets = learned.buckets_of(keys)
        rest = learned.histogram - np.bincount(buckets, weights=counts, minlength=self.n_buckets)
        known = dict(zip(state["plan_keys"].tolist(), state["plan_owners"], strict=True))
        at_home = np.repeat(state["bucket_owners"][buckets], self._parts).reshape(-1, self._parts)
        before = [known.get(key, home) for key, home in zip(keys.tolist(), at_home, strict=True)]
        sizes = np.repeat(counts / self._parts, self._parts)
        owners = np.array(before, dtype=np.int32).ravel()
        if self.map_sparse:
            sizes = np.concatenate([sizes, np.maximum(rest, 0.0)])
            owners = np.concatenate([owners, state["bucket_owners"]])
        placed = self._place(sizes, owners, learned.tuples, first=not state["n_plans"])
        moved = placed != owners
        n_parts = keys.size * self._parts
        moved_keys = moved[:n_parts].reshape(-1, self._parts).any(axis=1).sum() + released
        added = (1, moved_keys, moved[n_parts:].sum(), sizes[moved].sum(), learned.tuples)
        return {
            "plan_keys": keys,
            "plan_owners": placed[:n_parts].reshape(-1, self._parts),
            "bucket_owners": placed[n_parts:] if self.map_sparse else state["bucket_owners"],
            **{name: np.array(state[name] + more) for name, more in zip(_MOVED, added, strict=True)},
        }

    def _named(self, state: State, learned: _Learned) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
        """Give the keys that get owners of their own, their counts, and how many go back to another worker's bucket.

        These are the hot keys, and formerly hot ones whose bucket is elsewhere: those would move for nothing. For
        such keys without a counter there is room as long as the state does not grow.
        """
        keys, counts, _ = learned.sketch.items()
        hot = counts >= self.heavy_share * learned.tuples
        old = state["plan_keys"]
        homes = state["bucket_owners"][learned.buckets_of(old)]
        apart = old[(state["plan_owners"] != homes[:, None]).any(axis=1) & ~np.isin(old, keys[hot])]
        estimates = learned.sketch.estimate(apart)
        order = np.argsort(-estimates, kind="stable")
        kept = order[: 2 * self.n_counters - int(hot.sum())]
        named = np.concatenate([keys[hot], apart[kept]])
        return named, np.concatenate([counts[hot], estimates[kept]]), order.size - kept.size

    def _place(
        self, sizes: NDArray[np.float64], owners: NDArray[np.int32], tuples: int, *, first: bool
    ) -> NDArray[np.int32]:
        loads = sizes if self.cost == "linear" else sizes * sizes
        if first:
            return longest_first(loads, self.n_workers)
        noise = _NOISE * loads.sum() / sqrt(tuples * self.n_workers)
        return rebalance(loads, owners, self.n_workers, sizes=sizes, budget=self.max_moved * tuples, least_gain=noise)


def _furthest(states: Sequence[State]) -> State:
    """Give the state that knows most of what all agreed on: sources that lost theirs have started afresh."""
    return max(states, key=lambda state: (int(state["n_plans"]), int(state[_POOLED + "tuples"])))


class _Learned:
    """What was learned of a stream: how many tuples, how many of them per bucket, and the most frequent keys."""

    def __init__(self, grouping: DistributionAware, salts: NDArray[np.uint64]) -> None:
        self.salts = salts
        self.tuples = 0
        self.histogram = np.zeros(grouping.n_buckets, dtype=np.int64)
        self.sketch = SpaceSaving(grouping.n_counters, salt=salts[2])

    def update(self, keys: NDArray[np.uint64]) -> None:
        self.tuples += keys.size
        self.sketch.update(keys)
        count_buckets(keys, self.salts, self.histogram)

    def add(self, other: _Learned) -> None:
        self.tuples += other.tuples
        self.histogram += other.histogram
        self.sketch = self.sketch.merge(other.sketch)

    def buckets_of(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        buckets: NDArray[np.int64] = universal_buckets(keys, self.salts, self.histogram.size)
        return buckets

    def snapshot(self, prefix: str) -> State:
        arrays = {"tuples": np.array(self.tuples), "histogram": self.histogram.copy(), **self.sketch.snapshot()}
        return {prefix + name: array for name, array in arrays.items()}

    @classmethod
    def restore(cls, grouping: DistributionAware, state: State, prefix: str) -> _Learned:
        learned = cls(grouping, state["salts"])
        learned.tuples = int(state[prefix + "tuples"])
        learned.histogram = state[prefix + "histogram"].copy()
        learned.sketch.restore({name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)})
        return learned


class _DistributionAwareRouter(Router):
    def __init__(self, grouping: DistributionAware, state: State) -> None:
        self._state = state  # what barriers alone change is read and handed on, never written
        self._loads = state["loads"].copy()
        self._own = _Learned.restore(grouping, state, _OWN)
        self._window = grouping.window(state) - int(state[_POOLED + "tuples"])
        keys = state["plan_keys"]
        self._index = make_index(keys, capacity_for(keys.size), state["salts"][2])
        self._split = grouping.split_heavy
        self._owners = state["plan_owners"] if self._split else np.ascontiguousarray(state["plan_owners"][:, 0])

    def route(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:  # noqa: ARG002
        missing = self._window - self._own.tuples
        if missing > 0:
            self._own.update(keys[:missing])
        state = self._state
        plan = (state["salts"], state["bucket_owners"], self._index, state["plan_keys"], self._owners)
        workers: NDArray[np.int32] = look_up_split(keys, *plan, self._loads) if self._split else look_up(keys, *plan)
        return workers

    def snapshot(self) -> State:
        return {**self._state, **self._own.snapshot(_OWN), "loads": self._loads.copy()}
