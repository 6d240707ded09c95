"""Stand-ins with the heads of real data, and with a degree of skew that drifts.

The paper prints neither how often its hottest keys occur nor how much that changes. Here keys follow the law of Zipf
and Mandelbrot, (rank + shift) ** -exponent. Two numbers fix the law of a whole data set: what part of the tuples the
hottest 3 % (or so) of the keys have, and what the very hottest has in real data of its kind. In a window the shift is
that of the whole, and the exponent is that at which the hottest key has its share of this window.

All shares are measured, none is fitted to a figure of the paper (`tests/experiments/test_dstream_drifting_skew.py`
measures them again where the files are at hand). The paper's data are of a month and it shows some five windows, so a
window has a fifth of a month of real data, and the hottest key of such a window the share of the 50th, 90th, 30th, 70th
and 10th percentile, in this order:

- words: a list of English word frequencies (321,180 words, package `wordfreq`). The paper draws its Figure 3a without
  stop words. Its word count has them: neither section VI.A nor the authors' code removes any. So they are in `tweets`,
  where the hottest 3 % have 80 % of the other words and all stop words; `WITHOUT_STOP_WORDS` is run beside it;
- hashtags: 1.5 million hashtags of 2012 to 2018, in windows of five days with 2,000 of them or more;
- words by window: no list has a time, so their hottest changes by the same factors as that of hashtags;
- trades: the shares that were traded of each symbol of NASDAQ on 1,398 days of 2021 to 2026 (repository
  rreichel3/US-Stock-Symbols, nasdaq_full_tickers.json at each of its commits), in windows of four trading days. On half
  of the days 8 % of the symbols have 78.7 % of the shares or more; in the paper they have 80 % of the trades.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import UnknownNameError
from skewless.seeding import make_salt
from skewless.streams import StandIn, make_stream
from skewless.streams.zipf import draw_ranks, make_alias_table

WITHOUT_STOP_WORDS: Final = "tweets without stop words"
STOP_WORDS_SHARE: Final = 0.4645
"""Part of all words that are stop words."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """The hottest keys of a stand-in.

    Parameters
    ----------
    stand_in : str
        The stream, which has the number of keys, and the part of them that counts as hot.
    hot_share : float
        Share of the hot keys.
    hottest : float
        Share of the very hottest key in all of the data.
    by_window : tuple of float
        Its share in each window.
    """

    stand_in: str
    hot_share: float
    hottest: float
    by_window: tuple[float, ...]


_HASHTAGS: Final = (0.098, 0.184, 0.071, 0.132, 0.036)


def _words(hottest: float, hot_share: float) -> Head:
    shares = tuple(round(hottest * share / _HASHTAGS[0], 5) for share in _HASHTAGS)
    return Head(stand_in="tweets", hot_share=hot_share, hottest=hottest, by_window=shares)


HEADS: Final[Mapping[str, Head]] = {
    "tweets": _words(hottest=0.0544, hot_share=STOP_WORDS_SHARE + 0.8 * (1 - STOP_WORDS_SHARE)),
    WITHOUT_STOP_WORDS: _words(hottest=0.0131, hot_share=0.8),
    "hashtags": Head(stand_in="hashtags", hot_share=0.75, hottest=0.0258, by_window=_HASHTAGS),
    "trades": Head(
        stand_in="trades", hot_share=0.8, hottest=0.0431, by_window=(0.0472, 0.0910, 0.0357, 0.0603, 0.0267)
    ),
}
_EXACT: Final = 256


def _sum(n: int, exponent: float, shift: float) -> float:
    """Return the sum of (k + shift) ** -exponent over k = 1 … n: some terms one by one, the others integrated."""
    m = min(n, _EXACT)
    total = float(((np.arange(1, m + 1) + shift) ** -exponent).sum())
    if n == m:
        return total
    first, last, power = m + shift, n + shift, 1 - exponent
    area = np.log(last / first) if power == 0 else (last**power - first**power) / power
    slopes = exponent * (first ** (-exponent - 1) - last ** (-exponent - 1)) / 12
    return total + float(area + (last**-exponent - first**-exponent) / 2 + slopes)


def _root(rises: Callable[[float], float], wanted: float, high: float) -> float:
    """Return where a rising function has a value, between 0 and `high`."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) < wanted else (low, middle)
    return high


def exponent_of(n_keys: int, n_hot: int, share: float, shift: float) -> float:
    """Return the exponent at which the hottest keys have a share of the tuples.

    >>> round(exponent_of(5_700_000, 171_000, 0.8, 0.0), 4)
    1.0129
    """
    return _root(lambda exponent: _sum(n_hot, exponent, shift) / _sum(n_keys, exponent, shift), share, 8.0)


@lru_cache
def shift_of(stream: str) -> float:
    """Return the shift at which the very hottest key has its share, and the hottest 3 % (or so) theirs.

    >>> [round(shift_of(name), 2) for name in HEADS]
    [1.58, 6.58, 1.66, 5.37]
    """
    head, stand_in = _head(stream)

    def colder(shift: float) -> float:
        exponent = exponent_of(stand_in.n_keys, stand_in.n_hot, head.hot_share, shift)
        return float(-((1 + shift) ** -exponent) / _sum(stand_in.n_keys, exponent, shift))

    return _root(colder, -head.hottest, 1_000.0)


def _head(stream: str) -> tuple[Head, StandIn]:
    if stream not in HEADS:
        raise UnknownNameError("stand-in", stream, HEADS, subject="stream")
    head = HEADS[stream]
    stand_in = make_stream(head.stand_in)
    assert isinstance(stand_in, StandIn)  # noqa: S101 - each of HEADS is one
    return head, stand_in


@lru_cache(maxsize=3)
def _table(stream: str, hottest: float | None) -> NDArray[np.uint64]:
    (head, stand_in), shift = _head(stream), shift_of(stream)
    if hottest is None:
        exponent = exponent_of(stand_in.n_keys, stand_in.n_hot, head.hot_share, shift)
    else:
        exponent = exponent_of(stand_in.n_keys, 1, hottest, shift)
    table: NDArray[np.uint64] = make_alias_table(
        (np.arange(1, stand_in.n_keys + 1, dtype=np.float64) + shift) ** -exponent
    )
    return table


def ranks_of(stream: str, hottest: float | None, start: int, stop: int, seed: int) -> NDArray[np.int64]:
    """Draw the ranks of keys of a window whose hottest key has a share, or of the whole data set."""
    ranks: NDArray[np.int64] = draw_ranks(start, stop, make_salt(seed), _table(stream, hottest)) - 1
    return ranks
