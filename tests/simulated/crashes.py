"""Histories that crash at every single operation in turn, and go on to the end: `make crashes SEEDS=0:1000`."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final

from simulated.disk import Crash, CrashPoint, Disk
from simulated.history import Answer, Begun, History, Query
from simulated.tried import TRIED, Tried, add, read
from skewless.errors import SkewlessError
from skewless.storage.file_system import FAILURES

_RESTART_S: Final = 3.0


@dataclass
class Tally:
    """How many crashes were tried, how many of them left a disk that no other had left, and which went wrong."""

    points: int = 0
    runs: int = 0
    failures: list[str] = field(default_factory=list)


def crash_points(disk: Disk) -> Iterator[CrashPoint]:
    """Return all ways to break off the attempt that a disk has just seen."""
    for number, (operation, _) in enumerate(disk.operations):
        for damage in ("task", "query", "power") if disk.kind == "local" else ("task", "query"):
            yield CrashPoint(number, "before", damage)
            if operation in {"save", "rename", "remove"}:
                yield CrashPoint(number, "middle", damage)


class Trial:
    """A history, the answer of a run in which nothing ever fails, and the disks from which it was reached."""

    def __init__(self, seed: int) -> None:
        self.history = History.of(seed)
        query = Query(self.history, self.history.empty_disk(fails=False))
        for batch in range(self.history.n_batches):
            query.run_batch(batch)
        self.answer: Answer = query.answer()
        self._right: set[object] = set()

    def crash_everywhere(self) -> Tally:
        """Crash at every operation in turn; each time restart, run to the end, and compare."""
        tally, undisturbed = Tally(), self.start()
        for batch in range(self.history.n_batches):
            probe, tasks = undisturbed.copy(), list[Begun]()
            self.attempt(probe, batch, None, tasks)
            starts = [len(task.disk.operations) for task in tasks]
            for point in crash_points(probe.disk):
                tally.points += 1
                before = tasks[: bisect_right(starts, point.operation)]  # the last one is the one that crashes
                failure = self.crash(undisturbed.copy(), batch, point, tally, before)
                if failure:
                    tally.failures.append(f"replay({self.history.seed}, {batch}, {point}): {failure}")
            failure = self.finish(undisturbed.copy(), batch, 0, tally)
            if failure:
                tally.failures.append(f"replay({self.history.seed}, {batch}, None): {failure}")
                break
            undisturbed.finish_batch(batch)
        return tally

    def start(self) -> Query:
        return Query(self.history, self.history.empty_disk())

    def crash(
        self, query: Query, batch: int, point: CrashPoint | None, tally: Tally, tasks: list[Begun] | None = None
    ) -> str:
        """Crash a micro-batch, restart, and run to the end; return what is wrong then."""
        if self.attempt(query, batch, point, tasks):
            return self.finish(query, batch + 1, 0, tally)
        query.disk.sleep(_RESTART_S)
        return self.finish(query, batch, 1, tally)

    def attempt(self, query: Query, batch: int, point: CrashPoint | None, tasks: list[Begun] | None = None) -> bool:
        """Run a micro-batch once, see `Query.run_batch`; return whether it came to its end."""
        try:
            query.run_batch(batch, 0, point, tasks)
        except (Crash, SkewlessError, *FAILURES):
            return False
        return True

    def finish(self, query: Query, batch: int, attempt: int, tally: Tally) -> str:
        """Run to the end from a micro-batch on; return what is wrong then."""
        passed = []
        tally.runs += 1
        try:
            for number in range(batch, self.history.n_batches):
                passed.append((number, attempt, query.disk.state()))
                if passed[-1] in self._right:  # what follows depends on the disk alone
                    tally.runs -= number == batch
                    break
                query.finish_batch(number, attempt)
                if query.outputs[number] != self.answer[0][number]:
                    return f"output of batch {number}: {query.outputs[number]}, not {self.answer[0][number]}"
                attempt = 0
            else:
                _, states, rejects = query.answer()
                if states != self.answer[1]:
                    return f"final state: {states}, not {self.answer[1]}"
                if rejects != self.answer[2]:
                    return f"rejects: {rejects}, not {self.answer[2]}"
        except (AssertionError, SkewlessError, *FAILURES) as error:
            return f"{type(error).__name__}: {error}"
        self._right.update(passed)
        return ""


def replay(seed: int, batch: int, point: CrashPoint | None) -> None:
    """Repeat one crash, the earlier micro-batches undisturbed; raise if the answer is wrong."""
    trial = Trial(seed)
    query = trial.start()
    for number in range(batch):
        query.finish_batch(number)
    failure = trial.crash(query, batch, point, Tally())
    assert not failure, f"{trial.history}: {failure}"


def main(seeds: str, file: str = str(TRIED)) -> int:
    """Try seeds `from:to`; those in the file are done, and counted there."""
    first, last = map(int, seeds.split(":"))
    start, points, wrong = monotonic(), 0, 0
    done = {seed for one in read(Path(file)) for seed in range(one.first, one.last + 1)}
    for seed in sorted({*range(first, last)} - done):
        tally = Trial(seed).crash_everywhere()
        for failure in tally.failures:
            print(f"wrong: {failure}\n  to repeat it: from simulated.crashes import *; {failure.partition(': ')[0]}")  # noqa: T201
        add(Path(file), Tried(seed, seed, tally.points, tally.runs, len(tally.failures)))
        points, wrong = points + tally.points, wrong + len(tally.failures)
        print(f"seed {seed}: {tally.points:,} crash points; {points:,} so far, {monotonic() - start:.0f} s", flush=True)  # noqa: T201
    ranges = read(Path(file))
    total = sum(one.points for one in ranges)
    print(f"{points:,} crash points, {wrong} wrong answers; with those of earlier runs {total:,} crash points")  # noqa: T201
    return 1 if any(one.wrong for one in ranges) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
