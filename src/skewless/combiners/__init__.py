"""Combiners: aggregations whose partial states merge in any order. One each file, one contract (`base.py`)."""

from __future__ import annotations

from typing import Final

from skewless.combiners.base import Combiner
from skewless.combiners.count import Count
from skewless.combiners.custom import Accumulator, Custom
from skewless.combiners.distinct import Distinct
from skewless.combiners.extreme import Max, Min
from skewless.combiners.mean import Mean
from skewless.combiners.partials import Partials, group_rows
from skewless.combiners.quantile import Quantile
from skewless.combiners.sum import Sum
from skewless.combiners.top_k import TopK
from skewless.combiners.variance import Variance
from skewless.combiners.vwap import Vwap

COMBINERS: Final[dict[str, type[Combiner]]] = {
    combiner.name: combiner
    for combiner in (Count, Sum, Min, Max, Mean, Variance, Vwap, Distinct, Quantile, TopK, Custom)
}
"""Every combiner by its name. What stands here is checked by `skewless.checks`."""

__all__ = [
    "COMBINERS",
    "Accumulator",
    "Combiner",
    "Count",
    "Custom",
    "Distinct",
    "Max",
    "Mean",
    "Min",
    "Partials",
    "Quantile",
    "Sum",
    "TopK",
    "Variance",
    "Vwap",
    "group_rows",
]
