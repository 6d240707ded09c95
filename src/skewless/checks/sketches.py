"""What every sketch must hold."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import SkewlessError
from skewless.sketches.base import HotKeys, Mergeable, Restorable, Sketch

SketchCheck = Callable[[Callable[..., Sketch], Mapping[str, Any], int], None]

_FEW: Final = 8  # keys that every sketch should count without error: only then must merging be exactly associative
_MANY: Final = 300


def check_sketch(make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int = 0) -> None:
    """Run every check on a sketch.

    Parameters
    ----------
    make : callable
        The class of the sketch.
    arguments : mapping
        Its keyword arguments, all of which are tried with bad values, too; with room for 8 keys without error.
    seed : int
        What the checks draw from: the same seed repeats a failure.
    """
    for check in CHECKS:
        check(make, arguments, seed)


def _draw_keys(rng: np.random.Generator, n_keys: int, size: int = 2_400) -> NDArray[np.uint64]:
    """Draw skewed keys."""
    names = rng.integers(0, 2**64, n_keys, dtype=np.uint64)
    weights = 1 / np.arange(1.0, n_keys + 1)
    return rng.choice(names, size, p=weights / weights.sum())


def _facts(sketch: Sketch, keys: NDArray[np.uint64]) -> list[list[float]]:
    """Return what a sketch says of keys: their estimates, and the hot keys if it names them."""
    hot = [sketch.hot().tolist()] if isinstance(sketch, HotKeys) else []
    return [sketch.estimate(np.unique(keys)).tolist(), *hot]


def _sketch_of(make: Callable[..., Sketch], arguments: Mapping[str, Any], *parts: NDArray[np.uint64]) -> Sketch:
    sketch = make(**arguments)
    for part in parts:
        sketch.update(part)
    return sketch


def check_estimates_are_per_key(make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int) -> None:
    """Estimates are non-negative numbers, one per key, and estimating changes nothing."""
    keys = _draw_keys(np.random.default_rng(seed), _MANY)
    sketch = _sketch_of(make, arguments, keys)
    estimates = sketch.estimate(keys)
    assert estimates.shape == keys.shape, f"seed {seed}: {keys.size} keys, estimates of shape {estimates.shape}"
    assert (estimates >= 0).all(), f"seed {seed}: a negative estimate"
    assert estimates.any(), f"seed {seed}: no key of the stream has an estimate above zero"
    assert np.array_equal(sketch.estimate(keys), estimates), f"seed {seed}: a second estimate differs"


def check_same_arguments_same_output(make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int) -> None:
    """Two sketches with the same arguments agree on the same keys."""
    keys = _draw_keys(np.random.default_rng(seed), _MANY)
    first, again = (_facts(_sketch_of(make, arguments, keys), keys) for _ in range(2))
    assert first == again, f"seed {seed}: two sketches of the same keys differ"


def check_split_updates_equal_whole(make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int) -> None:
    """Splitting an update changes nothing."""
    rng = np.random.default_rng(seed)
    keys = _draw_keys(rng, _MANY)
    cuts = np.sort(rng.integers(0, keys.size + 1, 5))
    whole, pieces = (_sketch_of(make, arguments, *parts) for parts in ([keys], np.split(keys, cuts)))
    assert _facts(pieces, keys) == _facts(whole, keys), f"seed {seed}: split at {cuts.tolist()}, sketches differ"


def check_restored_equals_uninterrupted(make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int) -> None:
    """A sketch restored from a saved snapshot goes on as the one it was taken from; what it knew before is gone."""
    drawn = _draw_keys(np.random.default_rng(seed), _MANY)
    past, keys, more = np.split(drawn, 3)
    uninterrupted, restored = _sketch_of(make, arguments, keys), _sketch_of(make, arguments, past)
    if not isinstance(uninterrupted, Restorable) or not isinstance(restored, Restorable):
        return
    state = uninterrupted.snapshot()
    kept = {name: np.copy(value) for name, value in vars(state).items()}
    assert all(value.dtype.kind in "biuf" for value in kept.values()), f"a snapshot is not numbers alone: {state}"
    uninterrupted.update(more)
    same = all(np.array_equal(value, kept[name]) for name, value in vars(state).items())
    assert same, f"seed {seed}: an update changes a snapshot"
    restored.restore(state)
    restored.update(more)
    assert _facts(restored, drawn) == _facts(uninterrupted, drawn), f"seed {seed}: a restored sketch differs"


def _draw_mergeable(
    make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int
) -> tuple[Sequence[Any], NDArray[np.uint64]]:
    """Return three sketches of parts of a stream of few keys, and the stream; no sketches if they cannot be merged."""
    rng = np.random.default_rng(seed)
    keys = _draw_keys(rng, _FEW)
    sketches = [_sketch_of(make, arguments, part) for part in np.split(keys, np.sort(rng.integers(0, keys.size, 2)))]
    return sketches if isinstance(sketches[0], Mergeable) else [], keys


def check_merged_equals_whole(make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int) -> None:
    """The sketch merged from the parts of a stream is that of the stream, and merging leaves its operands alone."""
    sketches, keys = _draw_mergeable(make, arguments, seed)
    if not sketches:
        return
    before = [_facts(sketch, keys) for sketch in sketches]
    merged = sketches[0].merge(sketches[1]).merge(sketches[2])
    assert [_facts(sketch, keys) for sketch in sketches] == before, f"seed {seed}: merging changes an operand"
    whole = _facts(_sketch_of(make, arguments, keys), keys)
    assert _facts(merged, keys) == whole, f"seed {seed}: merged to {_facts(merged, keys)}, the whole is {whole}"


def check_merge_is_commutative(make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int) -> None:
    """The order of two sketches does not matter."""
    sketches, keys = _draw_mergeable(make, arguments, seed)
    for one, other in pairwise(sketches):
        left, right = _facts(one.merge(other), keys), _facts(other.merge(one), keys)
        assert left == right, f"seed {seed}: a + b is {left}, b + a is {right}"


def check_merge_is_associative(make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int) -> None:
    """It does not matter which sketches are merged first."""
    sketches, keys = _draw_mergeable(make, arguments, seed)
    if not sketches:
        return
    a, b, c = sketches
    left, right = _facts(a.merge(b).merge(c), keys), _facts(a.merge(b.merge(c)), keys)
    assert left == right, f"seed {seed}: (a + b) + c is {left}, a + (b + c) is {right}"


def check_memory_is_bounded(make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int) -> None:
    """New keys do not make a sketch grow, nor the memory that it states."""
    rng = np.random.default_rng(seed)
    sketch = make(**arguments)
    stated, sizes = sketch.memory, []
    for _ in range(16):
        sketch.update(rng.integers(0, 2**64, 5_000, dtype=np.uint64))
        sizes.append(len(pickle.dumps(sketch)))
    assert max(sizes[8:]) <= 1.1 * max(sizes[:8]), f"seed {seed}: the sketch grew from {sizes[0]} to {sizes[-1]} bytes"
    assert sketch.memory == stated, f"seed {seed}: states {stated} bytes when new, {sketch.memory} now"
    assert stated >= 0.9 * sizes[-1] - 1_000, f"seed {seed}: states {stated} bytes, takes {sizes[-1]}"


def check_bad_arguments_refused(make: Callable[..., Sketch], arguments: Mapping[str, Any], seed: int) -> None:
    """A negative number and NaN are refused for every number but seed and salt, by an error about that argument."""
    good = make(**arguments)
    for name, value in arguments.items():
        if not isinstance(value, Real) or name in {"seed", "salt"}:
            continue
        for bad in (-1, float("nan")):
            error = _refusal(make, {**arguments, name: bad})
            assert error is not None, f"seed {seed}: {type(good).__name__} takes {name}={bad}"
            assert error.subject == name, f"seed {seed}: the error about {name}={bad} is about {error.subject!r}"


def _refusal(make: Callable[..., Sketch], arguments: Mapping[str, Any]) -> SkewlessError | None:
    try:
        make(**arguments)
    except SkewlessError as error:
        return error
    return None


CHECKS: Final[tuple[SketchCheck, ...]] = (
    check_estimates_are_per_key,
    check_same_arguments_same_output,
    check_split_updates_equal_whole,
    check_restored_equals_uninterrupted,
    check_merged_equals_whole,
    check_merge_is_commutative,
    check_merge_is_associative,
    check_memory_is_bounded,
    check_bad_arguments_refused,
)
