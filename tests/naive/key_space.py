"""The key space of dynamic key grouping with deques and dictionaries, as Algorithms 1-3 are written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


def promote(
    source: Iterable[int], target: Iterable[int], capacity: int, counts: Mapping[int, int], *, swap_ties: bool = True
) -> tuple[list[int], list[int]]:
    """Algorithm 3 for a target of `capacity` places, of which the free ones take the next item unasked.

    In the authors' code (`swap_ties` is False), items of equal counts do not change places.
    """
    sources, targets = deque(source), deque(target)
    for _ in range(capacity):
        if not sources:
            break
        if len(targets) < capacity:
            targets.appendleft(sources.popleft())
            continue
        first, last = sources[0], targets[-1]
        if counts[last] > counts[first] or (not swap_ties and counts[last] == counts[first]):
            break
        sources.popleft()
        targets.appendleft(first)
        targets.pop()
        sources.append(last)
    return list(sources), list(targets)


@dataclass
class Item:
    arrival: int
    count: int
    seen_s: int
    space: str = "baby"


class NaiveKeySpace:
    """Items by key; equal counts are in order of arrival."""

    def __init__(self, expected_keys: int) -> None:
        self.baby_size = max(1, expected_keys * 50 // 100)
        self.teenage_size = max(1, expected_keys * 40 // 100)
        self.old_size = max(1, expected_keys * 10 // 100)
        self.items: dict[int, Item] = {}
        self.arrivals = 0

    def see(self, key: int, now_s: int, times: int = 1) -> None:
        if key not in self.items:
            self.items[key] = Item(arrival=self.arrivals, count=0, seen_s=now_s)
            self.arrivals += 1
        self.items[key].count += times
        self.items[key].seen_s = now_s

    def cycle(self, now_s: int, forget_after_s: int, *, to_old: bool) -> None:
        self.items = {key: item for key, item in self.items.items() if now_s - item.seen_s <= forget_after_s}
        baby, teenage, old = (self._sorted(space) for space in ("baby", "teenage", "old"))
        for key in baby[self.baby_size :]:
            del self.items[key]
        self._promote("baby", baby[: self.baby_size], "teenage", teenage, self.teenage_size)
        if to_old:
            self._promote("teenage", self._sorted("teenage"), "old", old, self.old_size)

    def _sorted(self, space: str) -> list[int]:
        keys = [key for key, item in self.items.items() if item.space == space]
        return sorted(keys, key=lambda key: (-self.items[key].count, self.items[key].arrival))

    def _promote(self, below: str, source: list[int], above: str, target: list[int], capacity: int) -> None:
        counts = {key: item.count for key, item in self.items.items()}
        for space, keys in zip((below, above), promote(source, target, capacity, counts), strict=True):
            for key in keys:
                self.items[key].space = space
