"""The ledger: tiny files per micro-batch, through which sources learn from one another and observers look on."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from skewless.errors import SkewlessError, require_at_least
from skewless.groupings.base import State
from skewless.storage.batch_directory import FAILURES, SharedDirectory, absolute, patiently

SAMPLE: Final = 4096
"""Key hashes that a worker's report holds at most."""
TOP: Final = 20
"""Keys that a worker's report names at most."""

_OWNER: Final = "ledger.json"
_CLOCK: Final = "now_ms"
_BATCH: Final = re.compile(r"(\d{12,})")
_SOURCE: Final = re.compile(r"source-(\d+)\.npz")
_WORKER: Final = re.compile(r"worker-(\d+)\.npz")
_COUNTS: Final = ("worker", "tuples", "keys", "state_keys", "moved_keys", "rejected")

_log: Final = logging.getLogger(__name__)


def sample_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Give the smallest `SAMPLE` distinct hashes, in order: the same keys on every worker, whatever their number.

    >>> sample_hashes(np.array([7, 3, 7], dtype=np.uint64)).tolist()
    [3, 7]
    """
    return np.unique(np.asarray(hashes, dtype=np.uint64))[:SAMPLE]


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerReport:
    """What one worker did in one batch.

    Parameters
    ----------
    worker: its number
    tuples: how many it got
    keys: how many distinct keys these had, exactly
    busy_s: seconds of work
    finished_ms: wall clock when it was done, in milliseconds since 1970
    hashes: the smallest `SAMPLE` hashes of its keys (see `sample_hashes`); all of them if there are no more
    top_keys, top_counts: its `TOP` most frequent keys by name, with their tuples on this worker
    state_keys: keys whose state it holds afterwards
    moved_keys: keys whose state it has taken over from another worker
    rejected: rows that it has set aside

    """

    worker: int
    tuples: int
    keys: int
    busy_s: float
    finished_ms: int
    hashes: NDArray[np.uint64]
    top_keys: list[str]
    top_counts: list[int]
    state_keys: int = 0
    moved_keys: int = 0
    rejected: int = 0

    def __post_init__(self) -> None:
        for name in _COUNTS:
            require_at_least(name, getattr(self, name), 0)
        if self.hashes.dtype != np.uint64 or self.hashes.shape != (min(self.keys, SAMPLE),):
            raise SkewlessError(
                f"hashes must be the {min(self.keys, SAMPLE)} smallest hashes (uint64) of {self.keys} keys; "
                f"got {self.hashes.dtype} of shape {self.hashes.shape}"
            )
        if not len(self.top_keys) == len(self.top_counts) <= TOP:
            raise SkewlessError(
                f"top_keys and top_counts must be of one length, at most {TOP}; "
                f"got {len(self.top_keys)} and {len(self.top_counts)}"
            )


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """A directory that all executors reach: router states and worker reports, a folder per micro-batch.

    Reading and writing in tasks never fails: a file that is missing or broken costs balance, never correctness, so
    it ends in a warning in the log. Files are written under a temporary name and renamed, so nobody reads half of one.

    Parameters
    ----------
    uri: a local path, or any URI that `pyarrow.fs` opens
    keep: batches that stay before they are removed

    """

    uri: str
    keep: int = 100

    def __post_init__(self) -> None:
        require_at_least("keep", self.keep, 1)
        if not self.uri:
            raise SkewlessError("a ledger needs a directory; got an empty path")
        object.__setattr__(self, "uri", absolute(self.uri))

    @property
    def _directory(self) -> SharedDirectory:
        return SharedDirectory(self.uri)

    def claim(self, fingerprint: Mapping[str, Any]) -> None:
        """Take the directory for a query, before it starts; refuse one whose states another configuration wrote."""
        new = _normal(fingerprint)
        old = self.owner()
        if old is None:
            try:
                self._directory.write("", _OWNER, (json.dumps(new, indent=2) + "\n").encode())
            except FAILURES as error:
                raise SkewlessError(f"cannot write the ledger {self.uri}: {error}") from error
            return
        differences = [
            f"{name} {_shown(old, name)} → {_shown(new, name)}"
            for name in sorted({*old, *new})
            if _shown(old, name) != _shown(new, name)
        ]
        if differences:
            raise SkewlessError(
                f"the ledger {self.uri} belongs to another configuration: {', '.join(differences)}. "
                "Use another directory, or delete this one"
            )

    def owner(self) -> dict[str, Any] | None:
        """Read the fingerprint of the query that claimed the directory; None if there is none."""
        try:
            text = self._directory.read("", _OWNER)
        except FileNotFoundError:
            return None
        except FAILURES as error:
            raise SkewlessError(f"cannot read the ledger {self.uri}: {error}") from error
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise SkewlessError(
                f"{_OWNER} in the ledger {self.uri} is broken: use another directory, or delete this one"
            )
        return content

    def write_source(self, batch: int, source: int, state: State, now_ms: int) -> None:
        """Keep a router's state at the end of a batch; source 0 also removes the batches that are too old."""
        if _CLOCK in state:
            raise SkewlessError(f"a state must not have an entry {_CLOCK!r}: the ledger keeps the clock there")
        self._try_to_write(_folder(batch), f"source-{source}.npz", {**state, _CLOCK: np.int64(now_ms)})
        if source == 0:
            self._forget(batch - self.keep)

    def last_sources(self, before: int, *, must_agree: bool = False) -> tuple[dict[int, State], int]:
        """Read the states by source, in their order, and the clock of the last earlier batch that has any, or nothing.

        Not every batch has states, nor every source in a batch: where there were no rows, there was nothing to route.
        A batch with a broken file is passed over whole: half of it would be another history.

        A directory that does not answer looks as if there were no history. Where all readers `must_agree` on it, that
        is tried again for some seconds and then an error: broken is broken for all of them, out of reach is not.
        """
        try:
            batches = patiently(self.batches) if must_agree else self.batches()
        except SkewlessError as error:
            if must_agree:
                raise
            _log.warning("%s", error)
            batches = []
        for batch in reversed(batches):
            if batch < before and (left := self._states(batch, must_agree=must_agree))[0]:
                return left
        if before > 0:
            _log.warning("ledger %s: no states before batch %d, routing starts without history", self.uri, before)
        return {}, 0

    def write_worker(self, batch: int, report: WorkerReport) -> None:
        """Keep a worker's report on a batch."""
        numbers = {name: np.asarray(getattr(report, name)) for name in (*_COUNTS, "finished_ms")}
        # Text as JSON in bytes: NumPy's own text arrays lose zeros at the end and pad every key to the longest.
        names = np.frombuffer(json.dumps(report.top_keys).encode(), dtype=np.uint8)
        arrays = {
            **numbers,
            "busy_s": np.float64(report.busy_s),
            "hashes": report.hashes,
            "top_keys": names,
            "top_counts": np.array(report.top_counts, dtype=np.int64),
        }
        self._try_to_write(_folder(batch), f"worker-{report.worker}.npz", arrays)

    def read_workers(self, batch: int) -> list[WorkerReport]:
        """Read the reports on a batch, in the order of workers; broken ones are left out."""
        reports = (self._report(batch, worker, name) for worker, name in self._listed(batch, _WORKER))
        return [report for report in reports if report is not None]

    def last_work(self, before: int, n_workers: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Give the tuples and the busy seconds of each worker in the last earlier batch that has reports."""
        tuples, busy_s = np.zeros(n_workers, dtype=np.int64), np.zeros(n_workers)
        for batch in reversed([batch for batch in self.batches() if batch < before]):
            if reports := self.read_workers(batch):
                for report in (report for report in reports if report.worker < n_workers):
                    tuples[report.worker], busy_s[report.worker] = report.tuples, report.busy_s
                break
        return tuples, busy_s

    def workers(self, batch: int) -> list[int]:
        """List the workers that have reported on a batch, without reading what they say."""
        return [worker for worker, _ in self._listed(batch, _WORKER)]

    def clock(self, batch: int) -> int | None:
        """Give the time at which a batch began, in milliseconds since 1970; None if no source tells."""
        clocks = (self._clock(batch, name) for _, name in self._listed(batch, _SOURCE))
        return next((clock for clock in clocks if clock is not None), None)

    def batches(self) -> list[int]:
        """List the batches that are there."""
        try:
            return [batch for batch, _ in self._directory.numbered("", _BATCH)]
        except FileNotFoundError:
            return []
        except FAILURES as error:
            raise SkewlessError(f"cannot read the ledger {self.uri}: {error}") from error

    def _states(self, batch: int, *, must_agree: bool) -> tuple[dict[int, State], int]:
        """Read the states that are there. All have the batch's clock: those of an older one an earlier run left."""

        def read() -> dict[int, bytes]:
            files = self._directory.numbered(_folder(batch), _SOURCE)
            return {source: self._directory.read(_folder(batch), name) for source, name in files}

        try:
            contents = patiently(read) if must_agree else read()
        except FAILURES as error:
            if must_agree:
                raise SkewlessError(f"cannot read the ledger {self.uri}, batch {batch}: {error}") from error
            _log.warning("ledger %s: cannot read the states of batch %d: %s", self.uri, batch, error)
            return {}, 0
        try:
            states = {source: _unpack(content) for source, content in contents.items()}
            clocks = {source: int(state.pop(_CLOCK)) for source, state in states.items()}
        except Exception as error:  # noqa: BLE001 - a broken file can raise anything, and none of it may fail a task
            _log.warning("ledger %s: the states of batch %d are broken: %s", self.uri, batch, error)
            return {}, 0
        now_ms = max(clocks.values(), default=0)
        return {source: state for source, state in states.items() if clocks[source] == now_ms}, now_ms

    def _clock(self, batch: int, name: str) -> int | None:
        try:
            return int(_unpack(self._directory.read(_folder(batch), name))[_CLOCK])
        except Exception as error:  # noqa: BLE001 - as in _states
            _log.warning("ledger %s: no clock in %s of batch %d: %s", self.uri, name, batch, error)
            return None

    def _report(self, batch: int, worker: int, name: str) -> WorkerReport | None:
        try:
            report = _as_report(_unpack(self._directory.read(_folder(batch), name)))
            if report.worker != worker:
                raise SkewlessError(f"it is about worker {report.worker}")  # noqa: TRY301 - as in _states
        except Exception as error:  # noqa: BLE001 - as in _states
            _log.warning("ledger %s: left out %s of batch %d: %s", self.uri, name, batch, error)
            return None
        return report

    def _forget(self, before: int) -> None:
        try:
            for batch, name in self._directory.numbered("", _BATCH):
                if batch < before:
                    self._directory.remove(name)
        except FAILURES as error:
            _log.debug("ledger %s: could not remove old batches: %s", self.uri, error)

    def _listed(self, batch: int, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
        try:
            return self._directory.numbered(_folder(batch), pattern)
        except FAILURES as error:
            _log.warning("ledger %s: cannot list batch %d: %s", self.uri, batch, error)
            return []

    def _try_to_write(self, folder: str, name: str, arrays: Mapping[str, Any]) -> None:
        content = _pack(arrays)
        try:
            self._directory.write(folder, name, content)
        except FAILURES as error:
            _log.warning("ledger %s: could not write %s/%s: %s", self.uri, folder, name, error)


def _folder(batch: int) -> str:
    return f"{batch:012d}"


def _normal(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    try:
        normal: dict[str, Any] = json.loads(json.dumps(dict(fingerprint)))
    except TypeError as error:
        raise SkewlessError(f"a fingerprint holds text and numbers only: {error}") from error
    return normal


def _shown(fingerprint: Mapping[str, Any], name: str) -> str:
    return json.dumps(fingerprint[name], sort_keys=True, ensure_ascii=False) if name in fingerprint else "nothing"


def _pack(arrays: Mapping[str, Any]) -> bytes:
    """Write arrays as `np.savez` does, but under any name, never pickled, and the same bytes every time."""
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            member = BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy"), member.getvalue())
    return content.getvalue()


def _unpack(content: bytes) -> State:
    return dict(_members(content))


def _members(content: bytes) -> Iterator[tuple[str, NDArray[Any]]]:
    with ZipFile(BytesIO(content)) as archive:
        for name in archive.namelist():  # reading a whole member checks its sum before NumPy sees it
            yield name.removesuffix(".npy"), np.load(BytesIO(archive.read(name)), allow_pickle=False)


def _as_report(arrays: State) -> WorkerReport:
    return WorkerReport(
        **{name: int(arrays[name]) for name in _COUNTS},
        busy_s=float(arrays["busy_s"]),
        finished_ms=int(arrays["finished_ms"]),
        hashes=arrays["hashes"],
        top_keys=json.loads(arrays["top_keys"].tobytes()),
        top_counts=arrays["top_counts"].tolist(),
    )
