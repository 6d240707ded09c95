"""What holds for every combiner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.combiners.base import Combiner
from skewless.errors import SkewlessError

CombinerCheck = Callable[[Combiner, Sequence[pa.DataType], int], None]

_N_GROUPS: Final = 5  # of which the last one stays empty
_MAX_ROWS: Final = 120  # what a quantile sketch holds in full: up to here, all combiners are exact


@dataclass(frozen=True)
class _Rows:
    groups: NDArray[np.int64]
    columns: list[pa.Array]

    def take(self, rows: NDArray[Any]) -> _Rows:
        return _Rows(self.groups[rows], [column.take(pa.array(rows)) for column in self.columns])


def _draw_rows(inputs: Sequence[pa.DataType], rng: np.random.Generator, size: int, distinct: int = 12) -> _Rows:
    """Draw rows with few distinct values, nulls among them, and NaN and -0.0 among floats."""
    groups = rng.integers(0, _N_GROUPS - 1, size)
    columns = []
    for kind in inputs:
        numbers = rng.integers(-distinct // 2, distinct // 2, size)
        values: list[Any] = numbers.tolist()
        if pa.types.is_floating(kind):
            values = [-0.0 if n == 0 else float("nan") if n == 1 else n / 4 for n in values]
        elif pa.types.is_decimal(kind):
            values = [Decimal(n).scaleb(-kind.scale) for n in values]
        elif pa.types.is_signed_integer(kind):
            values = numbers.astype(kind.to_pandas_dtype()).tolist()  # small types wrap around
        else:
            values = pa.array(numbers).cast(pa.string()).cast(kind).to_pylist()
        columns.append(pa.array(values, kind, mask=rng.random(size) < 0.2))
    return _Rows(groups, columns)


def _add(combiner: Combiner, rows: _Rows) -> list[pa.Array]:
    return combiner.add(rows.groups, _N_GROUPS, rows.columns)


def _merge(combiner: Combiner, *states: Sequence[pa.Array]) -> list[pa.Array]:
    """Merge several lists of states group by group, in this order."""
    groups = np.tile(np.arange(_N_GROUPS), len(states))
    return combiner.merge(groups, _N_GROUPS, [pa.concat_arrays(fields) for fields in zip(*states, strict=True)])


def _draw_states(
    combiner: Combiner, inputs: Sequence[pa.DataType], seed: int
) -> tuple[list[list[pa.Array]], Callable[[Sequence[pa.Array]], list[Any]]]:
    """Return the states of three pieces of drawn rows, and a function that extracts results from states."""
    rng = np.random.default_rng(seed)
    pieces = [_add(combiner, _draw_rows(inputs, rng, int(rng.integers(1, _MAX_ROWS // 3)))) for _ in range(3)]
    return pieces, lambda states: combiner.extract(states, inputs).to_pylist()


def _alike(one: Any, other: Any) -> bool:
    """Whether two results are equal, floats up to rounding."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True))
    return bool(one == other)


def check_states_have_their_fields(combiner: Combiner, inputs: Sequence[pa.DataType], seed: int) -> None:
    """States and results come one per group, in the declared types."""
    rows = _draw_rows(inputs, np.random.default_rng(seed), _MAX_ROWS)
    expected = [field.type for field in combiner.state_fields(inputs)]
    added = _add(combiner, rows)
    for verb, states in (
        ("create", combiner.create(_N_GROUPS, inputs)),
        ("add", added),
        ("merge", _merge(combiner, added, added)),
    ):
        assert [state.type for state in states] == expected, f"seed {seed}: {verb} gave {[s.type for s in states]}"
        assert {len(state) for state in states} == {_N_GROUPS}, f"seed {seed}: {verb} gave another number of states"
        results = combiner.extract(states, inputs)
        assert results.type == combiner.result_type(inputs), f"seed {seed}: extract gave {results.type}"
        assert len(results) == _N_GROUPS, f"seed {seed}: {_N_GROUPS} states, {len(results)} results"


def check_pieces_equal_whole(combiner: Combiner, inputs: Sequence[pa.DataType], seed: int) -> None:
    """However rows are split among three or more accumulators, the result is that of one pass over them all."""
    rng = np.random.default_rng(seed)
    rows = _draw_rows(inputs, rng, _MAX_ROWS)
    n_pieces = int(rng.integers(3, 8))
    piece = rng.integers(0, n_pieces, _MAX_ROWS)
    states = [_add(combiner, rows.take(np.flatnonzero(piece == number))) for number in range(n_pieces)]
    whole = combiner.extract(_add(combiner, rows), inputs).to_pylist()
    merged = combiner.extract(_merge(combiner, *states), inputs).to_pylist()
    assert _alike(merged, whole), f"seed {seed}: {n_pieces} pieces give {merged}, the whole gives {whole}"


def check_merge_is_commutative(combiner: Combiner, inputs: Sequence[pa.DataType], seed: int) -> None:
    """The order of states does not matter."""
    (a, b, _), show = _draw_states(combiner, inputs, seed)
    one, other = show(_merge(combiner, a, b)), show(_merge(combiner, b, a))
    assert _alike(one, other), f"seed {seed}: a + b gives {one}, b + a gives {other}"


