"""The router of even grouping: follows a plan, counts on the way, and fixes the plan when it no longer holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from skewless.groupings.base import Router
from skewless.groupings.even.follow import SAMPLE, Tally, follow_plan
from skewless.groupings.even.level import Limits
from skewless.groupings.even.overload import is_overloaded
from skewless.groupings.even.plan import Plan
from skewless.groupings.even.state import Counted, EvenState
from skewless.groupings.even.statistics import Statistics
from skewless.hashing import make_salt, rehash
from skewless.sketches.space_saving import SpaceSaving

if TYPE_CHECKING:
    from skewless.groupings.even.grouping import Even

MIN_NAMED: Final = 4 * SAMPLE
"""Lower bound of a key's tuples from which it may be named."""
_FIRST_CHECK: Final = 128  # tuples after a barrier at which a source first checks whether its plan still holds
_LONGEST_STEP: Final = 4096  # while it holds, the distance between checks doubles each time, up to this many tuples
_RARE: Final = 64  # or this fraction of the tuples since the barrier, if that is more; it is also the least distance
_LONGEST_STRETCH: Final = 1 << 17  # tuples that a source looks back on at most before it starts a new stretch
_LONG: Final = 1 << 15  # tuples after a barrier from which a source trusts its own statistics of smaller keys
_UNIT: Final = 1 << 16  # what a tuple adds to the virtual time of a worker of average capacity
_WEAKEST: Final = (
    2.0**-16
)  # of the average capacity: a tuple of a weaker worker adds no more, so that times cannot overflow


