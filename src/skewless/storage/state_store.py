"""Where keyed state lives: in files of a shared directory, by micro-batch and substream, so that any worker can go on.

`<batch>/worker-<w>.json` is a worker's manifest of a batch: for each substream that it owned, the file and the place in
it where the state lies. `<batch>/worker-<w>-<…>.arrow` has the states that changed, a record batch per substream. A
batch reads the manifests of the one before and writes its own; nothing is ever written over. So a batch can be repeated
at any time, a substream changes its owner by being read by another, and of the attempts at a task the last to finish
counts as a whole.

A substream that does not change stays in its old file, but not for ever: what is older than `KEEP` batches is copied,
and its folder removed.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from skewless.errors import SkewlessError
from skewless.processors.processing import EXPIRES
from skewless.storage.batch_directory import FAILURES, SharedDirectory, patiently

KEEP: Final = 50
"""Batches after which a state that has not changed is copied to a new file."""

_BATCH: Final = re.compile(r"(\d{12,})")
_MANIFEST: Final = re.compile(r"worker-(\d+)\.json")

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the state of a substream lies, how many keys it has, and when the first of them expires."""

    batch: int
    file: str
    index: int
    keys: int
    expires_ms: int | None

    def is_due(self, now_ms: int | None) -> bool:
        """Say whether a key there has expired; None is a time before all others."""
        return self.expires_ms is not None and now_ms is not None and self.expires_ms <= now_ms


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a worker holds after a batch.

    `query` is Spark's name for the query, which stays the same when it starts again from its checkpoint; `workers` how
    many there are; `substreams` how many keys are put into; `latest_ms` the latest event time that any worker had seen
    before, or this one now.
    """

    query: str
    workers: int
    substreams: int
    latest_ms: int | None = None
    places: dict[int, Place] = field(default_factory=dict)

    def as_json(self) -> bytes:
        """Write it down."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of_json(cls, text: bytes) -> Manifest:
        """Read what `as_json` wrote."""
        content = json.loads(text)
        places = {int(substream): Place(**place) for substream, place in content.pop("places").items()}
        return cls(**content, places=places)


@dataclass(frozen=True, kw_only=True)
class Before:
    """What all workers held before a batch: the place of each substream, and who owned it."""

    places: Mapping[int, Place]
    owners: Mapping[int, int]
    latest_ms: int | None


@dataclass(frozen=True, kw_only=True)
class StateStore:
    """The states of a query, in a directory of its own. Unlike a ledger it is needed for the answer: it never guesses.

    What cannot be read or written fails the task, which Spark then tries again.
    """

    uri: str
    schema: pa.Schema

    @property
    def _directory(self) -> SharedDirectory:
        return SharedDirectory(self.uri)

    def before(self, batch: int, query: str, substreams: int) -> Before:
        """Read the manifests of the last batch before this one; refuse what another query, or another run, wrote."""
        batches = self._batches()
        later = [number for number in batches if number > batch]
        earlier = [number for number in batches if number < batch]
        if later:
            raise SkewlessError(
                f"the state in {self.uri} is of batch {later[-1]}, the query at batch {batch}: its checkpoint is older "
                "than its state, or new. Give the checkpoint that belongs to it, or an empty directory"
            )
        if not earlier:
            if batch > 0:
                raise SkewlessError(
                    f"there is no state in {self.uri}, but the query is at batch {batch} already: give the directory "
                    "that it had before, or begin with a new checkpoint"
                )
            return Before(places={}, owners={}, latest_ms=None)
        manifests = patiently(lambda: self._manifests(earlier[-1]))
        found = next(iter(manifests.values()), None)
        if found is None or len(manifests) != found.workers:
            raise SkewlessError(
                f"the state in {self.uri} is not complete: batch {earlier[-1]} has {len(manifests)} files"
            )
        if found.query != query:
            raise SkewlessError(
                f"the state in {self.uri} belongs to another query: take a directory for this one alone"
            )
        if found.substreams != substreams:
            raise SkewlessError(
                f"the state in {self.uri} lies in {found.substreams} substreams, the grouping has {substreams}: take "
                "as many workers as before, or a grouping with n_substreams as before"
            )
        return Before(
            places={key: place for manifest in manifests.values() for key, place in manifest.places.items()},
            owners={substream: worker for worker, manifest in manifests.items() for substream in manifest.places},
            latest_ms=max((m.latest_ms for m in manifests.values() if m.latest_ms is not None), default=None),
        )

    def read(self, places: Iterable[Place]) -> pa.Table:
        """Read the states at some places, as one table."""
        by_file: dict[tuple[int, str], list[int]] = {}
        for place in places:
            by_file.setdefault((place.batch, place.file), []).append(place.index)
        batches: list[pa.RecordBatch] = []
        for (batch, file), indices in by_file.items():
            with patiently(lambda batch=batch, file=file: self._directory.open(_folder(batch), file)) as source:  # type: ignore[misc]
                reader = pa.ipc.open_file(source)
                batches += [reader.get_batch(index) for index in indices]
        return pa.Table.from_batches(batches, self.schema)

    def write(self, batch: int, worker: int, states: Mapping[int, pa.Table]) -> dict[int, Place]:
        """Write the states of substreams, none of them empty, into one file. Gives their places; a manifest makes them
        count.
        """
        name = f"worker-{worker}-{uuid4().hex[:12]}.arrow"
        if not states:
            return {}
        sink = pa.BufferOutputStream()
        places = {}
        with pa.ipc.new_file(sink, self.schema) as writer:
            for index, (substream, table) in enumerate(states.items()):
                (rows,) = table.combine_chunks().to_batches()
                writer.write_batch(rows)
                first = pc.min(rows.column(EXPIRES)).as_py()
                places[substream] = Place(batch=batch, file=name, index=index, keys=rows.num_rows, expires_ms=first)
        self._directory.write(_folder(batch), name, sink.getvalue())
        return places

    def commit(self, batch: int, worker: int, manifest: Manifest) -> None:
        """Make what a worker holds after a batch count; the first worker also removes what nobody needs any more."""
        self._directory.write(_folder(batch), f"worker-{worker}.json", manifest.as_json())
        if worker == 0:
            self._forget(batch)

    def _forget(self, batch: int) -> None:
        """Remove folders of which no manifest can speak any more, neither of this batch nor of the one before.

        The one before may lie far back: where a sink looks at no row, a batch leaves nothing.
        """
        try:
            batches = self._batches()
            last = max((number for number in batches if number < batch), default=batch)
            for number in batches:
                if number < last - KEEP:
                    self._directory.remove(_folder(number))
        except FAILURES as error:
            _log.debug("state %s: could not remove old batches: %s", self.uri, error)

    def _batches(self) -> list[int]:
        try:
            return [batch for batch, _ in self._directory.numbered("", _BATCH)]
        except FileNotFoundError:
            return []

    def _manifests(self, batch: int) -> dict[int, Manifest]:
        files = self._directory.numbered(_folder(batch), _MANIFEST)
        return {worker: Manifest.of_json(self._directory.read(_folder(batch), name)) for worker, name in files}


def _folder(batch: int) -> str:
    return f"{batch:012d}"
