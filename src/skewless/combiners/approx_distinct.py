"""ApproxDistinct: about how many different values, in a few kilobytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.combiners.base import require_type
from skewless.combiners.sketched import Sketched, import_datasketches
from skewless.errors import ConfigurationError


@dataclass(frozen=True)
class ApproxDistinct(Sketched):
    """Estimate the number of distinct values of a column with a HyperLogLog sketch; nulls are skipped.

    The sketch is the one of Spark's `hll_sketch_agg(column, log2_buckets)`: integers and strings hash alike, so that
    the two give the same estimate, and Spark merges these states. Nearly exact up to about a tenth of the buckets;
    beyond, the standard error is about 1.04 / sqrt(2 ** log2_buckets), 1.6 % with the default.

    Parameters
    ----------
    column : str
        A column of strings, integers or floats.
    log2_buckets : int
        Accuracy, from 4 to 21; a full sketch takes 2 ** log2_buckets bytes.

    >>> states = ApproxDistinct("user").add(np.array([0, 0, 0, 1]), 3, [pa.array(["ann", "bob", "ann", None])])
    >>> ApproxDistinct("user").extract(states, [pa.string()]).to_pylist()
    [2, 0, 0]

    Reference
    ---------
    Flajolet et al., *HyperLogLog* (2007), as in Apache DataSketches. Deviations: as in Spark, the empty string is
    not counted. Floats, which `hll_sketch_agg` refuses, are counted: all NaN as one value, -0.0 as 0.0.
    """

    name: ClassVar[str] = "approx_distinct"

    log2_buckets: int = 12

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.log2_buckets) is not int or not 4 <= self.log2_buckets <= 21:
            raise ConfigurationError(
                subject="log2_buckets", expected="a whole number from 4 to 21", value=self.log2_buckets
            )

    def result_type(self, inputs: Sequence[pa.DataType]) -> pa.DataType:
        (kind,) = inputs
        accepted = (
            pa.types.is_signed_integer(kind)
            or pa.types.is_float32(kind)
            or pa.types.is_float64(kind)
            or pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
        )
        require_type(self, 0, kind, "strings, integers and floats", when=accepted)
        return pa.int64()

    def extract(self, states: Sequence[pa.Array], _inputs: Sequence[pa.DataType], /) -> pa.Array:
        read = import_datasketches().hll_sketch.deserialize
        return pa.array((floor(read(state).get_estimate() + 0.5) for state in states[0].to_pylist()), pa.int64())

    def native_merge(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> list[str]:
        return [f"hll_union_agg({columns[0]})"]

    def native_extract(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return f"hll_sketch_estimate({columns[0]})"

    def native_aggregate(self, columns: Sequence[str], inputs: Sequence[pa.DataType], /) -> str:
        (value,) = columns
        if pa.types.is_floating(inputs[0]):  # Spark's sketch takes none; their hash is the same for 0.0 and -0.0
            value = f"if({value} IS NULL, NULL, xxhash64({value}))"
        elif pa.types.is_integer(inputs[0]):  # nor shorter ones
            value = f"bigint({value})"
        return self.native_extract([f"hll_sketch_agg({value}, {self.log2_buckets})"], inputs)

    def _prepare(self, groups: NDArray[np.int64], values: pa.Array) -> tuple[NDArray[np.int64], NDArray[Any]]:
        if pa.types.is_floating(values.type):
            values = values.cast(pa.float64())
        # A sketch takes one value at a time: let Arrow drop the repeated ones first.
        table = pa.table([pa.array(groups), values], names=["group", "value"]).filter(pc.is_valid(pc.field("value")))
        table = table.group_by(["group", "value"], use_threads=False).aggregate([]).combine_chunks()
        return table["group"].to_numpy(), table["value"].to_numpy()

    def _sketch(self, values: NDArray[Any]) -> bytes:
        sketches = import_datasketches()
        sketch = sketches.hll_sketch(self.log2_buckets, sketches.tgt_hll_type.HLL_8)
        for value in values.tolist():
            sketch.update(value)
        return _saved(sketch)

    def _union(self, sketches: NDArray[Any]) -> bytes:
        if len(sketches) == 1:
            return bytes(sketches[0])
        library = import_datasketches()
        union = library.hll_union(self.log2_buckets)
        for sketch in sketches:
            union.update(library.hll_sketch.deserialize(sketch))
        return _saved(union.get_result(library.tgt_hll_type.HLL_8))


def _saved(sketch: Any) -> bytes:
    return bytes(sketch.serialize_compact())
