"""The contract of every application: what is computed of the rows of an input, from their columns to the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.combiners import Combiner, Count
from skewless.errors import SkewlessError, UnknownNameError
from skewless.runner.applications.parsed import Parsed
from skewless.spark.grouped import Grouped

TIME: Final = "time"
"""The role of the column that windows are cut by; inputs read it for every application."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """One thing to compute.

    The result has `key`, the window where one is asked for, and `values`, all numbers; one of them is `n`, how many
    rows there were. An application with state of its own overrides `compute` and `expected`.

    Parameters
    ----------
    name, summary: as the command line shows it.
    roles: the columns it can read, each with the names it usually has; without any, it must be named.
    needs: of each of these groups of roles, at least one must be found.
    parse: makes `key` and the values of the columns found for the roles.
    combiners: what is computed, by the name of its column.
    plain: the same in Spark's own SQL, against which a run is verified.
    tolerance: how far doubles may differ from the plain result, relative to the larger of the two. Sums of doubles
        depend on the order of adding, which no two runs share.
    stand_in: the stream that it runs on where no input is given; it reads records, not keys.
    reads_lines: whether it takes the lines of a file apart itself, whatever the ending of the file says.
    """

    name: str
    summary: str
    roles: Mapping[str, Sequence[str]]
    needs: Sequence[Sequence[str]]
    parse: Callable[[Mapping[str, Column]], Parsed]
    combiners: Mapping[str, Combiner] = field(default_factory=lambda: {"n": Count()})
    plain: Mapping[str, str] = field(default_factory=lambda: {"n": "count(*)"})
    tolerance: float = 0.0
    stand_in: str | None = None
    reads_lines: bool = False

    @property
    def values(self) -> list[str]:
        """The columns of the result beside key and window."""
        return list(self.combiners)

    @property
    def verified(self) -> list[str]:
        """Those of them that are compared with plain Spark."""
        return self.values

    @property
    def fingerprint(self) -> str:
        """What a checkpoint remembers of it."""
        return self.name

    @property
    def needs_order(self) -> bool:
        """Whether it has state of its own, for which each key needs one owner, and cuts time itself."""
        return False

    @property
    def reads_records(self) -> bool:
        """Whether it takes whole records apart, instead of rows that have a key."""
        return self.stand_in is not None

    @property
    def reads_any_column(self) -> bool:
        """Whether it takes the columns as they are, whatever they hold."""
        return False

    @property
    def knows_time(self) -> bool:
        """Whether it finds the time of a row without being told its column."""
        return bool(self.roles.get(TIME))

    def reads_as_text(self, column: str) -> bool:  # noqa: ARG002 - for those that have types for some
        """Whether it wants a column of JSON as text, to say itself what a number is: a price in quotes is one too."""
        return self.reads_records

    def prepare(self, table: DataFrame) -> DataFrame:
        """Make of what was read the table that `parse` is about; refuse one that lacks something."""
        return table

    def compute(self, grouped: Grouped, state: str | None) -> DataFrame:  # noqa: ARG002 - for those that need order
        """Compute through a grouping; `state` is a directory for what keys keep, None in a batch job."""
        return grouped.agg(**self.combiners)

    def expected(self, rows: DataFrame, window: str | None) -> DataFrame:
        """Compute the same with plain Spark."""
        by = [sf.col("key")] + ([] if window is None else [sf.window("ts", window)])
        return rows.groupBy(*by).agg(*(sf.expr(text).alias(name) for name, text in self.plain.items()))

    def check(self, given: Mapping[str, str]) -> None:
        """Refuse columns named for what this application does not read."""
        for role in given:
            if role not in self.roles:
                hint = "" if role != "key" else f": {self.name} makes its keys of the text"
                raise SkewlessError(f"{self.name} reads no column for {role!r}{hint}. It reads {', '.join(self.roles)}")

    def choose(self, columns: Sequence[str], given: Mapping[str, str], label: str) -> dict[str, list[str]]:
        """Find the columns of each role: that which is given, else all that bear one of the usual names."""
        self.check(given)
        if not columns:
            raise SkewlessError(f"{label} has no columns: it is empty, or no row of it can be read")
        by_folded = {column.lower(): column for column in reversed(columns)}
        chosen: dict[str, list[str]] = {}
        for role, usual in self.roles.items():
            if role not in given:
                chosen[role] = [by_folded[name] for name in usual if name in by_folded]
            elif given[role] in columns:
                chosen[role] = [given[role]]
            else:
                raise UnknownNameError(f"{role} column of {label}", given[role], columns)
        for group in self.needs:
            if not any(chosen[role] for role in group):
                wanted = " or ".join(group)
                raise SkewlessError(
                    f"{label} has no column that is known to hold the {wanted}: name it with --column "
                    f"{group[-1]}=NAME. It has {', '.join(columns)}"
                )
            if any(role in given for role in group):  # what is named goes before what is only found
                chosen |= {role: [] for role in group if role not in given}
        return {role: found for role, found in chosen.items() if found}
