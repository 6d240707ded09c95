"""The evenest of some drawn hash functions, each evaluated in plain integers."""

from __future__ import annotations

from collections.abc import Sequence

from naive.metrics import variance
from naive.substream import worker_loads
from naive.two_choices import random_word

_MASK = 2**64 - 1


def function(hashes: Sequence[int], salt: int, number: int, n_workers: int) -> list[int]:
    a, b, c = (random_word(salt, 3 * number + word) for word in range(3))
    mixed = [(a * (key & 0xFFFFFFFF) + b * (key >> 32) + c) & _MASK for key in hashes]
    return [(word >> 32) * n_workers >> 32 for word in mixed]


def evenest(
    histogram: Sequence[int], hashes: Sequence[int], salt: int, first: int, tries: int, n_workers: int
) -> list[int]:
    tables = [function(hashes, salt, number, n_workers) for number in range(first, first + tries)]
    return min(tables, key=lambda table: round(variance(worker_loads(histogram, table, n_workers)), 6))
