"""SQL: an application made of expressions: what the key is, what the values are, which rows count, and when they were.

An expression is evaluated as Spark does by default (ANSI): what cannot be computed is an error there. Here it must not
stop the query, so each row is tried first, and set aside with the reason if that fails.
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
from skewless.errors import SkewlessError, UnknownNameError, errors_of, raise_all
from skewless.runner.applications.base import TIME, Application
from skewless.runner.applications.parsed import Parsed
from skewless.runner.bad_rows import Fault
from skewless.runner.timestamps import as_time
from skewless.spark.deploy.session import reason_of
from skewless.spark.merge import quoted

RESERVED: Final = frozenset({"key", "ts"})
"""Names that values cannot have: the rows that are grouped have them already."""

_READ: Final = "skewless_read"
_NESTED: Final = ("array<", "map<", "struct<")


@dataclass(frozen=True, kw_only=True)
class SqlApplication(Application):
    """Combiners over expressions in SQL.

    Parameters
    ----------
    key: what the rows are grouped by.
    expressions: the values that combiners read, by name; a column of the input that is not among them is read as it is.
    where: which rows count; those for which it is false or null are left out, and nothing of them is computed.
    time: when a row was, for windows: a timestamp, or what Spark casts to one.
    fields: types of columns that the input has as text, such as `double`; a row with something else is set aside.
    """

    name: str = "sql"
    summary: str = "combiners over expressions of your own"
    roles: Mapping[str, Sequence[str]] = field(default_factory=lambda: {TIME: ()})
    needs: Sequence[Sequence[str]] = ()
    parse: Callable[[Mapping[str, Column]], Parsed] = field(init=False, repr=False, compare=False)
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
                raise SkewlessError(f"a value cannot be called {name!r}, rows have that already: take another name")
        combiners = {**self.combiners} if "n" in self.combiners else {**self.combiners, "n": Count()}
        if combiners["n"] != Count():
            raise SkewlessError("n is how many rows there were: give another name to what is combined")
        object.__setattr__(self, "combiners", combiners)
        plain = {name: plain_sql(combiner) for name, combiner in combiners.items()}
        object.__setattr__(self, "plain", {name: text for name, text in plain.items() if text is not None})
        object.__setattr__(self, "parse", self._parse)

    @property
    def verified(self) -> list[str]:
        return list(self.plain)

    @property
    def fingerprint(self) -> str:
        told = (self.key, dict(self.expressions), self.where, self.time, dict(self.fields))
        return json.dumps([*told, {name: repr(combiner) for name, combiner in self.combiners.items()}])

    @property
    def reads_records(self) -> bool:
        return True

    @property
    def reads_any_column(self) -> bool:
        return True

    @property
    def knows_time(self) -> bool:
        return self.time is not None

    def reads_as_text(self, column: str) -> bool:
        return column in self.fields

    def check(self, given: Mapping[str, str]) -> None:
        for role, column in given.items():
            if role != TIME and column not in self.fields:
                raise SkewlessError(f"an expression says what the key is: leave out --key and --column; got {column!r}")

    def choose(self, columns: Sequence[str], given: Mapping[str, str], label: str) -> dict[str, list[str]]:
        """Take all columns; the time from the one that is named."""
        self.check(given)
        if not columns:
            raise SkewlessError(f"{label} has no columns: it is empty, or no row of it can be read")
        for column in given.values():
            if column not in columns:
                raise UnknownNameError(f"column of {label}", column, columns)
        return {"row": list(columns)} | ({TIME: [given[TIME]]} if TIME in given else {})

    def prepare(self, table: DataFrame) -> DataFrame:
        """Give the fields their types, and refuse expressions that Spark cannot make sense of."""
        if self.fields:
            read = sf.struct(*(sf.col(quoted(name)).alias(name) for name in self.fields))
            typed = {name: _typed(table, name, kind) for name, kind in self.fields.items()}
            table = table.withColumn(_READ, read).withColumns(typed)
        named = [(what, text, _computed(what, text)) for what, text in self._named()]
        raise_all([line for one in named for line in errors_of(partial(_require, table, *one))])
        return table

    @property
    def _values(self) -> dict[str, str]:
        """The expression of everything that combiners read."""
        read = dict.fromkeys(column for combiner in self.combiners.values() for column in combiner.columns)
        return {name: self.expressions.get(name, quoted(name)) for name in read}

    def _named(self) -> Iterator[tuple[str, str]]:
        """Give every expression with the place that it has in a pipeline file."""
        if self.where is not None:
            yield "sql.where", self.where
        yield "sql.key", self.key
        if self.time is not None:
            yield "sql.time", self.time
        for name, text in self._values.items():
            reader = next(own for own, combiner in self.combiners.items() if name in combiner.columns)
            yield f"sql.values.{name}" if name in self.expressions else f"combine.{reader}", text

    def _parse(self, _: Mapping[str, Column]) -> Parsed:
        faults: list[Fault] = []
        for name, kind in self.fields.items():
            read, typed = sf.col(f"{_READ}.{quoted(name)}"), sf.col(quoted(name))
            faults.append((read.isNotNull() & typed.isNull(), f"the field {name!r} is not of type {kind}"))
        named = [(what, text, _computed(what, text)) for what, text in self._named()]
        why = sf.coalesce(*(sf.when(_fails(own), f"cannot compute {what}: {text}") for what, text, own in named))
        whole = ", ".join(f"({own}\n)" for what, _, own in named if what != "sql.where")
        faults.append((_fails(self._of_kept(f"struct({whole})")), why))  # one try for a row that is in order
        if self.time is not None:
            faults.append((sf.expr(self._of_kept(f"{_timestamp(self.time)} IS NULL")), f"no time: {self.time}"))
        values = (sf.expr(text).alias(name) for name, text in self._values.items())
        return Parsed(
            columns=(sf.expr(self.key).alias("key"), *values),
            faults=tuple(faults),
            time=None if self.time is None else sf.expr(_timestamp(self.time)),
            keep=None if self.where is None else sf.expr(self.where),
        )

    def _of_kept(self, text: str) -> str:
        return text if self.where is None else f"CASE WHEN ({self.where}\n) THEN {text} END"


def plain_sql(combiner: Combiner) -> str | None:
    """Write a combiner as an aggregate of Spark's own; None for estimates, which no two ways of merging share.

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


def _typed(table: DataFrame, name: str, kind: str) -> Column:
    column, own = sf.col(quoted(name)), table.schema[name].dataType
    if kind.lower().startswith(_NESTED):
        return sf.from_json(column.cast("string"), kind)
    return as_time(column, own) if kind.lower() == "timestamp" else column.try_cast(kind)


def _require(table: DataFrame, what: str, text: str, computed: str) -> None:
    try:
        table.select(sf.expr(text))
        table.where(_fails(computed))  # where there is no place for an aggregate
    except (AnalysisException, ParseException) as error:
        raise SkewlessError(f"{what}: cannot make sense of {text!r}: {reason_of(error)}") from error


def _computed(what: str, text: str) -> str:
    return _timestamp(text) if what == "sql.time" else text


def _timestamp(text: str) -> str:
    return f"CAST(({text}\n) AS TIMESTAMP)"


def _fails(text: str) -> Column:
    """Say whether computing an expression raises an error.

    `try_to_binary` is the function of Spark's that turns any error of its argument into a null. The expression stands
    in a lambda, for otherwise Spark computes what it has in common with others beforehand, and outside of the try.
    """
    return sf.expr(f"try_to_binary(CAST(transform(array(0), skewless_ -> ({text}\n)) AS STRING), 'utf-8') IS NULL")
