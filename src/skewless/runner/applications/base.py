"""The contract of every application: what a run computes, from the columns of its input to the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.combiners import Combiner, Count
from skewless.errors import ColumnError, ConfigurationError, InputError, UnknownNameError
from skewless.runner.applications.extraction import Extraction
from skewless.spark.grouped import Grouped, Windowed

if TYPE_CHECKING:  # it reads files, whose reader knows applications
    from skewless.runner.table_join import TableJoin

TIME: Final = "time"
"""The role of the column that windows are cut by; inputs read it for every application."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """One thing to compute.

    The result has `key`, the window if there is one, and `values`, all numbers; one of them is `n`, the number of rows.

    Parameters
    ----------
    name : str
        The name on the command line.
    summary : str
        One line about it.
    roles : mapping
        The columns it can read, each with the names it usually has; a column without usual names must be named.
    needs : sequence
        Groups of roles of which at least one must be found.
    parse : callable
        Makes `key` and the values of the columns found for the roles.
    combiners : mapping
        What is computed, by the name of its column.
    plain : mapping
        The same in Spark's own SQL, against which a run is verified.
    tolerance : float
        How far doubles may differ from the plain result, relative to the larger of the two. Sums of doubles depend on
        the order of addition, which differs from run to run.
    stand_in : str or None
        The stream that it runs on without an input; it reads records, not keys.
    reads_lines : bool
        Whether it parses the lines of a file itself, whatever the ending of the file is.
    join : TableJoin or None
        A table that rows are joined with before anything is computed of them.
    """

    name: str
    summary: str
    roles: Mapping[str, Sequence[str]]
    needs: Sequence[Sequence[str]]
    parse: Callable[[Mapping[str, Column]], Extraction]
    combiners: Mapping[str, Combiner] = field(default_factory=lambda: {"n": Count()})
    plain: Mapping[str, str] = field(default_factory=lambda: {"n": "count(*)"})
    tolerance: float = 0.0
    stand_in: str | None = None
    reads_lines: bool = False
    join: TableJoin | None = None

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
    def reads_records(self) -> bool:
        """Whether it parses whole records, instead of rows that have a key."""
        return self.stand_in is not None

    @property
    def reads_any_column(self) -> bool:
        """Whether it reads columns by their own names, whatever they hold."""
        return False

    @property
    def knows_time(self) -> bool:
        """Whether it finds the time of a row by itself."""
        return bool(self.roles.get(TIME))

    def text_columns(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of JSON that it reads as text and parses itself: a price in quotes is a number too."""
        return list(columns) if self.reads_records else []

    def prepare(self, table: DataFrame) -> DataFrame:
        """Return the table that `parse` is about."""
        return table

    def examine(self, table: DataFrame) -> None:
        """Refuse a table that lacks something, after `prepare` and the join."""

    def compute(self, grouped: Grouped | Windowed) -> DataFrame:
        """Compute the result through a grouping."""
        return grouped.agg(**self.combiners)

    def expected(self, rows: DataFrame, window: str | None) -> DataFrame:
        """Compute the result with plain Spark."""
        by = [sf.col("key")] + ([] if window is None else [sf.window("ts", window)])
        return rows.groupBy(*by).agg(*(sf.expr(text).alias(name) for name, text in self.plain.items()))

    def check(self, given: Mapping[str, str]) -> None:
        """Refuse columns for roles that this application does not have.

        Parameters
        ----------
        given : mapping
            The columns that are named, by role.
        """
        for role in given:
            if role not in self.roles:
                why = f": {self.name} makes its keys of the text" if role == "key" else ""
                raise ConfigurationError(
                    f"{self.name} reads no column for {role!r}{why}. It reads {', '.join(self.roles)}",
                    subject=role if role in {"key", TIME} else "columns",
                )

    def choose(self, columns: Sequence[str], given: Mapping[str, str], label: str) -> dict[str, list[str]]:
        """Return the columns of each role: the named one, or else all that have one of the usual names.

        Parameters
        ----------
        columns : sequence of str
            The columns of the input.
        given : mapping
            The columns that are named, by role.
        label : str
            The name of the input, for errors.
        """
        self.check(given)
        require_columns(columns, label)
        by_folded = {column.lower(): column for column in reversed(columns)}
        chosen: dict[str, list[str]] = {}
        for role, usual in self.roles.items():
            if role not in given:
                chosen[role] = [by_folded[name] for name in usual if name in by_folded]
            elif given[role] in columns:
                chosen[role] = [given[role]]
            else:
                raise UnknownNameError(
                    f"{role} column of {label}",
                    given[role],
                    columns,
                    subject=role if role in {"key", TIME} else "columns",
                )
        for group in self.needs:
            if not any(chosen[role] for role in group):
                raise ColumnError(
                    f"{label} has no column that is known to hold the {' or '.join(group)}. It has "
                    f"{', '.join(columns)}",
                    subject="columns",
                    hint=f"name the column in {{columns}}, as in {group[-1]}=NAME",
                )
            if any(role in given for role in group):  # a named column goes before one that is only found
                chosen |= {role: [] for role in group if role not in given}
        return {role: found for role, found in chosen.items() if found}


def require_columns(columns: Sequence[str], label: str) -> None:
    """Refuse an input without columns."""
    if not columns:
        raise InputError(f"{label} has no columns: it is empty, or no row of it can be read", subject="input")
