"""SQL: an application made of expressions for the key, the values, the rows that count, and their time.

Expressions are evaluated in ANSI mode, as is Spark's default: what cannot be computed is an error. It must not stop the
query, so each row is tried first, and becomes a reject if that fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.combiners import Combiner, Count, Max, Mean, Min, Sum, Variance, Vwap
from skewless.errors import ConfigurationError, UnknownNameError, errors_of, raise_all
from skewless.runner.applications.base import TIME, Application, require_columns
from skewless.runner.applications.extraction import Extraction, Fault
from skewless.runner.typed_columns import typed
from skewless.spark.deploy.session import reason_of
from skewless.spark.merge import quoted

RESERVED: Final = frozenset({"key", "ts"})
"""Names that values cannot have: columns of the grouped rows have them already."""

_READ: Final = "skewless_read"


@dataclass(frozen=True, kw_only=True)
class SqlApplication(Application):
    """Combiners over expressions in SQL.

    Parameters
    ----------
    key : str
        What the rows are grouped by.
    expressions : mapping
        The values that combiners read, by name; columns of the input need no entry.
    where : str or None
        Condition for a row to count; where it is false or null, the row is left out and nothing of it is computed.
    time : str or None
        The time of a row, for windows: a timestamp, or what Spark casts to one.
    fields : mapping
        Types of columns that the input has as text, such as `double`; a row with something else is a reject.
    """

    name: str = "sql"
    summary: str = "combiners over expressions of your own"
    roles: Mapping[str, Sequence[str]] = field(default_factory=lambda: {TIME: ()})
    needs: Sequence[Sequence[str]] = ()
    parse: Callable[[Mapping[str, Column]], Extraction] = field(init=False, repr=False, compare=False)
    tolerance: float = 1e-9
    key: str
    expressions: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    time: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        read = [column for combiner in self.combiners.values() for column in combiner.columns]
        for name in (*self.expressions, *read):
            if name in RESERVED:
                raise ConfigurationError(
                    f"a value cannot be called {name!r}: rows have a column of this name already",
                    subject=f"expressions.{name}" if name in self.expressions else "combiners",
                    hint="choose another name",
                )
        combiners = {**self.combiners} if "n" in self.combiners else {**self.combiners, "n": Count()}
        if combiners["n"] != Count():
            raise ConfigurationError(
                "n is the number of rows", subject="combiners.n", hint="choose another name for this result"
            )
        object.__setattr__(self, "combiners", combiners)
        plain = {name: plain_sql(combiner) for name, combiner in combiners.items()}
        object.__setattr__(self, "plain", {name: text for name, text in plain.items() if text is not None})
        object.__setattr__(self, "parse", self._parse)

    @property
    def verified(self) -> list[str]:
        return list(self.plain)

    @property
    def fingerprint(self) -> str:
        written = (self.key, dict(self.expressions), self.where, self.time, dict(self.fields))
        joined = [] if self.join is None else [self.join.fingerprint]
        return json.dumps([*written, {name: repr(combiner) for name, combiner in self.combiners.items()}, *joined])

    @property
    def reads_records(self) -> bool:
        return True

    @property
    def reads_any_column(self) -> bool:
        return True

    @property
    def knows_time(self) -> bool:
        return self.time is not None

    def text_columns(self, columns: Sequence[str]) -> list[str]:
        return [column for column in columns if column in self.fields]

    def check(self, given: Mapping[str, str]) -> None:
        for role, column in given.items():
            if role != TIME and column not in self.fields:
                raise ConfigurationError(
                    f"the key is an expression: {column!r} is not read", subject="sql.key", hint="leave the column out"
                )

    def choose(self, columns: Sequence[str], given: Mapping[str, str], label: str) -> dict[str, list[str]]:
        """Return all columns; the time from the one that is named."""
        self.check(given)
        require_columns(columns, label)
        for column in given.values():
            if column not in columns:
                raise UnknownNameError(f"column of {label}", column, columns, subject=f"fields.{column}")
        return {"row": list(columns)} | ({TIME: [given[TIME]]} if TIME in given else {})

    def prepare(self, table: DataFrame) -> DataFrame:
        """Cast the fields to their types."""
        if not self.fields:
            return table
        read = sf.struct(*(sf.col(quoted(name)).alias(name) for name in self.fields))
        return table.withColumn(_READ, read).withColumns(
            {name: typed(table, name, kind) for name, kind in self.fields.items()}
        )

    def examine(self, table: DataFrame) -> None:
        """Refuse expressions that Spark does not understand."""
        checks = [partial(_require, table, *expression) for expression in self._all()]
        raise_all([error for check in checks for error in errors_of(check)])

    @property
    def _values(self) -> dict[str, str]:
        """The expression of everything that combiners read."""
        read = dict.fromkeys(column for combiner in self.combiners.values() for column in combiner.columns)
        return {name: self.expressions.get(name, quoted(name)) for name in read}

    def _all(self) -> Iterator[tuple[str, str, str]]:
        """Return the parameter of every expression, its text, and what is computed of it."""
        if self.where is not None:
            yield "where", self.where, self.where
        yield "key", self.key, self.key
        if self.time is not None:
            yield "time", self.time, _timestamp(self.time)
        for name, text in self._values.items():
            reader = next(own for own, combiner in self.combiners.items() if name in combiner.columns)
            yield f"expressions.{name}" if name in self.expressions else f"combiners.{reader}", text, text

    def _parse(self, _: Mapping[str, Column]) -> Extraction:
        faults: list[Fault] = []
        for name, kind in self.fields.items():
            read, typed = sf.col(f"{_READ}.{quoted(name)}"), sf.col(quoted(name))
            faults.append((read.isNotNull() & typed.isNull(), f"the field {name!r} is not of type {kind}"))
        reasons = [sf.when(_fails(computed), f"cannot compute {text}") for _, text, computed in self._all()]
        why = sf.coalesce(*reasons)
        whole = ", ".join(f"({computed}\n)" for what, _, computed in self._all() if what != "where")
        computed: list[Fault] = [(_fails(self._of_kept(f"struct({whole})")), why)]  # a good row is tried only once
        if self.time is not None:
            computed.append((sf.expr(self._of_kept(f"{_timestamp(self.time)} IS NULL")), f"no time: {self.time}"))
        values = (sf.expr(text).alias(name) for name, text in self._values.items())
        return Extraction(
            columns=(sf.expr(self.key).alias("key"), *values),
            faults=tuple(faults),
            computed=tuple(computed),
            time=None if self.time is None else sf.expr(_timestamp(self.time)),
            keep=None if self.where is None else sf.expr(self.where),
        )

    def _of_kept(self, text: str) -> str:
        return text if self.where is None else f"CASE WHEN ({self.where}\n) THEN {text} END"


def plain_sql(combiner: Combiner) -> str | None:
    """Return a combiner as an aggregate of Spark's own; None for estimates, which depend on the way of merging.

    >>> plain_sql(Sum("price")), plain_sql(Count())
    ('sum(`price`)', 'count(*)')
    """
    read = [quoted(column) for column in combiner.columns]
    match combiner:
        case Count():
            return f"count({read[0] if read else '*'})"
        case Sum() | Min() | Max():
            return f"{combiner.name}({read[0]})"
        case Mean():
            return f"avg(double({read[0]}))"
        case Variance():
            return f"{'var_samp' if combiner.ddof else 'var_pop'}(double({read[0]}))"
        case Vwap():
            price, volume = (f"double({column})" for column in read)
            return f"sum({price} * {volume}) / nullif(sum(if({read[0]} IS NULL, NULL, {volume})), 0)"
    return None


def _require(table: DataFrame, parameter: str, text: str, computed: str) -> None:
    try:
        table.select(sf.expr(text))
        table.where(_fails(computed))  # fails for an aggregate
    except (AnalysisException, ParseException) as error:
        problem = f"Spark does not understand {text!r}: {reason_of(error)}"
        raise ConfigurationError(problem, subject=parameter) from error


def _timestamp(text: str) -> str:
    return f"CAST(({text}\n) AS TIMESTAMP)"


def _fails(text: str) -> Column:
    """Return whether computing an expression raises an error.

    `try_to_binary` is the function of Spark's that turns any error of its argument into a null. The expression is in a
    lambda, because otherwise Spark computes the parts that it shares with others first, outside of the try.
    """
    return sf.expr(f"try_to_binary(CAST(transform(array(0), skewless_ -> ({text}\n)) AS STRING), 'utf-8') IS NULL")
