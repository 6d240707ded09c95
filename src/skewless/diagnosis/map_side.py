"""Which aggregates Spark combines on the map side, where skew costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skewless.combiners import Combiner
from skewless.errors import UnknownNameError

# fmt: off
# Spark reduces these before the exchange to a state of bounded size, so that a hot key is one row per map task. A
# distinct count is dealt out by key and value first.
_COMBINED: Final = frozenset((
    "count", "count_if", "count_distinct", "approx_count_distinct",
    "sum", "try_sum", "avg", "mean", "try_avg", "min", "max", "min_by", "max_by",
    "variance", "var_samp", "var_pop", "std", "stddev", "stddev_samp", "stddev_pop", "skewness", "kurtosis",
    "corr", "covar_samp", "covar_pop", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2",
    "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    "first", "first_value", "last", "last_value", "any_value",
    "any", "some", "every", "bool_or", "bool_and", "bit_or", "bit_and", "bit_xor",
    "approx_percentile", "percentile_approx", "histogram_numeric", "count_min_sketch",
    "approx_top_k", "approx_top_k_accumulate", "approx_top_k_combine",
    "bitmap_construct_agg", "bitmap_or_agg", "bitmap_and_agg",
    "hll_sketch_agg", "hll_union_agg", "theta_sketch_agg", "theta_union_agg", "theta_intersection_agg",
    "kll_sketch_agg_bigint", "kll_sketch_agg_float", "kll_sketch_agg_double",
    "kll_merge_agg_bigint", "kll_merge_agg_float", "kll_merge_agg_double",
    "approx_distinct", "approx_quantile", "vwap",  # of skewless; Spark has equivalents
))
# These keep every value of a key, or are Python functions that need all rows of a key in one task.
_NOT_COMBINED: Final = frozenset((
    "collect_list", "collect_set", "collect_union", "array_agg", "listagg", "string_agg",
    "median", "mode", "percentile", "percentile_cont", "percentile_disc",
    "applyinpandas", "applyinarrow", "transformwithstate", "pandas_udf", "custom",
))
_COMMON: Final = ("count", "sum", "min", "max", "avg", "approx_count_distinct", "collect_list", "median", "custom")
# fmt: on


def combined_on_the_map_side(aggregates: Sequence[str | Combiner]) -> bool:
    """Whether Spark itself reduces all of these before the exchange; `custom` is any Python function.

    >>> combined_on_the_map_side(["count(*)", "Sum"]), combined_on_the_map_side(["count", "collect_list"])
    (True, False)
    >>> combined_on_the_map_side([])
    False
    """
    names = [aggregate_name(aggregate) for aggregate in aggregates]
    for name in names:
        if name not in _COMBINED | _NOT_COMBINED:
            raise UnknownNameError("aggregate", name, _COMMON, _COMBINED | _NOT_COMBINED, subject="aggregates")
    return bool(names) and all(name in _COMBINED for name in names)


def aggregate_name(aggregate: str | Combiner) -> str:
    """Return the bare name of an aggregate.

    >>> aggregate_name("COUNT(DISTINCT user)"), aggregate_name("count(*)")
    ('count_distinct', 'count')
    """
    if isinstance(aggregate, Combiner):
        return aggregate.name
    name, _, arguments = aggregate.strip().lower().replace("-", "_").partition("(")
    return "count_distinct" if name == "count" and arguments.startswith("distinct ") else name.strip()
