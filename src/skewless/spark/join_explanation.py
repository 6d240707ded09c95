"""What a physical plan shows of joins: which are salted, by which plan, and which Spark does by itself, and why."""

from __future__ import annotations

import re
from typing import Final

from skewless.spark.physical_plan import Operator, PhysicalPlan

_SALTED: Final = re.compile(r"(\w+Join)\b.*\bskewless_left_salt: ([^#]*)#\d+.*\bskewless_right_salt: [^#]*#\d+")
_EXCHANGE: Final = re.compile(r"Exchange hashpartitioning\((.*), (\d+)\)")
_DRAWN: Final = re.compile(r"FLOOR\(\(rand\([^()]*\) \* 2\.147483648E9\)\)")
_JOIN: Final = re.compile(r"(?:\w*Join\w*|CartesianProduct)\b")


def salted_join(plan: PhysicalPlan, node: int) -> Operator | None:
    """Return the join of skewless that a node of a plan is; None if it is none."""
    matched = _SALTED.match(plan.nodes[node])
    if matched is None:
        return None
    sides = [plan.texts(range(side, plan.below(side).stop)) for side in plan.children(node)]
    problems = []
    partitions = set()
    for name, side in zip(("left", "right"), sides, strict=False):
        by_salt = [found[2] for line in side.splitlines() if (found := _EXCHANGE.match(line)) and "_salt: " in found[1]]
        partitions.update(by_salt)
        if len(by_salt) != 1:
            problems.append(f"the {name} side is exchanged {len(by_salt)} times by key and salt, not once")
        if len(_DRAWN.findall(side)) > 1:
            problems.append(f"the turn of a row of the {name} side is drawn more than once")
    is_random = any(_DRAWN.search(side) for side in sides)
    turns = "turns are random" if is_random else "turns follow row content"
    workers = " or ".join(sorted(partitions)) or "no"
    findings = (
        *(("plan", part) for part in matched[2].split("; ")),
        ("exchange", f"by key and salt, once a side, {workers} workers; {turns}"),
        ("join", f"{matched[1]} by key and salt"),
    )
    return Operator(name="join", way="planned salting", findings=findings, problems=tuple(problems))


def broadcast_join(plan: PhysicalPlan) -> str | None:
    """Return why a join is left to Spark, if its last one is a broadcast join."""
    if not _top(plan).startswith("Broadcast"):
        return None
    return "Spark broadcasts one side of the join, so that rows stay where they are and no key is hot"


def why_plain(plan: PhysicalPlan) -> str:
    """Return how to find out why `join` has left a join to Spark; empty if there is none."""
    if not _top(plan):
        return ""
    return "; join cuts hot keys from least_rows on: diagnose_join says which keys are hot, and what cuts would gain"


def _top(plan: PhysicalPlan) -> str:
    return next((text for text in plan.nodes if _JOIN.match(text)), "")
