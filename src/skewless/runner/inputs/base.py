"""The contract of every input: rows of `key`, values and, where there is one, the time `ts`.

An input finds its columns, the application makes `key` and values of them, and rows that neither can use are rejects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from skewless.runner.applications.base import TIME, Application
from skewless.runner.bad_rows import OpenInput
from skewless.spark.merge import quoted

_SMALL_ROWS: Final = 2_000_000


@dataclass(frozen=True, kw_only=True)
class Input(ABC):
    """What a run reads."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name of this input in reports."""

    @property
    def total(self) -> int | None:
        """How many rows there are; None if only reading will show."""
        return None

    @property
    def n_sources(self) -> int | None:
        """How many sources read side by side; None if Spark decides it."""
        return None

    @property
    def is_small(self) -> bool:
        """Whether it is known that reading it takes seconds, not minutes."""
        return self.total is not None and self.total <= _SMALL_ROWS

    @property
    def has_time(self) -> bool:
        """Whether rows have a time, whatever the application finds in them."""
        return True

    def fingerprint(self) -> dict[str, Any]:
        """Return what a checkpoint belongs to; how much is read at a time may change."""
        return {key: value for key, value in asdict(self).items() if key != "batch_size"}

    @abstractmethod
    def check(self, app: Application) -> None:
        """Refuse, before there is a session, an application that cannot use this input."""

    @abstractmethod
    def open(self, spark: SparkSession, app: Application) -> OpenInput:
        """Return the rows; refuse what cannot be read."""


def values_of(chosen: Mapping[str, Sequence[str]]) -> dict[str, Column]:
    """Return the value of each role but the time: of several columns the first that is not null, as text.

    Parameters
    ----------
    chosen : mapping
        The columns of each role.
    """
    values = {}
    for role, names in chosen.items():
        columns = [sf.col(quoted(name)) for name in names]
        values[role] = columns[0] if len(columns) == 1 else sf.coalesce(*(column.cast("string") for column in columns))
    return {role: value for role, value in values.items() if role != TIME}
