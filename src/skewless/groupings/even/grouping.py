"""Even grouping: shuffle grouping's balance at key grouping's cost, by a plan that is levelled and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.groupings.base import Coordinated, Measuring, Router
from skewless.groupings.even.capacities import fair_shares
from skewless.groupings.even.gather import candidates, contradicts, gather
from skewless.groupings.even.level import Limits
from skewless.groupings.even.plan import Plan
from skewless.groupings.even.router import MIN_NAMED, EvenRouter, nothing_counted, sent
from skewless.groupings.even.state import EvenState
from skewless.groupings.even.statistics import Statistics
from skewless.groupings.planned import Planned
from skewless.hashing import make_salt
from skewless.sketches.space_saving import Counters, SpaceSaving

_GONE: Final = 0.5  # weight below which a key loses its name wherever it is
_NEWS: Final = 0.3  # weight of the latest measured speed of a worker against the earlier ones
_UNEQUAL: Final = 1.25  # ratio of speeds from which workers count as unequal
_SLOWEST: Final = 1e-3  # of the highest speed: no worker counts as slower
_MOST_WORKERS: Final = 1024


@dataclass(frozen=True, kw_only=True)
class Even(Coordinated[EvenState], Measuring[EvenState], Planned[EvenState]):
    """Keep every key where its hash puts it, cut the few keys that are too large, and move what still overflows.

    Between two barriers all sources follow one plan: named keys have an owner or, if they are cut, several with a share
    each; each other key goes with its bucket. A plan has fewer cuts than workers. At a barrier the statistics of all
    sources are combined. Resizing the pieces of cut keys costs nothing and is done every time, also to make up for
    earlier imbalance; keys are cut or moved only if a worker is overloaded by more than chance explains. A source that
    meets a new hot key between two barriers cuts it by itself, unless `single_owner` forbids it.

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
    def n_buckets(self) -> int:
        """Buckets of unnamed keys: a multiple of the workers, so that the first plan is plain hashing."""
        return self.n_workers * max(64, -(-1024 // self.n_workers))

    @property
    def n_counters(self) -> int:
        """Counters of each source's sketch."""
        return 2 * self.resolution * self.n_workers

    @property
    def most_names(self) -> int:
        """Bound of the named keys: enough for all that are large enough at a time, with a margin."""
        return 4 * self.resolution * self.n_workers

    def first_state(self, source: int, seed: int, /) -> EvenState:
        salt, plan, ahead = make_salt(seed), Plan.by_hash(self.fair, self.n_buckets), np.zeros(self.n_workers)
        return EvenState(
            salt=salt,
            source=source,
            plan=plan,
            history=Statistics(keys=np.empty(0), buckets=np.zeros(self.n_buckets), weight=0.0, square=0.0),
            ahead=ahead,
            speeds=np.zeros(self.n_workers),
            fair=self.fair,
            counted=nothing_counted(plan, self.fair, ahead),
            sketch=SpaceSaving(self.n_counters, salt=salt).snapshot(),
        )

    def resume(self, state: EvenState, /) -> Router[EvenState]:
        return EvenRouter(self, state)

    def merge(self, states: Sequence[EvenState]) -> EvenState:
        state = states[0]
        counted = nothing_counted(state.plan, state.fair, state.ahead / len(states))
        return replace(state, source=len(states), counted=counted)

    @property
    def measures(self) -> bool:
        return self.measure_capacities

    def calibrate(
        self, states: Sequence[EvenState], tuples: NDArray[np.int64], busy_s: NDArray[np.float64]
    ) -> Sequence[EvenState]:
        if not self.measures:
            return states
        measured = (tuples > 0) & (busy_s > 0)
        latest = tuples / np.where(measured, busy_s, 1.0)
        result = []
        for state in states:
            speeds = state.speeds
            known = np.where(speeds > 0, (1 - _NEWS) * speeds + _NEWS * latest, latest)
            result.append(replace(state, speeds=np.where(measured, known, speeds)))
        return result

    def fair_by(self, state: EvenState) -> NDArray[np.float64]:
        """Return the share that each worker should have: by measured speeds if these differ, or as configured."""
        speeds = state.speeds
        known = speeds > 0
        if not known.any():
            return self.fair
        speeds = np.where(known, speeds, speeds[known].mean()).clip(min=_SLOWEST * speeds.max())
        return fair_shares(speeds, self.n_workers) if speeds.max() > _UNEQUAL * speeds.min() else self.fair

    def barrier(self, states: Sequence[EvenState], now_ms: int, /) -> Sequence[EvenState]:
        if not any(state.counted.n for state in states):
            return states
        # A source may have lost its state: the one with most barriers knows best. Sources may have cut keys by
        # themselves: the new plan starts from that of the source which did so most often.
        base = max(states, key=lambda state: (state.barriers, state.counted.local_plans))
        fair = self.fair_by(base)
        plan, history, latest = gather(base, states)
        epoch = now_ms // (1000 * self.half_life_s)
        halvings = min(max(epoch - base.epoch, 0), 60) if base.epoch >= 0 else 0
        history = history.faded(0.0 if contradicts(plan, history, latest) else 0.5**halvings)
        plan, statistics = self._rename(plan, history.plus(latest), states, base.salt)
        ahead = base.ahead * 0.5**halvings + sum(map(sent, states)) - fair * latest.weight
        revised = self._revise(replace(base, plan=plan, fair=fair), statistics.shrunk())
        common = replace(
            revised,
            barriers=base.barriers + 1,
            epoch=epoch,
            history=statistics,
            ahead=ahead,
            counted=nothing_counted(revised.plan, fair, ahead / len(states)),
        )
        return [
            replace(common, source=state.source, sketch=self._faded_sketch(state, halvings, revised.plan))
            for state in states
        ]

    def remark(self, state: EvenState, /) -> str:
        plan = state.plan
        n_cut = len(plan.shares)
        return (
            f"cut keys: {n_cut}, their pieces: {n_cut + plan.n_cuts}, named keys: {plan.keys.size}, "
            f"plans: {state.plans}, moved by the last: {state.moved:.1%} of the load"
        )

    def _rename(
        self, plan: Plan, statistics: Statistics, states: Sequence[EvenState], salt: np.uint64
    ) -> tuple[Plan, Statistics]:
        """Name keys that have become large, and remove the names of those that have become small."""
        target = statistics.weight / self.n_workers
        keys, lower_bounds = candidates([state.sketch for state in states], plan)
        large = lower_bounds >= max(target / self.resolution, MIN_NAMED)
        statistics = statistics.naming(plan.buckets_of(keys[large], salt), lower_bounds[large])
        plan = plan.naming(keys[large], salt)
        buckets = plan.buckets_of(plan.keys, salt)
        at_home = plan.owners == plan.bucket_owners[buckets]
        small = statistics.keys < np.where(at_home, target / (4 * self.resolution), _GONE)
        small[np.argsort(-statistics.keys, kind="stable")[self.most_names :]] = True
        kept = (plan.owners < 0) | ~small
        return plan.keeping(kept), statistics.keeping(kept, buckets)

    def _revise(self, state: EvenState, statistics: Statistics) -> EvenState:
        """Cut and move if a worker is overloaded by more than chance and `slack` explain."""
        targets = state.fair * statistics.weight
        plan = state.plan.flowed(statistics, targets)
        loads = plan.loads(statistics)
        tolerance = np.maximum(self.slack * targets, 4 * np.sqrt(statistics.spread * loads))
        if not (loads - targets > tolerance).any():
            return replace(state, plan=plan, moved=0.0)
        plan, moved = plan.levelled(
            statistics,
            targets,
            Limits(may_cut=not self.single_owner, slack=self.slack / 2, budget=self.max_moved * statistics.weight),
        )
        return replace(state, plan=plan, plans=state.plans + 1, moved=moved / statistics.weight)

    def _faded_sketch(self, state: EvenState, halvings: int, plan: Plan) -> Counters:
        sketch = SpaceSaving(self.n_counters, salt=state.salt)
        sketch.restore(state.sketch)
        sketch.fade(halvings, plan.keys)
        return sketch.snapshot()
