"""Combiners: aggregations whose partial states merge in any order. One file each, one contract (`base.py`)."""

from __future__ import annotations

from typing import Final

from skewless.combiners.approx_distinct import ApproxDistinct
from skewless.combiners.approx_quantile import ApproxQuantile
from skewless.combiners.approx_top_k import ApproxTopK
from skewless.combiners.base import Combiner
from skewless.combiners.count import Count
from skewless.combiners.custom import Accumulator, Custom
from skewless.combiners.extreme import Max, Min
from skewless.combiners.mean import Mean
from skewless.combiners.partials import Partials, group_rows
from skewless.combiners.sum import Sum
from skewless.combiners.variance import Variance
from skewless.combiners.vwap import Vwap

COMBINERS: Final[dict[str, type[Combiner]]] = {
    combiner.name: combiner
    for combiner in (Count, Sum, Min, Max, Mean, Variance, Vwap, ApproxDistinct, ApproxQuantile, ApproxTopK, Custom)
}
"""Every combiner by its name; `skewless.checks` checks them all."""

__all__ = [
    "COMBINERS",
    "Accumulator",
    "ApproxDistinct",
    "ApproxQuantile",
    "ApproxTopK",
    "Combiner",
    "Count",
    "Custom",
    "Max",
    "Mean",
    "Min",
    "Partials",
    "Sum",
    "Variance",
    "Vwap",
    "group_rows",
]
