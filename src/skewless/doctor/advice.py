"""What to write instead: one line for each operator and cause."""

from __future__ import annotations

import json
from typing import Final

from skewless.doctor.causes import (
    FEW_PARTITIONS,
    HOT_KEY,
    MEMORY,
    NULL_KEY,
    SLOW_HOST,
    STILL_RUNNING,
    UNEVEN_INPUT,
    UNSPLITTABLE,
)
from skewless.doctor.plan import AGGREGATE, GROUP_MAP, JOIN, RDD, SCAN, SORT, STATE, WINDOW, Operator

_HOW: Final = {
    "left outer join": ', "left"',
    "right outer join": ', "right"',
    "full outer join": ', "full"',
    "left semi join": ', "left_semi"',
    "left anti join": ', "left_anti"',
}


def advice_for(operator: Operator, cause: str, cores: int) -> str:
    """Return the line to write instead, or what to look at.

    Parameters
    ----------
    operator : Operator
        What the stage does.
    cause : str
        Why it waits.
    cores : int
        Tasks that can run at the same time.

    >>> advice_for(Operator(kind=JOIN, name="left outer join", keys=("customer",)), HOT_KEY, 32)
    'skewless.join(left, right, "customer", "left")'
    >>> advice_for(Operator(kind=WINDOW, name=WINDOW, keys=("k",), order=("ts",)), HOT_KEY, 32)
    'skewless.over(df, "k", order_by="ts").select(…)'
    """
    if cause in {HOT_KEY, NULL_KEY}:
        return _instead(operator, cause)
    more = f"df.repartition({2 * cores}) after reading"
    if cause == FEW_PARTITIONS and operator.partitions == 1:
        return "a key for the window or aggregate (partitionBy, groupBy), and no repartition(1)"
    if cause == FEW_PARTITIONS and operator.kind != SCAN:
        return f"spark.sql.shuffle.partitions, or df.repartition(n): at least {2 * cores}"
    return {
        FEW_PARTITIONS: f"{more}, and no coalesce before the costly work",
        UNSPLITTABLE: f"{more}; or write Parquet, or smaller files, instead of one that cannot be split",
        UNEVEN_INPUT: f"{more}, or files of even size",
        MEMORY: "more memory per core: spark.executor.memory, or fewer spark.executor.cores",
        STILL_RUNNING: "wait for its end, or look at it in Spark's UI",
        SLOW_HOST: "look at that host (disk, other jobs), or set spark.speculation=true",
    }.get(cause, "look at what these rows cost; spark.speculation=true if the host was busy")


def _instead(operator: Operator, cause: str) -> str:
    """Return the call that has no hot key."""
    keys = ", ".join(map(_literal, operator.keys)) or '"key"'
    if operator.kind == JOIN:
        on = keys if len(operator.keys) < 2 else f"[{keys}]"
        remark = ": rows without a key are spread" if cause == NULL_KEY else ""
        return f"skewless.join(left, right, {on}{_HOW.get(operator.name, '')}){remark}"
    order = ", ".join(map(_literal, operator.order)) or '"time"'
    order = f"[{order}]" if len(operator.order) > 1 else order
    call = {
        WINDOW: f"skewless.over(df, {keys}, order_by={order}).select(…)",
        GROUP_MAP: f"skewless.group(df, {keys}).agg(Custom(…)) if partial results can be merged, else .apply(…)",
        STATE: f"skewless.group(df, {keys}, ledger=…).agg(…), or .stateful(…)",
        AGGREGATE: f'skewless.group(df, {keys}, grouping="even").agg(…)',
        SORT: f"df.orderBy({keys}, …) with another column that tells these rows apart, or no order at all",
        RDD: "reduceByKey or aggregateByKey instead of groupByKey, or skewless.group(df, key).agg(…)",
    }.get(operator.kind, f"skewless.repartition(df, {keys})")
    return f"df.dropna(subset=[{keys}]) first, if null is no key; or {call}" if cause == NULL_KEY else call


def _literal(name: str) -> str:
    r"""Return a name as Python reads it: people copy advice, and logs are written by others.

    >>> _literal('a"); print("b')
    '"a\\"); print(\\"b"'
    """
    return json.dumps(name, ensure_ascii=False)
