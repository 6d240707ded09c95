"""Even grouping: shuffle grouping's balance at key grouping's cost, by a plan that is levelled and kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.groupings.base import Coordinated, Measuring, Router, State
from skewless.groupings.plan_table import Tally, follow, make_table, sampling
from skewless.groupings.planned import SPREAD, Planned, Seen, spread
from skewless.hashing import rehash
from skewless.salting.capacities import fair_shares
from skewless.salting.forecast import Forecast, Observed, Policy
from skewless.salting.slots import homes
from skewless.salting.table import Placement
from skewless.seeding import make_salt
from skewless.sketches.space_saving import Counters, SpaceSaving

_MOST_WORKERS: Final = 1024
_MISSED: Final = 0.9  # of what a named key had before, if nobody has reported it: it may be gone


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """What a source has counted since the last barrier."""

    keys: NDArray[np.int64]
    """Tuples of each named key."""
    ranges: NDArray[np.int64]
    """Tuples of other keys by range."""
    sent: NDArray[np.int64]
    """Tuples that each worker got."""
    sketch: Counters
    """The largest of the other keys."""
    unnamed: int = 0
    """Tuples that the sketch was chosen from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EvenState(State):
    """What a source keeps; after a barrier only its number differs from the others."""

    source: int
    forecast: Forecast
    counted: Counted


