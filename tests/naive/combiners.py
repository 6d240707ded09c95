"""The combiners by their definitions: plain Python over a list of values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final

WIDE: Final = Context(prec=100)
"""In which no digit of a decimal of Spark's is lost."""


def values_of(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def count(values: Iterable[Any]) -> int:
    return len(values_of(values))


def total(values: Iterable[Any]) -> Any:
    present = values_of(values)
    if not present:
        return None
    return math.fsum(present) if isinstance(present[0], float) and all(map(math.isfinite, present)) else sum(present)


def _nan_last(value: Any) -> tuple[bool, Any]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


def minimum(values: Iterable[Any]) -> Any:
    return min(values_of(values), key=_nan_last, default=None)


def maximum(values: Iterable[Any]) -> Any:
    return max(values_of(values), key=_nan_last, default=None)


def mean(values: Iterable[Any]) -> float | None:
    present = [float(value) for value in values_of(values)]
    return total(present) / len(present) if present else None


def mean_of_decimals(values: Iterable[Any], precision: int, scale: int) -> Decimal | None:
    """Divide whole numbers of units as Spark does: to 38 digits behind the point first, then to those of the result."""
    units = [int(value.scaleb(scale, WIDE)) for value in values_of(values)]
    if not units:
        return None
    if precision <= 11:
        return rounded(Fraction(str(sum(units) / len(units) / 10**scale)), scale + 4)
    digits = min(38, scale + 4)
    return rounded(Fraction(rounded(Fraction(sum(units), len(units) * 10**scale), 38)), digits)


def rounded(value: Fraction, scale: int) -> Decimal:
    """Round half up, away from zero."""
    units = int(abs(value) * 10**scale + Fraction(1, 2))
    return Decimal(units if value >= 0 else -units).scaleb(-scale, WIDE)


def variance(values: Iterable[Any], ddof: int) -> float | None:
    present = [Fraction(value) for value in values_of(values)]
    if len(present) <= ddof:
        return None
    centre = sum(present) / len(present)
    return float(sum((value - centre) ** 2 for value in present) / (len(present) - ddof))


def vwap(trades: Iterable[tuple[Any, Any]]) -> float | None:
    turnover, volume = 0.0, 0.0
    for price, size in trades:
        if price is not None and size is not None:
            turnover += float(price) * float(size)
            volume += float(size)
    return turnover / volume if volume else None


def distinct(values: Iterable[Any]) -> int:
    """Count as Spark's sketches do: the empty string is no value."""
    return len({"nan" if value != value else value for value in values_of(values)} - {""})  # noqa: PLR0124


def quantile(values: Iterable[Any], fraction: float) -> Any:
    """Nearest rank: the least value that at least this share of all values does not exceed."""
    present = sorted(value for value in values_of(values) if not math.isnan(value))
    if not present:
        return None
    rank = max(1, math.ceil(Fraction(fraction) * len(present)))
    return present[rank - 1]


def top_k(values: Iterable[Any], k: int) -> list[dict[str, Any]]:
    ranked = sorted(Counter(values_of(values)).items(), key=lambda pair: (-pair[1], _bytes(pair[0])))
    return [{"item": item, "count": times} for item, times in ranked[:k]]


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def group_rows(keys: Sequence[Sequence[Any]], n_rows: int) -> tuple[list[int], list[int]]:
    """Number keys with a dictionary, in the order in which they come."""
    seen: dict[Hashable, int] = {}
    first, groups = [], []
    for row in range(n_rows):
        key = tuple(_canonical(column[row]) for column in keys)
        if key not in seen:
            seen[key] = len(seen)
            first.append(row)
        groups.append(seen[key])
    return groups, first


def _canonical(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(_canonical(field) for field in value.values())
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value + 0.0)
    if isinstance(value, bytes):
        return value
    return (type(value).__name__, str(value) if isinstance(value, Decimal) else value)
