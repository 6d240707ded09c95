"""A table that the rows of a run are joined with, so that expressions can read its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless.errors import ColumnError, ConfigurationError, InputError, SetupError, SkewlessError, UnknownNameError
from skewless.runner.inputs.file import FileInput
from skewless.runner.typed_columns import typed
from skewless.spark.columns import same_name
from skewless.spark.deploy.session import reason_of
from skewless.spark.joining import join
from skewless.spark.merge import quoted

FILTERS: Final = ("left_semi", "left_anti")
"""Types of join that choose rows and add no columns."""


@dataclass(frozen=True, kw_only=True)
class TableJoin:
    """A table and how rows are joined with it. Errors name its parameters as `join.on`.

    Parameters
    ----------
    path : str
        A file or a folder of CSV, TSV, JSON lines or Parquet; with `format`, what Spark's reader of it loads.
    on : mapping
        The key columns of the input, each with that of the table.
    how : str
        The type of join: inner, left, left_semi or left_anti.
    format : str or None
        A format that Spark knows, such as delta; None reads it from the ending.
    columns : mapping or None
        The columns to add, by the names that expressions use, each with that of the table; None adds all.
    fields : mapping
        Types of columns that the table has as text.
    workers : int or None
        Partitions that hot keys are cut for; None is what Spark is set to.
    seed : int
        Seed of the choice among the pieces of a cut key.
    """

    path: str
    on: Mapping[str, str]
    how: str = "inner"
    format: str | None = None
    columns: Mapping[str, str] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    workers: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.on:
            raise ConfigurationError(subject="join.on", expected="at least one column")
        if self.how in FILTERS and self.columns:
            raise ConfigurationError(f"{self.how} adds no columns", subject="join.columns", hint="leave them out")
        if self.format is None and self._file.kind == "text":
            raise InputError(
                f"{self.path} is text, which has no columns", subject="join.path", hint="name its format as join.format"
            )

    @property
    def fingerprint(self) -> list[Any]:
        """What a checkpoint remembers of it; how rows are spread may change."""
        columns = None if self.columns is None else dict(self.columns)
        return [self.path, dict(self.on), self.how, self.format, columns, dict(self.fields)]

    def joined(self, rows: DataFrame, learn_from: DataFrame | None) -> DataFrame:
        """Return rows with the columns of the table, hot keys cut.

        Parameters
        ----------
        rows : DataFrame
            The rows of the input.
        learn_from : DataFrame or None
            Rows in which to look for hot keys, which those of a stream need.
        """
        table = self._table(rows)
        return join(
            rows,
            table,
            [*self.on],
            self.how,
            workers=self.workers,
            least_rows=1,  # an application follows
            learn_from=learn_from,
            seed=self.seed,
        )

    def plain(self, rows: DataFrame) -> DataFrame:
        """Return rows with the columns of the table, by Spark's own join."""
        return rows.join(self._table(rows), [*self.on], self.how)

    @property
    def _file(self) -> FileInput:
        try:
            return FileInput(path=self.path)
        except SkewlessError as error:
            raise InputError(error.problem, subject="join.path", hint=error.hint) from error

    def _table(self, rows: DataFrame) -> DataFrame:
        """Return keys, under the names of the input, and the columns to add; refuse what does not fit the rows."""
        table = self._open(rows.sparkSession)
        _require("join.on", "column of the input", list(self.on), rows.columns)
        _require("join.on", f"column of {self.path}", list(self.on.values()), table.columns)
        _require("join.fields", f"column of {self.path}", list(self.fields), table.columns)
        if self.fields:
            table = table.withColumns({name: self._typed(table, name, kind) for name, kind in self.fields.items()})
        keys = [sf.col(quoted(theirs)).alias(ours) for ours, theirs in self.on.items()]
        table = table.select(*keys, *self._added(rows, table.columns))
        for key in self.on:
            ours, theirs = (side.schema[key].dataType.simpleString() for side in (rows, table))
            if ours != theirs:
                raise ColumnError(
                    f"{key!r} of the input is of type {ours}, {self.on[key]!r} of the table of type {theirs}",
                    subject="join.on",
                    hint="set the type of one of them, in {fields} or in join.fields",
                )
        return table

    def _open(self, spark: SparkSession) -> DataFrame:
        if self.format is None:
            return self._file.table(spark, strict=True)
        try:
            return spark.read.format(self.format).options(header="true").load(self.path)
        except (PySparkException, Py4JError) as error:
            if "DATA_SOURCE_NOT_FOUND" in str(error) or "ClassNotFound" in str(error):
                raise SetupError(
                    f"Spark has no format {self.format!r} here",
                    subject="join.format",
                    hint="check its spelling, and add the package that has it to {packages}",
                ) from error
            raise InputError(f"cannot read {self.path}: {reason_of(error)}", subject="join.path") from error

    def _typed(self, table: DataFrame, name: str, kind: str) -> Column:
        """Return a column in its type. What cannot be read stops the run: a table has no rejects."""
        as_read, value = sf.col(quoted(name)), typed(table, name, kind)
        failure = sf.raise_error(sf.lit(f"column {name!r} of {self.path} has a value that is not of type {kind}"))
        return sf.coalesce(value, sf.when(as_read.isNotNull(), failure))

    def _added(self, rows: DataFrame, names: Sequence[str]) -> list[Column]:
        if self.how in FILTERS:
            return []
        added = self.columns
        if added is None:
            added = {name: name for name in names if self.on.get(name) != name}
        _require("join.columns", f"column of {self.path}", list(added.values()), names)
        for new in added:
            if any(same_name(rows.sparkSession, new, old) for old in rows.columns):
                raise ColumnError(
                    f"the input and {self.path} both have a column {new!r}",
                    subject="join.columns",
                    hint=f'name the columns to add, as in {{ other = "{added[new]}" }}',
                )
        return [sf.col(quoted(theirs)).alias(new) for new, theirs in added.items()]


def _require(parameter: str, what: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError(what, name, known, subject=parameter)
