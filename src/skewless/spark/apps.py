"""Applications: what is computed of the rows of an input, from their columns to the result.

`count` counts rows per key. `word-count`, `vwap` and `hashtags` are the three of the DStream paper, section V.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.combiners import Combiner, Count, Sum, Vwap
from skewless.errors import SkewlessError, unknown_name
from skewless.spark.grouped import Grouped
from skewless.spark.parsed import Parsed
from skewless.spark.trades import parse_trades
from skewless.spark.tweets import parse_hashtags, parse_words
from skewless.streams import trades, twitter

TIME: Final = "time"
"""The role of the column that windows are cut by; inputs read it for every application."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """One thing to compute.

    The result has `key`, the window where one is asked for, and `values`, all numbers; one of them is `n`, how many
    rows there were. An application with state of its own overrides `compute` and `expected`.

    Parameters
    ----------
    name, summary: as the command line shows it.
    roles: the columns it can read, each with the names it usually has; without any, it must be named.
    needs: of each of these groups of roles, at least one must be found.
    parse: makes `key` and the values of the columns found for the roles.
    combiners: what is computed, by the name of its column.
    plain: the same in Spark's own SQL, against which a run is verified.
    tolerance: how far doubles may differ from the plain result, relative to the larger of the two. Sums of doubles
        depend on the order of adding, which no two runs share.
    stand_in: the stream that it runs on where no input is given; it reads records, not keys.
    """

    name: str
    summary: str
    roles: Mapping[str, Sequence[str]]
    needs: Sequence[Sequence[str]]
    parse: Callable[[Mapping[str, Column]], Parsed]
    combiners: Mapping[str, Combiner] = field(default_factory=lambda: {"n": Count()})
    plain: Mapping[str, str] = field(default_factory=lambda: {"n": "count(*)"})
    tolerance: float = 0.0
    stand_in: str | None = None

    @property
    def values(self) -> list[str]:
        """The columns of the result beside key and window."""
        return list(self.combiners)

    @property
    def reads_records(self) -> bool:
        """Whether it takes whole records apart, instead of rows that have a key."""
        return self.stand_in is not None

    def compute(self, grouped: Grouped) -> DataFrame:
        """Compute through a grouping."""
        return grouped.agg(**self.combiners)

    def expected(self, rows: DataFrame, window: str | None) -> DataFrame:
        """Compute the same with plain Spark."""
        by = [sf.col("key")] + ([] if window is None else [sf.window("ts", window)])
        return rows.groupBy(*by).agg(*(sf.expr(text).alias(name) for name, text in self.plain.items()))

    def check(self, given: Mapping[str, str]) -> None:
        """Refuse columns named for what this application does not read."""
        for role in given:
            if role not in self.roles:
                hint = "" if role != "key" else f": {self.name} makes its keys of the text"
                raise SkewlessError(f"{self.name} reads no column for {role!r}{hint}. It reads {', '.join(self.roles)}")

    def choose(self, columns: Sequence[str], given: Mapping[str, str], label: str) -> dict[str, list[str]]:
        """Find the columns of each role: that which is given, else all that bear one of the usual names."""
        self.check(given)
        if not columns:
            raise SkewlessError(f"{label} has no columns: it is empty, or no row of it can be read")
        by_folded = {column.lower(): column for column in reversed(columns)}
        chosen: dict[str, list[str]] = {}
        for role, usual in self.roles.items():
            if role not in given:
                chosen[role] = [by_folded[name] for name in usual if name in by_folded]
            elif given[role] in columns:
                chosen[role] = [given[role]]
            else:
                raise unknown_name(f"{role} column of {label}", given[role], columns)
        for group in self.needs:
            if not any(chosen[role] for role in group):
                wanted = " or ".join(group)
                raise SkewlessError(
                    f"{label} has no column that is known to hold the {wanted}: name it with --column "
                    f"{group[-1]}=NAME. It has {', '.join(columns)}"
                )
            if any(role in given for role in group):  # what is named goes before what is only found
                chosen |= {role: [] for role in group if role not in given}
        return {role: found for role, found in chosen.items() if found}


def _parse_keys(found: Mapping[str, Column]) -> Parsed:
    return Parsed(columns=(found["key"].alias("key"),))


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
APPS: Final = {app.name: app for app in (COUNT, WORD_COUNT, VWAP, HASHTAGS)}


def make_app(name: str) -> Application:
    """Give an application by its name.

    >>> make_app("VWAP").values
    ['price', 'volume', 'n']
    """
    folded = name.strip().lower().replace("_", "-")
    if folded not in APPS:
        raise unknown_name("app", name, APPS)
    return APPS[folded]
