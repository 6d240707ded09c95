"""Readings of the DEBS 2013 match: a line becomes the cells of the field that a sensor is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

from skewless.runner.applications.extraction import Extraction
from skewless.streams.debs2013 import FIELD, GRIDS, READING_FIELDS

_WHOLE: Final = r"\A-?[0-9]{1,18}\z"
_HEADER: Final = r"\A(?:sensor_id|sid)\b"
_PICOSECONDS: Final = 1_000_000  # per microsecond


def parse_cells(found: Mapping[str, Column]) -> Extraction:
    """Make four rows of a reading: their `key` is the cell of each grid that the sensor is in.

    Sensor, time, x and y must be whole numbers; the other fields must exist, but are not read. A reading off the field
    has no rows; neither has a line that only names the fields, whatever its end is. The time is that of the sensors, in
    seconds since they were switched on, as if that were 1970.
    """
    line = found["text"]
    fields = sf.split(line, ",", -1)
    sensor, moment, x, y = (sf.get(fields, sf.lit(READING_FIELDS.index(name))) for name in ("sid", "ts", "x", "y"))
    places = [
        (x.try_cast("int").cast("bigint"), *FIELD[0]),  # 32 bits, so that nothing below can overflow
        (y.try_cast("int").cast("bigint"), *FIELD[1]),
    ]
    on_field = sf.lit(True)
    for place, first, last in places:
        on_field &= place.between(first, last)
    cells = sf.array(*(_cell(places, grid) for grid in GRIDS))
    is_header = line.rlike(_HEADER)
    faults = [(sf.size(fields) != len(READING_FIELDS), f"the line does not have {len(READING_FIELDS)} fields")]
    for name, text in (("sensor", sensor), ("time", moment), ("x", x), ("y", y)):
        faults.append((~text.rlike(_WHOLE), f"the {name} is not a whole number"))
    return Extraction(
        columns=(sf.explode(sf.when(~is_header & on_field, cells)).alias("key"),),
        faults=tuple((~is_header & fault, why) for fault, why in faults),
        time=sf.timestamp_micros(_divided(moment.try_cast("bigint"), _PICOSECONDS)),
    )


def sensor_of(found: Mapping[str, Column]) -> Column:
    """Return the number of the sensor of a reading; null if there is none."""
    return sf.get(sf.split(found["text"], ",", -1), sf.lit(READING_FIELDS.index("sid"))).try_cast("bigint")


def _cell(places: list[tuple[Column, int, int]], grid: tuple[int, int]) -> Column:
    numbers = [
        sf.least(_divided((place - first) * size, last - first), sf.lit(size - 1).cast("bigint")).cast("string")
        for (place, first, last), size in zip(places, grid, strict=True)
    ]
    return sf.concat(sf.lit(f"{grid[0]}x{grid[1]}:"), numbers[0], sf.lit(","), numbers[1])


def _divided(number: Column, by: int) -> Column:
    """Divide whole numbers: doubles are not precise enough for picoseconds."""
    return sf.call_function("div", number, sf.lit(by).cast("bigint"))
