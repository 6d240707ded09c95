"""All applications by name.

`count` counts rows per key. `word-count`, `vwap` and `hashtags` are the three of the DStream paper, section V. The next
five read the real data sets of the DKG paper, Table 2, `heat-map` and `time-in-cells` that of the DAKG paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyspark.sql import Column

from skewless.combiners import Count, Sum, Vwap
from skewless.errors import UnknownNameError
from skewless.runner.applications.base import TIME, Application
from skewless.runner.applications.extraction import Extraction
from skewless.runner.applications.parse_debs2013 import parse_cells
from skewless.runner.applications.parse_trades import parse_trades
from skewless.runner.applications.parse_tweets import parse_election, parse_hashtags, parse_tickers, parse_words
from skewless.runner.applications.parse_wikipedia import parse_clicks, parse_languages, parse_pages
from skewless.runner.applications.sessionize import SessionApplication
from skewless.runner.applications.time_in_cells import TimeInCells
from skewless.streams import trades, twitter


def _parse_keys(found: Mapping[str, Column]) -> Extraction:
    return Extraction(columns=(found["key"].alias("key"),))


COUNT: Final = Application(
    name="count", summary="rows per key", roles={"key": (), TIME: ()}, needs=[["key"]], parse=_parse_keys
)
WORD_COUNT: Final = Application(
    name="word-count",
    summary="the words of tweets, without stop words",
    roles={"text": twitter.TEXT_COLUMNS, TIME: twitter.TIME_COLUMNS},
    needs=[["text"]],
    parse=parse_words,
    stand_in="tweets",
)
VWAP: Final = Application(
    name="vwap",
    summary="the volume-weighted average price of each symbol",
    roles={
        "key": trades.SYMBOL_COLUMNS,
        "price": trades.PRICE_COLUMNS,
        "volume": trades.VOLUME_COLUMNS,
        TIME: trades.TIME_COLUMNS,
    },
    needs=[["key"], ["price"], ["volume"]],
    parse=parse_trades,
    combiners={"price": Vwap("price", "volume"), "volume": Sum("volume"), "n": Count()},
    plain={"price": "sum(price * volume) / sum(volume)", "volume": "sum(volume)", "n": "count(*)"},
    tolerance=1e-9,
    stand_in="trades",
)
HASHTAGS: Final = Application(
    name="hashtags",
    summary="the hashtags of tweets",
    roles={"key": twitter.HASHTAG_COLUMNS, "text": twitter.TEXT_COLUMNS, TIME: twitter.TIME_COLUMNS},
    needs=[["key", "text"]],
    parse=parse_hashtags,
    stand_in="hashtags",
)
ELECTION: Final = Application(
    name="election",
    summary="the hashtags of tweets, those of the election as one",
    roles=HASHTAGS.roles,
    needs=HASHTAGS.needs,
    parse=parse_election,
    stand_in="twitter-election",
)
TICKER: Final = Application(
    name="ticker",
    summary="the stocks that tweets mention",
    roles={"key": twitter.TICKER_COLUMNS, "text": twitter.TEXT_COLUMNS, TIME: twitter.TIME_COLUMNS},
    needs=[["key", "text"]],
    parse=parse_tickers,
    stand_in="twitter-ticker",
)


def _of_lines(
    name: str,
    summary: str,
    parse: Callable[[Mapping[str, Column]], Extraction],
    stand_in: str,
    *,
    weight: str | None = None,
    times: Sequence[str] = (),
) -> Application:
    """Return an application that parses lines, and counts them or adds up their weight."""
    weighted = {} if weight is None else {weight: Sum(weight)}
    return Application(
        name=name,
        summary=summary,
        roles={"text": ("line",), TIME: times},
        needs=[["text"]],
        parse=parse,
        combiners={**weighted, "n": Count()},
        plain={**{value: f"sum({value})" for value in weighted}, "n": "count(*)"},
        stand_in=stand_in,
        reads_lines=True,
    )


CLICKSTREAM: Final = _of_lines(
    "clickstream", "clicks on each article of Wikipedia", parse_clicks, "wikipedia-clickstream", weight="clicks"
)
PAGEVIEWS: Final = _of_lines(
    "pageviews", "views of each page of Wikipedia", parse_pages, "wikipedia-pageviews", weight="views"
)
PAGEVIEWS_BY_LANG: Final = _of_lines(
    "pageviews-by-lang",
    "views of Wikipedia in each language",
    parse_languages,
    "wikipedia-pageviews-by-lang",
    weight="views",
)
HEAT_MAP: Final = _of_lines(
    "heat-map", "readings of sensors in each cell of a football field", parse_cells, "debs2013", times=("ts",)
)
TIME_IN_CELLS: Final = TimeInCells(
    name="time-in-cells",
    summary="how long each player is in each cell of a football field, in windows of 1, 5 and 10 minutes and in all",
    roles=HEAT_MAP.roles,
    needs=HEAT_MAP.needs,
    parse=parse_cells,
    stand_in="debs2013",
    reads_lines=True,
)
SESSIONS: Final = SessionApplication(
    name="sessions",
    summary="the sessions of each key: rows that follow one another within a gap",
    roles=COUNT.roles,
    needs=COUNT.needs,
    parse=_parse_keys,
    tolerance=1e-9,
)
APPS: Final = {
    app.name: app
    for app in (
        *(COUNT, WORD_COUNT, VWAP, HASHTAGS, ELECTION, TICKER),
        *(CLICKSTREAM, PAGEVIEWS, PAGEVIEWS_BY_LANG, HEAT_MAP, TIME_IN_CELLS, SESSIONS),
    )
}


def make_app(name: str) -> Application:
    """Return an application by its name.

    >>> make_app("VWAP").values
    ['price', 'volume', 'n']
    """
    folded = name.strip().lower().replace("_", "-")
    if folded not in APPS:
        raise UnknownNameError("app", name, APPS, subject="app")
    return APPS[folded]
