"""Trades on a stock exchange: symbol, price, volume."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_uppercase
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from skewless.hashing import lower_choice, random_word, upper_choice
from skewless.seeding import make_salt
from skewless.streams.spelling import spell
from skewless.streams.stand_in import StandIn

SYMBOL_COLUMNS: Final = ("symbol", "ticker", "sym", "stock", "instrument")
PRICE_COLUMNS: Final = ("price", "trade_price", "last_price", "px")
VOLUME_COLUMNS: Final = ("volume", "size", "quantity", "qty", "shares", "trade_size", "trade_volume", "vol")
TIME_COLUMNS: Final = ("ts", "time", "timestamp", "timestamp_ms", "datetime", "date_time", "trade_time")
"""The names that columns have in files of trades, the likeliest first."""

_CENTS: Final = 49_900  # prices are between 1 and 500 dollars …
_PER_MILLE: Final = 20  # … and vary by this much in either direction
_VOLUMES: Final = 1_000


@njit(cache=True)
def draw_trades(start: int, salt: np.uint64, ranks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw prices in cents and volumes of the trades from position `start` on, whose symbols have these ranks.

    The rank of a symbol determines its price; a trade is up to 2 % off it, and of 1 … 1,000 shares.
    """
    cents = np.empty(ranks.size, dtype=np.int64)
    volumes = np.empty(ranks.size, dtype=np.int64)
    for i in range(ranks.size):
        usual = 100 + upper_choice(random_word(~salt, ranks[i]), _CENTS)
        word = random_word(salt, start + i)
        cents[i] = usual * (1000 - _PER_MILLE + upper_choice(word, 2 * _PER_MILLE + 1)) // 1000
        volumes[i] = 1 + lower_choice(word, _VOLUMES)
    return cents, volumes


@dataclass(frozen=True, kw_only=True)
class Trades(StandIn):
    """A stand-in for a month of NASDAQ trades: 274 million over 6,649 symbols, of which 8 % have 80 % of the trades.

    A record has `symbol`, `price` (dollars, whole cents) and `volume` (shares).

    >>> Trades(scale=0.01).records(0, 2, tuples=2, seed=0).to_pylist()[0]
    {'symbol': 'AAA', 'price': 106.68, 'volume': 941}

    Reference
    ---------
    The DStream paper, section II and Table II (data set ST).
    Deviations: symbols, prices and volumes are made up; the paper says nothing of their distribution. Which symbols are
    hot does not change over time.
    """

    name: ClassVar[str] = "trades"
    published_tuples: ClassVar[int] = 274_000_000
    published_keys: ClassVar[int] = 6_649
    hot_part: ClassVar[float] = 0.08
    hot_share: ClassVar[float] = 0.8

    @property
    def summary(self) -> str:
        return f"trades of {self.n_keys:,} symbols, {self.n_hot:,} of which have 80 %"

    @property
    def record_schema(self) -> pa.Schema:
        return pa.schema([("symbol", pa.string()), ("price", pa.float64()), ("volume", pa.int64())])

    def spelled(self, ranks: NDArray[np.int64]) -> pa.Array:
        return spell(ranks, ascii_uppercase, 3)

    def _records(self, start: int, stop: int, seed: int, tuples: int, /) -> pa.RecordBatch:
        symbols = self._keys(start, stop, seed, tuples).cast(pa.string())
        cents, volumes = draw_trades(start, make_salt(seed, use=1), self.ranks(start, stop, seed=seed))
        return pa.RecordBatch.from_arrays(
            [symbols, pa.array(cents / 100), pa.array(volumes)], schema=self.record_schema
        )
