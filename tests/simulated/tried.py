"""Which seeds were tried, and what came of them: ranges of seeds in a file, which the report is made of."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

TRIED: Final = Path(__file__).parent / "tried.txt"
"""What all runs together have tried, kept with the sources: the report adds it up, and a repeated call goes on."""
_HEAD: Final = "# first and last seed, crash points, different disks, wrong answers\n"


@dataclass(frozen=True, order=True)
class Tried:
    """Seeds from the first to the last one, and the sums over them.

    Parameters
    ----------
    first, last : int
        The seeds, both included.
    points : int
        How many crashes were tried.
    disks : int
        How many of them left a disk that no other had left.
    wrong : int
        How many answers were wrong.
    """

    first: int
    last: int
    points: int
    disks: int
    wrong: int


def read(file: Path) -> list[Tried]:
    """Return the ranges of a file, none of which overlap; those of a file that is not there are none."""
    lines = file.read_text().splitlines() if file.exists() else []
    ranges = sorted(Tried(*map(int, line.split())) for line in lines if not line.startswith("#"))
    for one, other in pairwise(ranges):
        if other.first <= one.last:
            raise ValueError(f"{file}: seeds {other.first} to {one.last} are counted twice")
    return ranges


def add(file: Path, found: Tried) -> list[Tried]:
    """Write a range into a file, joined with its neighbours; return all of them."""
    joined: list[Tried] = []
    for one in sorted([*read(file), found]):
        if joined and joined[-1].last + 1 == one.first:
            before = joined.pop()
            sums = before.points + one.points, before.disks + one.disks, before.wrong + one.wrong
            joined.append(Tried(before.first, one.last, *sums))
        else:
            joined.append(one)
    lines = (f"{one.first} {one.last} {one.points} {one.disks} {one.wrong}\n" for one in joined)
    new = file.with_suffix(".new")
    new.write_text(_HEAD + "".join(lines))
    os.replace(new, file)  # noqa: PTH105 - a run that is stopped leaves the old file or the new one
    return read(file)
