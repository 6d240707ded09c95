"""What holds for every grouping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import SkewlessError
from skewless.groupings.base import Arrays, Coordinated, Grouping, Router, State, pass_barrier

GroupingCheck = Callable[[Grouping, int], None]

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
    return [grouping.start(source, seed) for source in range(_N_SOURCES)]


def _run(grouping: Grouping, seed: int, batches: list[_Batch]) -> list[list[list[int]]]:
    """Route each batch on every source, with a barrier after it; return the workers by batch and source."""
    choices = []
    routers = _start(grouping, seed)
    for batch in batches:
        choices.append([router.route(batch.keys, batch.now_ms).tolist() for router in routers])
        states = _pass_barrier(grouping, routers, batch.now_ms)
        routers = [grouping.resume(state) for state in states]
    return choices


def _pass_barrier(grouping: Grouping, routers: list[Router], now_ms: int) -> Sequence[State]:
    def measure() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return np.arange(grouping.n_workers), np.ones(grouping.n_workers)

    return pass_barrier(grouping, [router.snapshot() for router in routers], now_ms, measure)


def _saved_and_loaded(grouping: Grouping, state: State) -> State:
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, **state.arrays())
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as archive:
        return grouping.state_class.of_arrays({name: archive[name] for name in archive.files})


def _copied(state: State) -> Arrays:
    return {name: array.copy() for name, array in state.arrays().items()}


def _same(state: State, arrays: Arrays) -> bool:
    own = state.arrays()
    return own.keys() == arrays.keys() and all(np.array_equal(own[name], arrays[name]) for name in own)


def check_workers_in_range(grouping: Grouping, seed: int) -> None:
    """Every tuple gets one worker, as a 32-bit integer from 0 to n_workers - 1."""
    router = grouping.start(0, seed)
    for batch in _draw_batches(seed):
        workers = router.route(batch.keys, batch.now_ms)
        assert workers.dtype == np.int32, f"route gave {workers.dtype}, not int32"
        assert workers.shape == batch.keys.shape, f"seed {seed}: {batch.keys.size} keys, {workers.size} workers"
        outside = (workers < 0) | (workers >= grouping.n_workers)
        assert not outside.any(), f"seed {seed}: worker {workers[outside][0]} of {grouping.n_workers}"


def check_same_seed_same_choices(grouping: Grouping, seed: int) -> None:
    """Two runs from the same seed agree in every choice."""
    batches = _draw_batches(seed)
    assert _run(grouping, seed, batches) == _run(grouping, seed, batches), f"seed {seed}: two runs differ"


def check_split_batches_equal_whole(grouping: Grouping, seed: int) -> None:
    """Cutting a batch in pieces changes no choice."""
    rng = np.random.default_rng(seed)
    whole, pieces = grouping.start(0, seed), grouping.start(0, seed)
    for batch in _draw_batches(seed):
        cuts = np.sort(rng.integers(0, batch.keys.size + 1, size=int(rng.integers(0, 4))))
        expected = whole.route(batch.keys, batch.now_ms)
        got = np.concatenate([pieces.route(piece, batch.now_ms) for piece in np.split(batch.keys, cuts)])
        assert np.array_equal(got, expected), f"seed {seed}: cut at {cuts.tolist()}, choices differ"


def check_resume_equals_uninterrupted(grouping: Grouping, seed: int) -> None:
    """A router made from a saved and loaded snapshot continues as the one it was taken from."""
    uninterrupted = grouping.start(0, seed)
    resumed = grouping.start(0, seed)
    for batch in _draw_batches(seed):
        resumed = grouping.resume(_saved_and_loaded(grouping, resumed.snapshot()))
        expected = uninterrupted.route(batch.keys, batch.now_ms)
        got = resumed.route(batch.keys, batch.now_ms)
        assert np.array_equal(got, expected), f"seed {seed}: choices differ after a resume at {batch.now_ms} ms"


def check_snapshot_is_a_copy(grouping: Grouping, seed: int) -> None:
    """Further routing changes neither a snapshot taken before nor a state that was resumed from."""
    router = grouping.start(0, seed)
    for batch in _draw_batches(seed, 6):
        router.route(batch.keys, batch.now_ms)
        state = router.snapshot()
        kept = _copied(state)
        router.route(batch.keys, batch.now_ms)
        grouping.resume(state).route(batch.keys, batch.now_ms)
        assert _same(state, kept), f"seed {seed}: a snapshot changed after it was taken"


def check_state_is_plain_arrays(grouping: Grouping, seed: int) -> None:
    """A snapshot is a state of the class that the grouping declares, and survives saving without pickle."""
    router = grouping.start(0, seed)
    for batch in _draw_batches(seed, 6):
        router.route(batch.keys, batch.now_ms)
    state = router.snapshot()
    assert isinstance(state, grouping.state_class), f"{grouping.name}: a snapshot is no {grouping.state_class.__name__}"
    for name, array in state.arrays().items():
        assert array.dtype.kind in "biuf", f"{name} of a state has dtype {array.dtype}"
    assert _same(_saved_and_loaded(grouping, state), state.arrays()), "a snapshot changes when it is saved and loaded"


def check_barrier_is_pure(grouping: Grouping, seed: int) -> None:
    """The barrier leaves its arguments alone, returns one state per source, and the same ones each time."""
    if not isinstance(grouping, Coordinated):
        return
    routers = _start(grouping, seed)
    for batch in _draw_batches(seed, 10):
        for router in routers:
            router.route(batch.keys, batch.now_ms)
    states = [router.snapshot() for router in routers]
    kept = [_copied(state) for state in states]
    first, again = grouping.barrier(states, 60_000), grouping.barrier(states, 60_000)
    assert len(first) == len(states), f"{len(states)} states went in, {len(first)} came out"
    assert all(map(_same, states, kept)), f"seed {seed}: barrier changed its arguments"
    assert all(map(_same, first, map(_copied, again))), f"seed {seed}: barrier gave two answers"


def check_single_owner(grouping: Grouping, seed: int) -> None:
    """All sources send a key to one worker between two barriers, if the grouping is declared so."""
    if not grouping.single_owner:
        return
    batches = _draw_batches(seed)
    for batch, by_source in zip(batches, _run(grouping, seed, batches), strict=True):
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
        states = _pass_barrier(grouping, routers, batch.now_ms)
        routers = [grouping.succeed(dict(enumerate(states)), source) for source in range(int(rng.integers(1, 6)))]


def check_memory_is_bounded(grouping: Grouping, seed: int) -> None:
    """The state does not grow without bound when all keys are new."""
    rng = np.random.default_rng(seed)
    router = grouping.start(0, seed)
    sizes = []
    for number in range(24):
        router.route(rng.integers(0, 2**64, size=20_000, dtype=np.uint64), number * 60_000)
        sizes.append(sum(array.nbytes for array in router.snapshot().arrays().values()))
    assert max(sizes[12:]) <= 1.5 * max(sizes[:12]), f"seed {seed}: the state grew from {sizes[0]} to {sizes[-1]} bytes"


def check_bad_arguments_refused(grouping: Grouping, _seed: int) -> None:
    """A number of workers that is not a whole number of at least one is refused."""
    for workers in (0, -1, 2.5, "8", True):
        message = _refusal(grouping, workers)
        assert message is not None, f"{grouping.name} takes workers={workers!r}"
        assert "workers" in message, f"the error does not name workers: {message}"


def _refusal(grouping: Grouping, workers: Any) -> str | None:
    try:
        replace(grouping, workers=workers)
    except SkewlessError as error:
        return str(error)
    return None


CHECKS: Final[tuple[GroupingCheck, ...]] = (
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


def check_grouping(grouping: Grouping, *, seed: int = 0) -> None:
    """Run a grouping through all checks.

    Parameters
    ----------
    grouping : Grouping
        What is checked, with its number of workers.
    seed : int
        What the keys are drawn from, and what routers start with.

    >>> from skewless.groupings import Shuffle
    >>> check_grouping(Shuffle(workers=4))
    """
    for check in CHECKS:
        check(grouping, seed)