def check_merge_is_associative(combiner: Combiner, inputs: Sequence[pa.DataType], seed: int) -> None:
    """It does not matter which states are merged first."""
    (a, b, c), show = _draw_states(combiner, inputs, seed)
    left = show(_merge(combiner, _merge(combiner, a, b), c))
    right = show(_merge(combiner, a, _merge(combiner, b, c)))
    at_once = show(_merge(combiner, a, b, c))
    assert _alike(left, right), f"seed {seed}: (a + b) + c gives {left}, a + (b + c) gives {right}"
    assert _alike(left, at_once), f"seed {seed}: (a + b) + c gives {left}, a + b + c gives {at_once}"


def check_identity_changes_nothing(combiner: Combiner, inputs: Sequence[pa.DataType], seed: int) -> None:
    """A state of no rows is what `create` makes, and merging it changes no result."""
    (a, _, _), show = _draw_states(combiner, inputs, seed)
    identity = combiner.create(_N_GROUPS, inputs)
    assert _alike(show(a)[-1], show(identity)[-1]), f"seed {seed}: a group without rows is not what create makes"
    for states in ([a, identity], [identity, a], [identity, a, identity]):
        assert _alike(show(_merge(combiner, *states)), show(a)), f"seed {seed}: the identity changes {show(a)}"


def check_groups_do_not_mix(combiner: Combiner, inputs: Sequence[pa.DataType], seed: int) -> None:
    """A group gets the result that it would get alone."""
    rows = _draw_rows(inputs, np.random.default_rng(seed), _MAX_ROWS)
    together = combiner.extract(_add(combiner, rows), inputs).to_pylist()
    for group in range(_N_GROUPS):
        of_group = rows.take(np.flatnonzero(rows.groups == group))
        alone = combiner.extract(combiner.add(of_group.groups * 0, 1, of_group.columns), inputs).to_pylist()
        assert _alike(alone, [together[group]]), f"seed {seed}: group {group} gets {together[group]}, alone {alone[0]}"


def check_native_is_complete(combiner: Combiner, inputs: Sequence[pa.DataType], _seed: int) -> None:
    """Where Spark merges natively, there is one aggregate per state field and an expression for the result."""
    columns = [f"`{field.name}`" for field in combiner.state_fields(inputs)]
    merge, extract = combiner.native_merge(columns, inputs), combiner.native_extract(columns, inputs)
    assert (merge is None) == (extract is None), f"{combiner.name} has a native merge or a native extract, not both"
    assert merge is None or len(merge) == len(columns), f"{len(columns)} state fields, native_merge gives {merge}"


def check_states_are_bounded(combiner: Combiner, inputs: Sequence[pa.DataType], seed: int) -> None:
    """A state does not grow without bound when all values are new."""
    rng = np.random.default_rng(seed)
    state = combiner.create(_N_GROUPS, inputs)
    sizes = []
    for _ in range(16):
        state = _merge(combiner, state, _add(combiner, _draw_rows(inputs, rng, 3_000, distinct=10**6)))
        sizes.append(sum(field.nbytes for field in state))
    assert max(sizes[8:]) <= 1.5 * max(sizes[:8]), f"seed {seed}: states grew from {sizes[0]} to {sizes[-1]} bytes"


def check_bad_types_refused(combiner: Combiner, inputs: Sequence[pa.DataType], _seed: int) -> None:
    """A type that a combiner cannot handle is refused by name; one that it accepts, it can handle."""
    for number, column in enumerate(combiner.columns):
        for kind in (pa.null(), pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.duration("us"), pa.string()):
            types = [*inputs[:number], kind, *inputs[number + 1 :]]
            message = _type_refusal(combiner, types)
            if message is None:
                combiner.create(1, types)
                continue
            assert repr(column) in message, f"the error does not name column {column!r}: {message}"
            assert str(kind) in message, f"the error does not name type {kind}: {message}"


def _type_refusal(combiner: Combiner, inputs: Sequence[pa.DataType]) -> str | None:
    try:
        combiner.result_type(inputs)
    except Exception as error:  # noqa: BLE001  # any other error than our own is what the check looks for
        assert isinstance(error, SkewlessError), f"{combiner.name} fails on {inputs}: {error!r}"  # noqa: PT017
        return str(error)
    return None


CHECKS: Final[tuple[CombinerCheck, ...]] = (
    check_states_have_their_fields,
    check_pieces_equal_whole,
    check_merge_is_commutative,
    check_merge_is_associative,
    check_identity_changes_nothing,
    check_groups_do_not_mix,
    check_native_is_complete,
    check_states_are_bounded,
    check_bad_types_refused,
)


def check_combiner(combiner: Combiner, inputs: Sequence[pa.DataType], *, seed: int = 0) -> None:
    """Run a combiner through all checks.

    Parameters
    ----------
    combiner : Combiner
        What is checked.
    inputs : sequence of pa.DataType
        The types of its columns.
    seed : int
        What the rows are drawn from.

    >>> from skewless.combiners import Sum
    >>> check_combiner(Sum("price"), [pa.float64()])
    """
    for check in CHECKS:
        check(combiner, inputs, seed)
