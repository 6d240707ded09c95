"""What a kind of fault is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from chaos.fault import Fault
from chaos.stages import Stage
from chaos.strike import Strike


@dataclass(kw_only=True)
class Trial:
    """A fault on its stage.

    Parameters
    ----------
    fault : Fault
        The fault.
    stage : Stage
        Where the query runs.
    folder : Path
        Where the query reads and writes.
    rows : list of dict
        Its input.
    query, strike
        Those of the fault, with places.
    """

    fault: Fault
    stage: Stage
    folder: Path
    rows: list[dict[str, Any]]
    query: dict[str, Any] = field(default_factory=dict)
    strike: Strike = field(init=False)

    def __post_init__(self) -> None:
        self.query = {**self.fault.query, "folder": str(self.folder)}
        self.strike = self.fault.strike

    def aim(self, target: str) -> None:
        """Set what the strike is done to."""
        self.strike = replace(self.strike, target=target)


class Kind(ABC):
    """A kind of fault: how one is drawn, and what the runner does about it.

    `name` is what the report calls it, `share` is how many of a hundred faults are of this kind.
    """

    name: ClassVar[str]
    share: ClassVar[int]

    @abstractmethod
    def draw(self, chance: Random) -> dict[str, Any]:
        """Draw the parts of a fault: `stage`, `query`, `strike`, `micro_batches`."""

    def prepare(self, trial: Trial) -> None:  # noqa: B027 - most kinds need nothing here
        """Do what is to be done before the query starts."""

    def struck(self, trial: Trial) -> None:  # noqa: B027 - most kinds need nothing here
        """Do what is to be done as soon as the strike has happened, while the query runs."""

    def repair(self, trial: Trial, message: str) -> None:  # noqa: B027 - most kinds need nothing here
        """Do what somebody would do who reads the message, before the query is started again."""

    def clean(self, trial: Trial) -> None:  # noqa: B027 - most kinds need nothing here
        """Remove what the fault has left."""
