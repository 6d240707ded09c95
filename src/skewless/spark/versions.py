"""Versions of Spark: what this one has, and what replaces it where it does not. Nothing else asks for versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import pyarrow as pa

from skewless.errors import ConfigurationError, SetupError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

OLDEST: Final = (3, 5)
NEWEST: Final = (5,)  # of which nothing is known yet
STREAMS_SINCE: Final = (4, 2)
"""The first version on which the tests of streams, and of `skewless run`, pass."""
GUARDS_SINCE: Final = (4, 1)
"""The first version that can run all consumers of a retried task again."""

_RANK: Final = "skewless_rank"
_ADVICE: Final = "install it with: pip install 'skewless[spark]'"


def version_of(text: str) -> tuple[int, ...]:
    """Return a version to compare with others.

    >>> version_of("4.3.0.dev1") >= (4, 3)
    True
    """
    return tuple(int(part) for part in text.split(".")[:2])


def require_pyspark(what: str = "skewless.spark", oldest: tuple[int, ...] = OLDEST) -> None:
    """Refuse to go on without a PySpark that has what something is built on."""
    needed = f"{what} needs PySpark {'.'.join(map(str, oldest))} or later, below {NEWEST[0]}"
    try:
        found = str(import_module("pyspark").__version__)
    except ImportError:
        raise SetupError(f"{needed}; there is none here", hint=_ADVICE) from None
    if not oldest <= version_of(found) < NEWEST:
        raise SetupError(f"{needed}; this is PySpark {found}", hint=_ADVICE)


def has_guards(spark: SparkSession) -> bool:
    """Whether Spark knows guards against retried tasks: an older one takes their settings, and ignores them."""
    return version_of(spark.version) >= GUARDS_SINCE


def is_dataframe(value: object) -> TypeGuard[DataFrame]:
    """Whether something is a DataFrame: those of Connect are of a class of their own before 4.0."""
    return _is_a("DataFrame", value)


def is_column(value: object) -> TypeGuard[Column]:
    """Whether something is a column, as above."""
    return _is_a("Column", value)


def _is_a(name: str, value: object) -> bool:
    return any(one.__name__ == name and one.__module__.startswith("pyspark.sql") for one in type(value).__mro__)


def collation_of(kind: Any) -> str:
    """Return how a string type compares: byte by byte, where Spark has no collations yet."""
    return str(getattr(kind, "collation", "UTF8_BINARY"))


def known_types(*names: str) -> tuple[type, ...]:
    """Return those of the types that this version has."""
    types = import_module("pyspark.sql.types")
    return tuple(getattr(types, name) for name in names if hasattr(types, name))


def to_arrow(schema: Any) -> Any:
    """Return a schema of Spark's in Arrow, with timestamps in UTC."""
    convert = import_module("pyspark.sql.pandas.types").to_arrow_schema
    in_utc = {"timezone": "UTC"} if "timezone" in signature(convert).parameters else {}  # the default, before 4.2
    return convert(schema, **in_utc)


def from_arrow(schema: pa.Schema) -> StructType:
    """Return a schema of Arrow's in Spark; timestamps without a zone stay so, which is the default from 4.2 on."""
    found: StructType = import_module("pyspark.sql.pandas.types").from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return found


def from_table(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return a small Arrow table as a DataFrame; before Spark 4.0 it goes row by row.

    Parameters
    ----------
    spark : SparkSession
        The session.
    table : pa.Table
        The rows.
    schema : StructType, optional
        The types of Spark's, where Arrow's do not say which.
    """
    if _has_arrow_tables():
        return spark.createDataFrame(table) if schema is None else spark.createDataFrame(table, schema)
    kinds = from_arrow(table.schema) if schema is None else schema
    rows = [tuple(row[name] for name in table.column_names) for row in _in_utc(table).to_pylist()]
    return spark.createDataFrame(rows, kinds)


def to_table(df: DataFrame) -> pa.Table:
    """Return the rows of a small DataFrame as an Arrow table; before Spark 4.0 a task writes it, as bytes."""
    if _has_arrow_tables():
        return df.toArrow()

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # sent by value
        for batch in batches:
            file = pa.BufferOutputStream()
            with pa.ipc.new_stream(file, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.RecordBatch.from_pydict({"batch": pa.array([file.getvalue().to_pybytes()], pa.binary())})

    numbered = df.toDF(*map(str, range(len(df.columns))))  # names may be odd
    found = numbered.mapInArrow(written, "batch binary").collect()
    batches = [pa.ipc.open_stream(bytes(row["batch"])).read_all() for row in found]
    return pa.concat_tables(batches or [to_arrow(df.schema).empty_table()]).rename_columns(df.columns)


def _has_arrow_tables() -> bool:
    return hasattr(import_module("pyspark.sql").DataFrame, "toArrow")


def _in_utc(table: pa.Table) -> pa.Table:
    """Return a table whose timestamps have a zone that Python knows."""

    def kind_of(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_list(kind):
            return pa.list_(kind_of(kind.value_type))
        return pa.timestamp(kind.unit, "UTC") if pa.types.is_timestamp(kind) and kind.tz else kind

    return table.cast(pa.schema([(field.name, kind_of(field.type)) for field in table.schema]))


def finds_several() -> bool:
    """Whether `max_by` and `min_by` find more than one row."""
    return "k" in signature(import_module("pyspark.sql.functions").max_by).parameters


def streams_may_be_null() -> bool:
    """Whether everything in the result of an aggregated stream may be null, to Spark."""
    return version_of(import_module("pyspark").__version__) >= (4, 3)


def with_column(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """Add a column to a batch, which those of PyArrow cannot do themselves before 17."""
    return pa.RecordBatch.from_arrays([*batch.columns, values], schema=batch.schema.append(pa.field(name, values.type)))


def plan_text(text: str) -> str:
    """Return the text of a physical plan with the names that operators have since 4.0."""
    return text.replace("PythonMapInArrow", "MapInArrow")


def has_aggregate(text: str) -> bool:
    """Whether this version has the function of an aggregate: KLL sketches came with 4.1."""
    return not text.startswith("kll_") or hasattr(import_module("pyspark.sql.functions"), text.partition("(")[0])


def largest(
    rows: DataFrame, group: str, order: Sequence[str], columns: Sequence[str], n: int
) -> tuple[DataFrame, Column]:
    """Return rows, and an aggregate of them by group: the columns of those n that are last in an order, as an array.

    Memory is bounded, however many rows a group has.
    """
    sf = import_module("pyspark.sql.functions")
    value, ordered = sf.struct(*columns), sf.struct(*order)
    if finds_several():
        return rows, sf.max_by(value, ordered, n)
    window = import_module("pyspark.sql").Window.partitionBy(group).orderBy(ordered.desc())
    ranked = rows.withColumn(_RANK, sf.row_number().over(window))
    return ranked, sf.collect_list(sf.when(sf.col(_RANK) <= n, value))


def require_feature(what: str, module: str, name: str, hint: str) -> Any:
    """Return something that newer versions of PySpark have; refuse where it is missing.

    Parameters
    ----------
    what : str
        What cannot be done without it.
    module, name : str
        Where it is.
    hint : str
        What to do instead.
    """
    owner, _, attribute = name.rpartition(".")
    found = import_module(module)
    try:
        return getattr(getattr(found, owner) if owner else found, attribute)
    except AttributeError:
        version = import_module("pyspark").__version__
        raise ConfigurationError(f"{what} needs a newer Spark than {version}, which has no {name}", hint=hint) from None
