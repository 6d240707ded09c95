"""Wikipedia: clicks from article to article, and views of pages by the hour."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from string import ascii_lowercase
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.streams.spelling import spell
from skewless.streams.stand_in import StandIn

CLICK_FIELDS: Final = ("prev", "curr", "type", "n")
VIEW_FIELDS: Final = ("domain", "page", "count", "bytes")
"""The fields of a line: of a click separated by tabs, of a view by spaces."""

_SYLLABLES: Final = tuple(consonant + vowel for consonant in "bdfghjklmnprstvz" for vowel in "aeiou")
_ENGLISH: Final = 117  # the number that "en" spells


class _Lines(StandIn):
    """What the three share: a record is a `line` of the real files, which is one tuple."""

    @property
    def record_schema(self) -> pa.Schema:
        return pa.schema([("line", pa.string())])

    def _records(self, start: int, stop: int, seed: int, tuples: int, /) -> pa.RecordBatch:
        keys = self._keys(start, stop, seed, tuples).cast(pa.string())
        return pa.RecordBatch.from_arrays([self._lines(keys, start)], schema=self.record_schema)

    @abstractmethod
    def _lines(self, keys: pa.Array, start: int, /) -> pa.Array:
        """Write the lines of the keys from position `start` on."""


def _titles(ranks: NDArray[np.int64]) -> pa.Array:
    names = pc.utf8_capitalize(spell(np.maximum(ranks - 1, 0), _SYLLABLES, 2))
    return pc.if_else(pa.array(ranks == 0), "Main_Page", names)


@dataclass(frozen=True, kw_only=True)
class Clickstream(_Lines):
    """A stand-in for Wikipedia's clickstream: 8,000 million clicks on 3 million articles, 10 % of them on one.

    A tuple is a click, its key the article that is opened. A record is a `line` with n = 1.

    >>> Clickstream(scale=0.001).records(0, 1, tuples=1, seed=0)["line"].to_pylist()
    ['other-search\\tMain_Page\\texternal\\t1']

    Reference
    ---------
    The DKG paper, Table 2 (wikipedia-clickstream).
    Deviations: the table gives no number of keys; 3 million is a guess, from the 4.7 million articles that English
    Wikipedia had, of which those that are hardly ever opened do not appear. Articles and ways to them are made up.
    """

    name: ClassVar[str] = "wikipedia-clickstream"
    published_tuples: ClassVar[int] = 8_000_000_000
    published_keys: ClassVar[int] = 3_000_000
    hot_part: ClassVar[float] = 0.0
    hot_share: ClassVar[float] = 0.1

    @property
    def summary(self) -> str:
        return f"clicks on articles: {self.n_keys:,}, one of which gets 10 %"

    def spelled(self, ranks: NDArray[np.int64]) -> pa.Array:
        return _titles(ranks)

    def _lines(self, keys: pa.Array, _start: int, /) -> pa.Array:
        return pc.binary_join_element_wise("other-search", keys, "external", "1", "\t")


@dataclass(frozen=True, kw_only=True)
class Pageviews(_Lines):
    """A stand-in for a day of Wikipedia's page views: 22 million of 2.9 million pages, 9 % of them of one page.

    A tuple is a view, its key the page. A record is a `line` with a count of 1.

    >>> Pageviews(scale=0.001).records(0, 1, tuples=1, seed=0)["line"].to_pylist()
    ['en Main_Page 1 0']

    Reference
    ---------
    The DKG paper, Table 2 (wikipedia-pageviews).
    Deviations: the table gives no number of keys. 2.9 million is that of the PKG paper, whose data these are; one pass
    over the stream meets 56 % of them. All pages are English, and made up.
    """

    name: ClassVar[str] = "wikipedia-pageviews"
    published_tuples: ClassVar[int] = 22_000_000
    published_keys: ClassVar[int] = 2_900_000
    hot_part: ClassVar[float] = 0.0
    hot_share: ClassVar[float] = 0.09

    @property
    def summary(self) -> str:
        return f"views of pages: {self.n_keys:,}, one of which gets 9 %"

    def spelled(self, ranks: NDArray[np.int64]) -> pa.Array:
        return pc.binary_join_element_wise("en", _titles(ranks), " ")

    def _lines(self, keys: pa.Array, _start: int, /) -> pa.Array:
        return pc.binary_join_element_wise(keys, "1", "0", " ")


@dataclass(frozen=True, kw_only=True)
class PageviewsByLanguage(_Lines):
    """A stand-in for page views by language: 588 million in 300 languages, 27 % of them in one.

    A tuple is a view, its key the language. A record is a `line` with a count of 1, every other one of the mobile site.
    `scale` multiplies the tuples; there are always 300 languages.

    >>> PageviewsByLanguage(scale=0.001).records(0, 2, tuples=2, seed=0)["line"].to_pylist()
    ['en Main_Page 1 0', 'ao.m Main_Page 1 0']

    Reference
    ---------
    The DKG paper, Table 2 (wikipedia-pageviews-by-lang).
    Deviations: the table gives no number of keys; Wikipedia has about 300 languages. All codes but `en` are made up.
    """

    name: ClassVar[str] = "wikipedia-pageviews-by-lang"
    published_tuples: ClassVar[int] = 588_000_000
    published_keys: ClassVar[int] = 300
    hot_part: ClassVar[float] = 0.0
    hot_share: ClassVar[float] = 0.27

    @property
    def summary(self) -> str:
        return f"views of pages by language: {self.n_keys:,}, one of which gets 27 %"

    @property
    def n_keys(self) -> int:
        return self.published_keys

    def spelled(self, ranks: NDArray[np.int64]) -> pa.Array:
        numbers = np.where(ranks == 0, _ENGLISH, np.where(ranks == _ENGLISH, 0, ranks))
        return spell(numbers, ascii_lowercase, 2)

    def _lines(self, keys: pa.Array, start: int, /) -> pa.Array:
        site = pa.array(["", ".m"]).take(pa.array(np.arange(start, start + len(keys)) % 2))
        return pc.binary_join_element_wise(pc.binary_join_element_wise(keys, site, ""), "Main_Page", "1", "0", " ")
