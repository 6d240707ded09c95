"""Samples that are collected where a query is built: one pass over the columns that matter, no exchange, no Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from pyspark.sql import DataFrame

from skewless.spark.physical_plan import PhysicalPlan, parse_plan

SAMPLE: Final = 0.02
"""Fraction of the rows that are counted where nobody says otherwise."""

NEARLY_ALL: Final = 0.5
"""Fraction of the rows from which on all of them can be taken."""

MOST_ROWS: Final = 1 << 22
"""Rows that a sample should have at most: some 100 MB."""

_LEAST_BYTES: Final = 8  # of a row, where Spark knows the size of an input only
_NODE: Final = re.compile(
    r"([ :+-]*).*\bStatistics\(sizeInBytes=([\d.E+]+) ([KMGTPE]?)i?B(?:, rowCount=([\d.E+]+))?", re.DOTALL
)
_UNITS: Final = " KMGTPE"
_CACHED: Final = "InMemoryTableScan"
_EXPLODES: Final = ("Generate ", "Expand ")
_EXPLODED: Final = 16  # rows that each row of the input is taken to have become: Spark does not know
_READ: Final = ("FileScan", "BatchScan", "Range", "LocalTableScan", "Project", "Filter", "ColumnarToRow", "Union")
_EXCHANGED: Final = ("Sort ", "Exchange hashpartitioning")
_JOIN: Final = re.compile(r"\w*Join\b")
_UNKNOWN: Final = 2.0**62  # Spark's size of what it knows nothing of


def sampled(df: DataFrame, sample: float, seed: int) -> DataFrame:
    """Return a sample of the rows; `to_table` collects it.

    Parameters
    ----------
    df : DataFrame
        The rows.
    sample : float
        Fraction of the rows; see `affordable`.
    seed : int
        Seed of the sample.
    """
    return df if sample == 1 else df.sample(sample, seed)


def affordable(inputs: Sequence[float], sample: float, wanted: int = 0, few: int = 0, most: int = MOST_ROWS) -> float:
    """Return the fraction of the rows to sample: what was asked for, or less of an input that is very large.

    The precision of a sample depends on its size, not on that of the input.

    Parameters
    ----------
    inputs : sequence of float
        The rows of each input, see `rows_of_inputs`.
    sample : float
        The fraction that was asked for.
    wanted : int
        Rows that the sample should have: of small inputs, more is sampled.
    few : int
        Rows of an input that are all sampled, which spares a second look at them.
    most : int
        Rows that the sample should have at most.

    >>> affordable([4e8], 0.02), affordable([1000.0], 0.02, wanted=100), affordable([1000.0, 0.0], 0.02, wanted=100)
    (0.01048576, 0.1, 0.02)
    """
    rows = max(inputs, default=0.0)
    if not rows:
        return sample
    if all(inputs) and rows <= few:
        return 1.0
    larger = wanted / rows if all(inputs) else 0.0
    return min(max(sample, larger if larger < NEARLY_ALL else 1.0), most / rows)


def is_read_with_ease(text: str) -> bool:
    """Whether rows come straight from files or from memory, so that reading some of them again costs little.

    Parameters
    ----------
    text : str
        What `DataFrame.explain(mode="cost")` prints.

    >>> is_read_with_ease('''== Physical Plan ==
    ... *(1) Filter isnotnull(a#1)
    ... +- InMemoryTableScan [a#1]
    ...       +- InMemoryRelation [a#1], StorageLevel(disk, memory)
    ...             +- Exchange RoundRobinPartitioning(4)''')
    True
    >>> is_read_with_ease('''== Physical Plan ==
    ... *(2) HashAggregate(keys=[a#1], functions=[])
    ... +- Exchange hashpartitioning(a#1, 200)''')
    False
    """
    plan = parse_plan(text)
    return bool(plan.nodes) and _is_read(plan, 0)


def are_sides_read_with_ease(text: str) -> bool:
    """Whether the same is true of both sides of a join that exchanges them.

    >>> are_sides_read_with_ease('''== Physical Plan ==
    ... *(3) SortMergeJoin [a#1], [a#2], Inner
    ... :- *(1) Sort [a#1 ASC NULLS FIRST], false, 0
    ... :  +- Exchange hashpartitioning(a#1, 200)
    ... :     +- FileScan parquet [a#1]
    ... +- *(2) Sort [a#2 ASC NULLS FIRST], false, 0
    ...    +- Exchange hashpartitioning(a#2, 200)
    ...       +- Range (0, 4, step=1, splits=1)''')
    True
    """
    plan = parse_plan(text)
    top = next((number for number, node in enumerate(plan.nodes) if _JOIN.match(node)), None)
    pending, sides = [] if top is None else plan.children(top), []
    while pending:
        node = pending.pop()
        if plan.nodes[node].startswith(_EXCHANGED):
            pending += plan.children(node)
        else:
            sides.append(_is_read(plan, node))
    return bool(sides) and all(sides)


def _is_read(plan: PhysicalPlan, top: int) -> bool:
    nodes = [top, *plan.below(top)]
    cached = {below for node in nodes if plan.nodes[node].startswith(_CACHED) for below in plan.below(node)}
    return all(plan.nodes[node].startswith((_CACHED, *_READ)) for node in nodes if node not in cached)


def rows_of_inputs(text: str) -> list[float]:
    """Return how many rows each input of a query has, or at most has; 0 where Spark does not know.

    If arrays are exploded, their length is guessed.

    Parameters
    ----------
    text : str
        What `DataFrame.explain(mode="cost")` prints.

    >>> rows_of_inputs('''== Optimized Logical Plan ==
    ... Join Inner, (a#1 = a#2), Statistics(sizeInBytes=9.9 PiB)
    ... :- Relation [a#1] parquet, Statistics(sizeInBytes=2.0 KiB)
    ... +- Range (0, 4, step=1, splits=Some(1)), Statistics(sizeInBytes=8.0 EiB, rowCount=40)''')
    [256.0, 40.0]
    """
    return _rows_of_leaves(_nodes(text))


def inputs_of_sides(text: str) -> tuple[list[float], list[float]]:
    """Return the same of each side of a join: of the first one that is printed; of all inputs, if there is none.

    >>> inputs_of_sides('''== Optimized Logical Plan ==
    ... Join Inner, (a#1 = a#2), Statistics(sizeInBytes=9.9 PiB)
    ... :- Relation [a#1] parquet, Statistics(sizeInBytes=2.0 KiB)
    ... +- Range (0, 4, step=1, splits=Some(1)), Statistics(sizeInBytes=8.0 EiB, rowCount=40)''')
    ([256.0], [40.0])
    """
    nodes = _nodes(text)
    top = next((number for number, node in enumerate(nodes) if _name(node).startswith("Join ")), None)
    below = [] if top is None else [*takewhile(lambda node: _depth(node) > _depth(nodes[top]), nodes[top + 1 :])]
    starts = [number for number, node in enumerate(below) if _depth(node) == _depth(below[0])]
    if len(starts) != len(("left", "right")):  # none is left, or names of columns break the lines
        return _rows_of_leaves(nodes), _rows_of_leaves(nodes)
    return _rows_of_leaves(below[: starts[1]]), _rows_of_leaves(below[starts[1] :])


def bytes_of(text: str) -> float:
    """Return how large Spark takes the result of a query to be.

    Parameters
    ----------
    text : str
        What `DataFrame.explain(mode="cost")` prints.

    >>> bytes_of('''== Optimized Logical Plan ==
    ... Filter (a#1 > 2), Statistics(sizeInBytes=2.5 KiB)
    ... +- Relation [a#1] parquet, Statistics(sizeInBytes=8.0 KiB)''')
    2560.0
    """
    nodes = _nodes(text)
    return _bytes(*nodes[0].groups()[1:3]) if nodes else _UNKNOWN


def _nodes(text: str) -> list[re.Match[str]]:
    plan = text.partition("== Optimized Logical Plan ==")[2].partition("== Physical Plan ==")[0]
    return [node for line in plan.splitlines() if (node := _NODE.match(line))]


def _depth(node: re.Match[str]) -> int:
    return len(node[1])


def _name(node: re.Match[str]) -> str:
    return node.string[node.end(1) :]


def _rows_of_leaves(nodes: Sequence[re.Match[str]]) -> list[float]:
    following = [*map(_depth, nodes[1:]), 0]
    leaves = [node for node, after in zip(nodes, following, strict=False) if after <= _depth(node)]
    exploded = _EXPLODED if any(_name(node).startswith(_EXPLODES) for node in nodes) else 1
    return [exploded * _rows(*node.groups()[1:]) for node in leaves]


def _rows(size: str, unit: str, rows: str | None) -> float:
    if rows is not None:
        return float(rows)
    n_bytes = _bytes(size, unit)
    return 0.0 if n_bytes > _UNKNOWN else n_bytes / _LEAST_BYTES


def _bytes(size: str, unit: str) -> float:
    return float(size) * float(1024 ** _UNITS.index(unit or " "))