@dataclass(frozen=True, kw_only=True)
class Even(Coordinated[EvenState], Measuring[EvenState], Planned[EvenState]):
    """Keep every key where its hash puts it, cut the few keys that are too large, and move what still overflows.

    Between two barriers all sources follow one plan: large keys are named and have an owner or, if they are cut,
    several with a share each; all others are at home, where their hash puts them. A plan has fewer cuts than workers.
    At a barrier the counts of all sources are combined. Resizing the pieces of cut keys costs nothing and is done every
    time, also to make up for earlier imbalance; keys are cut or moved only if a worker is overloaded by more than
    chance explains. Before the first barrier nothing is known: the tuples of every key are spread over all workers,
    unless `single_owner` forbids it.

    Parameters
    ----------
    single_owner : bool
        Cut no key, so that each has one owner between two barriers.
    capacities : tuple of float, optional
        Capacity of each worker, relative to the others; equal by default.
    measure_capacities : bool
        Derive capacities from how long workers were busy.
    half_life_s : int
        Seconds after which a counted tuple weighs half.
    slack : float
        Overload, as a fraction of a worker's target, that is never worth a cut or a move.
    max_moved : float
        Fraction of all load that one re-plan may move whole; with `single_owner` one key may exceed it.
    resolution : int
        Keys above a worker's target divided by this are named.

    >>> Even(workers=4, capacities=(1, 1, 1, 5)).fair.tolist()
    [0.125, 0.125, 0.125, 0.625]

    Reference
    ---------
    Our own. Cuts follow R. McNaughton, *Scheduling with Deadlines and Loss Functions* (1959); hot keys are found by
    Space-Saving. Deviations: none.
    """

    name: ClassVar[str] = "even"
    by_home: ClassVar[bool] = True
    state_class = EvenState

    single_owner: bool = False
    capacities: tuple[float, ...] | None = None
    measure_capacities: bool = False
    half_life_s: int = 120
    slack: float = 0.02
    max_moved: float = 0.05
    resolution: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("half_life_s", "resolution"):
            require_at_least(name, getattr(self, name), 1)
        for name in ("slack", "max_moved"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigurationError(subject=name, expected="above 0 and at most 1", value=getattr(self, name))
        if self.workers is not None and self.workers > _MOST_WORKERS:
            raise ConfigurationError(
                f"{self.name} takes at most {_MOST_WORKERS} workers; got {self.workers}", subject="workers"
            )
        if self.capacities is not None and self.measure_capacities:
            raise ConfigurationError(
                "{measure_capacities} must be False if {capacities} is set; got True", subject="measure_capacities"
            )
        if self.workers is not None:
            fair_shares(self.capacities, self.workers)

    @property
    def fair(self) -> NDArray[np.float64]:
        """The share of the load that each worker should have, by the configured capacities."""
        return fair_shares(self.capacities, self.n_workers)

    @property
    def policy(self) -> Policy:
        """What plans may do, and when they are made."""
        return Policy(
            fair=self.fair,
            single_owner=self.single_owner,
            half_life_s=self.half_life_s,
            slack=self.slack,
            max_moved=self.max_moved,
            resolution=self.resolution,
        )

    @property
    def n_counters(self) -> int:
        """Counters of each source's sketch."""
        return 2 * self.policy.most_names

    def first_state(self, source: int, seed: int, /) -> EvenState:
        return self._nothing_counted(source, Forecast.nothing(make_salt(seed), self.policy))

    def resume(self, state: EvenState, /) -> Router[EvenState]:
        return _EvenRouter(self, state)

    def merge(self, states: Sequence[EvenState]) -> EvenState:
        return self._nothing_counted(len(states), states[0].forecast)

    def _nothing_counted(self, source: int, forecast: Forecast) -> EvenState:
        sizes = (forecast.hashes.size, forecast.ranges.size, self.n_workers)
        keys, ranges, sent = (np.zeros(size, dtype=np.int64) for size in sizes)
        counted = Counted(keys=keys, ranges=ranges, sent=sent, sketch=Counters.none(self.n_counters))
        return EvenState(source=source, forecast=forecast, counted=counted)

    @property
    def measures(self) -> bool:
        return self.measure_capacities

    def calibrate(
        self, states: Sequence[EvenState], tuples: NDArray[np.int64], busy_s: NDArray[np.float64]
    ) -> Sequence[EvenState]:
        if not self.measures:
            return states
        return [replace(state, forecast=state.forecast.measured(tuples, busy_s)) for state in states]

    def barrier(self, states: Sequence[EvenState], now_ms: int, /) -> Sequence[EvenState]:
        if not any(state.counted.sent.any() for state in states):
            return states
        # A source may have lost its state: the one that has seen most batches knows best.
        base = max((state.forecast for state in states), key=lambda forecast: forecast.batches)
        forecast = base.after(_gathered(states), now_ms, self.policy)
        return [self._nothing_counted(state.source, forecast) for state in states]

    @property
    def n_ranges(self) -> int:
        return 0 if self.single_owner else SPREAD

    def observe(self, state: EvenState, seen: Seen, _now_ms: int, /) -> EvenState:
        forecast = state.forecast if state.forecast.ranges.size == seen.units.size else state.forecast.by_home()
        # Workers report their largest keys only: a named key that is missing was smaller than these, or as before.
        missing = ~np.isin(forecast.hashes, seen.hashes)
        least = seen.counts.min() if seen.counts.size else 0
        expected = forecast.loads[missing] * (seen.units.sum() / max(forecast.weight, 1.0))
        observed = Observed(
            hashes=np.concatenate([seen.hashes, forecast.hashes[missing]]),
            counts=np.concatenate([seen.counts, _MISSED * np.minimum(expected, least)]),
            by_range=seen.units.astype(np.float64),
            by_worker=seen.by_worker.astype(np.float64),
        )
        return self._as_if_routed(replace(state, forecast=forecast), observed)

    def placements(self, state: EvenState, _seen: Seen, _now_ms: int, /) -> Iterator[Placement]:
        return spread(state.forecast.fair.tolist()) if state.forecast.spread else state.forecast.placements()

    def _as_if_routed(self, state: EvenState, seen: Observed) -> EvenState:
        """Return the state of a source that has routed all of a batch."""
        forecast = state.forecast
        counts = forecast.counts_of(seen).astype(np.int64)
        n_ranges = forecast.ranges.size
        named = np.bincount(homes(forecast.hashes, forecast.salt, n_ranges), counts, n_ranges)
        new = np.flatnonzero(~np.isin(seen.hashes, forecast.hashes))
        new = new[np.argsort(-seen.counts[new], kind="stable")[: self.n_counters]]
        sketch = replace(
            Counters.none(self.n_counters),
            keys=seen.hashes[new],
            counts=seen.counts[new].astype(np.int64),
            errors=np.zeros(new.size, dtype=np.int64),
        )
        counted = Counted(
            keys=counts,
            ranges=(seen.by_range - named).clip(min=0).astype(np.int64),
            sent=seen.by_worker.astype(np.int64),
            sketch=sketch,
        )
        return replace(state, counted=counted)

    def learned(self, state: EvenState, sample: NDArray[np.uint64]) -> EvenState:
        """Return the state of a source that knows a sample of the stream ahead, so that its first batch is planned."""
        hashes, counts = np.unique(sample, return_counts=True)
        n_ranges = state.forecast.ranges.size
        seen = Observed(
            hashes=hashes,
            counts=counts.astype(np.float64),
            by_range=np.bincount(homes(sample, state.forecast.salt, n_ranges), minlength=n_ranges).astype(np.float64),
            by_worker=sample.size * self.fair,
        )
        return self.barrier([self._as_if_routed(state, seen)], 0)[0]

    def remark(self, state: EvenState, /) -> str:
        forecast = state.forecast
        if forecast.spread:
            return "every key is spread: nothing is known of the stream yet"
        n_cut = forecast.cut.size
        return (
            f"cut keys: {n_cut}, their pieces: {n_cut + forecast.pieces.n_cuts}, named keys: {forecast.hashes.size}, "
            f"plans: {forecast.plans}, moved by the last: {forecast.moved:.1%} of the load"
        )


def _gathered(states: Sequence[EvenState]) -> Observed:
    """Combine what sources have counted separately."""
    n_ranges, n_workers = states[0].counted.ranges.size, states[0].counted.sent.size
    hashes, counts = [], []
    by_range, by_worker = np.zeros(n_ranges), np.zeros(n_workers)
    for state in states:
        forecast, counted, sketch = state.forecast, state.counted, state.counted.sketch
        lower_bounds = sketch.counts - sketch.errors
        clear = lower_bounds >= (2 * weight if (weight := sampling(counted.unnamed)) > 1 else 1)
        hashes += [forecast.hashes, sketch.keys[clear]]
        counts += [counted.keys, lower_bounds[clear]]
        by_range += counted.ranges
        by_range += np.bincount(homes(forecast.hashes, forecast.salt, n_ranges), counted.keys, n_ranges)
        by_worker += counted.sent
    keys, where = np.unique(np.concatenate(hashes), return_inverse=True)
    total = np.bincount(where, np.concatenate(counts), keys.size).astype(np.float64)
    return Observed(hashes=keys, counts=total, by_range=by_range, by_worker=by_worker)


class _EvenRouter(Router[EvenState]):
    def __init__(self, grouping: Even, state: EvenState) -> None:
        self._state = state
        forecast, counted = state.forecast, state.counted
        # Turns start elsewhere for every source and every plan, so that they do not all favour the same pieces.
        start = int(make_salt(int(forecast.salt), use=forecast.batches << 32 ^ state.source << 12))
        self._first_turn = start % (1 << 16)
        self._table = make_table(forecast, rehash(np.arange(grouping.n_workers, dtype=np.uint64), start))
        self._sketch = SpaceSaving(grouping.n_counters, salt=forecast.salt)
        self._sketch.restore(counted.sketch)
        self._tally = Tally(counted.keys.copy(), counted.ranges.copy(), counted.sent.copy(), *self._sketch.arrays)
        self._unnamed = counted.unnamed

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        chosen = np.empty(keys.size, dtype=np.int32)
        self._unnamed = follow(keys, chosen, self._table, self._tally, self._unnamed, self._first_turn)
        return chosen

    def snapshot(self) -> EvenState:
        tally = self._tally
        counted = Counted(
            keys=tally.keys.copy(),
            ranges=tally.ranges.copy(),
            sent=tally.sent.copy(),
            sketch=self._sketch.snapshot(),
            unnamed=self._unnamed,
        )
        return replace(self._state, counted=counted)
