"""Trades: text fields become a symbol, a price and a volume, or a reason to reject the row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

from skewless.runner.applications.extraction import Extraction, stripped

_NUMBER: Final = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"


def parse_trades(found: Mapping[str, Column]) -> Extraction:
    """Make `key`, `price` and `volume` of the columns of a trade.

    A price or volume must exist, be a number as people write it (`167.41`, `1e3`; not `NaN`, `1,000` or `12f`) and be
    above zero. Records without a volume are no trades: they cancel or correct others, or report that there was no
    trade. They would not change an average, but they would be counted.
    """
    symbol = stripped(found["key"])
    price, volume = stripped(found["price"]), stripped(found["volume"])
    return Extraction(
        columns=(
            symbol.alias("key"),
            price.try_cast("double").alias("price"),
            volume.try_cast("double").alias("volume"),
        ),
        faults=(
            (sf.coalesce(symbol, sf.lit("")) == "", "no symbol"),
            *_faults("price", price),
            *_faults("volume", volume),
        ),
    )


def _faults(what: str, text: Column) -> list[tuple[Column, str]]:
    number = text.try_cast("double")
    return [
        (sf.coalesce(text, sf.lit("")) == "", f"no {what}"),
        (~text.rlike(_NUMBER), f"the {what} is not a number"),
        (number <= 0, f"the {what} is not above zero"),
        (number == float("inf"), f"the {what} is not a number"),
    ]
