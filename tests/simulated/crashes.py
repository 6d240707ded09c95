"""Histories that crash at every single operation in turn, and go on to the end: `make crashes SEEDS=0:1000`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from simulated.disk import Crash, CrashPoint, Disk
from simulated.history import Answer, History, Query
from skewless.errors import SkewlessError
from skewless.storage.file_system import FAILURES


@dataclass
class Tally:
    """What came of a seed."""

    points: int = 0
    runs: int = 0
    failures: list[str] = field(default_factory=list)


def expected(history: History) -> Answer:
    """Return the answer of a run in which nothing ever fails."""
    query = Query(history, history.empty_disk(fails=False))
    for batch in range(history.n_batches):
        query.run_batch(batch)
    return query.answer()


def crash_points(disk: Disk) -> Iterator[CrashPoint]:
    """Return all ways to break off the attempt that a disk has just seen."""
    for number, operation in enumerate(disk.operations):
        for damage in ("task", "query", "power") if disk.kind == "local" else ("task", "query"):
            yield CrashPoint(number, "before", damage)  # type: ignore[arg-type]
            if operation.startswith(("save", "rename", "remove")):
                yield CrashPoint(number, "middle", damage)  # type: ignore[arg-type]


def try_seed(seed: int) -> Tally:
    """Crash at every operation of a history, in turn; each time restart, run to the end, and compare."""
    history, tally = History.of(seed), Tally()
    answer = expected(history)
    undisturbed = Query(history, history.empty_disk())
    for batch in range(history.n_batches):
        before = undisturbed.copy()
        _finish(tally, undisturbed, batch, answer, None)
        if tally.failures:
            break
        probe = before.copy()
        _attempt(probe, batch, None)
        recovered: set[object] = set()
        for point in list(crash_points(probe.disk)):
            tally.points += 1
            query = before.copy()
            if not _attempt(query, batch, point):
                state = query.disk.state()
                if state in recovered:  # what follows depends on the disk alone
                    continue
                recovered.add(state)
                query.disk.sleep(3.0)
                _finish(tally, query, batch, answer, point, attempt=1)
            else:
                _finish(tally, query, batch + 1, answer, point)
    return tally


def replay(seed: int, batch: int, point: CrashPoint | None) -> None:
    """Repeat one crash; raise if the answer is not that of an undisturbed run."""
    history, tally = History.of(seed), Tally()
    answer = expected(history)
    query = Query(history, history.empty_disk())
    for number in range(batch):
        query.finish_batch(number)
    done = point is not None and _attempt(query, batch, point)
    query.disk.sleep(0.0 if done else 3.0)
    _finish(tally, query, batch + done, answer, point, attempt=0 if done or point is None else 1)
    assert not tally.failures, tally.failures[0]


def _attempt(query: Query, batch: int, point: CrashPoint | None) -> bool:
    """Run a micro-batch once; return whether it came to its end."""
    try:
        query.run_batch(batch, 0, point)
    except (Crash, SkewlessError, *FAILURES):
        return False
    return True


def _finish(
    tally: Tally, query: Query, batch: int, answer: Answer, point: CrashPoint | None, attempt: int = 0
) -> None:
    """Run to the end, and compare."""
    tally.runs += 1
    history, rest = query.history, query if point is not None else query.copy()
    failure = ""
    try:
        for number in range(batch, history.n_batches):
            rest.finish_batch(number, attempt if number == batch else 0)
        found = rest.answer()
    except AssertionError as error:
        failure = str(error)
    except SkewlessError as error:
        failure = f"the final state cannot be read: {error}"
    else:
        for what, right, wrong in zip(("output", "state", "rejects"), answer, found, strict=True):
            if right != wrong:
                failure = f"{what}: expected {right}, got {wrong}"
                break
    if point is None and not failure:
        query.finish_batch(batch)
    if failure:
        arguments = f"{history.seed}, {batch}, {point}"
        tally.failures.append(f"seed {history.seed}, {history.grouping.name} on {history.kind}: replay({arguments}): {failure}")
