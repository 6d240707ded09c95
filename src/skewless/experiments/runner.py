"""Runs experiments: steps in parallel over the cores, each kept as soon as it is done, tables when all of them are."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from time import perf_counter
from typing import TYPE_CHECKING, Any

from skewless.experiments import load_experiment
from skewless.experiments.base import SIMULATED, SPARK, Preset, Row, Rows
from skewless.experiments.results import Results, provenance_of

if TYPE_CHECKING:  # PySpark is an extra, and slow to import
    from pyspark.sql import SparkSession

Progress = Callable[[str, int, int], None]
"""Is told the name of an experiment, how many of its steps are done, and how many there are."""


@dataclass(frozen=True)
class _Step:
    """One point of a sweep."""

    experiment: str
    point: Mapping[str, Any]
    key: str


def run_simulated(
    names: Sequence[str], preset: Preset, results: Results, *, jobs: int = 1, progress: Progress | None = None
) -> dict[str, Rows]:
    """Run the simulated part of experiments; give the rows of each, and write its table when its last step is done."""
    plans = {name: _plan(name, preset, results) for name in names}
    tracker = _Tracker(plans, preset, results, SIMULATED, progress)
    missing = {step.key: step for plan in plans.values() for step in plan if not tracker.take(step)}
    results.prepare()
    with _pool(min(jobs, len(missing))) as run_all:
        for step, rows, seconds in run_all(list(missing.values())):
            results.save_point(step.key, rows, seconds)
            tracker.add(step.key, rows, seconds)
    return tracker.finished


def run_on_spark(
    names: Sequence[str], preset: Preset, results: Results, spark: SparkSession, *, progress: Progress | None = None
) -> dict[str, Rows]:
    """Run the part on Spark, of those experiments that have one, step by step."""
    able = {name: on_spark for name in names if (on_spark := load_experiment(name).on_spark) is not None}
    plans = {name: _plan(name, preset, results, SPARK) for name in able}
    tracker = _Tracker(plans, preset, results, SPARK, progress)
    results.prepare()
    for step in {step.key: step for plan in plans.values() for step in plan if not tracker.take(step)}.values():
        begin = perf_counter()
        rows = Rows({**row, "engine": SPARK} for row in able[step.experiment].run(spark, **step.point))
        seconds = perf_counter() - begin
        results.save_point(step.key, rows, seconds)
        tracker.add(step.key, rows, seconds)
    return tracker.finished


def _plan(name: str, preset: Preset, results: Results, engine: str = SIMULATED) -> list[_Step]:
    experiment = load_experiment(name)
    sweep = experiment.on_spark if engine == SPARK and experiment.on_spark is not None else experiment
    return [_Step(name, point, results.key(sweep.run, point, engine)) for point in sweep.points(preset)]


def _run(step: _Step) -> tuple[_Step, Rows, float]:
    """Run one step, in this process or another."""
    begin = perf_counter()
    rows = Rows({**row, "engine": SIMULATED} for row in load_experiment(step.experiment).run(**step.point))
    return step, rows, perf_counter() - begin


@contextmanager
def _pool(jobs: int) -> Iterator[Callable[[Sequence[_Step]], Iterator[tuple[_Step, Rows, float]]]]:
    if jobs <= 1:
        yield lambda steps: map(_run, steps)
        return
    others = active_children()
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))

    def run_all(steps: Sequence[_Step]) -> Iterator[tuple[_Step, Rows, float]]:
        with _deaf_to_interrupts():  # processes start here; Ctrl-C in a terminal goes to them as well
            futures = [pool.submit(_run, step) for step in steps]
        return (future.result() for future in as_completed(futures))

    try:
        yield run_all
    except BaseException:
        for process in set(active_children()).difference(others):
            process.terminate()  # instead of waiting for the steps that they are at
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that start meanwhile never hear of Ctrl-C: this one does, afterwards, and ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Tracker:
    """Collects rows until an experiment has all of its steps, and writes its table then."""

    def __init__(
        self, plans: Mapping[str, list[_Step]], preset: Preset, results: Results, engine: str, progress: Progress | None
    ) -> None:
        self._plans, self._preset, self._results, self._engine = plans, preset, results, engine
        self._progress = progress or (lambda _name, _done, _total: None)
        self._rows: dict[str, Rows] = {}
        self._seconds: dict[str, float] = {}
        self.finished: dict[str, Rows] = {}

    def take(self, step: _Step) -> bool:
        """Take the rows of a step that was done before, if it was."""
        if step.key in self._rows:
            return True
        kept = self._results.load_point(step.key)
        if kept is not None:
            self.add(step.key, *kept)
        return kept is not None

    def add(self, key: str, rows: Sequence[Row], seconds: float) -> None:
        """Take the rows of a step; several experiments may share it."""
        self._rows[key] = Rows(rows)
        self._seconds.setdefault(key, seconds)
        for name, plan in self._plans.items():
            if name in self.finished or not any(step.key == key for step in plan):
                continue
            done = sum(step.key in self._rows for step in plan)
            self._progress(name, done, len(plan))
            if done == len(plan):
                self._finish(name, plan)

    def _finish(self, name: str, plan: Sequence[_Step]) -> None:
        rows = Rows(row for step in plan for row in self._rows[step.key])
        seconds = sum(self._seconds[step.key] for step in plan)
        about = provenance_of(load_experiment(name), name, self._preset, self._engine, seconds, len(plan))
        self._results.save_table(name, self._preset, self._engine, rows, about)
        self.finished[name] = rows
