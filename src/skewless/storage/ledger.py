"""The ledger: small files per micro-batch, from which sources learn what the others know, and observers read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, StorageError, require_at_least
from skewless.groupings.base import State
from skewless.masking import masked_logger
from skewless.storage.batch_directory import BatchDirectory, absolute, file_of, retry
from skewless.storage.file_system import FAILURES
from skewless.storage.npz import pack, unpack
from skewless.storage.worker_report import WorkerReport

_OWNER: Final = "ledger.json"
_CLOCK: Final = "now_ms"
_PLAN: Final = "source-0.npz"
_ANOTHER: Final = "use another directory, or delete this one"

_log: Final = masked_logger(__name__)

S = TypeVar("S", bound=State)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """A directory that all executors reach: router states and worker reports, a folder per micro-batch.

    Reading and writing in tasks never fails: a file that is missing or broken costs balance, never correctness, so
    it only causes a warning in the log.

    Parameters
    ----------
    uri : str
        A local path, or any URI that `pyarrow.fs` opens.
    keep : int
        Batches that are kept beside the current one; older ones are removed.
    """

    uri: str
    keep: int = 100

    def __post_init__(self) -> None:
        require_at_least("keep", self.keep, 1)
        if not self.uri:
            raise ConfigurationError("{ledger} must be a directory or a URI; got an empty path", subject="ledger")
        object.__setattr__(self, "uri", absolute(self.uri))

    @property
    def directory(self) -> BatchDirectory:
        """Where the files are."""
        return BatchDirectory(self.uri)

    def claim(self, fingerprint: Mapping[str, Any]) -> None:
        """Take the directory for a query, unless it has it already; refuse that of another configuration.

        Of two queries that claim an empty directory at the same time, one gets it.

        Parameters
        ----------
        fingerprint : mapping
            What must be the same in every run that uses the directory; text and numbers only.
        """
        while not self.require_owner(fingerprint):
            content = (json.dumps(_as_json(fingerprint), indent=2) + "\n").encode()
            try:
                self.directory.create(_OWNER, content)
            except FAILURES as error:
                raise StorageError(f"cannot write the ledger {self.uri}: {error}", subject="ledger") from error

    def require_owner(self, fingerprint: Mapping[str, Any]) -> bool:
        """Whether a query of this configuration has claimed the directory; refuse that of another one."""
        new = _as_json(fingerprint)
        old = self.owner()
        if old is None:
            return False
        differences = [
            f"{name} {_shown(old, name)} → {_shown(new, name)}"
            for name in sorted({*old, *new})
            if _shown(old, name) != _shown(new, name)
        ]
        if differences:
            raise ConfigurationError(
                f"the ledger {self.uri} belongs to another configuration: {', '.join(differences)}",
                subject="ledger",
                hint=_ANOTHER,
            )
        return True

    def owner(self) -> dict[str, Any] | None:
        """Return the fingerprint of the query that claimed the directory; None if there is none."""
        try:
            text = self.directory.read(_OWNER)
        except FileNotFoundError:
            return None
        except FAILURES as error:
            raise StorageError(f"cannot read the ledger {self.uri}: {error}", subject="ledger") from error
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise StorageError(f"{_OWNER} in the ledger {self.uri} is broken", subject="ledger", hint=_ANOTHER)
        return content

    def write_source(self, batch: int, source: int, state: State, now_ms: int) -> None:
        """Keep the state of a router at the end of a batch, or of a plan at its start.

        Source 0 also removes the batches that are too old.
        """
        arrays = state.arrays()
        if _CLOCK in arrays:
            raise ConfigurationError(f"a state must not have an entry {_CLOCK!r}: the ledger keeps the clock there")
        self._try_to_write(file_of(batch, f"source-{source}.npz"), {**arrays, _CLOCK: np.int64(now_ms)})
        if source == 0:
            self.directory.remove_old(batch, self.keep - 1)

    def last_sources(self, kind: type[S], *, before: int, must_agree: bool = False) -> tuple[dict[int, S], int]:
        """Return the states by source, in order, and the clock of the last earlier batch that has any.

        Not every batch has states, nor every source in a batch: where there were no rows, there was nothing to route.
        A batch with a broken file is skipped as a whole: half of it would be another history. So is one with a file
        that holds another kind of state, such as an older version's.

        Parameters
        ----------
        kind : type of State
            The state class of the grouping.
        before : int
            The batch that wants to learn from an earlier one.
        must_agree : bool
            Whether all readers need the same answer. A directory that is out of reach looks as if there were no
            history; with `must_agree`, reading is retried for some seconds and then fails. A broken file is broken
            for all readers, a directory out of reach is not.
        """
        found = self._last_states(kind, before, must_agree=must_agree)
        return ({}, 0) if found is None else found[:2]

    def _last_states(self, kind: type[S], before: int, *, must_agree: bool) -> tuple[dict[int, S], int, int] | None:
        """Return the states and the clock of the last earlier batch that has any, and its number."""
        try:
            batches = retry(self.batches) if must_agree else self.batches()
        except StorageError as error:
            if must_agree:
                raise
            _log.warning("%s", error)
            batches = []
        for batch in reversed(batches):
            if batch < before and (left := self._states(batch, kind, must_agree=must_agree)) is not None:
                return *left, batch
        if before > 0:
            _log.warning("ledger %s: no states before batch %d, routing starts without history", self.uri, before)
        return None

    def last_plan(
        self, kind: type[S], *, before: int, must_agree: bool = False
    ) -> tuple[S, int, list[WorkerReport]] | None:
        """Return the state with which the last earlier batch was planned, its clock, and what workers reported on it.

        Parameters
        ----------
        kind : type of State
            The state class of the grouping.
        before : int
            The batch that is to be planned.
        must_agree : bool
            As in `last_sources`.
        """
        found = self._last_states(kind, before, must_agree=must_agree)
        if found is None or 0 not in found[0]:
            return None
        states, now_ms, batch = found
        return states[0], now_ms, self.read_workers(batch)

    def has_worked(self, before: int) -> bool:
        """Whether a worker may have run in a batch before this one: none has if all these are here without reports."""
        batches = retry(self.batches)
        earlier = range(before)
        return not set(earlier) <= {*batches} or any(
            retry(partial(self.directory.numbered, number, "worker-", ".npz")) for number in earlier
        )

    def agree_on_plan(self, batch: int, state: S, now_ms: int) -> S:
        """Keep the state with which a batch is planned, and return the one that is kept: that of the first attempt.

        Unlike all else in a ledger, whoever looks at this must see the same; what cannot be written or read is an
        error.
        """
        found = self._plan_file(batch)
        left = self._plan(batch, type(state), found)
        if left is None or left[1] != now_ms:  # an older clock is that of an earlier run
            write = self.directory.create if found is None else self.directory.write
            content = pack({**state.arrays(), _CLOCK: np.int64(now_ms)})
            try:
                retry(partial(write, file_of(batch, _PLAN), content))
            except FAILURES as error:
                raise StorageError(f"cannot write the ledger {self.uri}: {error}", subject="ledger") from error
            self.directory.remove_old(batch, self.keep - 1)
        return self.plan_of(batch, type(state))

    def plan_of(self, batch: int, kind: type[S]) -> S:
        """Return the state with which a batch was planned."""
        plan = self._plan(batch, kind, self._plan_file(batch))
        if plan is None:
            raise StorageError(
                f"the plan of batch {batch} is not in the ledger {self.uri}, or broken there",
                subject="ledger",
                hint="start the query again, and leave the ledger alone while it runs",
            )
        return plan[0]

    def _plan_file(self, batch: int) -> bytes | None:
        def read() -> bytes | None:
            try:
                return self.directory.read(file_of(batch, _PLAN))
            except FileNotFoundError:
                return None

        try:
            return retry(read)
        except FAILURES as error:
            problem = f"cannot read the ledger {self.uri}, batch {batch}: {error}"
            raise StorageError(problem, subject="ledger") from error

    def _plan(self, batch: int, kind: type[S], content: bytes | None) -> tuple[S, int] | None:
        """Return the state in a plan's file, and the clock; None if there is no file, or if it is broken."""
        if content is None:
            return None
        try:
            arrays = unpack(content)
            now_ms = int(arrays.pop(_CLOCK))
            return kind.of_arrays(arrays), now_ms
        except Exception as error:  # noqa: BLE001 - as in _states
            _log.warning("ledger %s: the plan of batch %d is broken: %s", self.uri, batch, error)
            return None

    def write_worker(self, batch: int, report: WorkerReport) -> None:
        """Keep a worker's report on a batch."""
        self._try_to_write(file_of(batch, f"worker-{report.worker}.npz"), report.as_arrays())

    def read_workers(self, batch: int) -> list[WorkerReport]:
        """Return the reports on a batch, in the order of workers, without the broken ones."""
        reports = (self._report(worker, path) for worker, path in self._files(batch, "worker-").items())
        return [report for report in reports if report is not None]

    def last_work(self, before: int, n_workers: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the rows and the busy seconds of each worker in the last earlier batch that has reports."""
        tuples, busy_s = np.zeros(n_workers, dtype=np.int64), np.zeros(n_workers)
        for batch in reversed([batch for batch in self.batches() if batch < before]):
            if reports := self.read_workers(batch):
                for report in (report for report in reports if report.worker < n_workers):
                    tuples[report.worker], busy_s[report.worker] = report.tuples, report.busy_s
                break
        return tuples, busy_s

    def workers(self, batch: int) -> list[int]:
        """Return the workers that have reported on a batch, without reading their reports."""
        return [*self._files(batch, "worker-")]

    def clock(self, batch: int, *, must_agree: bool = False) -> int | None:
        """Return the time at which a batch started, in milliseconds since 1970; None if no source has recorded it.

        With `must_agree`, because keys expire by it, the file that every plan has is read by its name first, however
        late new files are listed; if it is out of reach, that is an error.
        """
        first = self._plan_file(batch) if must_agree else None
        clock = None if first is None else self._clock_of(_PLAN, first)
        others = (self._clock(path) for path in self._files(batch, "source-").values()) if clock is None else ()
        return next((other for other in others if other is not None), clock)

    def batches(self) -> list[int]:
        """Return the batches that have a folder, in order."""
        try:
            return self.directory.batches()
        except FAILURES as error:
            raise StorageError(f"cannot read the ledger {self.uri}: {error}", subject="ledger") from error

    def _states(self, batch: int, kind: type[S], *, must_agree: bool) -> tuple[dict[int, S], int] | None:
        """Return the states that have the batch's clock, and it: those with an older one are of an earlier run."""

        def read() -> dict[int, bytes]:
            files = self.directory.numbered(batch, "source-", ".npz")
            return {source: self.directory.read(path) for source, path in files.items()}

        try:
            contents = retry(read) if must_agree else read()
        except FAILURES as error:
            if must_agree:
                problem = f"cannot read the ledger {self.uri}, batch {batch}: {error}"
                raise StorageError(problem, subject="ledger") from error
            _log.warning("ledger %s: cannot read the states of batch %d: %s", self.uri, batch, error)
            return None
        try:
            saved = {source: unpack(content) for source, content in contents.items()}
            clocks = {source: int(arrays.pop(_CLOCK)) for source, arrays in saved.items()}
            states = {source: kind.of_arrays(arrays) for source, arrays in saved.items()}
        except Exception as error:  # noqa: BLE001 - a broken file can raise anything, and none of it may fail a task
            _log.warning("ledger %s: the states of batch %d are broken: %s", self.uri, batch, error)
            return None
        if not clocks:
            return None
        now_ms = max(clocks.values())
        return {source: state for source, state in states.items() if clocks[source] == now_ms}, now_ms

    def _clock(self, path: str) -> int | None:
        try:
            content = self.directory.read(path)
        except FAILURES as error:
            _log.warning("ledger %s: cannot read %s: %s", self.uri, path, error)
            return None
        return self._clock_of(path, content)

    def _clock_of(self, path: str, content: bytes) -> int | None:
        try:
            return int(unpack(content)[_CLOCK])
        except Exception as error:  # noqa: BLE001 - as in _states
            _log.warning("ledger %s: no clock in %s: %s", self.uri, path, error)
            return None

    def _report(self, worker: int, path: str) -> WorkerReport | None:
        try:
            report = WorkerReport.from_arrays(unpack(self.directory.read(path)))
        except Exception as error:  # noqa: BLE001 - as in _states
            _log.warning("ledger %s: ignoring %s: %s", self.uri, path, error)
            return None
        if report.worker != worker:
            _log.warning("ledger %s: ignoring %s: it is about worker %d", self.uri, path, report.worker)
            return None
        return report

    def _files(self, batch: int, prefix: str) -> dict[int, str]:
        try:
            return self.directory.numbered(batch, prefix, ".npz")
        except FAILURES as error:
            _log.warning("ledger %s: cannot list batch %d: %s", self.uri, batch, error)
            return {}

    def _try_to_write(self, path: str, arrays: Mapping[str, Any]) -> None:
        content = pack(arrays)
        try:
            self.directory.write(path, content)
        except FAILURES as error:
            _log.warning("ledger %s: could not write %s: %s", self.uri, path, error)


def _as_json(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fingerprint as it will be read again: tuples as lists."""
    try:
        content: dict[str, Any] = json.loads(json.dumps(dict(fingerprint)))
    except TypeError as error:
        raise ConfigurationError(f"a fingerprint can hold text and numbers only: {error}") from error
    return content


def _shown(fingerprint: Mapping[str, Any], name: str) -> str:
    return json.dumps(fingerprint[name], sort_keys=True, ensure_ascii=False) if name in fingerprint else "nothing"
