"""A fault: what is broken in which query, where and when; all of it follows from a seed and a number."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.strike import Strike

NAMES: Final = ["hot", "hot", "hot", "hot", None, "", *(f"k{number}" for number in range(40))]
_BATCH_ROWS: Final = 600
_STREAM_ROWS: Final = 120  # of a micro-batch
_FILES: Final = 2  # of a micro-batch, as queries read them

ROW_BY_ROW: Final = ("partial_key", "dynamic_key", "d_choices", "popularity_aware")
PLANNED: Final = ("even", "distribution_aware", "shuffle", "key")
STREAMS: Final = ("agg stream", "stateful")
BATCHES: Final = ("agg batch", "join", "over", "repartition")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault.

    Parameters
    ----------
    seed, index : int
        What it was drawn from.
    kind : str
        The name of its kind.
    stage : str
        Where the query runs.
    query : dict
        The query, without the places that it reads and writes.
    strike : Strike
        What happens to it.
    micro_batches : int
        The length of its input.
    """

    seed: int
    index: int
    kind: str
    stage: str
    query: dict[str, Any]
    strike: Strike
    micro_batches: int
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What repeats it: `make chaos ONLY=<name>`."""
        return f"{self.seed}:{self.index}"


def draw_query(chance: Random, operation: str) -> dict[str, Any]:
    """Draw the settings of a query."""
    query: dict[str, Any] = {"operation": operation, "workers": chance.choice((2, 3, 4)), "seed": chance.randrange(100)}
    if operation.startswith("agg"):
        query["grouping"] = chance.choice(ROW_BY_ROW + PLANNED)
        query["merged"] = chance.random() < 0.4
        if chance.random() < 0.3:
            query["window"] = "100 seconds"
        if operation == "agg batch":
            query |= {"ledger": chance.random() < 0.5, "sample": chance.choice((1.0, 0.5))}
    elif operation == "stateful":
        query["grouping"] = chance.choice(("random_owner", "planned_owner", "even"))
    else:
        query["sample"] = chance.choice((1.0, 0.8))
        if operation == "join":
            query["how"] = chance.choice(("inner", "left", "right", "full"))
    return query


def points_of(query: dict[str, Any]) -> list[str]:
    """Return the points that a query passes: first those at its ends, then those of its own."""
    points = ["come", "go"]
    grouping = query.get("grouping")
    if query["operation"].startswith("agg"):
        points += ["work", *(["merge"] if query["merged"] else [])]
    if query["operation"] == "stateful":
        points.append("stateful")
    if grouping in {*ROW_BY_ROW, "random_owner"}:
        points.append("route")
    elif grouping not in {None, "key"} or (query["operation"] == "repartition" and query["sample"] == 1):
        points.append("plan")
    return points


def draw_strike(chance: Random, query: dict[str, Any], deed: str, **more: Any) -> Strike:
    """Draw the place and the moment of a deed."""
    points = points_of(query)
    (point,) = chance.choices(points, [1, 1, *(3 for _ in points[2:])])
    is_stream = query["operation"] in STREAMS
    most = {"plan": 4 if is_stream else 2, "merge": 12 if is_stream else 2, "go": 6 if is_stream else 4}
    after = chance.randrange(most.get(point, 24 if is_stream else 8))
    return Strike(point=point, deed=deed, after=after, seed=chance.randrange(1 << 30), **more)


def write_input(fault: Fault, folder: Path) -> list[dict[str, Any]]:
    """Write the files of a fault's query, two for each micro-batch; return the rows."""
    chance = Random(f"rows {fault.name}")
    is_stream = fault.query["operation"] in STREAMS
    n_rows = fault.micro_batches * _STREAM_ROWS if is_stream else _BATCH_ROWS
    lowest = -50 if fault.query["operation"] == "stateful" else 0
    rows = [{"k": chance.choice(NAMES), "v": chance.randint(lowest, 999), "seq": number} for number in range(n_rows)]
    n_files = fault.micro_batches * _FILES
    folder.mkdir(parents=True)
    for number in range(n_files):
        part = rows[number * n_rows // n_files : (number + 1) * n_rows // n_files]
        chance.shuffle(part)
        file = folder / f"{number:03}.parquet"
        schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("seq", pa.int64())])
        pq.write_table(pa.Table.from_pylist(part, schema), file)
        os.utime(file, (number, number))  # Spark reads the oldest first
    return rows
