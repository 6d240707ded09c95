"""Aggregates that Spark combines itself: a plain `groupBy`, with no Python on executors and nothing to share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from skewless.combiners import Combiner
from skewless.errors import ColumnError
from skewless.spark.columns import arrow_schema, micros_of
from skewless.spark.merge import Windowing, quoted

_NATIVE: Final = "native_aggregate"
_VERBS: Final = ("create", "add", "merge", "extract")


def aggregate_natively(
    df: DataFrame, keys: Sequence[str], combiners: Mapping[str, Combiner], windowing: Windowing | None
) -> DataFrame | None:
    """Return the plain `groupBy` of Spark's own functions; None where a combiner has no such function.

    Parameters
    ----------
    df : DataFrame
        The rows; a stream has its watermark already.
    keys : sequence of str
        The key columns.
    combiners : mapping of str to Combiner
        What is computed, under which names.
    windowing : Windowing or None
        How time is cut.
    """
    texts = {name: native_text(df, combiner) for name, combiner in combiners.items()}
    aggregates = [sf.expr(text).alias(name) for name, text in texts.items() if text is not None]
    if len(aggregates) < len(combiners):
        return None
    by = [sf.col(quoted(key)) for key in keys]
    try:
        if windowing is not None:
            by.append(windowing.column(quoted(windowing.time)))
        return df.groupBy(*by).agg(*aggregates)
    except AnalysisException:
        for length in () if windowing is None else filter(None, (windowing.duration, windowing.slide)):
            micros_of(df.sparkSession, length)
        raise


def native_text(df: DataFrame, combiner: Combiner) -> str | None:
    """Return Spark's own function for a combiner; None where there is none."""
    if _is_changed(combiner):
        return None
    try:
        inputs = arrow_schema(StructType([df.schema[column] for column in combiner.columns])).types
    except ColumnError:  # the combiner does not know such a type
        return None
    combiner.result_type(inputs)
    return combiner.native_aggregate([quoted(column) for column in combiner.columns], inputs)


def _is_changed(combiner: Combiner) -> bool:
    """Whether a derived class does something else with rows or states than what the native function is for."""
    classes = type(combiner).__mro__
    origins = {name: next(n for n, one in enumerate(classes) if name in vars(one)) for name in (*_VERBS, _NATIVE)}
    return min(origins[verb] for verb in _VERBS) < origins[_NATIVE]
