"""Sums and means of decimals as Spark's `sum` and `avg` compute them, from sums and counts that were carried.

Both have types of their own. Those that Spark gives to `+` and `/` are too narrow for them: a sum of two decimals of 38
digits drops a digit of its fraction, and a quotient has more or fewer digits than a mean, so that it would be rounded
twice.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DecimalType, DoubleType

_WIDEST: Final = 38
_FRACTION_KEPT: Final = 6  # digits of a fraction that Spark never drops
_MOST_IN_A_DOUBLE: Final = 15  # digits; Spark averages decimals as doubles if their means have no more
_CHUNK: Final = 15  # digits that are divided at a time
_CHUNKS: Final = 3  # 38 digits, and 4 more that a mean has
_COUNT: Final = DecimalType(19, 0)  # that of a bigint


def sum_type(kind: DecimalType) -> DecimalType:
    """Return the type of Spark's sum of a decimal.

    >>> sum_type(DecimalType(30, 2))
    DecimalType(38,2)
    """
    return DecimalType(min(_WIDEST, kind.precision + 10), kind.scale)


def mean_type(kind: DecimalType) -> DecimalType:
    """Return the type of Spark's mean of a decimal.

    >>> mean_type(DecimalType(10, 2))
    DecimalType(14,6)
    """
    return DecimalType(min(_WIDEST, kind.precision + 4), min(_WIDEST, kind.scale + 4))


def summed_for_mean(value: Column, kind: DataType) -> tuple[Column, DataType]:
    """Return what Spark's `avg` sums, and its type.

    Parameters
    ----------
    value : Column
        The values.
    kind : DataType
        Their type. Of decimals that are narrow enough, Spark averages the digits as doubles, and so do we: the results
        differ from exact ones in the last digit.
    """
    if not isinstance(kind, DecimalType):
        return value.cast("double"), DoubleType()
    if _is_narrow(kind):
        return (value * sf.lit(Decimal(10**kind.scale))).cast("double"), DoubleType()
    return value, kind


def add(one: Column, other: Column, kind: DecimalType) -> Column:
    """Add two sums of a decimal; one that does not fit is null, or an error in ANSI mode.

    Parameters
    ----------
    one, other : Column
        The sums.
    kind : DecimalType
        The type of what they are sums of.
    """
    total = sum_type(kind)
    if total.precision < _WIDEST or total.scale <= _FRACTION_KEPT:
        return (one + other).cast(total)
    digits = _unscaled(one, total.scale) + _unscaled(other, total.scale)
    in_whole_numbers = _scaled(digits.cast("string"), total)
    if total.scale == _WIDEST:  # there is no narrower type
        return in_whole_numbers
    narrow = DecimalType(_WIDEST - 1, total.scale)
    both_fit = _is_below(one, narrow, total) & _is_below(other, narrow, total)
    return sf.when(both_fit, (one.cast(narrow) + other.cast(narrow)).cast(total)).otherwise(in_whole_numbers)


def mean(total: Column, count: Column, kind: DecimalType, *, may_round: bool) -> Column:
    """Divide a sum by a count, rounding half up, once; null where the count is null.

    Parameters
    ----------
    total : Column
        The sum of what `summed_for_mean` returned.
    count : Column
        How many there were.
    kind : DecimalType
        The type of the values.
    may_round : bool
        Whether Spark rounds quotients of decimals (`spark.sql.decimalOperations.allowPrecisionLoss`): their type can
        then be chosen by that of the dividend.
    """
    result = mean_type(kind)
    if _is_narrow(kind):
        return (total / count / sf.lit(10.0**kind.scale)).cast(result)
    if not may_round:
        return _long_division(total, count, kind)
    # A quotient has those of 38 digits behind the point that the dividend has not in front of it, and at least 6.
    scale = max(result.scale, _FRACTION_KEPT)
    shift = scale - result.scale
    dividend = DecimalType(_WIDEST - scale + kind.scale, kind.scale)
    quotient: Column = total.cast(dividend) / (count * 10**shift).cast(_COUNT)
    if shift:
        quotient = quotient.cast(DecimalType(_WIDEST - shift, scale)) * sf.lit(Decimal(10**shift))
    divided: Column = quotient.cast(result)
    known = sum_type(kind)
    if known.precision <= dividend.precision:
        return divided
    return sf.when(_is_below(total, dividend, known), divided).otherwise(_long_division(total, count, kind))


def _long_division(total: Column, count: Column, kind: DecimalType) -> Column:
    """Divide digit by digit, some at a time: it takes long, and is exact for any type."""
    result, divisor = mean_type(kind), count.cast(_COUNT)
    digits = sf.concat(
        sf.translate(sf.format_number(total, kind.scale), "-,.", ""),
        sf.lit("0" * (result.scale - kind.scale)),
    )
    chunks = sf.regexp_extract_all(sf.lpad(digits, _CHUNK * _CHUNKS, "0"), sf.lit(f"(.{{{_CHUNK}}})"), sf.lit(1))

    def divide(state: Column, chunk: Column) -> Column:
        dividend = state["rest"] * sf.lit(Decimal(10**_CHUNK)) + chunk.cast(DecimalType(_CHUNK, 0))
        quotient = sf.lpad(sf.call_function("div", dividend, divisor).cast("string"), _CHUNK, "0")
        return sf.struct(
            (dividend % divisor).cast(_COUNT).alias("rest"), sf.concat(state["digits"], quotient).alias("digits")
        )

    def rounded(state: Column) -> Column:
        is_up = (state["rest"] * 2 >= divisor).cast("int")
        whole = state["digits"].cast(DecimalType(_WIDEST, 0)) + is_up.cast(DecimalType(1, 0))
        return _scaled(sf.concat(sf.when(total < 0, "-").otherwise(""), whole.cast("string")), result)

    start = sf.struct(sf.lit(0).cast(_COUNT).alias("rest"), sf.lit("").alias("digits"))
    return sf.aggregate(chunks, start, divide, rounded)


def _is_narrow(kind: DecimalType) -> bool:
    return kind.precision + 4 <= _MOST_IN_A_DOUBLE


def _is_below(value: Column, narrow: DecimalType, kind: DecimalType) -> Column:
    """Whether a decimal of one type fits in another; by comparing, as Spark's `abs` and `-` round to 34 digits."""
    limit = f"1E{narrow.precision - narrow.scale}"
    return (value < sf.lit(limit).cast(kind)) & (value > sf.lit(f"-{limit}").cast(kind))


def _unscaled(value: Column, scale: int) -> Column:
    """Return the digits of a decimal as a whole number; a product would have more than 38 digits by its type."""
    plain = sf.translate(sf.format_number(value, scale), ",", "")  # where a cast to a string may give 1E-20
    return sf.concat(plain, sf.lit(f"E{scale}")).cast(DecimalType(_WIDEST, 0))


def _scaled(digits: Column, kind: DecimalType) -> Column:
    """Return the decimal with these digits, a text; null where there are too many, or an error in ANSI mode."""
    return sf.concat(digits, sf.lit(f"E-{kind.scale}")).cast(kind)
