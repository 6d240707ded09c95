"""The football match of the DEBS 2013 challenge: where each sensor is, and the cells of the field it is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from skewless.hashing import lower_choice, random_word, upper_choice
from skewless.seeding import make_salt
from skewless.streams.stand_in import StandIn

READING_FIELDS: Final = ("sid", "ts", "x", "y", "z", "v", "a", "vx", "vy", "vz", "ax", "ay", "az")
"""The fields of a line: sensor, picoseconds, millimetres, speed and acceleration with their directions."""

FIELD: Final = ((0, 52_483), (-33_960, 33_965))
"""Where the field starts and ends along x and along y, both ends included."""

GRIDS: Final = ((8, 13), (16, 25), (32, 50), (64, 100))
"""The four granularities of the third query: cells along x and along y."""

PLAYERS: Final = {
    sensor: worn[0]
    for worn in (
        (13, 14, 97, 98), (47, 16), (49, 88), (19, 52), (53, 54), (23, 24), (57, 58), (59, 28),
        (61, 62, 99, 100), (63, 64), (65, 66), (67, 68), (69, 38), (71, 40), (73, 74), (75, 44),
    )
    for sensor in worn
}  # fmt: skip
"""The player who wears each sensor, by the number of his first one: two teams, the goalkeepers first. Of the others, 4,
8, 10 and 12 are in balls, and the referee wears 105 and 106."""

_SIZES: Final = np.array(GRIDS, dtype=np.int64)
_FIRST: Final = np.concatenate([[0], np.cumsum(_SIZES.prod(axis=1))])  # the number of each grid's first cell; all cells
_LEFT: Final = FIELD[0][0]
_WIDTH: Final = FIELD[0][1] - _LEFT
_BOTTOM: Final = FIELD[1][0]
_HEIGHT: Final = FIELD[1][1] - _BOTTOM

_HOT_X: Final = (26_242, 32_802)  # the cell 8x13:4,6, in the middle of the field, upper bound excluded …
_HOT_Y: Final = (-2_610, 2_615)
_PER_MILLION: Final = (
    798_058  # … and the readings drawn in it; with those of the whole field that fall into it, it has 80 %
)
_START: Final = 13_086_639_146_403_495  # of the second half
_BETWEEN: Final = 66_666_667  # picoseconds between two of 15,000 readings per second
_SENSORS: Final = 41


def cells_of(x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of the cells in which positions on the field lie, a column per grid.

    The last cell of a row or column includes the edge of the field.

    >>> cells_of(np.array([0, 52_483]), np.array([-33_960, 33_965])).tolist()
    [[0, 104, 504, 2104], [103, 503, 2103, 8503]]
    """
    columns = np.minimum((x[:, None] - _LEFT) * _SIZES[:, 0] // _WIDTH, _SIZES[:, 0] - 1)
    rows = np.minimum((y[:, None] - _BOTTOM) * _SIZES[:, 1] // _HEIGHT, _SIZES[:, 1] - 1)
    numbers: NDArray[np.int64] = _FIRST[:-1] + columns * _SIZES[:, 1] + rows
    return numbers


def name_cells(numbers: NDArray[np.int64]) -> pa.Array:
    """Return the names of cells: the grid, and the number of the cell along x and along y.

    >>> name_cells(np.array([0, 103, 8503])).to_pylist()
    ['8x13:0,0', '8x13:7,12', '64x100:63,99']
    """
    grids = np.searchsorted(_FIRST, numbers, side="right") - 1
    columns, rows = np.divmod(numbers - _FIRST[grids], _SIZES[grids, 1])
    names = pa.array([f"{n_columns}x{n_rows}:" for n_columns, n_rows in GRIDS]).take(pa.array(grids))
    places = pc.binary_join_element_wise(pa.array(columns).cast(pa.string()), pa.array(rows).cast(pa.string()), ",")
    return pc.binary_join_element_wise(names, places, "")


@njit(cache=True)
def draw_positions(start: int, stop: int, salt: np.uint64) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw the positions, x and y, of the readings from number `start` up to `stop`.

    Most are spread evenly over one cell of the coarsest grid, the others over the whole field.
    """
    xs = np.empty(stop - start, dtype=np.int64)
    ys = np.empty(stop - start, dtype=np.int64)
    for i in range(stop - start):
        word = random_word(salt, start + i)
        if upper_choice(random_word(~salt, start + i), 1_000_000) < _PER_MILLION:
            xs[i] = _HOT_X[0] + upper_choice(word, _HOT_X[1] - _HOT_X[0])
            ys[i] = _HOT_Y[0] + lower_choice(word, _HOT_Y[1] - _HOT_Y[0])
        else:
            xs[i] = _LEFT + upper_choice(word, _WIDTH + 1)
            ys[i] = _BOTTOM + lower_choice(word, _HEIGHT + 1)
    return xs, ys


@dataclass(frozen=True, kw_only=True)
class Positions(StandIn):
    """A stand-in for the second half of the DEBS 2013 match: 100 million tuples over 8,504 cells, a fifth on one cell.

    A reading gives four tuples, the cells of the four grids in which it lies. A record is a `line` of 13 fields, one
    reading; so the tuples of records come in fours. `scale` multiplies the tuples; the cells are always the same.

    >>> Positions(scale=0.001).slice(0, 4, tuples=4, seed=0).to_pylist()
    ['8x13:4,6', '16x25:9,12', '32x50:18,24', '64x100:37,48']

    Reference
    ---------
    Rivetti et al., Efficient Key Grouping, section 5.3: 2.5 x 10^7 readings, 10^8 tuples, the most frequent key with a
    probability of roughly 1/5. Grids and field: the DEBS 2013 Grand Challenge, query 3.
    Deviations: no Zipf's law. A key with a fifth of all tuples is a cell of the coarsest grid with four readings of
    five; here they are spread evenly over it, the others evenly over the field. Sensors jump from place to place; speed
    and acceleration are 0.
    """

    name: ClassVar[str] = "debs2013"
    published_tuples: ClassVar[int] = 100_000_000
    published_keys: ClassVar[int] = int(_FIRST[-1])
    hot_part: ClassVar[float] = 0.0
    hot_share: ClassVar[float] = 0.2
    tuples_per_record: ClassVar[int] = len(GRIDS)

    @property
    def summary(self) -> str:
        return f"positions on a football field: {self.n_keys:,} cells of four grids, one of which has 20 %"

    @property
    def n_keys(self) -> int:
        return self.published_keys

    @property
    def record_schema(self) -> pa.Schema:
        return pa.schema([("line", pa.string())])

    def spelled(self, ranks: NDArray[np.int64]) -> pa.Array:
        return name_cells(ranks)

    def ranks(self, start: int, stop: int, *, seed: int) -> NDArray[np.int64]:
        """Return the numbers of the cells, which are not ranks, from position `start` up to `stop`."""
        size = self.tuples_per_record
        first = start // size
        cells = cells_of(*draw_positions(first, -(-stop // size), make_salt(seed))).ravel()
        return cells[start - first * size : stop - first * size]

    def _records(self, start: int, stop: int, seed: int, _tuples: int, /) -> pa.RecordBatch:
        size = self.tuples_per_record
        first, last = -(-start // size), -(-stop // size)
        numbers = np.arange(first, last)
        xs, ys = draw_positions(first, last, make_salt(seed))
        fields = [numbers % _SENSORS + 1, _START + numbers * _BETWEEN, xs, ys]
        texts = [pa.array(field).cast(pa.string()) for field in fields]
        lines = pc.binary_join_element_wise(*texts, *(["0"] * (len(READING_FIELDS) - len(fields))), ",")
        return pa.RecordBatch.from_arrays([lines], schema=self.record_schema)
