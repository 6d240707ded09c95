"""Every grouping of the registry through every check; and proof that each check can fail."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import skewless.groupings
from skewless import (
    GROUPINGS,
    Auto,
    Correlation,
    DistributionAware,
    DynamicKey,
    Eager,
    Even,
    FullKnowledge,
    Grouping,
    Router,
    State,
)
from skewless.checks import check_grouping
from skewless.checks.groupings import CHECKS, GroupingCheck
from skewless.groupings import Coordinated

CONFIGURED = [
    *(grouping(workers=n) for grouping in GROUPINGS.values() for n in (1, 2, 10)),
    DynamicKey(workers=10, variant="readme"),
    DynamicKey(workers=10, variant="released"),
    DynamicKey(workers=5, expected_keys=10, check_interval_s=7, scale_down_load=11.5),
    DistributionAware(workers=5, learn_tuples=300, relearn_every=200),
    DistributionAware(workers=5, learn_tuples=300, relearn_every=200, split_heavy=True, cost="quadratic"),
    DistributionAware(workers=5, learn_tuples=300, relearn_every=200, map_sparse=False, max_moved=1.0),
    FullKnowledge.of(np.arange(50, dtype=np.uint64) // np.uint64(3), workers=5),
    Eager(workers=5, n_substreams=7, window_ms=11_000, upper=300, lower=100, start_workers=2),
    Correlation(workers=5, n_substreams=30, n_windows=2, variant="printed"),
    Correlation(workers=5, n_substreams=30, n_windows=3, threshold=0.5, window_ms=7_000),
    Even(workers=5, single_owner=True, max_moved=0.5),
    Even(workers=5, capacities=(1, 2, 4, 8, 0.5), half_life_s=1),
    Even(workers=5, measure_capacities=True, resolution=1, slack=0.5),
    Auto(workers=5, worthwhile=0.01, patience=1),
    Auto(workers=5, single_owner=True, capacities=(1, 1, 1, 1, 4)),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("grouping", CONFIGURED, ids=str)
def test_conforms(grouping: Grouping, check: GroupingCheck) -> None:
    for seed in (0, 1):
        check(grouping, seed)


@pytest.mark.parametrize("grouping", GROUPINGS.values(), ids=GROUPINGS)
def test_the_number_of_workers_may_come_later(grouping: type[Grouping]) -> None:
    """As it does where `group` gets the name of a grouping."""
    assert grouping().with_workers(3) == grouping(workers=3)


def test_every_module_of_groupings_is_registered() -> None:
    modules = {module.name for module in pkgutil.iter_modules(skewless.groupings.__path__)}
    parts = {"base", "change", "longest_first", "plan_table", "planned", "rebalance", "substream"}
    assert modules - parts == set(GROUPINGS)


@dataclass(frozen=True, kw_only=True, eq=False)
class FaultyState(State):
    source: int
    calls: NDArray[np.int64]
    seen: NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class Faulty(Coordinated[FaultyState]):
    """A grouping that breaks every rule of the contract in turn."""

    name: ClassVar[str] = "faulty"
    single_owner: ClassVar[bool] = True
    state_class = FaultyState
    fault: str = ""

    def __post_init__(self) -> None:
        if self.fault != "check_bad_arguments_refused":
            super().__post_init__()

    def first_state(self, source: int, _seed: int, /) -> FaultyState:
        return FaultyState(source=source, calls=np.zeros(1, dtype=np.int64), seen=np.empty(0, dtype=np.uint64))

    def resume(self, state: FaultyState, /) -> Router[FaultyState]:
        if self.fault == "check_snapshot_is_a_copy":
            return FaultyRouter(self, state)
        kept = 0 if self.fault == "check_resume_equals_uninterrupted" else 1
        return FaultyRouter(self, replace(state, calls=kept * state.calls))

    def merge(self, states: Sequence[FaultyState]) -> FaultyState:
        offset = 1 if self.fault == "check_sources_may_come_and_go" else 0
        return replace(states[0], source=len(states) + offset)

    def barrier(self, states: Sequence[FaultyState], _now_ms: int, /) -> Sequence[FaultyState]:
        if self.fault == "check_barrier_is_pure":
            states[0].calls[0] += 1
        return states


class FaultyRouter(Router[FaultyState]):
    random = np.random.default_rng(0)

    def __init__(self, grouping: Faulty, state: FaultyState) -> None:
        self.fault, self.n_workers, self.state = grouping.fault, grouping.n_workers, state

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        self.state.calls[0] += 1
        if self.fault == "check_memory_is_bounded":
            self.state = replace(self.state, seen=np.concatenate([self.state.seen, keys]))
        shift: Any = 0
        if self.fault == "check_workers_in_range":
            shift = self.n_workers
        if self.fault == "check_same_seed_same_choices":
            shift = self.random.integers(self.n_workers)
        if self.fault in {"check_split_batches_equal_whole", "check_resume_equals_uninterrupted"}:
            shift = self.state.calls[0]
        if self.fault in {"check_single_owner", "check_sources_may_come_and_go"}:
            shift = self.state.source
        workers: NDArray[np.int64] = (keys % np.uint64(self.n_workers)).astype(np.int64) + shift
        if self.fault != "check_workers_in_range":
            workers %= self.n_workers
        return workers.astype(np.int32)

    def snapshot(self) -> FaultyState:
        if self.fault == "check_state_is_plain_arrays":
            return replace(self.state, seen=np.array(["x"]))
        return self.state if self.fault == "check_snapshot_is_a_copy" else replace(self.state, calls=+self.state.calls)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_each_check_can_fail(check: GroupingCheck) -> None:
    with pytest.raises(AssertionError):
        check(Faulty(workers=5, fault=check.__name__), 0)


def test_without_its_fault_the_faulty_grouping_passes() -> None:
    check_grouping(Faulty(workers=5))


@pytest.mark.parametrize("grouping", CONFIGURED, ids=str)
def test_a_remark_is_one_line(grouping: Grouping) -> None:
    router = grouping.start(0, 0)
    remarks = [grouping.remark(router.snapshot())]
    router.route(np.arange(20_000, dtype=np.uint64) % np.uint64(7), 0)
    state = router.snapshot()
    if isinstance(grouping, Coordinated):
        (state,) = grouping.barrier([state], 1_000)
    remarks.append(grouping.remark(state))
    assert all("\n" not in remark for remark in remarks)
    assert isinstance(grouping, Coordinated) == bool(remarks[-1])
