"""The contract of every grouping: configuration, router, state. No Spark here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, cast, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, StorageError, require_at_least

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar

    S = TypeVar("S", bound="State", default=Any)
else:
    from typing import TypeVar

    S = TypeVar("S")

Arrays = Mapping[str, NDArray[Any]]
"""A state as it is saved: arrays by name, those of nested dataclasses as `outer.inner`."""

_NUMBERS: Final[dict[Any, type[np.generic]]] = {
    bool: np.bool_,
    int: np.int64,
    float: np.float64,
    np.uint64: np.uint64,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of a router: what `Router.snapshot` returns and `Grouping.resume` takes.

    A subclass declares fields that are arrays (`NDArray[np.int64]`), numbers (bool, int, float, np.uint64), or
    dataclasses of these. Nothing else, so that it can be saved without pickle. Nobody writes to the arrays of a state.

    >>> @dataclass(frozen=True, kw_only=True, eq=False)
    ... class Counted(State):
    ...     tuples: int
    ...     loads: NDArray[np.int64]
    >>> arrays = Counted(tuples=3, loads=np.array([1, 2])).arrays()
    >>> sorted(arrays), Counted.of_arrays(arrays).tuples
    (['loads', 'tuples'], 3)
    """

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays by name, ready to be saved."""
        return dict(_flattened(self, ""))

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> Self:
        """Restore a state from its arrays; refuse those of another layout, such as an older version's."""
        kind: Any = cls
        layout = _layout(kind)
        saved = {name: array.dtype for name, array in arrays.items()}
        if saved != layout:
            shown = (", ".join(f"{name} {dtype}" for name, dtype in kinds.items()) for kinds in (layout, saved))
            raise StorageError("a {} consists of {}; got {}".format(cls.__name__, *shown))
        return cast("Self", _restored(kind, arrays, ""))


def _flattened(nested: Any, prefix: str) -> Iterator[tuple[str, NDArray[Any]]]:
    of: Any = type(nested)
    for name, kind in _kinds(of).items():
        value = getattr(nested, name)
        if is_dataclass(kind):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, np.asarray(value, dtype=_NUMBERS.get(kind))


def _restored(kind: Any, arrays: Arrays, prefix: str) -> Any:
    values: dict[str, Any] = {}
    for name, part in _kinds(kind).items():
        if is_dataclass(part):
            values[name] = _restored(part, arrays, f"{prefix}{name}.")
        else:
            array = arrays[prefix + name]
            values[name] = part(array.item()) if part in _NUMBERS else array
    return kind(**values)


@cache
def _kinds(kind: Hashable) -> dict[str, Any]:
    """Return the type of each field of a dataclass."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(cast("Any", kind))}


@cache
def _layout(kind: Hashable, prefix: str = "") -> dict[str, np.dtype[Any]]:
    """Return the type of each array of a state."""
    layout: dict[str, np.dtype[Any]] = {}
    for name, part in _kinds(kind).items():
        if is_dataclass(part):
            layout |= _layout(cast("Any", part), f"{prefix}{name}.")
        else:
            number = _NUMBERS.get(part)
            layout[prefix + name] = np.dtype(get_args(get_args(part)[1])[0] if number is None else number)
    return layout


class Router(ABC, Generic[S]):
    """One source's routing logic. Time comes in; nothing here reads a clock."""

    @abstractmethod
    def route(self, keys: NDArray[np.uint64], now_ms: int, /) -> NDArray[np.int32]:
        """Choose a worker for each key hash.

        Sequential in meaning: each tuple sees the loads that the one before left. Cutting a batch in two with the
        same `now_ms` changes no decision. `now_ms` never goes back.
        """

    @abstractmethod
    def snapshot(self) -> S:
        """Return the state: `Grouping.resume` continues from it as if there had been no break.

        Routing on must not change it, so arrays that `route` writes to are copied.
        """


