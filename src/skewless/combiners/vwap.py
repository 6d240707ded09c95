"""Vwap: the price that was paid on average, each trade weighted by its volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.combiners.base import Combiner, require_type
from skewless.combiners.per_group import NUMBERS, doubles_of, is_number, nullable, sum_doubles


@dataclass(frozen=True)
class Vwap(Combiner):
    """Volume-weighted average price, sum(price x volume) / sum(volume), as a double.

    A row without a price or without a volume is skipped. Where the volumes sum to zero the price is null.

    >>> columns = [pa.array([10.0, 20.0, 30.0]), pa.array([1, 3, 0])]
    >>> states = Vwap("price", "volume").add(np.array([0, 0, 1]), 2, columns)
    >>> Vwap("price", "volume").extract(states, [pa.float64(), pa.int64()]).to_pylist()
    [17.5, None]
    """

    name: ClassVar[str] = "vwap"

    price: str
    volume: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.price, self.volume)

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:
        kind = self.result_type(inputs)
        return [pa.field("turnover", kind), pa.field("volume", kind)]

    def result_type(self, inputs: Sequence[pa.DataType]) -> pa.DataType:
        for number, kind in enumerate(inputs):
            require_type(self, number, kind, NUMBERS, when=is_number(kind))
        return pa.float64()

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        prices, volumes = columns
        if prices.null_count or volumes.null_count:
            traded = np.asarray(prices.is_valid()) & np.asarray(volumes.is_valid())
            mask = pa.array(traded)
            groups, prices, volumes = groups[traded], prices.filter(mask), volumes.filter(mask)
        with np.errstate(over="ignore", invalid="ignore"):  # infinities come out as in Spark, without a word
            turnover = doubles_of(prices) * doubles_of(volumes)
        return [
            pa.array(sum_doubles(groups, n_groups, turnover)),
            pa.array(sum_doubles(groups, n_groups, doubles_of(volumes))),
        ]

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        return [pa.array(sum_doubles(groups, n_groups, doubles_of(state))) for state in states]

    def extract(self, states: Sequence[pa.Array], _inputs: Sequence[pa.DataType], /) -> pa.Array:
        turnover, volume = (doubles_of(state) for state in states)
        with np.errstate(over="ignore", invalid="ignore"):
            return nullable(turnover / np.where(volume == 0, 1, volume), volume != 0)

    def native_merge(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> list[str]:
        return [f"sum({column})" for column in columns]

    def native_extract(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return f"{columns[0]} / nullif({columns[1]}, 0D)"

    def native_aggregate(self, columns: Sequence[str], inputs: Sequence[pa.DataType], /) -> str:
        price, volume = (f"double({column})" for column in columns)
        sums = [f"sum({price} * {volume})", f"sum({volume}) FILTER (WHERE {price} IS NOT NULL)"]
        return self.native_extract(sums, inputs)
