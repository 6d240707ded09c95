"""ApproxTopK: the items that come most often, with their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.combiners.base import Combiner, require_type
from skewless.combiners.per_group import integers_of
from skewless.errors import ConfigurationError, require_at_least


@dataclass(frozen=True)
class ApproxTopK(Combiner):
    """Find the `k` most frequent items of a column: a list of (item, count), most frequent first, then by item.

    Nulls are skipped. It is exact while a group has no more than 2 ** log2_items distinct items. Beyond, a count is
    never too small, and too large by at most the `excess` of the state, which is below n / 2 ** log2_items for n
    values: 0.1 % of all values with the default. An item that occurs more often than that is never missed. Spark
    cannot merge these states.

    Parameters
    ----------
    column : str
        A column of strings or integers.
    k : int
        Items in the result.
    log2_items : int
        Items that a state tracks at most, as a power of 2, from 1 to 24; at least `k` of them are needed.

    >>> states = ApproxTopK("item", 2).add(np.zeros(6, dtype=np.int64), 1, [pa.array(["a", "c", "b", "c", "b", None])])
    >>> ApproxTopK("item", 2).extract(states, [pa.string()]).to_pylist()
    [[{'item': 'b', 'count': 2}, {'item': 'c', 'count': 2}]]

    Reference
    ---------
    Misra & Gries, *Finding Repeated Elements* (1982); Agarwal et al., *Mergeable Summaries* (2012), section 3.1.
    Deviations: what was cut off a count is added back where it is reported.
    """

    name: ClassVar[str] = "approx_top_k"

    column: str
    k: int
    log2_items: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("k", self.k, 1)
        if type(self.log2_items) is not int or not 1 <= self.log2_items <= 24:
            raise ConfigurationError(
                subject="log2_items", expected="a whole number from 1 to 24", value=self.log2_items
            )
        if self.k > 2**self.log2_items:
            raise ConfigurationError(
                f"{{k}} must not exceed 2**log2_items ({2**self.log2_items}); got {self.k}", subject="k"
            )

    @property
    def label(self) -> str:
        return f"approx_top_k({self.column}, {self.k})"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:
        self.result_type(inputs)
        return [
            pa.field("items", pa.list_(inputs[0])),
            pa.field("counts", pa.list_(pa.int64())),
            pa.field("excess", pa.int64()),
        ]

    def result_type(self, inputs: Sequence[pa.DataType]) -> pa.DataType:
        (kind,) = inputs
        accepted = pa.types.is_signed_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
        require_type(self, 0, kind, "strings and integers", when=accepted)
        return pa.list_(pa.struct([("item", kind), ("count", pa.int64())]))

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        self.result_type([columns[0].type])
        present = np.asarray(columns[0].is_valid())
        ones = np.ones(np.count_nonzero(present), dtype=np.int64)
        items = columns[0].filter(pa.array(present))
        return self._summary(groups[present], n_groups, items, ones, np.zeros(n_groups, dtype=np.int64))

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        items, counts, excess = states
        total = np.zeros(n_groups, dtype=np.int64)
        np.add.at(total, groups, integers_of(excess))
        owners = groups[pc.list_parent_indices(items).to_numpy()]
        return self._summary(owners, n_groups, items.flatten(), integers_of(counts.flatten()), total)

    def extract(self, states: Sequence[pa.Array], inputs: Sequence[pa.DataType]) -> pa.Array:
        items, counts, excess = states
        # Items are already in the order of their counts.
        owners = pc.list_parent_indices(items).to_numpy().astype(np.int64)
        lengths = np.bincount(owners, minlength=len(items))
        shown = _rank_in_group(owners, lengths) < self.k
        estimates = integers_of(counts.flatten()) + integers_of(excess)[owners]
        fields = [items.flatten().filter(pa.array(shown)), pa.array(estimates[shown])]
        pairs = pa.StructArray.from_arrays(fields, names=["item", "count"])
        return pa.ListArray.from_arrays(_offsets(np.minimum(lengths, self.k)), pairs).cast(self.result_type(inputs))

    def _summary(
        self,
        groups: NDArray[np.int64],
        n_groups: int,
        items: pa.Array,
        counts: NDArray[np.int64],
        excess: NDArray[np.int64],
    ) -> list[pa.Array]:
        """Add up the counts of each item; where a group has too many items, cut all of its counts by the same number.

        That number is the count of the first item that there is no place for: it and all behind it go to zero or below.
        """
        table = pa.table([pa.array(groups), items, pa.array(counts)], names=["group", "item", "count"])
        table = table.group_by(["group", "item"], use_threads=False).aggregate([("count", "sum")])
        order = [("group", "ascending"), ("count_sum", "descending"), ("item", "ascending")]
        table = table.sort_by(order).combine_chunks()
        groups, counts = table["group"].to_numpy(), table["count_sum"].to_numpy()
        rank = _rank_in_group(groups, np.bincount(groups, minlength=n_groups))
        cuts = np.zeros(n_groups, dtype=np.int64)
        too_many = rank == 2**self.log2_items
        cuts[groups[too_many]] = counts[too_many]
        kept = rank < 2**self.log2_items
        counts = counts - cuts[groups]
        offsets = _offsets(np.bincount(groups[kept], minlength=n_groups))
        return [
            pa.ListArray.from_arrays(offsets, table["item"].combine_chunks().filter(pa.array(kept))),
            pa.ListArray.from_arrays(offsets, pa.array(counts[kept])),
            pa.array(excess + cuts),
        ]


def _rank_in_group(groups: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the rows of each group from zero, where the rows of a group are adjacent."""
    ranks: NDArray[np.int64] = np.arange(groups.size) - (np.cumsum(lengths) - lengths)[groups]
    return ranks


def _offsets(lengths: NDArray[np.int64]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
