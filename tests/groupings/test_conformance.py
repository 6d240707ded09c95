"""Every grouping of the registry through every check; and proof that each check can fail."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
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
from skewless.checks import GROUPING_CHECKS, GroupingCheck

CONFIGURED = [
    *(grouping(workers=n) for grouping in GROUPINGS.values() for n in (1, 2, 10)),
    DynamicKey.as_released(workers=10),
    DynamicKey(workers=5, expected_keys=10, check_interval_s=7, scale_down_load=11.5),
    DistributionAware(workers=5, learn_tuples=300, relearn_every=200),
    DistributionAware(workers=5, learn_tuples=300, relearn_every=200, split_heavy=True, cost="quadratic"),
    DistributionAware(workers=5, learn_tuples=300, relearn_every=200, map_sparse=False, max_moved=1.0),
    FullKnowledge.of(np.arange(50, dtype=np.uint64) // np.uint64(3), workers=5),
    Eager(workers=5, n_substreams=7, window_ms=11_000, upper=300, lower=100, start_workers=2),
    Correlation(workers=5, n_substreams=30, n_windows=2, level=False),
    Correlation(workers=5, n_substreams=30, n_windows=3, threshold=0.5, window_ms=7_000),
    Even(workers=5, single_owner=True, max_moved=0.5),
    Even(workers=5, capacities=(1, 2, 4, 8, 0.5), half_life_s=1),
    Even(workers=5, measure_capacities=True, resolution=1, slack=0.5),
    Auto(workers=5, worthwhile=0.01, patience=1),
    Auto(workers=5, single_owner=True, capacities=(1, 1, 1, 1, 4)),
]


@pytest.mark.parametrize("check", GROUPING_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("grouping", CONFIGURED, ids=str)
def test_conforms(grouping: Grouping, check: GroupingCheck) -> None:
    for seed in (0, 1):
        check(grouping, seed)


def test_every_module_of_groupings_is_registered() -> None:
    modules = {module.name for module in pkgutil.iter_modules(skewless.groupings.__path__)}
    assert modules - {"base", "longest_first", "rebalance", "substream"} == set(GROUPINGS)


@dataclass(frozen=True, kw_only=True)
class Faulty(Grouping):
    """A grouping that breaks every rule of the contract in turn."""

    name: ClassVar[str] = "faulty"
    single_owner: ClassVar[bool] = True
    fault: str = ""

    def __post_init__(self) -> None:
        if self.fault != "check_bad_arguments_refused":
            super().__post_init__()

    def start(self, source: int, n_sources: int, seed: int) -> Router:  # noqa: ARG002
        return FaultyRouter(self, {"source": np.array(source), "calls": np.array(0)})

    def resume(self, state: State) -> Router:
        if self.fault == "check_snapshot_is_a_copy":
            return FaultyRouter(self, state)
        calls = 0 if self.fault == "check_resume_equals_uninterrupted" else state["calls"]
        return FaultyRouter(self, {**state, "calls": np.array(calls)})

    def merge(self, states: Sequence[State]) -> State:
        offset = 1 if self.fault == "check_sources_may_come_and_go" else 0
        return {**states[0], "source": np.array(len(states) + offset)}

    def barrier(self, states: Sequence[State], now_ms: int) -> Sequence[State]:  # noqa: ARG002
        if self.fault == "check_barrier_is_pure":
            states[0]["calls"] += 1
        return states


class FaultyRouter(Router):
    random = np.random.default_rng(0)

    def __init__(self, grouping: Faulty, state: State) -> None:
        self.fault, self.n_workers, self.state = grouping.fault, grouping.n_workers, state

    def route(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:  # noqa: ARG002
        self.state["calls"] += 1
        if self.fault == "check_memory_is_bounded":
            self.state["seen"] = np.concatenate([self.state.get("seen", keys[:0]), keys])
        shift: Any = 0
        if self.fault == "check_workers_in_range":
            shift = self.n_workers
        if self.fault == "check_same_seed_same_choices":
            shift = self.random.integers(self.n_workers)
        if self.fault in {"check_split_batches_equal_whole", "check_resume_equals_uninterrupted"}:
            shift = self.state["calls"]
        if self.fault in {"check_single_owner", "check_sources_may_come_and_go"}:
            shift = self.state["source"]
        workers: NDArray[np.int64] = (keys % np.uint64(self.n_workers)).astype(np.int64) + shift
        if self.fault != "check_workers_in_range":
            workers %= self.n_workers
        return workers.astype(np.int32)

    def snapshot(self) -> State:
        if self.fault == "check_state_is_plain_arrays":
            return {**self.state, "name": np.array(["x"])}
        return self.state if self.fault == "check_snapshot_is_a_copy" else {k: v.copy() for k, v in self.state.items()}


@pytest.mark.parametrize("check", GROUPING_CHECKS, ids=lambda check: check.__name__)
def test_each_check_can_fail(check: GroupingCheck) -> None:
    with pytest.raises(AssertionError):
        check(Faulty(workers=5, fault=check.__name__), 0)


@pytest.mark.parametrize("check", GROUPING_CHECKS, ids=lambda check: check.__name__)
def test_without_its_fault_the_faulty_grouping_passes(check: GroupingCheck) -> None:
    check(Faulty(workers=5), 0)


@pytest.mark.parametrize("grouping", CONFIGURED, ids=str)
def test_a_remark_is_one_line(grouping: Grouping) -> None:
    router = grouping.start(0, 1, 0)
    remarks = [grouping.remark(router.snapshot())]
    router.route(np.arange(20_000, dtype=np.uint64) % np.uint64(7), 0)
    (state,) = grouping.barrier([router.snapshot()], 1_000)
    remarks.append(grouping.remark(state))
    assert all("\n" not in remark for remark in remarks)
    assert grouping.coordinated == bool(remarks[-1])
