"""The planning task that returns the whole plan: sampled rows in, or counted keys, and the plan as JSON out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.salting.plan import Plan, PlannedKey
from skewless.salting.planning_task import Task, named_keys

BITS: Final = 8
"""Bits of a hash of a row's content by which the variety of a key is estimated."""

_KEY: Final = [("hash", pa.int64()), ("spark_hash", pa.int32()), ("name", pa.binary()), ("source", pa.int32())]
SAMPLED: Final = pa.schema([*_KEY, ("content", pa.uint8())])
"""A sampled row: Spark's `xxhash64` and `hash` of its key, the key as text, the number of its source (from 1), and some
bits of a hash of the row's content."""
COUNTED: Final = pa.schema([*_KEY, ("rows", pa.int64()), ("ones", pa.list_(pa.int64()))])
"""A counted key: the same, its rows, and how many of these have each of the bits."""

_LOWER: Final = np.int64(0xFFFFFFFF)
_KEPT: Final = 1 << 22  # sampled rows that are kept to describe the largest keys


@dataclass(frozen=True, kw_only=True)
class PlanTask:
    """A planning task that returns the whole plan, as JSON.

    Parameters
    ----------
    columns : mapping of str to str
        The key columns and their types.
    content : tuple of str
        The columns whose content is hashed.
    task : Task
        How to plan. If all rows are counted, the task gets `COUNTED` keys, otherwise `SAMPLED` rows.
    """

    columns: Mapping[str, str]
    content: tuple[str, ...]
    task: Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"plan": [self.plan(batches).to_json()]})

    def plan(self, batches: Iterable[pa.RecordBatch]) -> Plan:
        """Count, and plan."""
        kept = _Kept(named_keys(self.task.workers, may_cut=self.task.may_cut))
        ids, loads, distinct = self.task.count(self._counted(batches, kept))
        described = kept.described(ids)
        is_known = np.isin(ids.view(np.int64), [*described])  # of a thinned sample, the smallest keys may be gone
        ids, loads = ids[is_known], replace(loads, loads=loads.loads[is_known], homes=loads.homes[is_known])
        plan = Plan(
            columns=dict(self.columns),
            workers=self.task.workers,
            salt=self.task.salt,
            content=self.content,
            sampled=loads.sampled,
            distinct=distinct,
            sources=kept.sources,
            totals=(),
            keys=tuple(
                PlannedKey(**described[number], rows=float(load), workers=(), shares=())
                for number, load in zip(ids.view(np.int64).tolist(), loads.loads, strict=True)
            ),
        )
        return plan.levelled(loads, self.task.pieces(loads))

    def _counted(self, batches: Iterable[pa.RecordBatch], kept: _Kept) -> Iterator[pa.RecordBatch]:
        schema = COUNTED if self.task.sampled == 1 else SAMPLED
        for batch in batches:
            rows = pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema)
            ids = pa.array(self._identified(rows))
            kept.add(rows.append_column("id", ids))
            counts = [rows["rows"].combine_chunks()] if "rows" in schema.names else []
            yield pa.RecordBatch.from_arrays([ids, *counts], ["id", "rows"][: 1 + len(counts)])

    def _identified(self, rows: pa.Table) -> NDArray[np.int64]:
        """Return what the task counts by."""
        ids: NDArray[np.int64] = rows["hash"].to_numpy()
        if self.task.salt is None:
            ids = (ids & ~_LOWER) | (rows["spark_hash"].to_numpy().astype(np.int64) & _LOWER)
        return ids


class _Kept:
    """Keeps what describes the largest keys, in bounded memory: the largest of counted keys, or sampled rows.

    Of too many sampled rows, only every second one is kept, then every fourth…

    Parameters
    ----------
    n_keys : int
        The number of counted keys that matter.
    """

    def __init__(self, n_keys: int) -> None:
        self._n_keys = n_keys
        self._tables: list[pa.Table] = []
        self._n_rows, self._stride = 0, 1
        self.sources = 0

    def add(self, rows: pa.Table) -> None:
        """Take note of a batch."""
        self.sources = max(self.sources, pc.max(rows["source"]).as_py() or 0)
        is_counted = "rows" in rows.column_names
        self._tables.append(rows if is_counted else rows.take(np.arange(0, rows.num_rows, self._stride)))
        self._n_rows += self._tables[-1].num_rows
        if is_counted:
            order = [("rows", "descending"), ("id", "ascending")]
            self._tables = [pa.concat_tables(self._tables).sort_by(order).slice(0, self._n_keys)]
        elif self._n_rows > _KEPT:
            self._stride *= 2
            self._tables = [table.take(np.arange(0, table.num_rows, 2)) for table in self._tables]
            self._n_rows = sum(table.num_rows for table in self._tables)

    def described(self, ids: NDArray[np.uint64]) -> dict[int, dict[str, Any]]:
        """Return what is known of keys: hashes, name and variety."""
        if not self._tables:
            return {}
        table = pa.concat_tables(self._tables)
        own = table.filter(pa.array(np.isin(table["id"].to_numpy(), ids.view(np.int64))))
        numbers, first, groups = np.unique(own["id"].to_numpy(), return_index=True, return_inverse=True)
        if "rows" in own.column_names:
            rows = own["rows"].to_numpy()[first]
            ones = np.array([own["ones"][int(row)].as_py() or [0] * BITS for row in first]).reshape(-1, BITS)
        else:
            rows = np.bincount(groups, minlength=numbers.size)
            ones = ones_of(groups, own["content"].to_numpy(), numbers.size)
        varieties = varieties_of(rows, ones)
        keys = own.select(["hash", "spark_hash", "name"]).take(first).to_pylist()
        return {
            number: {
                "key": (key["name"] or b"").decode(errors="replace"),
                "hash": key["hash"],
                "spark_hash": key["spark_hash"],
                "variety": variety,
            }
            for number, key, variety in zip(numbers.tolist(), keys, varieties.tolist(), strict=True)
        }


def ones_of(groups: NDArray[Any], content: NDArray[Any], n_groups: int) -> NDArray[np.float64]:
    """Count the rows of each group that have each of the bits, from the highest on.

    >>> ones_of(np.array([0, 0, 1]), np.array([3, 1, 0]), 2)[:, -2:].tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    bits = np.unpackbits(content.astype(np.uint8)[:, None], axis=1)
    return np.stack([np.bincount(groups, bits[:, bit], n_groups) for bit in range(BITS)], axis=1)


def varieties_of(rows: NDArray[Any], ones: NDArray[Any]) -> NDArray[np.float64]:
    """Estimate how many different contents there are, all being equally frequent, from the bits of their hashes.

    A bit is a random sign for each content. The sum of the signs of all rows, squared, is on average the sum of the
    squares of how often each content occurs.

    >>> varieties_of(np.array([1000, 1000]), np.array([[480, 510, 505], [1000, 0, 0]])).tolist()
    [1000.0, 1.0]

    Reference
    ---------
    N. Alon, Y. Matias, M. Szegedy, *The Space Complexity of Approximating the Frequency Moments* (1996). Deviations:
    signs are bits of one hash; the mean of few sums, not a median of means.
    """
    squares = ((rows[:, None] - 2.0 * ones) ** 2).mean(axis=1)
    varieties: NDArray[np.float64] = rows.astype(np.float64) ** 2 / np.maximum(squares, np.maximum(rows, 1))
    return varieties
