"""The doctor: reads the event logs of Spark applications, and reports the stages that waited for one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from skewless.doctor.advice import advice_for
from skewless.doctor.application import Application
from skewless.doctor.causes import LEAST_LOST, Cause, find_cause
from skewless.doctor.events import Reading
from skewless.doctor.log_files import EventLog, find_logs
from skewless.doctor.plan import Operator
from skewless.doctor.stage import StageStatistics
from skewless.errors import InputError
from skewless.masking import without_secrets
from skewless.wording import many

LEAST_SECONDS: Final = 1.0
"""Seconds that stages must have lost together to be reported."""
_MOST_FINDINGS: Final = 1_000


@dataclass(kw_only=True)
class Finding:
    """Stages of one call site, with one operator, that waited for the same reason; numbers are of the worst of them.

    Parameters
    ----------
    stage : int
        The worst stage, by its number in Spark's UI.
    stages : int
        How many there were: more than one in loops, and in the micro-batches of a stream.
    name : str
        Their call site.
    operator, node : str
        What they do, and Spark's name of it.
    keys : list of str
        The columns by which their rows were exchanged.
    cause, evidence : str
        Why they waited, and what speaks for it.
    advice : str
        What to write instead.
    tasks : int
        Tasks of the stage.
    longest_s, median_s : float
        Seconds of the longest task, and of the median.
    longest_rows, median_rows, longest_bytes, median_bytes : int
        What these tasks read: the longest, and the median of all.
    spilled : int
        Bytes written to disk for want of memory.
    lost : float
        Share of the stage lost to waiting, from 0 to 1.
    lost_s : float
        Wall time that all these stages lost, in seconds.
    idle_core_hours : float
        Core-hours idle while all these stages ran.
    """

    stage: int
    stages: int
    name: str
    operator: str
    node: str
    keys: list[str]
    cause: str
    evidence: str
    advice: str
    tasks: int
    longest_s: float
    median_s: float
    longest_rows: int
    median_rows: int
    longest_bytes: int
    median_bytes: int
    spilled: int
    lost: float
    lost_s: float
    idle_core_hours: float


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What was found in one application.

    Parameters
    ----------
    log : str
        Where its event log is.
    application, name, version : str
        Identifier and name of the application, and the version of Spark.
    seconds : float
        How long it ran.
    finished : bool
        Whether it has ended; if not, it is running, or its log is cut off.
    stages, tasks : int
        What there was.
    cores : int
        Most tasks that could run at the same time.
    findings : list of Finding
        Stages with a problem, the most expensive first.
    remarks : list of str
        What could not be read.
    """

    log: str
    application: str
    name: str
    version: str
    seconds: float
    finished: bool
    stages: int
    tasks: int
    cores: int
    findings: list[Finding]
    remarks: list[str]

    @property
    def readable(self) -> bool:
        """Whether it is an event log at all: in a folder may be other files."""
        return bool(self.application or self.version or self.stages)

    @property
    def lost_s(self) -> float:
        """Wall time that all findings have lost, in seconds."""
        return sum(finding.lost_s for finding in self.findings)

    @property
    def lost(self) -> float:
        """The share of the application's time that was lost, from 0 to 1."""
        return min(1.0, self.lost_s / self.seconds) if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "lost_s": self.lost_s, "lost": self.lost}


def examine(paths: Sequence[str], least_s: float = LEAST_SECONDS) -> Iterator[Examination]:
    """Examine event logs, one application after the other.

    Parameters
    ----------
    paths : sequence of str
        Files and folders; local, or any URI that `pyarrow.fs` opens.
    least_s : float
        Seconds that stages must have lost together to be reported.
    """
    logs = [log for path in paths for log in find_logs(path)]  # a path that is wrong is found before hours of reading
    foreign = 0
    for log in logs:
        one = _examine_or_remark(log, least_s)
        foreign += not one.readable
        yield one
    if foreign == len(logs) > 0:  # or a check in CI would pass for ever
        where = ", ".join(map(without_secrets, paths))
        raise InputError(f"no event log of Spark in {where}: {many(foreign, 'other file')}")