@dataclass(frozen=True, kw_only=True)
class Grouping(ABC, Generic[S]):
    """How keys are assigned to `workers` workers: immutable configuration, from which each source gets a router.

    What not every grouping can do is in classes of its own: `Coordinated`, `Measuring`, `Foresighted`.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    baseline: ClassVar[bool] = False
    """Exists for comparison only."""
    state_class: ClassVar[type[State]]
    """What its routers' snapshots are."""

    workers: int | None = None
    """None until whoever runs the grouping, such as `group` or `Simulation`, sets it with `with_workers`."""

    def __post_init__(self) -> None:
        if self.workers is not None:
            require_at_least("workers", self.workers, 1)
            if self.workers >= 2**31:
                raise ConfigurationError(subject="workers", expected="below 2**31", value=self.workers)

    @property
    def n_workers(self) -> int:
        """The number of workers."""
        if self.workers is None:
            raise ConfigurationError(
                f"{self.name} does not know its number of workers", subject="workers", hint="set {workers}"
            )
        return self.workers

    def with_workers(self, workers: int | None) -> Self:
        """Return this grouping for a number of workers; None leaves it as it is.

        >>> from skewless.groupings import Even
        >>> Even(slack=0.1).with_workers(4).n_workers
        4
        """
        if workers is None or workers == self.workers:
            return self
        if self.workers is not None:
            raise ConfigurationError(
                f"{{workers}} is {workers}, but the grouping was made for {self.workers}",
                subject="workers",
                hint="set one of them",
            )
        return replace(self, workers=workers)

    @property
    def single_owner(self) -> bool:
        """Whether all sources send a key to one and the same worker between two barriers.

        A grouping that always does overrides this with a class variable, one whose parameters decide with a property.
        """
        return False

    def start(self, source: int, seed: int) -> Router[S]:
        """Return the router of one source at the start of a stream."""
        return self.resume(self.first_state(source, seed))

    @abstractmethod
    def first_state(self, source: int, seed: int, /) -> S:
        """Return the state of one source at the start of a stream."""

    @abstractmethod
    def resume(self, state: S, /) -> Router[S]:
        """Return a router that continues from a snapshot."""

    @abstractmethod
    def merge(self, states: Sequence[S]) -> S:
        """Combine at least one state into that of a source that has no predecessor."""

    def succeed(self, states: Mapping[int, S], source: int) -> Router[S]:
        """Return the router of a source after a barrier, from its own state or, if it is new, from those of all."""
        return self.resume(states[source] if source in states else self.merge(list(states.values())))

    def remark(self, _state: S, /) -> str:
        """Describe in a few words what a source has decided; empty if there is nothing to report."""
        return ""


class Coordinated(Grouping[S]):
    """A grouping whose sources learn from one another between two batches."""

    @abstractmethod
    def barrier(self, states: Sequence[S], now_ms: int, /) -> Sequence[S]:
        """Return the state of each source after a barrier: a pure function, so all can compute it alone and agree."""


class Measuring(Grouping[S]):
    """A grouping that can adapt to how fast its workers are."""

    @property
    @abstractmethod
    def measures(self) -> bool:
        """Whether its parameters make it adapt."""

    @abstractmethod
    def calibrate(self, states: Sequence[S], tuples: NDArray[np.int64], busy_s: NDArray[np.float64]) -> Sequence[S]:
        """Return the states with each worker's tuples and busy seconds of the last batch taken into account; pure.

        Called right before `barrier`, where workers are measured.
        """


class Foresighted(Grouping[S]):
    """A grouping that needs to know how often each key of the stream ahead occurs."""

    @property
    @abstractmethod
    def needs_frequencies(self) -> bool:
        """Whether it does not know them yet."""

    @abstractmethod
    def informed(self, keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> Grouping[S]:
        """Return the grouping that knows how often each distinct key of the stream ahead occurs."""


def pass_barrier(
    grouping: Grouping[S],
    states: Sequence[S],
    now_ms: int,
    measure: Callable[[], tuple[NDArray[np.int64], NDArray[np.float64]]],
) -> Sequence[S]:
    """Return the states after a barrier, those of a grouping without one as they are.

    `measure` is called where the grouping adapts to its workers: tuples and busy seconds of each in the last batch.
    """
    if isinstance(grouping, Measuring) and grouping.measures:
        states = grouping.calibrate(states, *measure())
    return grouping.barrier(states, now_ms) if isinstance(grouping, Coordinated) else states


def mean_loads(loads: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return what a source has sent to each worker on average: where a source without a history starts."""
    mean: NDArray[np.int64] = np.sum(loads, axis=0) // len(loads)
    return mean
