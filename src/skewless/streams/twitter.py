"""Tweets: their words, their hashtags and their tickers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from string import ascii_uppercase
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.seeding import make_salt
from skewless.streams.country import draw_codes
from skewless.streams.spelling import spell
from skewless.streams.stand_in import StandIn

# fmt: off
STOP_WORDS: Final = (
    "a", "about", "above", "after", "again", "against", "all", "am", "an", "and", "any", "are", "aren't", "as", "at",
    "be", "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "can't", "cannot",
    "could", "couldn't", "did", "didn't", "do", "does", "doesn't", "doing", "don't", "down", "during", "each", "few",
    "for", "from", "further", "had", "has", "have", "having", "he", "her", "here", "hers", "herself", "him", "himself",
    "his", "how", "i", "i'd", "i'll", "i'm", "i've", "if", "in", "into", "is", "isn't", "it", "it's", "its", "itself",
    "just", "me", "more", "most", "my", "myself", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or",
    "other", "our", "ours", "out", "over", "own", "rt", "same", "she", "should", "so", "some", "such", "than", "that",
    "that's", "the", "their", "theirs", "them", "then", "there", "these", "they", "this", "those", "through", "to",
    "too", "under", "until", "up", "very", "was", "we", "were", "what", "when", "where", "which", "while", "who",
    "whom", "why", "will", "with", "won't", "would", "you", "you're", "your", "yours",
)
# fmt: on
"""English stop words, and `rt`, which marks a retweet."""

TEXT_COLUMNS: Final = ("full_text", "text", "tweet", "content", "body", "message")
HASHTAG_COLUMNS: Final = ("hashtag", "tag")
TICKER_COLUMNS: Final = ("ticker", "cashtag", "symbol")
TIME_COLUMNS: Final = (
    "timestamp_ms", "created_at", "ts", "time", "timestamp", "datetime", "date", "publish_date",
)  # fmt: skip
"""The names that columns have in files of tweets, the likeliest first."""

# Java's regular expressions. The variation selectors and the keycap are marks to Unicode; here they belong to emoji.
# Java looks behind by halves of characters unless it sees one beyond 16 bits in the pattern: hence the rare letter.
_LETTERS: Final = r"\p{L}\p{M}\p{Nd}"
_NO_EMOJI: Final = r"&&[^\uFE0E\uFE0F\u20E3]"
_WORD_CHARACTER: Final = f"[{_LETTERS}{_NO_EMOJI}]"
_TAG_CHARACTER: Final = f"[{_LETTERS}_{_NO_EMOJI}]"
_BEHIND: Final = f"[{_LETTERS}_\U00020000{_NO_EMOJI}]"
WORD_PATTERN: Final = f"{_WORD_CHARACTER}(?:[{_LETTERS}'{_NO_EMOJI}]*{_WORD_CHARACTER})?"
HASHTAG_PATTERN: Final = rf"(?<!{_BEHIND}|&)[#\uFF03](?!\p{{M}})({_TAG_CHARACTER}*\p{{L}}{_TAG_CHARACTER}*)"
TAG_PATTERN: Final = rf"\A[#\uFF03]?(?!\p{{M}})({_TAG_CHARACTER}+)"
_TICKER: Final = r"[a-z]{1,6}(?:[._][a-z]{1,2})?"
TICKER_PATTERN: Final = rf"\A\$?({_TICKER})\z"
CASHTAG_PATTERN: Final = rf"(?<!{_BEHIND}|\$)\$({_TICKER})(?!{_TAG_CHARACTER}|\$)"
APOSTROPHE_PATTERN: Final = r"[\u2018\u2019\uFF07]|&#39;|&apos;"
NO_WORDS_PATTERN: Final = rf"(?:https?://|www\.)\S+|(?<!{_BEHIND})[@\uFF20][a-z0-9_]+|&(?:amp|lt|gt|quot|nbsp);"
"""What a text in lower case has beside its words: addresses, names of users, and what HTML makes of &, < and >."""

_SYLLABLES: Final = tuple(
    consonant + vowel
    for consonant in ("b", "d", "f", "g", "j", "k", "l", "n", "p", "t", "z", "ch", "sh", "st", "tr", "kr")
    for vowel in "aeio"
)
_ENDINGS: Final = (None, None, None, "https://t.co/Sk3wL3ss", "@Someone_else", "🙂")


class _Tweeted(StandIn):
    """What these stand-ins share: keys made of syllables, and texts made of keys and of words around them."""

    @property
    def record_schema(self) -> pa.Schema:
        return pa.schema([("text", pa.string())])

    def spelled(self, ranks: NDArray[np.int64]) -> pa.Array:
        return spell(ranks, _SYLLABLES, 2)

    def _records(self, start: int, stop: int, seed: int, tuples: int, /) -> pa.RecordBatch:
        size = self.tuples_per_record
        first, last = -(-start // size) * size, min(-(-stop // size) * size, tuples)
        n_records = max(0, -(-(last - first) // size))
        keys = self._keys(first, max(first, last), seed, tuples).cast(pa.string())
        keys = pa.concat_arrays([keys, pa.nulls(n_records * size - len(keys), pa.string())])
        places = np.arange(n_records) * size
        # One draw for each key decides the words around it.
        draws = draw_codes(first, first + n_records * size, make_salt(seed, use=1), np.uint64(0), 0, 30_000)
        columns = [(keys.take(pa.array(places + i)), draws[places + i]) for i in range(size)]
        endings = pa.array(_ENDINGS).take(pa.array(draws[places] % len(_ENDINGS)))
        parts = [*self._parts(columns), endings]
        text = pc.binary_join_element_wise(*parts, " ", null_handling="skip")
        return pa.RecordBatch.from_arrays([text], schema=self.record_schema)

    @abstractmethod
    def _parts(self, columns: list[tuple[pa.Array, NDArray[np.int16]]]) -> list[pa.Array]:
        """Return the parts of the texts, from left to right, from the keys of each place and their draws."""


def _stop_words(draws: NDArray[np.int16]) -> pa.Array:
    return pa.array(STOP_WORDS).take(pa.array(draws % len(STOP_WORDS)))


def _tagged(keys: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("#", keys, "")


@dataclass(frozen=True, kw_only=True)
class Tweets(_Tweeted):
    """A stand-in for tweets: 658 million words over 5.7 million keys, of which 3 % have 80 % of the words.

    A tuple is a word. A record is a tweet, `text`, of eight words, the last of them as a hashtag, with stop words
    between them and sometimes an address, a user or an emoji at the end: `skewless run --app word-count` finds the
    eight and nothing else.

    >>> Tweets(scale=0.001).records(0, 8, tuples=8, seed=0)["text"].to_pylist()
    ["You're baba beshe how bikre babi the babe bade out babi #babe"]

    Reference
    ---------
    The DStream paper, section II and Table II (data set TW).
    Deviations: "more than 80 %" is taken as 80 %. Words are made up; which are hot does not change over time.
    """

    name: ClassVar[str] = "tweets"
    published_tuples: ClassVar[int] = 658_000_000
    published_keys: ClassVar[int] = 5_700_000
    hot_part: ClassVar[float] = 0.03
    hot_share: ClassVar[float] = 0.8
    tuples_per_record: ClassVar[int] = 8

    @property
    def summary(self) -> str:
        return f"words of tweets: {self.n_keys:,}, {self.n_hot:,} of which make 80 %"

    def _parts(self, columns: list[tuple[pa.Array, NDArray[np.int16]]]) -> list[pa.Array]:
        parts: list[pa.Array] = []
        for place, (words, draws) in enumerate(columns):
            if place == 0:
                parts.append(pc.utf8_capitalize(_stop_words(draws)))
            elif place % 2 == 0:
                parts.append(_stop_words(draws))
            parts.append(_tagged(words) if place == len(columns) - 1 else words)
        return parts


@dataclass(frozen=True, kw_only=True)
class Hashtags(_Tweeted):
    """A stand-in for hashtags of tweets: 43 million over 3.4 million keys, of which 3 % have 75 % of the tuples.

    A tuple is a hashtag. A record is a tweet, `text`, with two of them among other words.

    >>> Hashtags(scale=0.001).records(4, 6, tuples=6, seed=0)["text"].to_pylist()
    ['The basto #babe There basta #bade https://t.co/Sk3wL3ss']

    Reference
    ---------
    The DStream paper, Table II (data set HA).
    Deviations: the paper does not say how skewed its hashtags are. 3 % with 75 % is what a public collection of 1.5
    million hashtags, of 2012 to 2018, comes to. One pass over the stream meets about five sixths of the keys.
    """

    name: ClassVar[str] = "hashtags"
    published_tuples: ClassVar[int] = 43_000_000
    published_keys: ClassVar[int] = 3_400_000
    hot_part: ClassVar[float] = 0.03
    hot_share: ClassVar[float] = 0.75
    tuples_per_record: ClassVar[int] = 2

    @property
    def summary(self) -> str:
        return f"hashtags of tweets: {self.n_keys:,}, {self.n_hot:,} of which make 75 %"

    def _parts(self, columns: list[tuple[pa.Array, NDArray[np.int16]]]) -> list[pa.Array]:
        parts: list[pa.Array] = []
        for tags, draws in columns:
            words = spell(draws.astype(np.int64) % len(_SYLLABLES), _SYLLABLES, 2)
            parts += [pc.utf8_capitalize(_stop_words(draws)), words, _tagged(tags)]
        return parts


@dataclass(frozen=True, kw_only=True)
class Tickers(_Tweeted):
    """A stand-in for ticker tweets: 1.5 million mentions of 2,900 stocks, 10 % of them of one stock.

    A tuple is a ticker. A record is a tweet, `text`, with two of them, written as `$AAA`, among other words.

    >>> Tickers().records(0, 2, tuples=2, seed=0)["text"].to_pylist()
    ["You're $AAA is $AFO"]

    Reference
    ---------
    The DKG paper, Table 2 (twitter-ticker).
    Deviations: the table gives no number of keys. 2,900 is that of the collection of cashtags in the PKG paper, from
    which the DKG paper has its tickers.
    """

    name: ClassVar[str] = "twitter-ticker"
    published_tuples: ClassVar[int] = 1_500_000
    published_keys: ClassVar[int] = 2_900
    hot_part: ClassVar[float] = 0.0
    hot_share: ClassVar[float] = 0.1
    tuples_per_record: ClassVar[int] = 2

    @property
    def summary(self) -> str:
        return f"tickers of tweets: {self.n_keys:,}, one of which makes 10 %"

    def spelled(self, ranks: NDArray[np.int64]) -> pa.Array:
        return spell(ranks, ascii_uppercase, 3)

    def _parts(self, columns: list[tuple[pa.Array, NDArray[np.int16]]]) -> list[pa.Array]:
        parts: list[pa.Array] = []
        for place, (tickers, draws) in enumerate(columns):
            words = _stop_words(draws)
            parts += [words if place else pc.utf8_capitalize(words), pc.binary_join_element_wise("$", tickers, "")]
        return parts
