"""Explain: whether the split of hot keys survived Spark's optimiser, read from the physical plan."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

_ROUTE: Final = re.compile(r"\b(skewless_route\w*)\(")
_EXCHANGE: Final = re.compile(r"Exchange shufflepartitionidpassthrough\(.*\bskewless_worker\w*#.*, (\d+)\)")
_BY_KEY: Final = re.compile(r"Exchange hashpartitioning\(.*, (\d+)\)")
_WORK: Final = re.compile(r"MapInArrow (?:Stateful)?Work\(|FlatMapGroupsInPandas \[skewless_worker\w*#")
_MERGE: Final = re.compile(r"(\w*Aggregate|MapInArrow|FlatMapGroupsInPandasWithState)\b")
_GATHERED: Final = re.compile(r"MapInArrow merge_gathered\(")
_TREE: Final = re.compile(r"^[\s:+|-]*(?:\*\(\d+\) )?!?")


@dataclass(frozen=True, kw_only=True)
class Split:
    """What the physical plan of a query shows of its split; `str()` renders it as text.

    The split is present if there is an exchange by worker id, the routing function is evaluated once below each, and
    each has the work right above it, with its partitions left alone.
    """

    nodes: tuple[str, ...]
    """The nodes of the plan; those that run last come first."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong; empty if the split is present."""
        exchanges = self._exchanges
        if not exchanges:
            return ("there is no exchange by worker id: all rows of a key meet in one task, or nothing is exchanged",)
        problems = []
        for start, at, end in zip([-1, *exchanges], exchanges, [*exchanges[1:], len(self.nodes)], strict=False):
            routes = len(self._routes(at, end))
            if routes != 1:
                problems.append(f"the routing function is evaluated {routes} times below an exchange, not once")
            above = self.nodes[start + 1 : at][::-1]
            work = next((number for number, node in enumerate(above) if _WORK.match(node)), None)
            if work is None:
                problems.append("no work of skewless follows the exchange by worker id")
            elif any(node.startswith(("AQEShuffleRead", "Exchange", "Coalesce")) for node in above[:work]):
                problems.append("the partitions of the workers are changed before the work starts")
        return tuple(problems)

    @property
    def present(self) -> bool:
        """Whether hot keys are split as the grouping decides."""
        return not self.problems

    @property
    def _exchanges(self) -> list[int]:
        return [number for number, node in enumerate(self.nodes) if _EXCHANGE.match(node)]

    def _routes(self, begin: int, end: int) -> list[str]:
        nodes = [node for node in self.nodes[begin:end] if node.startswith("ArrowEvalPython")]
        return [name for node in nodes for name in _ROUTE.findall(node)]

    def __str__(self) -> str:
        if not self.present:
            return "\n".join(["split: missing", *(f"  {problem}" for problem in self.problems)])
        n = len(self._exchanges)
        lines = ["split: present" if n == 1 else f"split: present, {n} times; the last of them:"]
        at = self._exchanges[0]
        workers = _EXCHANGE.match(self.nodes[at])
        work = next(number for number in range(at, -1, -1) if _WORK.match(self.nodes[number]))
        lines.append(f"  route     {self._routes(at, len(self.nodes))[0]}, evaluated once per row")
        lines.append(f"  exchange  by worker id, {workers[1] if workers else '?'} workers")
        lines.append(f"  work      {self.nodes[work].split('(')[0].split(' [')[0]}, on the workers")
        lines.append(f"  merge     {self._merge(work)}")
        return "\n".join(lines)

    def _merge(self, work: int) -> str:
        if not self.nodes[work].startswith("MapInArrow Work"):
            return "none: each worker has whole groups"
        above = self.nodes[:work][::-1]
        gathered = next((node for node in above if _GATHERED.match(node)), None)  # Spark only gathers below it
        merge = next((match[1] for node in above if (match := _MERGE.match(gathered or node))), "not found")
        by_key = next((match[1] for node in above if (match := _BY_KEY.match(node))), None)
        how = "by Spark" if merge.endswith("Aggregate") else "in Python"
        where = "" if by_key is None else f", after an exchange of the partial results by key, {by_key} partitions"
        return f"{merge}, {how}{where}"


def read_split(df: DataFrame) -> Split:
    """Return the split in the physical plan of a result of `agg`, `apply` or `stateful`, or of a query on top of it."""
    text = io.StringIO()
    with redirect_stdout(text):  # the only way to the plan that classic Spark and Spark Connect share
        df.explain(mode="simple")
    return parse_plan(text.getvalue())


def explain(df: DataFrame) -> None:
    """Print whether the split of hot keys survived the optimiser, and where routing, work and merge happen.

    Parameters
    ----------
    df : DataFrame
        The result of `agg`, `apply` or `stateful`, or a query on top of it.
    """
    print(read_split(df))  # noqa: T201 - as DataFrame.explain does


def parse_plan(text: str) -> Split:
    """Parse the text of `DataFrame.explain`; of an adaptive plan that has run, its final form.

    >>> parse_plan("== Physical Plan ==\\n*(1) Project [id#0L]\\n+- *(1) Range (0, 9)").nodes
    ('Project [id#0L]', 'Range (0, 9)')
    """
    plan = text.partition("== Physical Plan ==")[2].partition("== Initial Plan ==")[0]
    nodes = (_TREE.sub("", line) for line in plan.splitlines())
    return Split(nodes=tuple(node for node in nodes if node and not node.startswith("==")))
