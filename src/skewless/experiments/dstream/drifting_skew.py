"""Stand-ins with the heads of real data, and with a degree of skew that drifts.

The paper prints neither how often its hottest keys occur nor how much that changes. Here keys follow the law of Zipf
and Mandelbrot, (rank + shift) ** -exponent. Two numbers fix the law of a whole data set: what part of the tuples the
hottest 3 % of the keys have (Figure 3, or the stand-in), and what the very hottest has in real data of its kind. In a
window the shift is that of the whole, and the exponent is that at which the hottest key has its share of this window.

All shares are measured, none is fitted to a figure of the paper (`tests/experiments/test_dstream_drifting_skew.py`
measures them again where the files are at hand):

- words: a list of English word frequencies (321,180 words, package `wordfreq`), without stop words;
- hashtags: 1.5 million hashtags of 2012 to 2018. The paper's are of one month and it shows some five windows, so a
  window is five days of them; the hottest key of such a window, in those with 2,000 hashtags or more, has the share of
  the 50th, 90th, 30th, 70th and 10th percentile, in this order;
- words by window: no list has a time, so their hottest changes by the same factors as that of hashtags;
- trades: 2.8 million trades of five days, by symbol and exchange, a window for each day. Of the head of NASDAQ's
  symbols no file tells, so for the whole Zipf's law keeps its shift of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import UnknownNameError
from skewless.hashing import make_salt
from skewless.streams import StandIn, make_stream
from skewless.streams.zipf import draw_ranks, make_alias_table

HOTTEST: Final[Mapping[str, float]] = {"tweets": 0.0131, "hashtags": 0.0258}
"""Share of the hottest key in all of the real data; that of trades follows from Zipf's law."""
_HASHTAGS: Final = (0.098, 0.184, 0.071, 0.132, 0.036)
BY_WINDOW: Final[Mapping[str, tuple[float, ...]]] = {
    "tweets": tuple(round(HOTTEST["tweets"] * share / _HASHTAGS[0], 5) for share in _HASHTAGS),
    "hashtags": _HASHTAGS,
    "trades": (0.144, 0.160, 0.147, 0.148, 0.133),
}
"""Share of the hottest key in each window."""
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

    >>> [round(shift_of(name), 2) for name in ("tweets", "hashtags", "trades")]
    [6.58, 1.66, 0.0]
    """
    stand_in = _stand_in(stream)
    if stream not in HOTTEST:
        return 0.0

    def colder(shift: float) -> float:
        exponent = exponent_of(stand_in.n_keys, stand_in.n_hot, stand_in.hot_share, shift)
        return float(-((1 + shift) ** -exponent) / _sum(stand_in.n_keys, exponent, shift))

    return _root(colder, -HOTTEST[stream], 1_000.0)


def _stand_in(stream: str) -> StandIn:
    found = make_stream(stream)
    if not isinstance(found, StandIn):
        raise UnknownNameError("stand-in", stream, BY_WINDOW, subject="stream")
    return found


@lru_cache(maxsize=3)
def _table(stream: str, hottest: float | None) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    stand_in, shift = _stand_in(stream), shift_of(stream)
    if hottest is None:
        exponent = exponent_of(stand_in.n_keys, stand_in.n_hot, stand_in.hot_share, shift)
    else:
        exponent = exponent_of(stand_in.n_keys, 1, hottest, shift)
    keep, alias = make_alias_table((np.arange(1, stand_in.n_keys + 1, dtype=np.float64) + shift) ** -exponent)
    return keep, alias


def ranks_of(stream: str, hottest: float | None, start: int, stop: int, seed: int) -> NDArray[np.int64]:
    """Draw the ranks of keys of a window whose hottest key has a share, or of the whole data set."""
    ranks: NDArray[np.int64] = draw_ranks(start, stop, make_salt(seed), *_table(stream, hottest)) - 1
    return ranks
