"""A micro-batch as the page shows it: what its reports say, of bounded size, and nothing in them taken on trust."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.metrics import imbalance, skew_score, stddev, throughput
from skewless.salting.slots import homes
from skewless.storage.ledger import Ledger
from skewless.storage.worker_report import WorkerReport

MOST_KEYS: Final = 12
"""Hot keys of a micro-batch that are kept."""
MOST_OWNERS: Final = 64
"""Workers of a hot key that are kept: those with most of its rows."""
_MOST: Final = 2**53
"""Largest number that a browser takes exactly."""


@dataclass(frozen=True, kw_only=True)
class HotRecord:
    """A hot key: its rows, and the workers that got them, as (worker, rows), in the order of workers."""

    key: str
    rows: int
    share: float
    n_workers: int
    owners: tuple[tuple[int, int], ...]

    @property
    def workers(self) -> frozenset[int]:
        """The workers that got its rows."""
        return frozenset(worker for worker, _ in self.owners)


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchRecord:
    """What the workers did in one micro-batch.

    Parameters
    ----------
    batch : int
        Its number.
    began_ms : int or None
        When it started, in milliseconds since 1970.
    reports : int
        Workers that have reported so far.
    loads, state_keys, rejected : arrays of int
        Rows, keys with state and rows set aside, by worker.
    busy_s : array
        Seconds of work, by worker.
    finished_ms : array of int
        From the start of the batch to the end of each worker; 0 if unknown.
    moved_keys : int
        Keys whose state changed its worker.
    keys : tuple of HotRecord
        Its hottest keys.
    by_home : array
        Rows that each worker would have got with key grouping.
    """

    batch: int
    began_ms: int | None
    reports: int
    loads: NDArray[np.int64]
    state_keys: NDArray[np.int64]
    rejected: NDArray[np.int64]
    busy_s: NDArray[np.float64]
    finished_ms: NDArray[np.int64]
    moved_keys: int
    keys: tuple[HotRecord, ...]
    by_home: NDArray[np.float64]

    @cached_property
    def rows(self) -> int:
        """All its rows."""
        return int(self.loads.sum())

    @cached_property
    def elapsed_ms(self) -> int:
        """From its start to the end of its last worker."""
        return int(self.finished_ms.max())

    def latency_ms(self, share: float) -> int:
        """Return the time within which this share of the rows was done: a row is done when its worker is."""
        if not self.rows:
            return 0
        order = np.argsort(self.finished_ms, kind="stable")
        done = np.cumsum(self.loads[order])
        return int(self.finished_ms[order][np.searchsorted(done, share * self.rows)])

    @cached_property
    def key_grouping_ms(self) -> int | None:
        """What it would have taken with key grouping, by the simulator's model; None if times are unknown.

        In the model a row costs the same wherever it is, and a micro-batch takes as long as its most loaded worker.
        """
        if not self.rows or not self.elapsed_ms:
            return None
        busy_ms = 1_000 * float(self.busy_s.sum())
        per_row = busy_ms / self.rows if busy_ms else self.elapsed_ms / float(self.loads.max())
        more = float(self.by_home.max()) - float(self.loads.max())
        return round(min(max(0.0, self.elapsed_ms + per_row * more), _MOST))

    @cached_property
    def balance(self) -> dict[str, float]:
        """How evenly the rows were spread."""
        return {
            "stddev": stddev(self.loads),
            "imbalance": imbalance(self.loads),
            "skew": skew_score(self.loads),
            "throughput": throughput(self.rows, self.elapsed_ms),
        }


def read_record(ledger: Ledger, batch: int, n_workers: int, salt: int) -> BatchRecord | None:
    """Read what is in the ledger about a batch; None if there is nothing.

    Parameters
    ----------
    ledger : Ledger
        Where to read.
    batch : int
        The batch.
    n_workers : int
        Number of workers; reports of others are ignored.
    salt : int
        Of the hash by which key grouping would have placed keys.
    """
    reports = [report for report in ledger.read_workers(batch) if report.worker < n_workers]
    began = ledger.clock(batch)
    return make_record(batch, began, reports, n_workers, salt) if reports else None


def make_record(
    batch: int, began_ms: int | None, reports: Sequence[WorkerReport], n_workers: int, salt: int
) -> BatchRecord:
    """Summarise the reports of a batch."""
    began_ms = None if began_ms is None or abs(began_ms) > _MOST else began_ms
    loads, state_keys, rejected, finished = (np.zeros(n_workers, np.int64) for _ in range(4))
    busy_s = np.zeros(n_workers)
    for report in reports:
        at = report.worker
        loads[at], state_keys[at] = min(report.tuples, _MOST // n_workers), min(report.state_keys, _MOST // n_workers)
        rejected[at] = min(report.rejected, _MOST // n_workers)
        busy_s[at] = min(max(0.0, report.busy_s), 1e9) if math.isfinite(report.busy_s) else 0.0
        finished[at] = 0 if began_ms is None else min(max(0, report.finished_ms - began_ms), _MOST)
    return BatchRecord(
        batch=batch,
        began_ms=began_ms,
        reports=len(reports),
        loads=loads,
        state_keys=state_keys,
        rejected=rejected,
        busy_s=busy_s,
        finished_ms=finished,
        moved_keys=min(sum(report.moved_keys for report in reports), _MOST),
        keys=_hottest(reports, int(loads.sum())),
        by_home=_by_home(reports, loads, salt),
    )


def _hottest(reports: Sequence[WorkerReport], rows: int) -> tuple[HotRecord, ...]:
    owners: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for report in reports:
        for key, count in zip(report.top_keys, report.top_counts, strict=True):
            if isinstance(key, str) and isinstance(count, int) and 0 < count <= _MOST:
                owners[key].append((report.worker, count))
    totals = {key: sum(count for _, count in parts) for key, parts in owners.items()}
    ranked = sorted(totals, key=lambda key: (-totals[key], key))[:MOST_KEYS]
    return tuple(
        HotRecord(
            key=key,
            rows=totals[key],
            share=min(1.0, totals[key] / max(1, rows)),
            n_workers=len(owners[key]),
            owners=tuple(sorted(sorted(owners[key], key=lambda part: -part[1])[:MOST_OWNERS])),
        )
        for key in ranked
    )


def _by_home(reports: Sequence[WorkerReport], loads: NDArray[np.int64], salt: int) -> NDArray[np.float64]:
    """Return the rows of each worker with key grouping: exactly where they are counted so, else by the largest keys.

    Keys of which nothing is known are assumed to be spread evenly. Where workers do not report the hashes of keys, any
    hash will do: where two hot keys meet is a matter of chance.
    """
    n_workers, rows = loads.size, float(loads.sum())
    counted = [report.units for report in reports if report.units.shape == loads.shape]
    if counted and len(counted) == len(reports):
        exact = np.asarray(np.sum(np.clip(counted, 0, _MOST // n_workers), axis=0), dtype=np.float64)
        if exact.sum() == rows:
            return exact
    named: defaultdict[int, float] = defaultdict(float)
    for report in reports:
        hashes, counts = report.large_hashes, report.large_rows
        if not hashes.size and report.top_keys:
            hashes, counts = _any_hashes(report.top_keys), np.asarray(report.top_counts)
        for hashed, count in zip(hashes.tolist(), counts.tolist(), strict=True):
            named[hashed] += max(0, count)
    hashes = np.array([*named], dtype=np.uint64)
    known = np.bincount(homes(hashes, np.uint64(salt), n_workers), [*named.values()], n_workers)
    return np.asarray(known + max(0.0, rows - float(known.sum())) / n_workers, dtype=np.float64)


def _any_hashes(keys: Sequence[object]) -> NDArray[np.uint64]:
    digests = (blake2b(str(key).encode(errors="replace"), digest_size=8).digest() for key in keys)
    return np.frombuffer(b"".join(digests), np.uint64)
