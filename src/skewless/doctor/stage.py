"""The tasks of a stage while it runs, and the statistics that remain of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

MOST_TASKS: Final = 50_000
"""Tasks of a stage that are kept; of larger stages these are a random sample, with the longest task."""


class Task(NamedTuple):
    """A task that has succeeded, or is still running: then rows, bytes and CPU time are unknown, and -1."""

    duration_ms: int
    rows: int
    bytes: int
    cpu_ms: int
    partition: int
    host: str
    executor: str


@dataclass(frozen=True, kw_only=True)
class StageStatistics:
    """What is known of a stage after its end.

    Parameters
    ----------
    stage, attempt : int
        Its numbers in Spark's UI.
    name : str
        Its call site.
    tasks : int
        Tasks that have succeeded.
    planned : int
        Tasks that the stage has.
    wall_s : float
        From the start of its first task to the end of its last.
    cores : float
        Tasks that could run at the same time, on average.
    lost_s : float
        How much shorter it would have been, had no core been idle.
    idle_s : float
        Seconds that cores were idle while it ran, summed over cores.
    median, longest : Task
        The median of each number; the task that took longest.
    sample : tuple of Task
        Its tasks; of a large stage a sample.
    spilled : int
        Bytes written to disk for want of memory.
    gc_share : float
        Share of their time that tasks spent on collecting garbage.
    shuffled : int
        Bytes read from exchanges.
    read : int
        Bytes read from files.
    failed : int
        Attempts at tasks that have failed or were killed.
    """

    stage: int
    attempt: int
    name: str
    tasks: int
    planned: int
    wall_s: float
    cores: float
    lost_s: float
    idle_s: float
    median: Task
    longest: Task
    sample: tuple[Task, ...]
    spilled: int
    gc_share: float
    shuffled: int
    read: int
    failed: int

    @property
    def lost(self) -> float:
        """The share of the stage lost to waiting, from 0 to 1."""
        return self.lost_s / self.wall_s if self.wall_s else 0.0


@dataclass
class Stage:
    """A stage that is running.

    Parameters
    ----------
    number, attempt : int
        Its numbers in Spark's UI.
    """

    number: int
    attempt: int
    name: str = ""
    planned: int = 0
    execution: int | None = None
    rdds: tuple[str, ...] = ()
    values: dict[int, int] = field(default_factory=dict)
    began: tuple[int, float, float] | None = None
    """Launch of its first task, and the busy and possible core-milliseconds of the application until then."""
    last_ms: int = 0
    _running: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    _tasks: list[Task] = field(default_factory=list)
    _seen: int = 0
    _longest: Task | None = None
    _spilled: int = 0
    _gc_ms: int = 0
    _run_ms: int = 0
    _shuffled: int = 0
    _read: int = 0
    _failed: int = 0
    _chance: random.Random = field(default_factory=lambda: random.Random(0))

    def describe(self, info: Mapping[str, Any]) -> None:
        """Take over what an event says about the stage."""
        self.name = str(info.get("Stage Name", ""))
        self.planned = int(info.get("Number of Tasks", 0))
        self.rdds = tuple(str(rdd.get("Name", "")) for rdd in info.get("RDD Info") or ())[:100]
        self._note(info)

    def _note(self, info: Mapping[str, Any]) -> None:
        """Take over metrics, which name the operators."""
        for one in info.get("Accumulables") or ():
            value = str(one.get("Value", ""))
            self.values[int(one.get("ID", -1))] = int(value) if value.isdigit() else 0

    def start(self, info: Mapping[str, Any]) -> None:
        """Note a task that has started."""
        self._running[int(info["Task ID"])] = info

    def stop(self, now_ms: int) -> None:
        """Count the tasks that still run at the end of the log, with the time that they have taken so far."""
        for info in self._running.values():
            self.last_ms = max(self.last_ms, now_ms)
            self._keep(_task(info, now_ms, rows=-1, size=-1, cpu_ms=-1))

    def add(self, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
        """Count a task that has ended."""
        finished = int(info.get("Finish Time", 0))
        self.last_ms = max(self.last_ms, finished)
        self._running.pop(int(info.get("Task ID", -1)), None)
        if info.get("Failed") or info.get("Killed"):
            self._failed += 1
            return
        if not self.values:  # the stage itself reports them at its end
            self._note(info)
        shuffle, source = metrics.get("Shuffle Read Metrics") or {}, metrics.get("Input Metrics") or {}
        shuffled = int(shuffle.get("Remote Bytes Read", 0)) + int(shuffle.get("Local Bytes Read", 0))
        read = int(source.get("Bytes Read", 0))
        rows = int(shuffle.get("Total Records Read", 0)) + int(source.get("Records Read", 0))
        self._shuffled += shuffled
        self._read += read
        self._spilled += int(metrics.get("Disk Bytes Spilled", 0))
        self._gc_ms += int(metrics.get("JVM GC Time", 0))
        self._run_ms += int(metrics.get("Executor Run Time", 0))
        cpu_ms = int(metrics.get("Executor CPU Time", 0)) // 1_000_000
        self._keep(_task(info, finished, rows, shuffled + read, cpu_ms))

    def _keep(self, task: Task) -> None:
        if self._longest is None or task.duration_ms > self._longest.duration_ms:
            self._longest = task
        self._seen += 1
        if len(self._tasks) < MOST_TASKS:
            self._tasks.append(task)
        elif (place := self._chance.randrange(self._seen)) < MOST_TASKS:
            self._tasks[place] = task

    def statistics(self, busy_ms: float, possible_ms: float) -> StageStatistics | None:
        """Return what remains of the stage; None if no task has succeeded.

        Parameters
        ----------
        busy_ms, possible_ms : float
            Core-milliseconds that the application has used, and could have used, until the end of the stage.
        """
        if self._longest is None or self.began is None:
            return None
        first_ms, busy_before, possible_before = self.began
        wall_ms = max(self.last_ms - first_ms, 1)
        possible = max(possible_ms - possible_before, 0.0)
        idle = min(max(possible - (busy_ms - busy_before), 0.0), possible)
        numbers = np.array([task[:4] for task in self._tasks], dtype=np.int64)
        duration_ms, rows, size, cpu_ms = (int(value) for value in np.median(numbers, axis=0))
        median = Task(duration_ms, rows, size, cpu_ms, partition=-1, host="", executor="")
        return StageStatistics(
            stage=self.number,
            attempt=self.attempt,
            name=self.name,
            tasks=self._seen,
            planned=self.planned,
            wall_s=wall_ms / 1_000,
            cores=possible / wall_ms,
            lost_s=wall_ms * idle / possible / 1_000 if possible else 0.0,
            idle_s=idle / 1_000,
            median=median,
            longest=self._longest,
            sample=(*self._tasks,),
            spilled=self._spilled,
            gc_share=self._gc_ms / self._run_ms if self._run_ms else 0.0,
            shuffled=self._shuffled,
            read=self._read,
            failed=self._failed,
        )


def _task(info: Mapping[str, Any], finished_ms: int, rows: int, size: int, cpu_ms: int) -> Task:
    return Task(
        duration_ms=max(0, finished_ms - int(info.get("Launch Time", 0))),
        rows=rows,
        bytes=size,
        cpu_ms=cpu_ms,
        partition=int(info.get("Partition ID", info.get("Index", 0))),
        host=str(info.get("Host", "")),
        executor=str(info.get("Executor ID", "")),
    )
