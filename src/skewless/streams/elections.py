"""Hashtags of an election: all that refer to it are one key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.streams.spelling import spell
from skewless.streams.twitter import Hashtags
from skewless.streams.zipf import make_alias_table

ELECTION: Final = "election"
"""The key of every hashtag that refers to the election."""

ELECTION_STEMS: Final = (
    "hilary", "hillary", "clinton", "withher", "wither", "voteher", "lockherup", "donald", "trump",
    "makeamericagreatagain", "americafirst", "vote", "voting", "poll", "election", "eleicoes", "eleccion", "electon",
    "electoral", "abdseçimleri", "president", "debate", "democrat", "republican", "america", "us", "usa",
)  # fmt: skip
"""Substrings of such hashtags, in lower case: those of the authors' code (TwitterElectionSplitter.java). One of them is
as short as `us`, and so finds `music` as well."""

ELECTION_PATTERN: Final = "|".join(map(re.escape, ELECTION_STEMS))

_HOT: Final = ("Election2016", "NeverTrump", "ImWithHer", "AmericaFirst", "Vote", "debatenight")
_SYLLABLES: Final = tuple(consonant + vowel for consonant in "bdfgjklnpz" for vowel in "aeio")  # none makes a stem
_REST_EXPONENT: Final = 1.0


def fold_election(hashtags: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return hashtags in lower case, with those that refer to the election as one.

    >>> fold_election(pa.array(["ImWithHer", "Cats", None])).to_pylist()
    ['election', 'cats', None]
    """
    tags = pc.utf8_lower(hashtags)
    return pc.if_else(pc.match_substring_regex(tags, ELECTION_PATTERN), ELECTION, tags)


@dataclass(frozen=True, kw_only=True)
class ElectionHashtags(Hashtags):
    """A stand-in for hashtags of tweets during the election of 2016: 5 million, 68 % of them about the election.

    A tuple is a hashtag, folded. A record is a tweet, `text`, with two hashtags; in it, those of the election are
    written in several ways, and `skewless run --app election` finds that they are one.

    >>> ElectionHashtags(scale=0.001).slice(0, 4, tuples=4, seed=0).to_pylist()
    ['election', 'babi', 'bade', 'election']

    Reference
    ---------
    The DKG paper, Table 2 and Table 3 (twitter-election).
    Deviations: Table 2 gives no number of keys. With 300,000, and Zipf's law of exponent 1 for all but the hottest,
    shuffle grouping has the dist_cost of Table 3 (2.449 with 10 workers) after the tuples of Table 3: its throughput
    times its latency, 5,319,000; one pass of 5 million meets 184,000 keys. One exponent for all keys, as in the other
    stand-ins, would leave hardly any tuples to keys after the first few. The reference code folds into one key per
    candidate in some versions, and not at all in others; the stems are those of the latest.
    """

    name: ClassVar[str] = "twitter-election"
    published_tuples: ClassVar[int] = 5_000_000
    published_keys: ClassVar[int] = 300_000
    hot_part: ClassVar[float] = 0.0
    hot_share: ClassVar[float] = 0.68

    @property
    def summary(self) -> str:
        return f"hashtags of an election: {self.n_keys:,}, one of which makes 68 %"

    @property
    def exponent(self) -> float:
        """The exponent for all keys but the hottest."""
        return _REST_EXPONENT

    @cached_property
    def _table(self) -> NDArray[np.uint64]:
        rest = np.arange(1, self.n_keys, dtype=np.float64) ** -self.exponent
        table: NDArray[np.uint64] = make_alias_table(
            np.append(self.hot_share, (1 - self.hot_share) * rest / max(rest.sum(), 1.0))
        )
        return table

    def spelled(self, ranks: NDArray[np.int64]) -> pa.Array:
        names = spell(np.maximum(ranks - 1, 0), _SYLLABLES, 2)
        return pc.if_else(pa.array(ranks == 0), ELECTION, names)

    def _parts(self, columns: list[tuple[pa.Array, NDArray[np.int16]]]) -> list[pa.Array]:
        written = []
        for tags, draws in columns:
            hot = pa.array(_HOT).take(pa.array(draws % len(_HOT)))
            written.append((pc.if_else(pc.equal(tags, ELECTION), hot, tags), draws))
        return super()._parts(written)
