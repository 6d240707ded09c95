"""The router of even grouping: follows a plan, counts on the way, and mends the plan where it does not hold."""

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

SURE: Final = 4 * SAMPLE
"""Tuples that a key must have at least to get a name."""
_FIRST_CHECK: Final = 128  # tuples after a barrier at which a source first looks whether its plan still holds
_LONGEST_STEP: Final = 4096  # while it holds, checks are twice as far apart each time, up to so many tuples
_RARE: Final = 64  # or one in so many of the tuples since the barrier, if that is more; nor are they ever closer
_LONGEST_STRETCH: Final = 1 << 17  # tuples that a source looks back on at most before it begins a new stretch
_LONG: Final = 1 << 15  # tuples after a barrier from which a source trusts its own statistics of smaller keys
_UNIT: Final = 1 << 16  # what a tuple adds to the standing of a worker of average capacity
_WEAKEST: Final = 2.0**-16  # of the average capacity: below, a tuple adds no more than there, lest standings overflow


def _units(fair: NDArray[np.float64]) -> NDArray[np.int64]:
    """Give what a tuple adds to the standing of each worker: the more, the less it can do."""
    units: NDArray[np.int64] = np.rint(_UNIT / np.maximum(fair * fair.size, _WEAKEST)).astype(np.int64)
    return units


def sent(state: EvenState) -> NDArray[np.int64]:
    """Give the tuples that a source has sent to each worker since the barrier."""
    tuples: NDArray[np.int64] = (state.counted.standing - state.counted.standing_before) // _units(state.fair)
    return tuples


def nothing_counted(plan: Plan, fair: NDArray[np.float64], ahead: NDArray[np.float64]) -> Counted:
    """Give the counters of a source at the beginning of a batch; `ahead` are tuples that its workers had too many."""
    standing = np.rint(ahead * _units(fair)).astype(np.int64)
    keys, buckets = np.zeros(plan.keys.size, np.int64), np.zeros(plan.bucket_owners.size, np.int64)
    return Counted(
        keys=keys,
        keys_seen=keys,
        buckets=buckets,
        buckets_seen=buckets,
        standing=standing,
        standing_seen=standing,
        standing_before=standing,
        next_check=_first_check(standing.size),
        step=_first_check(standing.size),
    )


def _first_check(n_workers: int) -> int:
    """Give the tuples after which a source looks at its plan: fewer would say nothing about so many workers."""
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
        self._standing = counted.standing.copy()
        self._standing_seen = counted.standing_seen
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
        # Where each cut key's sequence begins: different for every source and every plan, lest all of them favour the
        # same pieces.
        numbers = (self._state.barriers, self._state.source, self._local_plans)
        begin = int(make_salt(int(self._salt), use=numbers[0] << 32 ^ numbers[1] << 12 ^ numbers[2]))
        self._followed = plan.tables(self._salt, rehash(np.arange(len(plan.shares), dtype=np.uint64), begin))
        self._first_turn = begin % (1 << 16)
        self._tally = Tally(
            self._counts["key"], self._counts["bucket"], self._standing, self._units, *self._sketch.arrays
        )

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers = np.empty(keys.size, dtype=np.int32)
        position = 0
        while position < keys.size:
            end = min(keys.size, position + self._next_check - self._n)
            self._unnamed = follow_plan(
                keys[position:end], workers[position:end], self._followed, self._tally, self._unnamed, self._first_turn
            )
            self._n += end - position
            position = end
            if self._n == self._next_check:
                self._check()
        return workers

    def _check(self) -> None:
        """Look whether the plan still holds, and mend it on one's own account if it does not."""
        grouping, n = self._grouping, self._n
        stretch, long = n - self._n_seen, n >= _LONG
        self._step = min(2 * self._step, max(_LONGEST_STEP, n // _RARE))
        excused = 0.1 if long else 0.25
        if not grouping.single_owner and is_overloaded(
            self._standing, self._standing_seen, self._units, self._fair, stretch, n, excused, grouping.slack
        ):
            if self._mend(stretch, max(stretch / grouping.n_workers / (grouping.resolution if long else 2), SURE)):
                self._step = max(_first_check(grouping.n_workers), n // _RARE)
            self._begin_stretch()
        elif stretch >= min(self._n_seen, _LONGEST_STRETCH):
            self._begin_stretch()
        self._next_check += self._step

    def _begin_stretch(self) -> None:
        self._n_seen = self._n
        self._seen = {name: counts.copy() for name, counts in self._counts.items()}
        self._standing_seen = self._standing.copy()

    def _mend(self, stretch: int, least: float) -> bool:
        """Cut and move keys above a load by what this source has seen in the last so many tuples; says if any were."""
        latest = self._latest(stretch)
        keys, counts, errors = self._sketch.items()
        sure, buckets = SAMPLE * (counts - errors), self._plan.buckets_of(keys, self._salt)
        new = (sure >= least) & ~np.isin(keys, self._plan.keys)
        if self._plan.keys.size + new.sum() > self._grouping.most_names:
            self._forget((self._plan.owners >= 0) & (latest.keys < least))
            latest = self._latest(stretch)
        if new.any():
            latest = latest.naming(buckets[new], sure[new])
            self._plan = self._plan.naming(keys[new], self._salt)
            self._move_counts(buckets[new], latest.keys[-int(new.sum()) :].astype(np.int64))
        before = self._plan
        plan, _ = before.levelled(
            latest.shrunk(),
            self._fair * stretch,
            Limits(
                may_move_buckets=False,
                slack=self._grouping.slack,
                least=least,
                budget=self._grouping.max_moved * stretch,
            ),
        )
        self._local_plans += 1
        self._follow(plan)
        return bool((np.maximum(plan.owners, -1) != np.maximum(before.owners, -1)).any())

    def _move_counts(self, buckets: NDArray[np.int64], taken: NDArray[np.int64]) -> None:
        """Count for keys that have got a name what was counted for their buckets."""
        np.subtract.at(self._counts["bucket"], buckets, taken)
        nothing = np.zeros_like(taken)
        for name, more in (("_counts", taken), ("_seen", nothing), ("_history", nothing)):
            of = getattr(self, name)
            of["key"] = np.concatenate([of["key"], more])

    def _forget(self, gone: NDArray[np.bool_]) -> None:
        """Take their names from some keys, none of which is cut."""
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
            standing=self._standing.copy(),
            standing_seen=self._standing_seen,
            standing_before=self._state.counted.standing_before,
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
