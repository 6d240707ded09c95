"""What surrounds a task that is simulated: its disk, its clock, its micro-batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from simulated.memory import Recorded
from skewless.spark import grouping_plan, route, stateful, work
from skewless.storage import batch_directory, state_store


class _Clock:
    """The module `time`, at a standstill."""

    @staticmethod
    def perf_counter() -> float:
        return 0.0

    @staticmethod
    def time_ns() -> int:
        return 0


class _Name:
    def __init__(self, name: str) -> None:
        self.hex = name


@contextmanager
def simulated(keep: int, disk: Recorded, batch: int, worker: int = 0) -> Iterator[None]:
    """Let everything run on a disk, and in a micro-batch, that are simulated, where states are kept a while."""
    replaced = (
        (batch_directory, "open_files", lambda uri: (disk, uri)),
        (batch_directory, "sleep", disk.sleep),
        (batch_directory, "uuid4", lambda: _Name(disk.temporary_name())),
        (state_store, "uuid4", lambda: _Name(disk.new_name(f"/{batch:012}/worker-{worker}-"))),
        (state_store, "KEEP", keep),
        (stateful, "KEEP", keep),
        (stateful, "time", _Clock),
        (work, "time", _Clock),
        (route, "micro_batch", lambda: batch),
        (grouping_plan, "micro_batch", lambda: batch),
    )
    real = [vars(module)[name] for module, name, _ in replaced]
    logging.disable(logging.CRITICAL)
    try:
        for module, name, value in replaced:  # not `patch`, which would take longer than many a task
            vars(module)[name] = value
        yield
    finally:
        for (module, name, _), value in zip(replaced, real, strict=True):
            vars(module)[name] = value
        logging.disable(logging.NOTSET)
