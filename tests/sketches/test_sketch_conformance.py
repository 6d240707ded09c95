"""Every public sketch through every check; and proof that each check can fail."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module
from inspect import isabstract, isclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import skewless.sketches
from skewless.checks import check_sketch
from skewless.checks.sketches import CHECKS, SketchCheck
from skewless.errors import require_at_least
from skewless.sketches.adaptive_count_min import AdaptiveCountMin
from skewless.sketches.base import HotKeys, Mergeable, Restorable, Sketch
from skewless.sketches.coin_flip import CoinFlip
from skewless.sketches.count_min import CountMin
from skewless.sketches.counting_bloom import CountingBloom
from skewless.sketches.sliding_space_saving import SlidingSpaceSaving
from skewless.sketches.space_saving import SpaceSaving

SALT = np.uint64(0x5EED)
CONFIGURED: list[tuple[type[Sketch], dict[str, Any]]] = [
    (CountMin, {"width": 400, "depth": 3, "share": 0.05}),
    (CountMin, {"width": 100, "depth": 5, "share": 0.3, "salt": SALT}),
    (AdaptiveCountMin, {"width": 400, "depth": 3, "share": 0.05, "half_life": 640}),
    (AdaptiveCountMin, {"width": 100, "depth": 1, "share": 0.2, "half_life": 64, "salt": SALT}),
    (SpaceSaving, {"n_counters": 8}),
    (SpaceSaving, {"n_counters": 100, "salt": SALT}),
    (SlidingSpaceSaving, {"window": 700, "share": 0.05}),
    (SlidingSpaceSaving, {"window": 3_000, "share": 0.2, "n_counters": 9, "salt": SALT}),
    (CountingBloom, {"expected_keys": 500, "false_positive_rate": 0.01}),
    (CountingBloom, {"expected_keys": 9, "false_positive_rate": 0.0001, "salt": SALT}),
    (CoinFlip, {"threshold": 2, "length": 16, "min_bits": 2, "decline": 0.01}),
    (CoinFlip, {"threshold": 0, "length": 4, "min_bits": 1, "decline": 0.5, "seed": 7}),
]
# Tables and searches that sketches are made of, the key space, which the kernel of dynamic key grouping fills, and the
# distinct count, which has one estimate for all keys.
PARTS = {"base", "candidates", "distinct_count", "key_space", "key_table", "least_counter"}


def describe(value: Any) -> str:
    return "-".join(map(str, value.values())) if isinstance(value, dict) else str(value.__name__)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("make", "arguments"), CONFIGURED, ids=describe)
def test_conforms(make: type[Sketch], arguments: dict[str, Any], seed: int) -> None:
    check_sketch(make, arguments, seed)


def test_every_module_of_sketches_is_configured() -> None:
    modules = {module.name for module in pkgutil.iter_modules(skewless.sketches.__path__)} - PARTS
    found = {
        each
        for name in modules
        for each in vars(import_module(f"skewless.sketches.{name}")).values()
        if isclass(each) and issubclass(each, Sketch) and not isabstract(each)
    }
    assert found == {make for make, _ in CONFIGURED}
    assert {make.__module__.rpartition(".")[2] for make, _ in CONFIGURED} == modules


def test_abilities() -> None:
    able = {
        ability.__name__: {make.__name__ for make, _ in CONFIGURED if issubclass(make, ability)}
        for ability in (Restorable, Mergeable)
    }
    assert able == {
        "Restorable": {"SpaceSaving", "CoinFlip"},
        "Mergeable": {"SpaceSaving", "CountMin", "CountingBloom"},
    }
    named = {make.__name__ for make, arguments in CONFIGURED if isinstance(make(**arguments), HotKeys)}
    assert named == {"CoinFlip", "CountMin", "AdaptiveCountMin", "SlidingSpaceSaving"}


@dataclass(frozen=True, kw_only=True)
class Counted:
    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]


class Faulty(Sketch):
    """Exact counts of the most recent keys, which break every rule of the contract in turn."""

    random: ClassVar = np.random.default_rng(0)

    def __init__(self, *, room: int, fault: str = "") -> None:
        if fault != "check_bad_arguments_refused":
            require_at_least("room", room, 1)
        self.room, self.fault = room, fault
        self.counts: dict[int, int] = {}

    @property
    def memory(self) -> int:
        return 16 * self.room

    def update(self, keys: NDArray[np.uint64]) -> None:
        if self.fault == "check_split_updates_equal_whole":
            self.counts.clear()
        for key in keys.tolist():
            self.counts[key] = self.counts.pop(key, 0) + 1
            if len(self.counts) > self.room and self.fault != "check_memory_is_bounded":
                del self.counts[next(iter(self.counts))]

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        if self.fault == "check_estimates_are_per_key":
            keys = keys[1:]
        noise = self.random.integers(1, 100) if self.fault == "check_same_arguments_same_output" else 0
        return np.array([self.counts.get(key, 0) for key in keys.tolist()], dtype=np.int64) + noise

    def merge(self, other: Faulty) -> Faulty:
        merged = self if self.fault == "check_merged_equals_whole" else Faulty(room=self.room, fault=self.fault)
        # a + 2 b does not commute, and (a + b) / 2 is not associative.
        weight = 2 if self.fault == "check_merge_is_commutative" else 1
        divisor = 2 if self.fault == "check_merge_is_associative" else 1
        merged.counts = {
            key: (self.counts.get(key, 0) + weight * other.counts.get(key, 0)) // divisor
            for key in sorted(self.counts.keys() | other.counts.keys())
        }
        return merged

    def snapshot(self) -> Counted:
        keys, counts = list(self.counts), list(self.counts.values())
        return Counted(keys=np.array(keys, dtype=np.uint64), counts=np.array(counts, dtype=np.int64))

    def restore(self, state: Counted) -> None:
        if self.fault != "check_restored_equals_uninterrupted":
            self.counts.clear()
        self.counts.update(zip(state.keys.tolist(), state.counts.tolist(), strict=True))


@pytest.mark.parametrize("check", CHECKS, ids=describe)
def test_each_check_can_fail(check: SketchCheck) -> None:
    with pytest.raises(AssertionError):
        check(Faulty, {"room": 500, "fault": check.__name__}, 0)


def test_without_its_fault_the_faulty_sketch_passes() -> None:
    check_sketch(Faulty, {"room": 500})
