"""Real files in the place of the paper's real data sets, where they are at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skewless.errors import SkewlessError
from skewless.experiments.data_files import VARIABLE, data_file
from skewless.streams import Stream
from skewless.streams.data_file import DataFile
from skewless.streams.elections import fold_election

FILES: Final = {
    "twitter-election": ("election_hashtags.csv.gz", "hashtag"),
    "wikipedia-clickstream": ("wikispeedia_clicks.csv.gz", "article"),
    "wikipedia-pageviews": ("wikiticker-2015-09-12-sampled.json.gz", "page"),
    "wikipedia-pageviews-by-lang": ("wikiticker-2015-09-12-sampled.json.gz", "channel"),
}
"""Data sets of the paper, and the file and column that have the shape of each."""

_CAMPAIGN: Final = ("2016-07", "2016-12")  # from the first month up to the second


@dataclass(frozen=True, kw_only=True)
class Recorded(Stream):
    """Keys that were read before, in the order of their file."""

    name: str
    keys: pa.ChunkedArray = field(repr=False)

    @property
    def label(self) -> str:
        return self.name

    @property
    def summary(self) -> str:
        return f"{len(self.keys):,} recorded keys in the place of {self.name}"

    def length(self, tuples: int | None = None) -> int:
        return len(self.keys) if tuples is None else min(tuples, len(self.keys))

    def generate(self, *, tuples: int | None = None, seed: int = 0) -> Iterator[pa.Array]:  # noqa: ARG002
        yield from self.keys.slice(0, self.length(tuples)).chunks


def at_hand(name: str) -> bool:
    """Say whether there is a file that stands for a data set of the paper."""
    return name in FILES and data_file(FILES[name][0]) is not None


@cache
def recorded(name: str) -> Recorded:
    """Read the file that stands for a data set of the paper."""
    path = data_file(FILES[name][0])
    if path is None:
        raise SkewlessError(f"there is no {FILES[name][0]}: set {VARIABLE} to the directory that holds it")
    return Recorded(name=name, keys=read_keys(name, path))


def read_keys(name: str, path: Path) -> pa.ChunkedArray:
    """Give the keys of a file; of the hashtags only those in English, July to November 2016, folded."""
    column = FILES[name][1]
    if name != "twitter-election":
        return _read(path, [column])[column]
    tweets = _read(path, [column, "ts", "language"])
    first, last = _CAMPAIGN
    campaign = pc.and_(pc.greater_equal(tweets["ts"], first), pc.less(tweets["ts"], last))
    chosen = tweets.filter(pc.and_(campaign, pc.equal(tweets["language"], "English")))
    return fold_election(chosen[column])


def _read(path: Path, columns: list[str]) -> pa.Table:
    return pa.Table.from_batches(DataFile(path=str(path)).rows(columns))
