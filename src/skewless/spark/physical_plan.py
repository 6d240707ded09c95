"""The physical plan of a query as a tree, parsed from the text that `DataFrame.explain` prints."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from skewless.spark.versions import plan_text

_LINE: Final = re.compile(r"((?:[ :]  )*(?:[+:]- )?)(?:\*\(\d+\) )?!?(.*)")
_INDENT: Final = 3
_INITIAL: Final = "== Initial Plan"


@dataclass(frozen=True, kw_only=True)
class PhysicalPlan:
    """The nodes of a plan, those that run last first; a node is known by its number.

    Parameters
    ----------
    nodes : tuple of str
        Their texts; below a node come the nodes that it reads from.
    depths : tuple of int
        How far each is from the root.
    is_streaming : bool
        Whether it is the plan of a stream.
    """

    nodes: tuple[str, ...]
    depths: tuple[int, ...]
    is_streaming: bool = False

    def below(self, node: int) -> range:
        """Return all nodes that a node depends on."""
        depth = self.depths[node]
        end = next((n for n in range(node + 1, len(self.nodes)) if self.depths[n] <= depth), len(self.nodes))
        return range(node + 1, end)

    def children(self, node: int) -> list[int]:
        """Return the nodes that a node reads from."""
        return [other for other in self.below(node) if self.depths[other] == self.depths[node] + 1]

    def above(self, node: int) -> Iterator[int]:
        """Return the nodes that depend on a node, the nearest first."""
        depth = self.depths[node]
        for other in range(node - 1, -1, -1):
            if self.depths[other] < depth:
                depth = self.depths[other]
                yield other

    def texts(self, nodes: range) -> str:
        """Return the texts of nodes, one per line."""
        return "\n".join(self.nodes[node] for node in nodes)


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator of skewless in a plan.

    Parameters
    ----------
    name : str
        "agg", "apply", "stateful", "over", "join" or "repartition".
    way : str
        How rows get to their workers.
    findings : tuple of (str, str)
        What was found in the plan, each with its subject.
    problems : tuple of str
        What is not as it should be; empty if it survived the optimiser.
    """

    name: str
    way: str
    findings: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.name} by {self.way}: {'not intact' if self.problems else 'intact'}"]
        lines += [f"  {subject:9} {finding}" for subject, finding in self.findings]
        lines += [f"  {'problem':9} {problem}" for problem in self.problems]
        return "\n".join(lines)


def read_plan(df: DataFrame) -> PhysicalPlan:
    """Return the physical plan of a DataFrame."""
    return parse_plan(plan_text(printed_plan(df, "simple")), is_streaming=df.isStreaming)


def printed_plan(df: DataFrame, mode: str) -> str:
    """Return what `DataFrame.explain` prints: the only way to the plan that classic Spark and Spark Connect share."""
    text = io.StringIO()
    with redirect_stdout(text):
        df.explain(mode=mode)
    return text.getvalue()


def parse_plan(text: str, *, is_streaming: bool = False) -> PhysicalPlan:
    """Parse the text of `DataFrame.explain`; of an adaptive plan that has run, its final form.

    >>> plan = parse_plan("== Physical Plan ==\\n*(1) Project [id#0L]\\n+- *(1) Range (0, 9)")
    >>> plan.nodes, plan.depths
    (('Project [id#0L]', 'Range (0, 9)'), (0, 1))
    """
    found: list[tuple[int, str]] = []
    skipped = None  # the depth of an initial plan that another one has replaced
    for line in text.partition("== Physical Plan ==")[2].splitlines():
        prefix, node = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]  # it matches any line
        depth = len(prefix) // _INDENT
        if skipped is not None and depth >= skipped:
            continue
        skipped = depth if node.startswith(_INITIAL) else None
        # Only the first node has no indent: other lines without one continue a text with line breaks.
        if node and not node.startswith("==") and (depth or not found):
            found.append((depth, node))
    return PhysicalPlan(
        nodes=tuple(node for _, node in found), depths=tuple(depth for depth, _ in found), is_streaming=is_streaming
    )
