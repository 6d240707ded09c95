"""State that moves, one event after another: tuples that arrive or are released, and barriers."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from naive.metrics import imbalance, variance


class Workers:
    """Workers that serve tuples by the owners of their substreams; table number b holds from barrier number b on."""

    def __init__(
        self,
        tables: Sequence[Sequence[int]],
        batch_ns: int,
        service: Sequence[int],
        *,
        state_s: float,
        move_ms: float,
        handoff: str,
    ) -> None:
        self.tables, self.batch_ns, self.service = tables, batch_ns, service
        self.state_s, self.move_ms, self.handoff = state_s, move_ms, handoff
        n = len(tables[0])
        self.owners = list(tables[0])
        self.counts = [0] * n
        self.ready, self.last_done = [0] * n, [0] * n
        self.free_at = [0] * len(service)
        self.served: list[tuple[int, int, int, int]] = []
        """(tuple, worker, begin, end), in the order of service."""
        self.held = self.pause_ns = 0
        self.moved: list[tuple[float, float]] = []
        """(state moved, all state), per adaptation."""
        self.variances: list[float] = []
        self.imbalances: list[float] = []

    def run(self, arrivals: Sequence[int], substreams: Sequence[int], next_arrival: int) -> None:
        """Serve all tuples. The last window is complete if the next tuple would come after its end."""
        # A barrier comes before whatever else happens at its time: its number is lower.
        events = [(time, number, True) for number, time in enumerate(arrivals)]
        events += [(time, -1, False) for time in range(self.batch_ns, arrivals[-1] + 1, self.batch_ns)]
        heapq.heapify(events)
        while events:
            now, number, arrives = heapq.heappop(events)
            if number < 0:
                self.barrier(now)
                continue
            substream = substreams[number]
            if arrives:
                self.counts[substream] += 1
                self.held += self.ready[substream] > now
            if self.ready[substream] > now:
                heapq.heappush(events, (self.ready[substream], number, False))
            else:
                self.serve(number, substream, now)
        if next_arrival >= (len(self.variances) + 1) * self.batch_ns:
            self.close_window()

    def serve(self, number: int, substream: int, now: int) -> None:
        worker = self.owners[substream]
        begin = max(now, self.free_at[worker])
        end = begin + self.service[worker]
        self.free_at[worker] = self.last_done[substream] = end
        self.served.append((number, worker, begin, end))

    def close_window(self) -> list[float]:
        loads = [0] * len(self.service)
        for substream, count in enumerate(self.counts):
            loads[self.owners[substream]] += count
        self.variances.append(variance(loads))
        self.imbalances.append(imbalance(loads))
        sizes = [count * (self.state_s * 1e9 / self.batch_ns) for count in self.counts]
        self.counts = [0] * len(self.counts)
        return sizes

    def barrier(self, now: int) -> None:
        sizes = self.close_window()
        table = self.tables[len(self.variances)]
        changed = [substream for substream, owner in enumerate(self.owners) if table[substream] != owner]
        self.owners = list(table)
        if changed:
            self.moved.append((sum(sizes[substream] for substream in changed), sum(sizes)))
        took = {substream: round(sizes[substream] * self.move_ms * 1e6) for substream in changed}
        if self.handoff == "barrier":
            for substream in changed:
                worker = table[substream]
                if took[substream]:
                    self.free_at[worker] = max(self.free_at[worker], now) + took[substream]
                    self.pause_ns += took[substream]
            return
        link = [now] * len(self.service)
        can_move = {substream: max(now, self.ready[substream], self.last_done[substream]) for substream in changed}
        for substream in sorted(changed, key=lambda substream: (can_move[substream], substream)):
            worker = table[substream]
            link[worker] = max(link[worker], can_move[substream]) + took[substream]
            self.ready[substream] = link[worker]
            self.pause_ns += link[worker] - now
        if self.handoff == "stop" and changed:  # all wait for the last of them
            resumed = max(self.ready[substream] for substream in changed)
            self.pause_ns += (resumed - now) * len(self.ready) - sum(self.ready[one] - now for one in changed)
            self.ready = [max(time, resumed) for time in self.ready]
