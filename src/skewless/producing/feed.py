"""What a producer sends, row by row: the keys or records of a stream or a file, or the lines of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from skewless.errors import ConfigurationError, UnknownNameError, require_at_least
from skewless.streams import KeyFile, Stream, SyntheticStream, make_stream
from skewless.streams.data_file import DataFile

KEYS: Final = "keys"
RECORDS: Final = "records"
LINES: Final = "lines"
PARTS: Final = (KEYS, RECORDS, LINES)
"""What can be sent: `keys`, one per message; `records` with all their columns; the `lines` of a file as they are."""

_PIECE: Final = 1 << 14  # tuples generated at a time: few, so that the next ones never keep the sender waiting


@dataclass(frozen=True, kw_only=True)
class Feed:
    """Rows to send, each of them a message, in batches that can be read once.

    Parameters
    ----------
    label : str
        Name of the stream or file.
    part : str
        What is sent of it, one of `PARTS`.
    columns : tuple of str
        Columns of the rows.
    rows : iterator of RecordBatch
        The rows.
    tuples : int or None
        Number of tuples in all rows, or an upper bound; None if only reading will tell.
    stride : int
        Number of tuples in a row; the last row may have fewer.

    >>> feed = make_feed(stream="trades-0.01", part="records", tuples=2)
    >>> feed.columns, [row["symbol"] for rows in feed.rows for row in rows.to_pylist()]
    (('symbol', 'price', 'volume'), ['AAA', 'AAD'])
    """

    label: str
    part: str
    columns: tuple[str, ...]
    rows: Iterator[pa.RecordBatch]
    tuples: int | None
    stride: int = 1


def make_feed(
    *,
    stream: str | None = None,
    path: str | None = None,
    part: str = KEYS,
    key: str | None = None,
    tuples: int | None = None,
    seed: int = 0,
) -> Feed:
    """Return the feed of a named stream, or of a file, whose keys are in the column `key` if it has columns."""
    if part not in PARTS:
        raise UnknownNameError("part to send", part, PARTS, subject="send")
    if (stream is None) == (path is None):
        raise ConfigurationError("exactly one of {stream} and {input} must say what to send", subject="stream")
    require_at_least("seed", seed, 0)
    if tuples is not None:
        require_at_least("tuples", tuples, 1)
    if stream is not None:
        return _of_stream(make_stream(stream), part, key, tuples, seed)
    file = DataFile(path=str(path))
    if part == KEYS:
        return _of_keys(KeyFile(path=str(path), column=key), tuples, seed)
    if part == LINES:
        return _of_lines(file, key, tuples)
    return _of_rows(file, key, tuples)


def _of_stream(stream: SyntheticStream, part: str, key: str | None, tuples: int | None, seed: int) -> Feed:
    total = stream.length(tuples)
    if part == LINES:
        raise ConfigurationError(
            "only a file has lines", subject="send", hint=f"send the keys or the records of {stream.label}"
        )
    if part == KEYS:
        if key is not None:
            raise ConfigurationError(
                "{key} is a column of a file, or of records; the keys of a stream have none", subject="key"
            )
        pieces = (
            _as_keys(stream.slice(start, min(start + _PIECE, total), tuples=total, seed=seed))
            for start in range(0, total, _PIECE)
        )
        return Feed(label=stream.label, part=part, columns=("key",), rows=pieces, tuples=total)
    columns = tuple(str(name) for name in stream.record_schema.names)
    _require_column(stream.label, columns, key)
    size = stream.tuples_per_record
    step = _PIECE * size
    records = (
        stream.records(start, min(start + step, total), tuples=total, seed=seed) for start in range(0, total, step)
    )
    return Feed(label=stream.label, part=part, columns=columns, rows=records, tuples=total, stride=size)


def _of_keys(stream: Stream, tuples: int | None, seed: int) -> Feed:
    rows = (_as_keys(keys) for keys in stream.generate(tuples=tuples, seed=seed))
    total = _least(stream.length(tuples), tuples)
    return Feed(label=stream.label, part=KEYS, columns=("key",), rows=rows, tuples=total)


def _of_lines(file: DataFile, key: str | None, tuples: int | None) -> Feed:
    if file.kind == "parquet":
        raise ConfigurationError(f"{file.path} has no lines", subject="send", hint="send its keys or its records")
    if key is not None:
        raise ConfigurationError("a line has no columns", subject="key", hint="leave out {key}, or send records")
    rows = _first(file.lines(), tuples)
    return Feed(label=Path(file.path).name, part=LINES, columns=("line",), rows=rows, tuples=tuples)


def _of_rows(file: DataFile, key: str | None, tuples: int | None) -> Feed:
    if file.kind in {"text", "json"}:
        raise ConfigurationError(f"the records of {file.path} are its lines", subject="send", hint="send lines")
    columns = file.columns()
    _require_column(file.path, columns, key)
    rows = _first(file.rows(columns), tuples)
    total = _least(file.n_rows, tuples)
    return Feed(label=Path(file.path).name, part=RECORDS, columns=tuple(columns), rows=rows, tuples=total)


def _require_column(what: str, columns: tuple[str, ...] | list[str], key: str | None) -> None:
    if key is not None and key not in columns:
        raise UnknownNameError(f"column of {what}", key, columns, subject="key")


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _as_keys(keys: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([keys], names=["key"])


def _first(batches: Iterator[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """Return the first `rows` rows, or all."""
    left = rows
    for batch in batches:
        if left is not None and left <= batch.num_rows:
            yield batch.slice(0, left)
            return
        left = None if left is None else left - batch.num_rows
        yield batch
