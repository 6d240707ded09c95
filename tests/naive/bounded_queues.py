"""Naive twin of the closed loop: one event after the other, over plain lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class NaiveLoop:
    """Sources that wait for room in the queues of workers; tuple i of a stream is one of source i mod n_sources."""

    n_sources: int
    queue: int
    service: Sequence[int]
    emitted: dict[int, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)

    def run(self, workers: Sequence[int], arrivals: Sequence[int]) -> None:
        """Emit all tuples: always the one that is asked for first, of the lower source if several are."""
        own = [list(range(source, len(workers), self.n_sources)) for source in range(self.n_sources)]
        gone = [0] * self.n_sources  # tuples of each source that were emitted
        log: list[tuple[int, int]] = []  # source and time of each emission
        queues: list[list[int]] = [[] for _ in self.service]  # when the tuples of a worker are done
        while any(gone[source] < len(own[source]) for source in range(self.n_sources)):
            slowest = min(gone)
            asks = []
            for source in range(self.n_sources):
                if gone[source] == len(own[source]) or gone[source] >= slowest + self.queue:
                    continue
                number = own[source][gone[source]]
                before = max([self.emitted[earlier] for earlier in own[source][: gone[source]]], default=0)
                # It may take a tuple once every other source has emitted the one that is `queue` before it.
                needed = gone[source] - self.queue + 1
                let_go = max(
                    (time for other in range(self.n_sources) for time in self._times(log, other)[:needed])
                    if needed > 0
                    else [0],
                    default=0,
                )
                asks.append((max(before, let_go, arrivals[number] if arrivals else 0), source, number))
            asked, source, number = min(asks)
            worker = workers[number]
            ends = queues[worker]
            sent = max(asked, ends[-self.queue]) if len(ends) >= self.queue else asked
            ends.append(max(sent, ends[-1] if ends else 0) + self.service[worker])
            self.asked[number], self.emitted[number], self.done[number] = asked, sent, ends[-1]
            gone[source] += 1
            log.append((source, sent))

    @staticmethod
    def _times(log: Sequence[tuple[int, int]], source: int) -> list[int]:
        return [time for other, time in log if other == source]
