"""Algorithm 1 of the stateful load balancing paper with sets and lists, all loads summed up anew each time."""

from __future__ import annotations

from collections.abc import Sequence

from naive.substream import largest_first, worker_loads


def engaged(active: set[int], loads: Sequence[int], n_active: int) -> set[int]:
    in_use = largest_first(loads, sorted(active))
    if len(in_use) > n_active:
        return set(in_use[:n_active])
    idle = [worker for worker in range(len(loads)) if worker not in active]
    return active | set(idle[: n_active - len(in_use)])


def rebalanced(
    table: Sequence[int],
    histogram: Sequence[int],
    active: set[int],
    n_workers: int,
    *,
    upper: float,
    lower: float,
    n_active: int,
) -> tuple[list[int], set[int]]:
    table = list(table)
    active = engaged(active, worker_loads(histogram, table, n_workers), n_active)
    mean = sum(histogram) / n_active
    centre = max((upper + lower) / 2, mean)
    queue = []
    overloaded = {worker for worker in active if worker_loads(histogram, table, n_workers)[worker] > mean}
    underloaded = active - overloaded
    kept: list[int | None] = list(table)
    for worker in sorted(overloaded):
        while True:
            load = sum(histogram[s] for s, owner in enumerate(kept) if owner == worker)
            threshold = min(load - mean, (upper - lower) / 2)
            fitting = [s for s, owner in enumerate(kept) if owner == worker and 0 < histogram[s] < threshold]
            if not fitting:
                break
            chosen = largest_first(histogram, fitting)[0]
            kept[chosen] = None
            queue.append(chosen)
    for substream, owner in enumerate(table):
        if owner not in active:
            kept[substream] = None
            queue.append(substream)
    for substream in largest_first(histogram, queue):
        loads = {w: sum(histogram[s] for s, owner in enumerate(kept) if owner == w) for w in sorted(active)}
        taker = min(sorted(underloaded) or loads, key=lambda worker: loads[worker])
        kept[substream] = taker
        if loads[taker] + histogram[substream] >= centre:
            underloaded.discard(taker)
    placed = [owner for owner in kept if owner is not None]
    if max(histogram) > (upper - lower) / 2:
        part_large(histogram, placed, active, n_workers, centre + (upper - lower) / 2)
    return placed, active


def part_large(histogram: Sequence[int], table: list[int], active: set[int], n_workers: int, ceiling: float) -> None:
    movable = set(active)
    while True:
        loads = worker_loads(histogram, table, n_workers)
        above = [worker for worker in sorted(movable) if loads[worker] > ceiling]
        if not above:
            return
        most = max(above, key=lambda worker: loads[worker])
        least = min(sorted(active), key=lambda worker: loads[worker])
        highest = {
            s: max(loads[most] - load, loads[least] + load)
            for s, load in enumerate(histogram)
            if table[s] == most and load > 0
        }
        best = min(highest, key=lambda s: highest[s], default=None)
        if best is None or highest[best] >= loads[most]:
            movable.remove(most)
        else:
            table[best] = least
