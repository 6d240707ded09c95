"""What is known of a stream from one micro-batch to the next, and the plan that follows from it.

Counts fade: a row weighs half after a half-life, and nothing any more once a batch contradicts the history by more than
chance explains. Before anything is planned, counts are shrunk towards one another as far as chance explains their
differences; otherwise noise would move keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.salting.capacities import fair_shares
from skewless.salting.planner import KeyLoads, Pieces, level
from skewless.salting.slots import homes
from skewless.salting.table import Placement

_UNLIKELY: Final = 6  # standard deviations that chance does not explain
_EXPLAINED: Final = 4  # those that it does
_FEW: Final = 8  # rows of a key in a batch below which it is not named
_GONE: Final = 0.5  # weight below which a key loses its name wherever it is
_MOST_HALVINGS: Final = 60
_NEWS: Final = 0.3  # weight of the latest measured speed of a worker against the earlier ones
_UNEQUAL: Final = 1.25  # ratio of speeds from which workers count as unequal
_SLOWEST: Final = 1e-3  # of the highest speed: no worker counts as slower


def n_ranges(n_workers: int) -> int:
    """Return the number of ranges of keys: a multiple of the workers, so that range r is at home on r % n_workers.

    Ranges are small enough to level what no named key can, such as the rest of a worker whose hot key must stay whole.
    """
    return n_workers * max(16, -(-256 // n_workers))


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a plan may do and when; `Even` and `Auto` explain the parameters of the same names.

    Parameters
    ----------
    fair : array of float
        The share of the load that each worker should have, as configured; measured speeds override it.
    worthwhile : float
        0: plans are always made. Otherwise, only where plain hashing overloads a worker by more than this.
    """

    fair: NDArray[np.float64]
    single_owner: bool = False
    half_life_s: int = 120
    slack: float = 0.02
    max_moved: float = 0.05
    resolution: int = 32
    worthwhile: float = 0.0
    patience: int = 3

    @property
    def most_names(self) -> int:
        """Bound of the named keys: enough for all that are large enough at a time."""
        return max(64, self.resolution * self.fair.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """What a micro-batch has shown.

    Parameters
    ----------
    hashes : array of uint64
        The largest keys, and all named ones; a named key that is missing has not occurred.
    counts : array of float
        The rows of each; of a key that is not named a lower bound will do.
    by_range : array of float
        Rows of all keys by their range (see `n_ranges`), wherever they went.
    by_worker : array of float
        Rows that each worker got.
    """

    hashes: NDArray[np.uint64]
    counts: NDArray[np.float64]
    by_range: NDArray[np.float64]
    by_worker: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What `auto` concluded from the last batch; `overload` is negative before the first."""

    balancing: bool = False
    calm: int = 0
    overload: float = -1.0
    hottest: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast:
    """What is known of a stream, and the plan for its next micro-batch.

    Parameters
    ----------
    salt : np.uint64
        Selects the home worker of each key.
    hashes, loads : arrays
        Hashes of the named keys, and the weight of the rows of each.
    ranges : array of float
        The weight of all rows by range of keys.
    square : float
        The sum of squared weights of all rows, from which the variance by chance follows.
    pieces : Pieces
        The plan: `keys` are positions in `hashes` and, beyond them, in `ranges`.
    spread : bool
        Whether the rows of keys without a name are spread over all workers, because nothing is known yet; otherwise
        these keys are at home.
    ahead : array of float
        Rows that each worker has had beyond its share.
    speeds : array of float
        Measured rows per busy second of each worker, 0 where nothing was measured.
    fair : array of float
        The share of the load that each worker should have.
    batches : int
        Micro-batches that were seen.
    epoch : int
        The half-life in which the last one ended, counted from time 0.
    plans : int
        Plans that have cut or moved keys.
    moved : float
        The share of the load that the last plan has moved whole.
    verdict : Verdict
        Whether there is skew worth handling.
    """

    salt: np.uint64
    hashes: NDArray[np.uint64]
    loads: NDArray[np.float64]
    ranges: NDArray[np.float64]
    square: float
    pieces: Pieces
    spread: bool
    ahead: NDArray[np.float64]
    speeds: NDArray[np.float64]
    fair: NDArray[np.float64]
    batches: int = 0
    epoch: int = -1
    plans: int = 0
    moved: float = 0.0
    verdict: Verdict = Verdict()

    @classmethod
    def nothing(cls, salt: np.uint64, policy: Policy) -> Forecast:
        """Return the state before the first micro-batch: nothing is known, ranges are placed by capacities."""
        zeros, ranges = np.zeros(policy.fair.size), np.zeros(n_ranges(policy.fair.size))
        nothing = cls(
            salt=salt,
            hashes=np.empty(0, np.uint64),
            loads=np.empty(0),
            ranges=ranges + 1,
            square=0.0,
            pieces=Pieces.none(),
            spread=not policy.single_owner,
            ahead=zeros,
            speeds=zeros,
            fair=policy.fair,
        )
        return replace(nothing, ranges=ranges, pieces=level(nothing.key_loads, capacities=policy.fair))

    @property
    def weight(self) -> float:
        """The weight of all rows together."""
        return float(self.ranges.sum())

    @property
    def key_loads(self) -> KeyLoads:
        """The loads of named keys, and of all others by range, as the planner takes them."""
        return self._key_loads(self.loads, self._others)

    @property
    def _others(self) -> NDArray[np.float64]:
        """The weight of keys without a name by range; one that was named late may seem larger than its whole range."""
        named = np.bincount(homes(self.hashes, self.salt, self.ranges.size), self.loads, self.ranges.size)
        return (self.ranges - named).clip(min=0)

    def without_noise(self) -> KeyLoads:
        """Return the loads without the differences that chance explains."""
        return self._key_loads(*(shrunk(part, self.spread_by_chance) for part in (self.loads, self._others)))

    def _key_loads(self, loads: NDArray[np.float64], others: NDArray[np.float64]) -> KeyLoads:
        n_workers = self.fair.size
        key_homes = homes(self.hashes, self.salt, n_workers)
        totals = others.reshape(-1, n_workers).sum(axis=0) + np.bincount(key_homes, loads, n_workers)
        movable = others if self.counts_ranges else others[:0]
        return KeyLoads(
            loads=np.concatenate([loads, movable]),
            homes=np.concatenate([key_homes, np.arange(movable.size) % n_workers]),
            totals=totals,
            sampled=1 / (1 + self.spread_by_chance),  # what comes is as uncertain as if this were a sample of it
            n_ranges=movable.size,
        )

    @property
    def counts_ranges(self) -> bool:
        """Whether rows are counted by range; otherwise they are counted by home worker, and no range can be moved."""
        return self.ranges.size > self.fair.size

    def by_home(self) -> Forecast:
        """Return the state of whoever counts rows by home worker."""
        return replace(self, ranges=self.ranges.reshape(-1, self.fair.size).sum(axis=0), pieces=self._pieces_of_keys)

    @property
    def spread_by_chance(self) -> float:
        """The variance by chance of a load, divided by the load."""
        return self.square / self.weight if self.weight else 0.0

    @property
    def cut(self) -> NDArray[np.uint64]:
        """The hashes of the cut keys."""
        keys, n_pieces = np.unique(self.pieces.keys, return_counts=True)
        return self.hashes[keys[n_pieces > 1]]

    @property
    def owners(self) -> NDArray[np.int64]:
        """The worker of each named key, -1 for those that are cut."""
        return self._pieces_of_keys.owners(homes(self.hashes, self.salt, self.fair.size))

    @property
    def _of_ranges(self) -> NDArray[np.bool_]:
        return self.pieces.keys >= self.hashes.size

    @property
    def _pieces_of_keys(self) -> Pieces:
        return Pieces(**{name: array[~self._of_ranges] for name, array in vars(self.pieces).items()})

    @property
    def range_owners(self) -> NDArray[np.int64]:
        """The worker of each range of keys without a name."""
        at_home = np.arange(self.ranges.size) % self.fair.size
        at_home[self.pieces.keys[self._of_ranges] - self.hashes.size] = self.pieces.workers[self._of_ranges]
        return at_home

    def followed(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the worker that each key would have without a name: that of its range."""
        return self.range_owners[homes(hashes, self.salt, self.ranges.size)]

    def placements(self) -> Iterator[Placement]:
        """Return hash, workers and shares of each key that does not simply go with its range."""
        pieces, owners = self.pieces, self.owners
        for key in np.flatnonzero(owners != self.followed(self.hashes)).tolist():
            own = slice(*np.searchsorted(pieces.keys, [key, key + 1]))
            number = int(self.hashes[key].view(np.int64))
            if owners[key] < 0:
                yield number, pieces.workers[own].tolist(), (pieces.amounts[own] / pieces.amounts[own].sum()).tolist()
            else:
                yield number, [int(owners[key])], [1.0]

    def counts_of(self, seen: Observed) -> NDArray[np.float64]:
        """Return the rows of each named key in a micro-batch."""
        keys, where = np.unique(np.concatenate([self.hashes, seen.hashes]), return_inverse=True)
        counts = np.bincount(where[self.hashes.size :], seen.counts, keys.size).astype(np.float64)
        return counts[where[: self.hashes.size]]

    def measured(self, rows: NDArray[np.int64], busy_s: NDArray[np.float64]) -> Forecast:
        """Take into account how many rows each worker did in how many seconds."""
        measured = (rows > 0) & (busy_s > 0)
        latest = rows / np.where(measured, busy_s, 1.0)
        known = np.where(self.speeds > 0, (1 - _NEWS) * self.speeds + _NEWS * latest, latest)
        return replace(self, speeds=np.where(measured, known, self.speeds))

    def after(self, seen: Observed, now_ms: int, policy: Policy) -> Forecast:
        """Return what is known after one more micro-batch, with the plan for the next."""
        rows = float(seen.by_range.sum())
        if not rows:
            return self
        epoch = now_ms // (1000 * policy.half_life_s)
        halvings = min(max(epoch - self.epoch, 0), _MOST_HALVINGS) if self.epoch >= 0 else 0
        fair = _fair_by(self.speeds, policy.fair)
        batch = replace(self, loads=self.counts_of(seen), ranges=seen.by_range, square=rows)
        fading = 0.0 if _contradicts(self, batch) else 0.5**halvings
        both = replace(
            batch,
            loads=fading * self.loads + batch.loads,
            ranges=fading * self.ranges + batch.ranges,
            square=fading**2 * self.square + rows,
            ahead=0.5**halvings * self.ahead + seen.by_worker - fair * rows,
            fair=fair,
            batches=self.batches + 1,
            epoch=epoch if now_ms else -1,  # a sample that was taken before the stream has no time
            spread=False,
        )
        # As long as no key has an owner of which it makes use, moving it costs nothing.
        free = self.batches == 0 and (self.spread or bool((np.abs(both.ahead) < 1).all()))
        planned = _planned(_renamed(both, seen, policy), replace(policy, max_moved=1.0) if free else policy, rows)
        return replace(planned, moved=0.0) if free else planned


def _contradicts(known: Forecast, batch: Forecast) -> bool:
    """Whether the last batch differs so much from the history that the history is better dropped.

    It does if the load of a worker is not as expected, or if a key is smaller: where keys are cut, loads look the
    same with and without them. A key may seem larger only because part of its past was unknown when it was named.
    """
    if known.weight < 1:
        return False
    scale = batch.weight / known.weight

    def deviation(expected: NDArray[np.float64]) -> NDArray[np.float64]:
        by_chance: NDArray[np.float64] = np.sqrt(expected * (1 + scale * known.spread_by_chance) + 1)
        return by_chance

    before, now = known.key_loads, batch.key_loads
    expected, loads = (_sized(known, of).loads(of) for of in (before, now))
    other = np.abs(loads - scale * expected) > _UNLIKELY * deviation(scale * expected)
    smaller = scale * known.loads - batch.loads > _UNLIKELY * deviation(scale * known.loads)
    return bool(other.any() or smaller.any())


def _sized(known: Forecast, of: KeyLoads) -> Pieces:
    """Return the plan with pieces in proportion to what they are, for other loads of the keys."""
    planned = np.bincount(known.pieces.keys, known.pieces.amounts, of.loads.size)[known.pieces.keys]
    shares = known.pieces.amounts / np.where(planned > 0, planned, 1.0)
    return replace(known.pieces, amounts=shares * of.loads[known.pieces.keys])


def _renamed(known: Forecast, seen: Observed, policy: Policy) -> Forecast:
    """Name keys that have become large, and remove the names of those that have become small."""
    rows = float(seen.by_range.sum())
    least = 1 / (policy.resolution * known.fair.size)  # share of the load
    new = ~np.isin(seen.hashes, known.hashes) & (seen.counts >= max(_FEW, least / 2 * rows))
    counts = seen.counts[new]
    # A part of its past was not counted: it was probably as large as chance leaves no doubt about.
    likely = (counts - 2 * np.sqrt(counts)) * (known.weight / rows)
    hashes = np.concatenate([known.hashes, seen.hashes[new]])
    loads = np.concatenate([known.loads, np.maximum(counts, likely)])
    followed = known.followed(hashes)
    owners = np.concatenate([known.owners, followed[known.hashes.size :]])
    kept = loads >= np.where(owners == followed, least / 4 * known.weight, _GONE)
    kept[np.lexsort((hashes, -loads, owners >= 0))[policy.most_names :]] = False  # cut keys first
    # A new key stays with its range, which is not always at home.
    away = np.flatnonzero(followed != homes(hashes, known.salt, known.fair.size))
    away = away[away >= known.hashes.size]
    old = known.pieces
    at = int(np.searchsorted(old.keys, known.hashes.size))
    keys = np.concatenate([old.keys[:at], away, old.keys[at:] + int(new.sum())])
    where = np.concatenate([np.where(kept, np.cumsum(kept) - 1, -1), kept.sum() + np.arange(known.ranges.size)])[keys]
    pieces = Pieces(
        keys=where[where >= 0],
        workers=np.concatenate([old.workers[:at], followed[away], old.workers[at:]])[where >= 0],
        amounts=np.concatenate([old.amounts[:at], loads[away], old.amounts[at:]])[where >= 0],
    )
    return replace(known, hashes=hashes[kept], loads=loads[kept], pieces=pieces)


def _planned(known: Forecast, policy: Policy, rows: float) -> Forecast:
    """Return the state with the plan for the next batch, which probably has as many rows as the last one."""
    of = known.without_noise()
    verdict = _judged(known, of, policy)
    if policy.worthwhile and not verdict.balancing:
        return replace(known, pieces=Pieces.none(), moved=0.0, verdict=verdict)
    pieces = level(
        of,
        capacities=known.fair,
        slack=policy.slack,
        may_cut=not policy.single_owner,
        previous=known.pieces,
        max_moved=policy.max_moved,
        ahead=known.ahead * (known.weight / rows),
    )
    before, after = known.pieces.owners(of.homes), pieces.owners(of.homes)
    moved = of.loads[(before != after) & (before >= 0) & (after >= 0)].sum() / known.weight
    same = np.array_equal(known.pieces.keys, pieces.keys) and np.array_equal(known.pieces.workers, pieces.workers)
    return replace(known, pieces=pieces, plans=known.plans + (not same), moved=float(moved), verdict=verdict)


def _judged(known: Forecast, of: KeyLoads, policy: Policy) -> Verdict:
    """Return whether plain hashing would overload a worker so much that it is worth handling."""
    targets = known.fair * of.totals.sum()
    overload = float((of.totals / targets).max()) - 1
    by_chance = _EXPLAINED * np.sqrt(known.spread_by_chance * of.totals)
    overloaded = bool((of.totals - targets > np.maximum(policy.worthwhile * targets, by_chance)).any())
    calm = known.verdict.calm + 1 if overload < policy.worthwhile / 2 else 0
    return Verdict(
        balancing=overloaded or (known.verdict.balancing and calm < policy.patience),
        calm=calm,
        overload=overload,
        hottest=float(of.loads[: known.hashes.size].max(initial=0.0) / of.totals.sum()),
    )


def _fair_by(speeds: NDArray[np.float64], configured: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share that each worker should have: by measured speeds if these differ, or as configured."""
    known = speeds > 0
    if not known.any():
        return configured
    speeds = np.where(known, speeds, speeds[known].mean()).clip(min=_SLOWEST * speeds.max())
    return fair_shares(speeds, speeds.size) if speeds.max() > _UNEQUAL * speeds.min() else configured


def shrunk(loads: NDArray[np.float64], spread: float) -> NDArray[np.float64]:
    """Shrink loads towards one another as far as chance explains their differences; the sum stays the same.

    By chance, a count has a variance of `spread` times itself. Counts that are close together form a group, and shrink
    towards its mean by the part of their variance that is chance (Lindley's form of the James-Stein estimator).
    """
    order = np.argsort(-loads, kind="stable")
    descending = loads[order]
    result = np.empty_like(loads)
    first = 0
    while first < descending.size:
        top = descending[first]
        last = int(np.searchsorted(-descending, 6 * np.sqrt(spread * top) - top, side="right"))
        group = descending[first:last]
        mean, squares = group.mean(), ((group - group.mean()) ** 2).sum()
        kept = max(0.0, 1 - spread * mean * max(group.size - 1, 1) / squares) if squares > 0 else 0.0
        result[order[first:last]] = mean + kept * (group - mean)
        first = last
    return result