def _units(fair: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return what a tuple adds to the virtual time of each worker: inversely proportional to its capacity."""
    units: NDArray[np.int64] = np.rint(_UNIT / np.maximum(fair * fair.size, _WEAKEST)).astype(np.int64)
    return units


def sent(state: EvenState) -> NDArray[np.int64]:
    """Return the tuples that a source has sent to each worker since the barrier."""
    tuples: NDArray[np.int64] = (state.counted.times - state.counted.times_before) // _units(state.fair)
    return tuples


def nothing_counted(plan: Plan, fair: NDArray[np.float64], ahead: NDArray[np.float64]) -> Counted:
    """Return the counters of a source at the start of a batch; `ahead` is each worker's excess of tuples so far."""
    times = np.rint(ahead * _units(fair)).astype(np.int64)
    keys, buckets = np.zeros(plan.keys.size, np.int64), np.zeros(plan.bucket_owners.size, np.int64)
    return Counted(
        keys=keys,
        keys_seen=keys,
        buckets=buckets,
        buckets_seen=buckets,
        times=times,
        times_seen=times,
        times_before=times,
        next_check=_first_check(times.size),
        step=_first_check(times.size),
    )


def _first_check(n_workers: int) -> int:
    """Return the tuples after which a source first checks its plan: at least one per worker."""
    return max(_FIRST_CHECK, n_workers)


class EvenRouter(Router[EvenState]):
    def __init__(self, grouping: Even, state: EvenState) -> None:
        self._grouping = grouping
        self._state = state
        self._salt = state.salt
        self._fair = state.fair
        self._units = _units(self._fair)
        counted, history = state.counted, state.history
        self._history: dict[str, NDArray[Any]] = {"key": history.keys, "bucket": history.buckets}
        self._counts: dict[str, NDArray[Any]] = {"key": counted.keys.copy(), "bucket": counted.buckets.copy()}
        self._seen: dict[str, NDArray[Any]] = {"key": counted.keys_seen, "bucket": counted.buckets_seen}
        self._times = counted.times.copy()
        self._times_seen = counted.times_seen
        self._unnamed = counted.unnamed
        self._n = counted.n
        self._n_seen = counted.n_seen
        self._next_check = counted.next_check
        self._step = counted.step
        self._local_plans = counted.local_plans
        self._sketch = SpaceSaving(grouping.n_counters, salt=self._salt)
        self._sketch.restore(state.sketch)
        self._follow(state.plan)

    def _follow(self, plan: Plan) -> None:
        self._plan = plan
        # Where each cut key's sequence starts: different for every source and every plan, so that they do not all
        # favour the same pieces.
        numbers = (self._state.barriers, self._state.source, self._local_plans)
        start = int(make_salt(int(self._salt), use=numbers[0] << 32 ^ numbers[1] << 12 ^ numbers[2]))
        self._tables = plan.tables(self._salt, rehash(np.arange(len(plan.shares), dtype=np.uint64), start))
        self._first_turn = start % (1 << 16)
        self._tally = Tally(self._counts["key"], self._counts["bucket"], self._times, self._units, *self._sketch.arrays)

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers = np.empty(keys.size, dtype=np.int32)
        position = 0
        while position < keys.size:
            end = min(keys.size, position + self._next_check - self._n)
            self._unnamed = follow_plan(
                keys[position:end], workers[position:end], self._tables, self._tally, self._unnamed, self._first_turn
            )
            self._n += end - position
            position = end
            if self._n == self._next_check:
                self._check()
        return workers

    def _check(self) -> None:
        """Check whether the plan still holds, and fix it locally if it does not."""
        grouping, n = self._grouping, self._n
        stretch, long = n - self._n_seen, n >= _LONG
        self._step = min(2 * self._step, max(_LONGEST_STEP, n // _RARE))
        tolerance = 0.1 if long else 0.25
        if not grouping.single_owner and is_overloaded(
            self._times, self._times_seen, self._units, self._fair, stretch, n, tolerance, grouping.slack
        ):
            if self._fix(stretch, max(stretch / grouping.n_workers / (grouping.resolution if long else 2), MIN_NAMED)):
                self._step = max(_first_check(grouping.n_workers), n // _RARE)
            self._start_stretch()
        elif stretch >= min(self._n_seen, _LONGEST_STRETCH):
            self._start_stretch()
        self._next_check += self._step

    def _start_stretch(self) -> None:
        self._n_seen = self._n
        self._seen = {name: counts.copy() for name, counts in self._counts.items()}
        self._times_seen = self._times.copy()

    def _fix(self, stretch: int, least: float) -> bool:
        """Cut and move keys of at least a load by this source's counts of the last stretch; return whether any were."""
        latest = self._latest(stretch)
        keys, counts, errors = self._sketch.items()
        lower_bounds, buckets = SAMPLE * (counts - errors), self._plan.buckets_of(keys, self._salt)
        new = (lower_bounds >= least) & ~np.isin(keys, self._plan.keys)
        if self._plan.keys.size + new.sum() > self._grouping.most_names:
            self._remove_names((self._plan.owners >= 0) & (latest.keys < least))
            latest = self._latest(stretch)
        if new.any():
            latest = latest.naming(buckets[new], lower_bounds[new])
            self._plan = self._plan.naming(keys[new], self._salt)
            self._move_counts(buckets[new], latest.keys[-int(new.sum()) :].astype(np.int64))
        before = self._plan
        plan, _ = before.levelled(
            latest.shrunk(),
            self._fair * stretch,
            Limits(
                may_move_buckets=False,
                slack=self._grouping.slack,
                least=float(least),  # an int would compile a second kernel
                budget=self._grouping.max_moved * stretch,
            ),
        )
        self._local_plans += 1
        self._follow(plan)
        return bool((np.maximum(plan.owners, -1) != np.maximum(before.owners, -1)).any())

    def _move_counts(self, buckets: NDArray[np.int64], taken: NDArray[np.int64]) -> None:
        """Move the counts of newly named keys from their buckets to the keys."""
        np.subtract.at(self._counts["bucket"], buckets, taken)
        nothing = np.zeros_like(taken)
        for name, more in (("_counts", taken), ("_seen", nothing), ("_history", nothing)):
            of = getattr(self, name)
            of["key"] = np.concatenate([of["key"], more])

    def _remove_names(self, gone: NDArray[np.bool_]) -> None:
        """Remove the names of some keys, none of which is cut."""
        buckets = self._plan.buckets_of(self._plan.keys[gone], self._salt)
        self._plan = self._plan.keeping(~gone)
        for of in (self._counts, self._seen, self._history):
            of["bucket"] = of["bucket"].copy()
            np.add.at(of["bucket"], buckets, of["key"][gone])
            of["key"] = of["key"][~gone]

    def _latest(self, stretch: int) -> Statistics:
        keys, buckets = (np.maximum(self._counts[name] - self._seen[name], 0.0) for name in ("key", "bucket"))
        return Statistics(keys=keys, buckets=buckets, weight=float(stretch), square=float(stretch))

    def snapshot(self) -> EvenState:
        counted = Counted(
            keys=self._counts["key"].copy(),
            keys_seen=self._seen["key"],
            buckets=self._counts["bucket"].copy(),
            buckets_seen=self._seen["bucket"],
            times=self._times.copy(),
            times_seen=self._times_seen,
            times_before=self._state.counted.times_before,
            unnamed=self._unnamed,
            n=self._n,
            n_seen=self._n_seen,
            next_check=self._next_check,
            step=self._step,
            local_plans=self._local_plans,
        )
        return replace(
            self._state,
            plan=self._plan,
            history=replace(self._state.history, keys=self._history["key"], buckets=self._history["bucket"]),
            counted=counted,
            sketch=self._sketch.snapshot(),
        )
