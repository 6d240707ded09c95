"""The state store: keyed state in files of a shared directory, by micro-batch and substream, readable by any worker.

`<batch>/worker-<w>.json` is a worker's manifest of a batch: for each substream that it owned, the file with its state,
where in it, and the checksum of that block. `<batch>/worker-<w>-<…>.arrows` has the states that changed, one Arrow
stream per substream. A batch reads the manifests of the one before and writes its own; nothing is ever overwritten. So
a batch can be repeated at any time, a substream changes its owner simply by being read by another, and of several
attempts at a task the last to finish counts as a whole. What a disk or a network changed by a single bit is refused:
manifests have a checksum too.

A substream that does not change stays in its old file, but not for ever: what is older than `KEEP` batches is copied,
and its folder removed.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from skewless.errors import StorageError
from skewless.processors.processing import EXPIRES
from skewless.storage.batch_directory import BatchDirectory, absolute, file_of, retry

KEEP: Final = 50
"""Batches after which a state that has not changed is copied to a new file."""

_UNLISTED: Final = 50  # most batches in a row that a listing can miss
_NAME: Final = re.compile(r"\w[\w.-]*", re.ASCII)  # of a file in the folder of a batch: no way out of it


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the state of a substream is, how many keys it has, and when the first of them expires."""

    batch: int
    file: str
    offset: int
    size: int
    checksum: int
    keys: int
    expires_ms: int | None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.file):
            raise ValueError(f"{self.file!r} is not the name of a file")
        for number in (self.batch, self.offset, self.size, self.checksum, self.keys):
            if type(number) is not int or number < 0:
                raise ValueError(f"{number!r} is not a number")

    def is_due(self, now_ms: int | None) -> bool:
        """Whether a key there has expired; a time of None is before all others."""
        return self.expires_ms is not None and now_ms is not None and self.expires_ms <= now_ms


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a worker holds after a batch.

    Parameters
    ----------
    query : str
        Spark's identifier of the query, which stays the same when it restarts from its checkpoint.
    workers : int
        Number of workers.
    substreams : int
        Number of substreams into which keys are hashed.
    latest_ms : int or None
        The latest event time that any worker had seen before the batch, or this one in it.
    places : dict
        Where the state of each substream is.
    """

    query: str
    workers: int
    substreams: int
    latest_ms: int | None = None
    places: dict[int, Place] = field(default_factory=dict)

    def as_json(self) -> bytes:
        """Return the manifest as JSON, with a checksum of its content."""
        content = asdict(self)
        return json.dumps({"checksum": _checksum(content), "manifest": content}).encode()

    @classmethod
    def of_json(cls, text: bytes) -> Manifest:
        """Return the manifest that `as_json` wrote."""
        sealed = json.loads(text)
        if "checksum" not in sealed:
            raise ValueError("it has no checksum, as in skewless 0.2: start with a new checkpoint and directory")
        content = sealed["manifest"]
        if _checksum(content) != sealed["checksum"]:
            raise ValueError("its checksum is not that of its content")
        places = {int(substream): Place(**place) for substream, place in content.pop("places").items()}
        return cls(**content, places=places)


@dataclass(frozen=True, kw_only=True)
class Before:
    """What all workers held before a batch: the place of each substream, and its owner."""

    places: Mapping[int, Place]
    owners: Mapping[int, int]
    latest_ms: int | None


@dataclass(frozen=True, kw_only=True)
class StateStore:
    """The states of a query, in a directory of its own.

    Unlike a ledger it is needed for the answer, so it never guesses: what cannot be read or written fails the task,
    which Spark then retries.

    Parameters
    ----------
    uri : str
        A local path, or any URI that `pyarrow.fs` opens.
    schema : pyarrow.Schema
        The columns of a state.
    """

    uri: str
    schema: pa.Schema

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", absolute(self.uri))

    @property
    def directory(self) -> BatchDirectory:
        """Where the files are."""
        return BatchDirectory(self.uri)

    def before(
        self, batch: int, query: str, substreams: int, *, has_begun: Callable[[], bool] = lambda: True
    ) -> Before:
        """Return what the last earlier batch left; refuse what another query, or another run, wrote.

        Where there is nothing although there were batches, `has_begun` is asked whether any of them had rows.
        """
        batches = retry(self.directory.batches)
        later = [number for number in batches if number > batch]
        last = self._last(batch, batches)
        if later:
            raise StorageError(
                f"the state in {self.uri} is of batch {later[-1]}, the query at batch {batch}: its checkpoint is older "
                "than its state, or new",
                subject="state",
                hint="use the checkpoint that belongs to it, or an empty directory",
            )
        if last is None:
            if batch > 0 and has_begun():
                raise StorageError(
                    f"there is no state in {self.uri}, but the query is at batch {batch} already",
                    subject="state",
                    hint="use the directory that it had before, or start with a new checkpoint",
                )
            return Before(places={}, owners={}, latest_ms=None)
        manifests = self._manifests(last)
        found = next(iter(manifests.values()), None)
        if found is None or len(manifests) != found.workers:
            raise StorageError(
                f"the state in {self.uri} is incomplete: batch {last} has {len(manifests)} manifests",
                subject="state",
            )
        if found.query != query:
            raise StorageError(
                f"the state in {self.uri} belongs to another query",
                subject="state",
                hint="use a directory for this query alone",
            )
        if found.substreams != substreams:
            raise StorageError(
                f"the state in {self.uri} is in {found.substreams} substreams, the grouping has {substreams}",
                subject="state",
                hint="use as many {workers} as before, or a grouping with n_substreams as before",
            )
        if len({key for manifest in manifests.values() for key in manifest.places}) != sum(
            len(manifest.places) for manifest in manifests.values()
        ):
            raise StorageError(
                f"the state in {self.uri} is torn: in batch {last} a substream has two owners",
                subject="state",
                hint="workers disagreed on the plan; use a grouping that plans, or start with a new checkpoint",
            )
        return Before(
            places={key: place for manifest in manifests.values() for key, place in manifest.places.items()},
            owners={substream: worker for worker, manifest in manifests.items() for substream in manifest.places},
            latest_ms=max((m.latest_ms for m in manifests.values() if m.latest_ms is not None), default=None),
        )

    def read(self, places: Iterable[Place]) -> pa.Table:
        """Return the states at some places, as one table."""
        by_file: dict[str, list[Place]] = {}
        for place in places:
            by_file.setdefault(file_of(place.batch, place.file), []).append(place)
        found = [self.schema.empty_table()]
        for path, blocks in by_file.items():
            with retry(partial(self.directory.open, path)) as source:
                found += [self._block(source, path, block) for block in blocks]
        return pa.concat_tables(found)

    def _block(self, source: Any, path: str, place: Place) -> pa.Table:
        """Return the states at a place of an open file; refuse them if anything in them has changed."""
        block = b""
        if place.offset < source.size():
            source.seek(place.offset)
            block = source.read_buffer(place.size)
        if zlib.crc32(block) != place.checksum:
            raise StorageError(
                f"the state in {path} of {self.uri} is broken: the checksum of {place.size} bytes from "
                f"{place.offset} on is not the one in the manifest",
                subject="state",
                hint="restore the file from a copy, or start with a new checkpoint and directory",
            )
        states = pa.ipc.open_stream(block).read_all()
        if states.schema != self.schema:
            raise StorageError(
                f"the state in {path} of {self.uri} has the columns {_columns(states.schema)}, the processor has "
                f"{_columns(self.schema)}",
                subject="state",
                hint="use the keys and the state of before, or start with a new checkpoint and directory",
            )
        return states

    def write(self, batch: int, worker: int, states: Mapping[int, pa.Table]) -> dict[int, Place]:
        """Write the states of substreams, none of them empty, into one file, and return their places.

        They count as soon as a manifest names them (see `commit`).
        """
        if not states:
            return {}
        name = f"worker-{worker}-{uuid4().hex[:12]}.arrows"
        blocks = {substream: _packed(table) for substream, table in states.items()}
        content = b"".join(blocks.values())
        places, offset = {}, 0
        for substream, table in states.items():
            block = blocks[substream]
            places[substream] = Place(
                batch=batch,
                file=name,
                offset=offset,
                size=len(block),
                checksum=zlib.crc32(block),
                keys=table.num_rows,
                expires_ms=pc.min(table[EXPIRES]).as_py(),
            )
            offset += len(block)
        self.directory.write(file_of(batch, name), content, durable=True)
        return places

    def commit(self, batch: int, worker: int, manifest: Manifest) -> None:
        """Write a worker's manifest of a batch; worker 0 also removes folders that no manifest can name any more."""
        self.directory.write(file_of(batch, _manifest_of(worker)), manifest.as_json(), durable=True)
        if worker == 0:
            self.directory.remove_old(batch, KEEP)

    def _last(self, batch: int, listed: Sequence[int]) -> int | None:
        """Return the last batch with a state before this one; files are asked for by name, as listings can be late."""
        newest = max((number for number in listed if number < batch), default=-1)
        unlisted = range(batch - 1, max(newest, batch - 1 - _UNLISTED), -1)
        found = next((number for number in unlisted if self._manifest(number, 0) is not None), newest)
        return None if found < 0 else found

    def _manifests(self, batch: int) -> dict[int, Manifest]:
        """Return the manifests of a batch that are there, by worker."""
        first = self._manifest(batch, 0)
        workers = range(1, first.workers if first is not None else 1)
        found = {0: first, **{worker: self._manifest(batch, worker) for worker in workers}}
        return {worker: manifest for worker, manifest in found.items() if manifest is not None}

    def _manifest(self, batch: int, worker: int) -> Manifest | None:
        def read() -> bytes | None:
            try:
                return self.directory.read(file_of(batch, _manifest_of(worker)))
            except FileNotFoundError:
                return None

        content = retry(read)
        try:
            return None if content is None else Manifest.of_json(content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(
                f"the manifest of worker {worker} and batch {batch} in {self.uri} is broken: {error!r}", subject="state"
            ) from error


def _checksum(content: Mapping[str, Any]) -> int:
    """Return the checksum of what JSON keeps of a value."""
    return zlib.crc32(json.dumps(content).encode())


def _packed(table: pa.Table) -> pa.Buffer:
    """Return a table as an Arrow stream, which says its columns."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)


def _manifest_of(worker: int) -> str:
    return f"worker-{worker}.json"
