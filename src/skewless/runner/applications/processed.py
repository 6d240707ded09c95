"""Applications that need the rows of a key in order, and so state with one owner."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from pyspark.sql import DataFrame

from skewless.durations import as_timedelta, parse_duration
from skewless.errors import ConfigurationError
from skewless.processors import Processor
from skewless.runner.applications.base import Application
from skewless.spark.grouped import Grouped


@dataclass(frozen=True, kw_only=True)
class ProcessedApplication(Application):
    """An application that a processor computes, through a grouping with one owner per key.

    Rows of a key must come in the order of their times from micro-batch to micro-batch; within one they are sorted.

    Parameters
    ----------
    gap : str
        The longest time between two rows that belong together.
    """

    gap: str = "30 seconds"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap", parse_duration(self.gap))

    @property
    def fingerprint(self) -> str:
        return f"{self.name}, gap {self.gap}"

    @property
    def values(self) -> list[str]:
        return ["seconds", "n"]

    @property
    def gap_us(self) -> int:
        """The gap in microseconds."""
        gap = as_timedelta(self.gap)
        return (gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds

    def check_window(self, window: str | None) -> None:
        """Refuse a window: the application has its own."""
        if window is not None:
            raise ConfigurationError(
                f"{self.name}: this application has windows of its own", subject="window", hint="leave out {window}"
            )

    @abstractmethod
    def processor(self) -> Processor:
        """Return what computes the rows of a key."""

    def process(self, grouped: Grouped, state: str | None) -> DataFrame:
        """Compute the result through a grouping with one owner per key.

        Parameters
        ----------
        grouped : Grouped
            The rows.
        state : str or None
            Directory for the state of the keys; None in a batch job.
        """
        return grouped.stateful(self.processor(), state=state, order_by="ts")