def _examine_or_remark(log: EventLog, least_s: float) -> Examination:
    try:
        return examine_log(log, least_s)
    except InputError as error:
        if log.named:
            raise
        return Examination(
            log=log.label, application="", name="", version="", seconds=0.0, finished=False, stages=0, tasks=0, cores=0,
            findings=[], remarks=[str(error)],
        )  # fmt: skip


def examine_log(log: EventLog, least_s: float = LEAST_SECONDS) -> Examination:
    """Examine the event log of one application.

    Parameters
    ----------
    log : EventLog
        Where it is.
    least_s : float
        As in `examine`.
    """
    found = _Found()
    application = Application(found.add)
    found.application = application
    reading = Reading(log, frozenset(Application.HANDLERS))
    application.follow(reading)
    remarks = reading.remarks
    if application.ended_ms is None:
        remarks = ["the application has not ended, or its log is cut off", *remarks]
    ranked = sorted(found.believed(application.seconds), key=lambda finding: (-finding.lost_s, finding.stage))
    return Examination(
        log=log.label,
        application=application.identifier,
        name=application.name,
        version=application.version,
        seconds=application.seconds,
        finished=application.ended_ms is not None,
        stages=application.stages,
        tasks=application.tasks,
        cores=application.usage.peak or application.usage.most,
        findings=[finding for finding in ranked if finding.lost_s >= least_s],
        remarks=remarks,
    )


@dataclass
class _Found:
    """Collects findings, in bounded memory: a stream has no end of stages."""

    findings: dict[tuple[object, ...], Finding] = field(default_factory=dict)
    causes: dict[tuple[object, ...], Cause] = field(default_factory=dict)
    application: Application | None = None

    def believed(self, seconds: float) -> Iterator[Finding]:
        """Return the findings that are more than noise in an application that ran so long."""
        for key, finding in self.findings.items():
            if self.causes[key].believed(finding.lost_s, finding.lost_s / seconds if seconds else 0.0):
                yield finding

    def add(self, stage: StageStatistics, operator_of: Callable[[], Operator]) -> None:
        if stage.lost < LEAST_LOST:
            return
        operator = operator_of()
        settings = self.application.settings if self.application is not None else {}
        cause = find_cause(stage, operator, settings)
        if cause is None:
            return
        key = (stage.name, operator.name, operator.keys, cause.name, cause.least_s)
        self.causes.setdefault(key, cause)
        new, old = _finding(stage, operator, cause), self.findings.get(key)
        if old is not None:
            worst = new if new.lost_s > old.lost_s / old.stages else old
            worst.stages, worst.spilled = old.stages + 1, old.spilled + new.spilled
            worst.lost_s, worst.idle_core_hours = old.lost_s + new.lost_s, old.idle_core_hours + new.idle_core_hours
            new = worst
        self.findings[key] = new
        if len(self.findings) > _MOST_FINDINGS:
            ranked = sorted(self.findings, key=lambda one: self.findings[one].lost_s)
            for cheap in ranked[: _MOST_FINDINGS // 2]:
                del self.findings[cheap], self.causes[cheap]


def _finding(stage: StageStatistics, operator: Operator, cause: Cause) -> Finding:
    longest, median = stage.longest, stage.median
    return Finding(
        stage=stage.stage,
        stages=1,
        name=stage.name,
        operator=operator.name,
        node=operator.node,
        keys=list(operator.keys),
        cause=cause.name,
        evidence=cause.evidence,
        advice=advice_for(operator, cause.name, max(1, round(stage.cores))),
        tasks=stage.tasks,
        longest_s=longest.duration_ms / 1_000,
        median_s=median.duration_ms / 1_000,
        longest_rows=longest.rows,
        median_rows=median.rows,
        longest_bytes=longest.bytes,
        median_bytes=median.bytes,
        spilled=stage.spilled,
        lost=stage.lost,
        lost_s=stage.lost_s,
        idle_core_hours=stage.idle_s / 3_600,
    )
