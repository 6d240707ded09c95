"""Two choices per substream, with sums over all that is placed already."""

from __future__ import annotations

from collections.abc import Sequence

from naive.groupings import mix
from naive.substream import largest_first

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def random_word(salt: int, position: int) -> int:
    return mix((salt + (position + 1) * _GOLDEN) & _MASK)


def choices(substream: int, salt: int, n_workers: int) -> tuple[int, int]:
    word = random_word(salt, substream)
    return (word >> 32) * n_workers >> 32, (word & 0xFFFFFFFF) * n_workers >> 32


def place(histogram: Sequence[int], salt: int, n_workers: int) -> list[int]:
    owners: dict[int, int] = {}
    for substream in largest_first(histogram):
        loads = {w: sum(histogram[s] for s, owner in owners.items() if owner == w) for w in range(n_workers)}
        owners[substream] = min(choices(substream, salt, n_workers), key=lambda worker: loads[worker])
    return [owners[substream] for substream in range(len(histogram))]
