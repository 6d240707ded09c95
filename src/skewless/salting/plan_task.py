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
from skewless.salting.variety import BITS, ones_of, varieties_of

_KEY: Final = [("hash", pa.int64()), ("spark_hash", pa.int32()), ("name", pa.binary()), ("source", pa.int32())]
SAMPLED: Final = pa.schema([*_KEY, ("content", pa.uint8())])
"""A sampled row: Spark's `xxhash64` and `hash` of its key, the key as text, the number of its source (from 1), and some
bits of a hash of the row's content, which may be missing."""
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
        for batch in batches:
            schema = COUNTED if self.task.sampled == 1 else pa.schema([*SAMPLED][: batch.num_columns])
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
        numbers = ids.view(np.int64)
        groups = pc.index_in(table["id"], pa.array(numbers)).fill_null(-1).to_numpy()
        at = np.flatnonzero(groups >= 0)
        groups = groups[at]
        first = np.full(numbers.size, -1)
        first[groups[::-1]] = at[::-1]
        is_known = first >= 0
        if "rows" in table.column_names:
            ones = np.array([table["ones"][int(row)].as_py() or [0] * BITS for row in first[is_known]])
            varieties = varieties_of(table["rows"].to_numpy()[first[is_known]], ones.reshape(-1, BITS))
        elif "content" in table.column_names:
            rows = np.bincount(groups, minlength=numbers.size)
            ones = ones_of(groups, table["content"].to_numpy()[at], numbers.size)
            varieties = varieties_of(rows, ones)[is_known]
        else:
            varieties = np.zeros(int(is_known.sum()))
        keys = table.select(["hash", "spark_hash", "name"]).take(first[is_known]).to_pylist()
        return {
            number: {
                "key": (key["name"] or b"").decode(errors="replace"),
                "hash": key["hash"],
                "spark_hash": key["spark_hash"],
                "variety": variety,
            }
            for number, key, variety in zip(numbers[is_known].tolist(), keys, varieties.tolist(), strict=True)
        }
