"""State and output of a stateful query, read from its files without the code that wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def kept_states(state: Path) -> dict[Any, dict[str, Any]]:
    """Return the state of each key after the last batch; a key or substream found twice is an error."""
    last = max(folder for folder in state.iterdir() if folder.name.isdigit())
    found: dict[Any, dict[str, Any]] = {}
    substreams: set[str] = set()
    manifests = [json.loads(file.read_bytes())["manifest"] for file in sorted(last.glob("worker-*.json"))]
    assert manifests, f"no manifests in {last}"
    assert [manifest["workers"] for manifest in manifests] == [len(manifests)] * len(manifests)
    for manifest in manifests:
        assert not substreams & manifest["places"].keys(), f"substreams with two owners: {manifest}"
        substreams |= manifest["places"].keys()
        for place in manifest["places"].values():
            content = (state / f"{place['batch']:012d}" / place["file"]).read_bytes()
            block = content[place["offset"] : place["offset"] + place["size"]]
            rows = pa.ipc.open_stream(block).read_all().to_pylist()
            assert len(rows) == place["keys"]
            for row in rows:
                key = tuple(value for name, value in row.items() if name.startswith("key:"))
                assert key not in found, f"{key} has two states"
                found[key] = {
                    name.removeprefix("state:"): value for name, value in row.items() if name.startswith("state:")
                }
    return found


def given_rows(sink: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that a query has written, from folders named by batch."""
    for batch in sorted(sink.iterdir(), key=lambda folder: int(folder.name)):
        for file in sorted(batch.glob("*.parquet")):
            yield from (tuple(row.values()) for row in pq.read_table(file, partitioning=None).to_pylist())


def set_aside(rejects: Path) -> list[dict[str, Any]]:
    """Return the rejects of a query in the order of batches and workers."""
    return [json.loads(line) for file in sorted(rejects.glob("*.jsonl")) for line in file.read_text().splitlines()]
