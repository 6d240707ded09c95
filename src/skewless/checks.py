"""The conformance suite: what every grouping and every combiner must hold, in one place.

    for check in GROUPING_CHECKS:
        check(grouping, seed=0)
    for check in COMBINER_CHECKS:
        check(combiner, [pa.float64()], seed=0)

A check takes a grouping, or a combiner and the types of its columns, and a seed; it draws what it needs from that seed
alone, and raises AssertionError with the seed in its message: calling it again with the same seed repeats the failure.
The tests run everything in the registries through all of them; what is your own can go through them the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.combiners.base import Combiner
from skewless.errors import SkewlessError
from skewless.groupings.base import Grouping, Router, State

GroupingCheck = Callable[[Grouping, int], None]
CombinerCheck = Callable[[Combiner, Sequence[pa.DataType], int], None]

_N_SOURCES: Final = 3
_STEP_MS: Final = 5_000
_N_BATCHES: Final = 30  # with the step above: past warm-ups, promotions and planning cycles of a minute or two


@dataclass(frozen=True)
class _Batch:
    keys: NDArray[np.uint64]
    now_ms: int


def _draw_batches(seed: int, n_batches: int = _N_BATCHES) -> list[_Batch]:
    """Draw batches of very different sizes whose keys are skewed, with a hot key that changes half-way."""
    rng = np.random.default_rng(seed)
    names = rng.integers(0, 2**64, size=40, dtype=np.uint64)
    batches = []
    for number in range(n_batches):
        size = int(rng.choice([0, 1, 7, 400]))
        hot = names[0] if number < n_batches // 2 else names[1]
        keys = np.where(rng.random(size) < 0.6, hot, rng.choice(names, size=size))
        batches.append(_Batch(keys, 1_000 + number * _STEP_MS))
    return batches


def _start(grouping: Grouping, seed: int) -> list[Router]:
    return [grouping.start(source, _N_SOURCES, seed) for source in range(_N_SOURCES)]


def _run(grouping: Grouping, routers: list[Router], batches: list[_Batch]) -> tuple[list[Any], list[Router]]:
    """Route each batch on every source with a barrier behind it; gives all choices and the routers at the end."""
    choices = []
    for batch in batches:
        choices.append([router.route(batch.keys, batch.now_ms).tolist() for router in routers])
        states = grouping.barrier([router.snapshot() for router in routers], batch.now_ms)
        routers = [grouping.resume(state) for state in states]
    return choices, routers


def _saved_and_loaded(state: State) -> State:
    buffer = BytesIO()
    np.savez(buffer, **state)  # type: ignore[arg-type]
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def check_workers_in_range(grouping: Grouping, seed: int) -> None:
    """Every tuple gets one worker, as a 32-bit integer from 0 to n_workers - 1."""
    router = grouping.start(0, 1, seed)
    for batch in _draw_batches(seed):
        workers = router.route(batch.keys, batch.now_ms)
        assert workers.dtype == np.int32, f"route gave {workers.dtype}, not int32"
        assert workers.shape == batch.keys.shape, f"seed {seed}: {batch.keys.size} keys, {workers.size} workers"
        outside = (workers < 0) | (workers >= grouping.n_workers)
        assert not outside.any(), f"seed {seed}: worker {workers[outside][0]} of {grouping.n_workers}"


def check_same_seed_same_choices(grouping: Grouping, seed: int) -> None:
    """Two runs from the same seed agree in every choice."""
    batches = _draw_batches(seed)
    first, _ = _run(grouping, _start(grouping, seed), batches)
    again, _ = _run(grouping, _start(grouping, seed), batches)
    assert first == again, f"seed {seed}: two runs differ"


def check_split_batches_equal_whole(grouping: Grouping, seed: int) -> None:
    """Cutting a batch in pieces changes no choice."""
    rng = np.random.default_rng(seed)
    whole, pieces = grouping.start(0, 1, seed), grouping.start(0, 1, seed)
    for batch in _draw_batches(seed):
        cuts = np.sort(rng.integers(0, batch.keys.size + 1, size=int(rng.integers(0, 4))))
        expected = whole.route(batch.keys, batch.now_ms)
        got = np.concatenate([pieces.route(piece, batch.now_ms) for piece in np.split(batch.keys, cuts)])
        assert np.array_equal(got, expected), f"seed {seed}: cut at {cuts.tolist()}, choices differ"


def check_resume_equals_uninterrupted(grouping: Grouping, seed: int) -> None:
    """A router made from a saved and loaded snapshot goes on as the one it was taken from."""
    uninterrupted = grouping.start(0, 1, seed)
    resumed = grouping.start(0, 1, seed)
    for batch in _draw_batches(seed):
        resumed = grouping.resume(_saved_and_loaded(resumed.snapshot()))
        expected = uninterrupted.route(batch.keys, batch.now_ms)
        got = resumed.route(batch.keys, batch.now_ms)
        assert np.array_equal(got, expected), f"seed {seed}: choices differ after a resume at {batch.now_ms} ms"


def check_snapshot_is_a_copy(grouping: Grouping, seed: int) -> None:
    """Routing on changes neither a snapshot that was taken before nor a state that was resumed from."""
    router = grouping.start(0, 1, seed)
    for batch in _draw_batches(seed, 6):
        router.route(batch.keys, batch.now_ms)
        state = router.snapshot()
        kept = {name: array.copy() for name, array in state.items()}
        router.route(batch.keys, batch.now_ms)
        grouping.resume(state).route(batch.keys, batch.now_ms)
        assert _same(state, kept), f"seed {seed}: a snapshot changed behind its owner's back"


def check_state_is_plain_arrays(grouping: Grouping, seed: int) -> None:
    """A snapshot holds NumPy arrays of numbers and survives saving without pickle."""
    router = grouping.start(0, 1, seed)
    for batch in _draw_batches(seed, 6):
        router.route(batch.keys, batch.now_ms)
    state = router.snapshot()
    for name, array in state.items():
        assert isinstance(array, np.ndarray), f"state[{name!r}] is a {type(array).__name__}, not an array"
        assert array.dtype.kind in "biuf", f"state[{name!r}] has dtype {array.dtype}"
    assert _same(state, _saved_and_loaded(state)), "a snapshot changes when it is saved and loaded"


def check_barrier_is_pure(grouping: Grouping, seed: int) -> None:
    """The barrier leaves its arguments alone, gives one state per source, and the same ones each time."""
    routers = _start(grouping, seed)
    for batch in _draw_batches(seed, 10):
        for router in routers:
            router.route(batch.keys, batch.now_ms)
    states = [router.snapshot() for router in routers]
    kept = [{name: array.copy() for name, array in state.items()} for state in states]
    first, again = grouping.barrier(states, 60_000), grouping.barrier(states, 60_000)
    assert len(first) == len(states), f"{len(states)} states went in, {len(first)} came out"
    assert all(map(_same, states, kept)), f"seed {seed}: barrier changed its arguments"
    assert all(map(_same, first, again)), f"seed {seed}: barrier gave two answers"
    if not grouping.coordinated:
        assert all(map(_same, first, states)), f"{grouping.name} is not coordinated, but its barrier changes states"


def check_single_owner(grouping: Grouping, seed: int) -> None:
    """Where a grouping says so, all sources send a key to one worker between two barriers."""
    if not grouping.single_owner:
        return
    batches = _draw_batches(seed)
    choices, _ = _run(grouping, _start(grouping, seed), batches)
    for batch, by_source in zip(batches, choices, strict=True):
        owners: dict[int, int] = {}
        for workers in by_source:
            for key, worker in zip(batch.keys.tolist(), workers, strict=True):
                assert owners.setdefault(key, worker) == worker, f"seed {seed}: key {key} has two owners"


def check_sources_may_come_and_go(grouping: Grouping, seed: int) -> None:
    """After a barrier there may be more or fewer sources; a new one agrees with the others on owners."""
    rng = np.random.default_rng(seed)
    routers = _start(grouping, seed)
    for batch in _draw_batches(seed):
        choices = [router.route(batch.keys, batch.now_ms) for router in routers]
        for workers in choices:
            assert ((workers >= 0) & (workers < grouping.n_workers)).all(), f"seed {seed}: a worker out of range"
            if grouping.single_owner:
                assert np.array_equal(workers, choices[0]), f"seed {seed}: a late source disagrees on owners"
        states = grouping.barrier([router.snapshot() for router in routers], batch.now_ms)
        routers = [grouping.succeed(states, source) for source in range(int(rng.integers(1, 6)))]


def check_memory_is_bounded(grouping: Grouping, seed: int) -> None:
    """Ever new keys do not make the state grow without end."""
    rng = np.random.default_rng(seed)
    router = grouping.start(0, 1, seed)
    sizes = []
    for number in range(24):
        router.route(rng.integers(0, 2**64, size=20_000, dtype=np.uint64), number * 60_000)
        sizes.append(sum(array.nbytes for array in router.snapshot().values()))
    assert max(sizes[12:]) <= 1.5 * max(sizes[:12]), f"seed {seed}: the state grew from {sizes[0]} to {sizes[-1]} bytes"


def check_bad_arguments_refused(grouping: Grouping, seed: int) -> None:  # noqa: ARG001
    """No grouping takes a number of workers that is not a whole number of at least one."""
    for n_workers in (0, -1, 2.5, "8", True, None):
        message = _refusal(grouping, n_workers)
        assert message is not None, f"{grouping.name} takes n_workers={n_workers!r}"
        assert "n_workers" in message, f"the error does not name n_workers: {message}"


def _refusal(grouping: Grouping, n_workers: Any) -> str | None:
    try:
        replace(grouping, n_workers=n_workers)
    except SkewlessError as error:
        return str(error)
    return None


GROUPING_CHECKS: Final[tuple[GroupingCheck, ...]] = (
    check_workers_in_range,
    check_same_seed_same_choices,
    check_split_batches_equal_whole,
    check_resume_equals_uninterrupted,
    check_snapshot_is_a_copy,
    check_state_is_plain_arrays,
    check_barrier_is_pure,
    check_single_owner,
    check_sources_may_come_and_go,
    check_memory_is_bounded,
    check_bad_arguments_refused,
)


_N_GROUPS: Final = 5  # of which the last one stays empty
_MAX_ROWS: Final = 120  # what a quantile sketch holds in full: up to here, all combiners are exact


@dataclass(frozen=True)
class _Rows:
    groups: NDArray[np.int64]
    columns: list[pa.Array]

    def take(self, rows: NDArray[Any]) -> _Rows:
        return _Rows(self.groups[rows], [column.take(pa.array(rows)) for column in self.columns])


def _draw_rows(inputs: Sequence[pa.DataType], rng: np.random.Generator, size: int, distinct: int = 12) -> _Rows:
    """Draw rows of few values, or of as many as asked for, with nulls, and with NaN and -0.0 among floats."""
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
    """Merge what stands for the same group in several lists of states, in the given order."""
    groups = np.tile(np.arange(_N_GROUPS), len(states))
    return combiner.merge(groups, _N_GROUPS, [pa.concat_arrays(fields) for fields in zip(*states, strict=True)])


def _draw_states(
    combiner: Combiner, inputs: Sequence[pa.DataType], seed: int
) -> tuple[list[list[pa.Array]], Callable[[Sequence[pa.Array]], list[Any]]]:
    """Make the states of three pieces, and the function that shows what comes of a state."""
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
    """States and results come one per group, in the types that were announced."""
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
    """However the rows are dealt out to three accumulators or more, the result is that of one pass over them all."""
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
    """What a group gets is what it would get alone."""
    rows = _draw_rows(inputs, np.random.default_rng(seed), _MAX_ROWS)
    together = combiner.extract(_add(combiner, rows), inputs).to_pylist()
    for group in range(_N_GROUPS):
        of_group = rows.take(np.flatnonzero(rows.groups == group))
        alone = combiner.extract(combiner.add(of_group.groups * 0, 1, of_group.columns), inputs).to_pylist()
        assert _alike(alone, [together[group]]), f"seed {seed}: group {group} gets {together[group]}, alone {alone[0]}"


def check_native_is_complete(combiner: Combiner, inputs: Sequence[pa.DataType], seed: int) -> None:  # noqa: ARG001
    """Where Spark merges natively, there is one aggregate per state field and an expression for the result."""
    columns = [f"`{field.name}`" for field in combiner.state_fields(inputs)]
    merge, extract = combiner.native_merge(columns), combiner.native_extract(columns, inputs)
    assert (merge is None) == (extract is None), f"{combiner.name} has a native merge or a native extract, not both"
    assert merge is None or len(merge) == len(columns), f"{len(columns)} state fields, native_merge gives {merge}"


def check_states_are_bounded(combiner: Combiner, inputs: Sequence[pa.DataType], seed: int) -> None:
    """Ever new values do not make a state grow without end."""
    rng = np.random.default_rng(seed)
    state = combiner.create(_N_GROUPS, inputs)
    sizes = []
    for _ in range(16):
        state = _merge(combiner, state, _add(combiner, _draw_rows(inputs, rng, 3_000, distinct=10**6)))
        sizes.append(sum(field.nbytes for field in state))
    assert max(sizes[8:]) <= 1.5 * max(sizes[:8]), f"seed {seed}: states grew from {sizes[0]} to {sizes[-1]} bytes"


def check_bad_types_refused(combiner: Combiner, inputs: Sequence[pa.DataType], seed: int) -> None:  # noqa: ARG001
    """A type that a combiner cannot work with is refused by name; one that it takes, it can work with."""
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


COMBINER_CHECKS: Final[tuple[CombinerCheck, ...]] = (
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
