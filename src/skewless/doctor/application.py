"""An application as its events describe it: stages that have ended, one by one, with the operator behind each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from skewless.doctor.events import Event
from skewless.doctor.plan import RDD, Fragment, Operator, fragments_of
from skewless.doctor.stage import Stage, StageStatistics

_MOST_OPEN: Final = 1_000
"""Stages, and plans, that are kept at the same time; events that end them may be missing."""


@dataclass
class Usage:
    """Cores that an application has and uses, summed over time."""

    cores: int = 0
    running: int = 0
    most: int = 0
    peak: int = 0
    at_ms: int = 0
    busy_ms: float = 0.0
    possible_ms: float = 0.0
    _of: dict[str, int] = field(default_factory=dict)

    def advance(self, now_ms: int) -> None:
        """Let time pass; events are in order, except for some milliseconds."""
        if now_ms > self.at_ms:
            passed = now_ms - self.at_ms if self.at_ms else 0
            self.busy_ms += passed * self.running
            self.possible_ms += passed * max(self.cores or self.most, self.running)
            self.at_ms = now_ms

    def start(self, number: int) -> None:
        """A task starts (1) or ends (-1)."""
        self.running = max(0, self.running + number)
        self.most = max(self.most, self.running)

    def executor(self, name: str, cores: int) -> None:
        """An executor has come with its cores, or gone (0)."""
        self.cores += cores - self._of.pop(name, 0)
        self.peak = max(self.peak, self.cores)
        if cores:
            self._of[name] = cores


@dataclass
class Application:
    """Follows the events of one application.

    Parameters
    ----------
    ended : callable
        Called with each stage that has ended, and a function that returns what it did: few stages are worth a look.
    """

    ended: Callable[[StageStatistics, Callable[[], Operator]], None]
    name: str = ""
    identifier: str = ""
    version: str = ""
    began_ms: int = 0
    ended_ms: int | None = None
    stages: int = 0
    tasks: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    _open: dict[tuple[int, int], Stage] = field(default_factory=dict)
    _executions: dict[int, int] = field(default_factory=dict)
    _plans: dict[int, list[Fragment]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it ran, or has run so far."""
        return max(0, (self.ended_ms or self.usage.at_ms) - self.began_ms) / 1_000 if self.began_ms else 0.0

    @property
    def slots_per_core(self) -> int:
        """Cores that one task takes."""
        text = self.settings.get("spark.task.cpus", "1")
        return max(1, int(text)) if text.isdigit() else 1

    def follow(self, events: Iterable[tuple[str, Event]]) -> None:
        """Take all events, then the stages that never ended."""
        for kind, event in events:
            with suppress(TypeError, ValueError, KeyError, AttributeError):  # an event of another shape says nothing
                self.HANDLERS[kind](self, event)
        for stage in [*self._open.values()]:
            stage.stop(self.usage.at_ms)
            self._close(stage)

    def _start_log(self, event: Event) -> None:
        self.version = str(event.get("Spark Version", ""))

    def _start(self, event: Event) -> None:
        self.name, self.identifier = str(event.get("App Name", "")), str(event.get("App ID") or "")
        self.began_ms = int(event["Timestamp"])
        self.usage.advance(self.began_ms)

    def _end(self, event: Event) -> None:
        self.ended_ms = int(event["Timestamp"])

    def _environment(self, event: Event) -> None:
        found = event.get("Spark Properties") or {}
        pairs = found.items() if isinstance(found, Mapping) else found
        self.settings |= {str(name): str(value) for name, value in pairs}

    def _add_executor(self, event: Event) -> None:
        self.usage.advance(int(event["Timestamp"]))
        cores = int((event.get("Executor Info") or {}).get("Total Cores", 0))
        self.usage.executor(str(event["Executor ID"]), cores // self.slots_per_core)

    def _remove_executor(self, event: Event) -> None:
        self.usage.advance(int(event["Timestamp"]))
        self.usage.executor(str(event["Executor ID"]), 0)

    def _start_job(self, event: Event) -> None:
        execution = (event.get("Properties") or {}).get("spark.sql.execution.id")
        if execution is not None:
            self._executions |= dict.fromkeys(map(int, event.get("Stage IDs") or ()), int(execution))
            _shrink(self._executions, 100 * _MOST_OPEN)

    def _submit_stage(self, event: Event) -> None:
        info = event["Stage Info"]
        stage = self._stage(int(info["Stage ID"]), int(info["Stage Attempt ID"]))
        stage.describe(info)
        execution = (event.get("Properties") or {}).get("spark.sql.execution.id")
        stage.execution = int(execution) if execution is not None else self._executions.get(stage.number)

    def _start_task(self, event: Event) -> None:
        launched = int(event["Task Info"]["Launch Time"])
        self.usage.advance(launched)
        stage = self._stage(int(event["Stage ID"]), int(event["Stage Attempt ID"]))
        if stage.began is None:
            stage.began = launched, self.usage.busy_ms, self.usage.possible_ms
        stage.start(event["Task Info"])
        self.usage.start(1)

    def _end_task(self, event: Event) -> None:
        info = event["Task Info"]
        self.usage.advance(int(info["Finish Time"]))
        self.usage.start(-1)
        self.tasks += 1
        stage = self._stage(int(event["Stage ID"]), int(event["Stage Attempt ID"]))
        if stage.began is None:  # its beginning is not in the log
            stage.began = int(info["Launch Time"]), self.usage.busy_ms, self.usage.possible_ms
        reason = (event.get("Task End Reason") or {}).get("Reason", "Success")
        stage.add(info if reason == "Success" else {**info, "Failed": True}, event.get("Task Metrics") or {})

    def _complete_stage(self, event: Event) -> None:
        info = event["Stage Info"]
        stage = self._stage(int(info["Stage ID"]), int(info["Stage Attempt ID"]))
        stage.describe(info)
        self._close(stage)

    def _start_query(self, event: Event) -> None:
        query = int(event["executionId"])
        self._plans[query] = fragments_of(event["sparkPlanInfo"], self._plans.get(query, ()))
        _shrink(self._plans, _MOST_OPEN)

    def _end_query(self, event: Event) -> None:
        self._plans.pop(int(event["executionId"]), None)

    def _stage(self, number: int, attempt: int) -> Stage:
        if (number, attempt) not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._close(next(iter(self._open.values())))
            self._open[number, attempt] = Stage(number, attempt, execution=self._executions.get(number))
        return self._open[number, attempt]

    def _close(self, stage: Stage) -> None:
        del self._open[stage.number, stage.attempt]
        self._executions.pop(stage.number, None)
        self.usage.advance(stage.last_ms)
        statistics = stage.statistics(self.usage.busy_ms, self.usage.possible_ms)
        if statistics is not None:
            self.stages += 1
            self.ended(statistics, partial(self._operator, stage))

    def _operator(self, stage: Stage) -> Operator:
        plans = [self._plans[stage.execution]] if stage.execution in self._plans else self._plans.values()
        reported = stage.values.keys()
        fragments: Iterator[Fragment] = (fragment for plan in plans for fragment in plan)
        best = max(fragments, key=lambda fragment: len(fragment.metrics & reported), default=None)
        if best is None or not best.metrics & reported:
            return Operator(kind=RDD, name=RDD, node=next(iter(stage.rdds), ""))
        return best.operator(stage.values)

    HANDLERS: ClassVar[dict[str, Callable[[Application, Event], None]]] = {
        "SparkListenerLogStart": _start_log,
        "SparkListenerApplicationStart": _start,
        "SparkListenerApplicationEnd": _end,
        "SparkListenerEnvironmentUpdate": _environment,
        "SparkListenerExecutorAdded": _add_executor,
        "SparkListenerExecutorRemoved": _remove_executor,
        "SparkListenerJobStart": _start_job,
        "SparkListenerStageSubmitted": _submit_stage,
        "SparkListenerTaskStart": _start_task,
        "SparkListenerTaskEnd": _end_task,
        "SparkListenerStageCompleted": _complete_stage,
        "SparkListenerSQLExecutionStart": _start_query,
        "SparkListenerSQLAdaptiveExecutionUpdate": _start_query,
        "SparkListenerSQLExecutionEnd": _end_query,
    }
    """What each event of interest changes."""


def _shrink(kept: dict[int, Any], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]
