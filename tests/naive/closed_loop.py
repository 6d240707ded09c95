"""Naive twin of the kernel that keeps tuples in flight."""

from __future__ import annotations

from collections.abc import Sequence


def keep_in_flight(workers: Sequence[int], service: int, n_workers: int, in_flight: int) -> tuple[list[int], list[int]]:
    """Emit a tuple whenever fewer than `in_flight` are on their way; return when each was emitted and done."""
    emitted: list[int] = []
    done: list[int] = []
    free_at = [0] * n_workers
    now = 0
    for worker in workers:
        while sum(time > now for time in done) >= in_flight:
            now = min(time for time in done if time > now)
        free_at[worker] = max(now, free_at[worker]) + service
        emitted.append(now)
        done.append(free_at[worker])
    return emitted, done
