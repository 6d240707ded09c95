"""Every combiner of the registry through every check; and proof that each check can fail."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import skewless.combiners
from skewless.checks.combiners import CHECKS, CombinerCheck
from skewless.combiners import (
    COMBINERS,
    Accumulator,
    ApproxDistinct,
    ApproxQuantile,
    ApproxTopK,
    Combiner,
    Count,
    Custom,
    Max,
    Mean,
    Min,
    Sum,
    Variance,
    Vwap,
)

NUMBERS = [pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(10, 2), pa.decimal128(38, 6)]
TEXTS = [pa.string(), pa.large_string()]


class Sizes(Accumulator):
    """Counts nulls and sums the lengths of the others: an accumulator whose state is a list that it changes."""

    result = pa.list_(pa.int64())

    def create(self) -> list[int]:
        return [0, 0]

    def add(self, state: list[int], *values: Any) -> list[int]:
        for value in values:
            state[0] += value is None
            state[1] += 0 if value is None else len(str(value))
        return state

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        one[:] = [a + b for a, b in zip(one, other, strict=True)]
        return one

    def extract(self, state: list[int]) -> list[int]:
        return state


class EveryValue(Sizes):
    """Keeps all that it sees."""

    def add(self, state: list[int], *values: Any) -> list[int]:
        return [*state, *(value for value in values if value is not None)]

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        return sorted(one + other)


CONFIGURED: list[tuple[Combiner, list[pa.DataType]]] = [
    (Count(), []),
    (Count("x"), [pa.float64()]),
    (Count("x"), [pa.string()]),
    *((combiner, [kind]) for kind in NUMBERS for combiner in (Sum("x"), Min("x"), Max("x"), Mean("x"))),
    *((Variance("x", ddof=ddof), [kind]) for ddof, kind in enumerate([pa.decimal128(10, 2), pa.float64()])),
    *((combiner, [kind]) for kind in [*TEXTS, pa.binary()] for combiner in (Min("x"), Max("x"))),
    (Vwap("price", "volume"), [pa.float64(), pa.int64()]),
    (Vwap("price", "volume"), [pa.decimal128(10, 2), pa.float32()]),
    *((ApproxDistinct("x"), [kind]) for kind in [*TEXTS, pa.int16(), pa.int64(), pa.float32(), pa.float64()]),
    *((ApproxQuantile("x", fraction, k=200), [pa.float64()]) for fraction in (0.0, 0.5, 0.99)),
    *((ApproxQuantile("x", 0.5, k=200), [kind]) for kind in (pa.int8(), pa.decimal128(10, 2))),
    *((ApproxTopK("x", 3), [kind]) for kind in [*TEXTS, pa.int8(), pa.int64()]),
    (Custom(Sizes()), []),
    (Custom(Sizes(), ["x", "y"]), [pa.string(), pa.float64()]),
]


def describe(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, list) else getattr(value, "__name__", type(value).__name__)


@pytest.mark.parametrize("check", CHECKS, ids=describe)
@pytest.mark.parametrize(("combiner", "inputs"), CONFIGURED, ids=describe)
def test_conforms(combiner: Combiner, inputs: list[pa.DataType], check: CombinerCheck) -> None:
    check(combiner, inputs, 0)


def test_everything_registered_is_configured() -> None:
    assert {type(combiner) for combiner, _ in CONFIGURED} == set(COMBINERS.values())


def test_every_module_of_combiners_is_registered() -> None:
    modules = {module.name for module in pkgutil.iter_modules(skewless.combiners.__path__)}
    others = {"base", "per_group", "plain_data", "sketched", "partials"}
    assert modules - others == set(COMBINERS) - {"min", "max"} | {"extreme"}


@dataclass(frozen=True)
class Faulty(Combiner):
    """A sum that breaks every rule of the contract in turn."""

    name: ClassVar[str] = "faulty"

    fault: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return ("x",)

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:  # noqa: ARG002
        return [pa.field("total", pa.int64())]

    def result_type(self, inputs: Sequence[pa.DataType]) -> pa.DataType:
        if self.fault == "check_bad_types_refused" and inputs != [pa.int64()]:
            raise TypeError("no")
        return pa.int64()

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        values = columns[0] if columns[0].type == pa.int64() else pa.array([], pa.int64())
        totals = np.zeros(n_groups, dtype=np.int64)
        np.add.at(totals, groups, values.fill_null(0).to_numpy(zero_copy_only=False))
        if self.fault == "check_pieces_equal_whole":
            totals[np.unique(groups)] += 1
        if self.fault == "check_groups_do_not_mix":
            totals[:] = totals.sum() + 1
        return [pa.array(totals)]

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        values = states[0].to_numpy()
        totals = np.zeros(n_groups, dtype=np.int64)
        np.add.at(totals, groups, values)
        if self.fault == "check_merge_is_commutative":
            totals[groups] = values
        if self.fault == "check_merge_is_associative":
            totals = totals**2
        if self.fault == "check_identity_changes_nothing":
            totals += 1
        return [pa.array(totals)]

    def extract(self, states: Sequence[pa.Array], inputs: Sequence[pa.DataType]) -> pa.Array:  # noqa: ARG002
        return states[0].cast(pa.float64()) if self.fault == "check_states_have_their_fields" else states[0]

    def native_merge(self, columns: Sequence[str], inputs: Sequence[pa.DataType]) -> list[str]:  # noqa: ARG002
        return [f"sum({columns[0]})"] * (2 if self.fault == "check_native_is_complete" else 1)

    def native_extract(self, columns: Sequence[str], inputs: Sequence[pa.DataType]) -> str:  # noqa: ARG002
        return columns[0]


@pytest.mark.parametrize("check", CHECKS, ids=describe)
def test_each_check_can_fail(check: CombinerCheck) -> None:
    faulty: Combiner = Faulty(check.__name__)
    if check.__name__ == "check_states_are_bounded":
        faulty = Custom(EveryValue(), ["x"])
    with pytest.raises(AssertionError):
        check(faulty, [pa.int64()], 0)


@pytest.mark.parametrize("check", CHECKS, ids=describe)
def test_without_its_fault_the_faulty_combiner_passes(check: CombinerCheck) -> None:
    check(Faulty(), [pa.int64()], 0)
