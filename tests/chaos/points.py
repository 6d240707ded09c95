"""The points at which a strike can happen: where rows and states enter and leave the Python of skewless."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chaos.strike import passing, striking
from skewless.salting import plan_task, planning_task


def install_in_workers() -> None:
    """Wrap what Python workers find by name; called before they are forked."""
    from skewless.spark import grouping_plan, merge, route, stateful, work

    places = [
        ("route", route, "_route", 1),
        ("work", work.Work, "__call__", 1),
        ("merge", merge, "merge_gathered", 1),
        ("merge", merge, "merge_group", 5),
        ("merge", merge, "unpack_results", 1),
        ("plan", grouping_plan.GroupingPlan, "__call__", 1),
        ("stateful", stateful.StatefulWork, "__call__", 1),
    ]
    for point, place, name, position in places:
        setattr(place, name, striking(point, getattr(place, name), position))


def install_in_driver() -> None:
    """Wrap what is sent to Python workers by value."""
    for task in (planning_task.Task, plan_task.PlanTask):
        task.__call__ = striking("plan", task.__call__, 1)  # type: ignore[method-assign]


def come(batches: Iterator[Any]) -> Iterator[Any]:
    """Return rows as they are, before the operator gets them."""
    return passing("come", batches)


def go(batches: Iterator[Any]) -> Iterator[Any]:
    """Return rows as they are, after the operator."""
    return passing("go", batches)
