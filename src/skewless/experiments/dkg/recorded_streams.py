"""Real files in place of the paper's real data sets, if they are present."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.errors import InputError
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
"""Data sets of the paper, and the file and column that take their place."""

_CAMPAIGN: Final = ("2016-07", "2016-12")  # from the first month up to the second


@dataclass(frozen=True, kw_only=True)
class RecordedStream(Stream):
    """Keys of a file, in its order."""

    name: str
    keys: pa.ChunkedArray = field(repr=False)

    @property
    def label(self) -> str:
        return self.name

    @property
    def summary(self) -> str:
        return f"{len(self.keys):,} recorded keys in place of {self.name}"

    def length(self, tuples: int | None = None) -> int:
        return len(self.keys) if tuples is None else min(tuples, len(self.keys))

    def generate(self, *, tuples: int | None = None, seed: int = 0) -> Iterator[pa.Array]:  # noqa: ARG002 - keys are recorded, not drawn
        yield from self.keys.slice(0, self.length(tuples)).chunks


def at_hand(name: str) -> bool:
    """Whether there is a file for a data set of the paper."""
    return name in FILES and data_file(FILES[name][0]) is not None


@cache
def recorded_stream(name: str) -> RecordedStream:
    """Read the file for a data set of the paper."""
    path = data_file(FILES[name][0])
    if path is None:
        raise InputError(f"there is no {FILES[name][0]}", hint=f"set {VARIABLE} to the directory that holds it")
    return RecordedStream(name=name, keys=read_keys(name, path))


def read_keys(name: str, path: Path) -> pa.ChunkedArray:
    """Return the keys of a file; of the hashtags only those in English, July to November 2016, folded.

    Of clicks there is one tuple for each pair of articles, as the authors' tuple is a line of the published file, which
    has a pair and how often it was clicked (WikipediaClickstreamSplitter.java).
    """
    column = FILES[name][1]
    if name == "wikipedia-clickstream":
        return _lines(_read(path, ["path_id", column]))
    if name != "twitter-election":
        return _read(path, [column])[column]
    tweets = _read(path, [column, "ts", "language"])
    first, last = _CAMPAIGN
    campaign = pc.and_(pc.greater_equal(tweets["ts"], first), pc.less(tweets["ts"], last))
    chosen = tweets.filter(pc.and_(campaign, pc.equal(tweets["language"], "English")))
    return fold_election(chosen[column])


def _lines(clicks: pa.Table) -> pa.ChunkedArray:
    """Return the article that was clicked of each pair of articles, in the order of their first click."""
    articles, paths = clicks["article"].combine_chunks().dictionary_encode(), clicks["path_id"].to_numpy()
    codes = articles.indices.to_numpy().astype(np.int64)
    before = np.where(np.append(-1, paths[:-1]) == paths, np.append(-1, codes[:-1]), -1)  # -1 starts a path
    _, first = np.unique((before + 1) * (codes.max() + 1) + codes, return_index=True)
    return pa.chunked_array([articles.dictionary.take(pa.array(codes[np.sort(first)]))])


def _read(path: Path, columns: list[str]) -> pa.Table:
    return pa.Table.from_batches(DataFile(path=str(path)).rows(columns))
