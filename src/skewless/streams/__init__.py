"""Streams of keys. Synthetic ones are functions of seed and position; files are read in chunks."""

from __future__ import annotations

import re
from typing import Final

from skewless.errors import UnknownNameError
from skewless.streams.base import Stream, SyntheticStream
from skewless.streams.country import COUNTRIES, HOT_COUNTRY, CountryHalfSkew, CountrySkew
from skewless.streams.debs2013 import Positions
from skewless.streams.drift import Drift
from skewless.streams.elections import ElectionHashtags
from skewless.streams.gaussian import Gaussian
from skewless.streams.key_file import KeyFile
from skewless.streams.stand_in import StandIn
from skewless.streams.topics import Topics
from skewless.streams.trades import Trades
from skewless.streams.twitter import Hashtags, Tickers, Tweets
from skewless.streams.wikipedia import Clickstream, Pageviews, PageviewsByLanguage
from skewless.streams.zipf import Zipf

_STAND_INS: Final[tuple[type[StandIn], ...]] = (
    Tweets,
    Trades,
    Hashtags,
    ElectionHashtags,
    Tickers,
    Clickstream,
    Pageviews,
    PageviewsByLanguage,
    Positions,
)

STREAMS: Final[dict[str, SyntheticStream]] = {
    stream.label: stream
    for stream in (
        *(CountrySkew(percent=percent) for percent in range(0, 101, 10)),
        CountryHalfSkew(),
        Zipf(),
        Drift(),
        Gaussian(),
        Topics(),
        *(stand_in() for stand_in in _STAND_INS),
    )
}
"""The named streams: the twelve synthetic data sets of the DKG paper, others with their defaults, and stand-ins for
real data sets: the three of the DStream paper, the five of the DKG paper, and the football match of the DAKG paper."""

_SKEW: Final = re.compile(r"country-(half-)?skew-r(\d{1,3})")
_EXPONENT: Final = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_ZIPF: Final = re.compile(rf"zipf(?:-{_EXPONENT})?(?:-(\d+))?")
_DRIFT: Final = re.compile(rf"drift(?:-(\d+)(?:-(\d+)(?:-(\d+)(?:-{_EXPONENT})?)?)?)?")
_GAUSSIAN: Final = re.compile(rf"gaussian(?:-{_EXPONENT}(?:-{_EXPONENT}(?:-(\d+))?)?)?")
_TOPICS: Final = re.compile(rf"topics(?:-(\d+)(?:-(\d+)(?:-(\d+)(?:-{_EXPONENT})?)?)?)?")


def make_stream(name: str) -> SyntheticStream:
    """Make a synthetic stream by its name: `country-skew-r<percent>`, `country-half-skew-r<percent>`,
    `zipf`, `zipf-<exponent>`, `zipf-<exponent>-<keys>`,
    `drift[-<percent>[-<period>[-<keys>[-<exponent>]]]]`, `gaussian[-<mean>[-<deviation>[-<keys>]]]`,
    `topics[-<percent>[-<seconds>[-<keys>[-<exponent>]]]]`, or one of `tweets`, `trades`, `hashtags`,
    `twitter-election`, `twitter-ticker`, `wikipedia-clickstream`, `wikipedia-pageviews`, `wikipedia-pageviews-by-lang`
    and `debs2013`, each also with `-<scale>`.

    >>> make_stream("zipf-1.5-1000")
    Zipf(default_tuples=10000000, exponent=1.5, n_keys=1000)
    """
    folded = name.strip().lower().replace("_", "-")
    if match := _SKEW.fullmatch(folded):
        kind = CountryHalfSkew if match[1] else CountrySkew
        return kind(percent=int(match[2]))
    if match := _ZIPF.fullmatch(folded):
        exponent, n_keys = match.groups()
        return Zipf(exponent=float(exponent or Zipf.exponent), n_keys=int(n_keys or Zipf.n_keys))
    if match := _DRIFT.fullmatch(folded):
        percent, period, n_keys, exponent = match.groups()
        return Drift(
            percent=int(percent or Drift.percent),
            period=int(period or Drift.period),
            n_keys=int(n_keys or Drift.n_keys),
            exponent=float(exponent or Drift.exponent),
        )
    if match := _GAUSSIAN.fullmatch(folded):
        mean, deviation, n_keys = match.groups()
        return Gaussian(
            mean=float(mean or Gaussian.mean),
            deviation=float(deviation or Gaussian.deviation),
            n_keys=int(n_keys or Gaussian.n_keys),
        )
    if match := _TOPICS.fullmatch(folded):
        percent, seconds, n_keys, exponent = match.groups()
        return Topics(
            percent=int(percent or Topics.percent),
            topic_every_s=int(seconds or Topics.topic_every_s),
            n_keys=int(n_keys or Topics.n_keys),
            exponent=float(exponent or Topics.exponent),
        )
    for stand_in in _STAND_INS:
        if stream := stand_in.named(folded):
            return stream
    raise UnknownNameError("stream", name, STREAMS, ["zipf", "drift"])


__all__ = [
    "COUNTRIES",
    "HOT_COUNTRY",
    "STREAMS",
    "Clickstream",
    "CountryHalfSkew",
    "CountrySkew",
    "Drift",
    "ElectionHashtags",
    "Gaussian",
    "Hashtags",
    "KeyFile",
    "Pageviews",
    "PageviewsByLanguage",
    "Positions",
    "StandIn",
    "Stream",
    "SyntheticStream",
    "Tickers",
    "Topics",
    "Trades",
    "Tweets",
    "Zipf",
    "make_stream",
]
