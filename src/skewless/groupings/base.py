"""The contract of every grouping: configuration, router, state. No Spark here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least

if TYPE_CHECKING:
    from typing_extensions import Self

State = dict[str, NDArray[Any]]
"""A router's memory: NumPy arrays and nothing else, so that `np.savez` saves it and no pickle is ever read."""


class Router(ABC):
    """One source's routing logic. Time comes in; nothing here reads a clock."""

    @abstractmethod
    def route(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:
        """Choose a worker for each key hash.

        Sequential in meaning: each tuple sees the loads that the one before left. Cutting a batch in two with the
        same `now_ms` changes no decision. `now_ms` never goes back.
        """

    @abstractmethod
    def snapshot(self) -> State:
        """Copy the router's memory; `Grouping.resume` continues from it as if there had been no break."""


@dataclass(frozen=True, kw_only=True)
class Grouping(ABC):
    """How keys are assigned to `workers` workers: immutable configuration, from which each source gets a router."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    coordinated: ClassVar[bool] = False
    """Sources learn from one another in `barrier`; where they do not, callers may skip it."""
    baseline: ClassVar[bool] = False
    """A yardstick of the papers rather than something to use: compared with only when asked for."""

    workers: int | None = None
    """None until whoever runs the grouping, such as `group` or `Simulation`, says how many there are."""

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
        """Between two barriers all sources send a key to one and the same worker.

        A grouping that always does overrides this with a class variable, one whose parameters decide with a property.
        """
        return False

    @property
    def needs_frequencies(self) -> bool:
        """Wants to be told how often each key of the stream ahead occurs; where that is known, see `informed`."""
        return False

    def informed(self, keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> Grouping:  # noqa: ARG002
        """Give the grouping that knows how often each distinct key of the stream ahead occurs."""
        return self

    @abstractmethod
    def start(self, source: int, n_sources: int, seed: int) -> Router:
        """Make the router of one source at the beginning of a stream."""

    @abstractmethod
    def resume(self, state: State) -> Router:
        """Make a router that goes on from a snapshot."""

    @abstractmethod
    def merge(self, states: Sequence[State]) -> State:
        """Make one state of several, for a source that has no predecessor; takes at least one."""

    @property
    def measures(self) -> bool:
        """Wants to be told how long workers were busy, see `calibrate`."""
        return False

    def calibrate(
        self,
        states: Sequence[State],
        tuples: NDArray[np.int64],  # noqa: ARG002
        busy_s: NDArray[np.float64],  # noqa: ARG002
    ) -> Sequence[State]:
        """Tell the sources how many tuples each worker did in the last batch and how long it was busy; pure.

        Called right before `barrier` where workers are measured, for groupings that say so in `measures`.
        """
        return states

    def barrier(self, states: Sequence[State], now_ms: int) -> Sequence[State]:  # noqa: ARG002
        """Let sources learn from one another between two batches: pure, so all can compute it alone and agree."""
        return states

    def remark(self, state: State) -> str:  # noqa: ARG002
        """Say in a few words what a source has decided, for whoever looks on; empty if there is nothing to say."""
        return ""

    def succeed(self, states: Sequence[State], source: int) -> Router:
        """Go on after a barrier as source number `source`, though there may be more sources now than states."""
        return self.resume(states[source] if source < len(states) else self.merge(states))


def mean_loads(states: Sequence[State]) -> NDArray[np.int64]:
    """Give what a source has sent to each worker on average: where a source without a history starts."""
    mean: NDArray[np.int64] = np.sum([state["loads"] for state in states], axis=0) // len(states)
    return mean
