"""Runs experiments: steps in parallel over the cores, each stored when it is done, a table when all of them are."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from threading import current_thread, main_thread
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from skewless.experiments import load_experiment
from skewless.experiments.base import SIMULATED, SPARK, Experiment, OnSpark, Point, Preset
from skewless.experiments.provenance import provenance_of
from skewless.experiments.results import Results
from skewless.experiments.rows import Row, Rows

if TYPE_CHECKING:  # PySpark is an extra, and slow to import
    from pyspark.sql import SparkSession

Progress = Callable[[str, int, int], None]
"""Receives the name of an experiment, how many of its steps are done, and how many there are."""


@dataclass(frozen=True)
class _Step:
    """One point of a sweep."""

    experiment: str
    point: Point
    key: str


_Done = tuple[_Step, Rows, float]
"""A step, its rows, and the seconds that it took."""


def run_simulated(
    names: Sequence[str], preset: Preset, results: Results, *, jobs: int = 1, progress: Progress | None = None
) -> dict[str, Rows]:
    """Run experiments in virtual time; return the rows of each, and write its table when its last step is done."""
    sweeps = {name: load_experiment(name) for name in names}
    tables = _Tables(sweeps, preset, results, SIMULATED, progress)
    missing = tables.load_stored()
    with _pool(min(jobs, len(missing))) as run_all:
        for done in run_all(missing):
            tables.store(*done)
    return tables.finished


def run_on_spark(
    names: Sequence[str], preset: Preset, results: Results, spark: SparkSession, *, progress: Progress | None = None
) -> dict[str, Rows]:
    """Run those experiments on Spark that can, step by step; return the rows of each."""
    sweeps = {name: on_spark for name in names if (on_spark := load_experiment(name).on_spark) is not None}
    tables = _Tables(sweeps, preset, results, SPARK, progress)
    for step in tables.load_stored():
        start = perf_counter()
        rows = Rows({**row, "engine": SPARK} for row in sweeps[step.experiment].run(spark, **step.point))
        tables.store(step, rows, perf_counter() - start)
    return tables.finished


def _run(step: _Step) -> _Done:
    """Run one step in virtual time, in this process or another; its seconds are those of the processor."""
    start = process_time()
    rows = Rows({**row, "engine": SIMULATED} for row in load_experiment(step.experiment).run(**step.point))
    return step, rows, process_time() - start


@contextmanager
def _pool(jobs: int) -> Iterator[Callable[[Sequence[_Step]], Iterator[_Done]]]:
    if jobs <= 1:
        yield lambda steps: map(_run, steps)
        return
    others = active_children()
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))

    def run_all(steps: Sequence[_Step]) -> Iterator[_Done]:
        with _interrupts_delayed():  # processes start here, and Ctrl-C in a terminal reaches them as well
            futures = [pool.submit(_run, step) for step in steps]
        return (future.result() for future in as_completed(futures))

    try:
        yield run_all
    except BaseException:
        for process in set(active_children()).difference(others):
            process.terminate()  # instead of waiting for the steps in progress
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_delayed() -> Iterator[None]:
    """Start processes that ignore Ctrl-C: this process receives it afterwards, and terminates them.

    They inherit the mask of the thread that starts them. That is not enough for this process: the signal then reaches
    one of its other threads, and Python raises in the main one, between two writes to a process that reads them.
    """
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        asked = True

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    main = current_thread() is main_thread()  # the only one that may set a handler, and that is interrupted
    handler = signal.signal(signal.SIGINT, ask) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if asked:
            signal.raise_signal(signal.SIGINT)


class _Tables:
    """Collects rows until an experiment has all of its steps, then writes its table.

    Experiments may share steps: those with the same key.
    """

    def __init__(
        self,
        sweeps: Mapping[str, Experiment | OnSpark],
        preset: Preset,
        results: Results,
        engine: str,
        progress: Progress | None,
    ) -> None:
        self._steps = {
            name: [_Step(name, point, results.key(sweep.run, point, engine)) for point in sweep.points(preset)]
            for name, sweep in sweeps.items()
        }
        self._preset = preset
        self._results = results
        self._engine = engine
        self._progress = progress or (lambda _name, _done, _total: None)
        self._done: dict[str, tuple[Sequence[Row], float]] = {}
        self.finished: dict[str, Rows] = {}

    def load_stored(self) -> list[_Step]:
        """Load the steps that an earlier run has stored; return those that are missing."""
        self._results.prepare()
        distinct = {step.key: step for steps in self._steps.values() for step in steps}
        missing = []
        for key, step in distinct.items():
            stored = self._results.load_point(key)
            if stored is None:
                missing.append(step)
            else:
                self._add(key, *stored)
        return missing

    def store(self, step: _Step, rows: Rows, seconds: float) -> None:
        """Store the rows of a step that has just been run."""
        self._results.save_point(step.key, rows, seconds)
        self._add(step.key, rows, seconds)

    def _add(self, key: str, rows: Rows, seconds: float) -> None:
        self._done[key] = rows, seconds
        for name, steps in self._steps.items():
            if all(step.key != key for step in steps):
                continue
            n_done = sum(step.key in self._done for step in steps)
            self._progress(name, n_done, len(steps))
            if n_done == len(steps):
                self._finish(name, steps)

    def _finish(self, name: str, steps: Sequence[_Step]) -> None:
        rows = Rows(row for step in steps for row in self._done[step.key][0])
        seconds = sum(self._done[step.key][1] for step in steps)
        about = provenance_of(load_experiment(name), name, self._preset, self._engine, seconds, len(steps))
        self._results.save_table(name, self._preset, self._engine, rows, about)
        self.finished[name] = rows
