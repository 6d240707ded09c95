"""Popularity-aware grouping (DStream): shuffle grouping for hot keys, key grouping for all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.groupings.base import Coordinated, Router, State
from skewless.groupings.key import home_of
from skewless.groupings.shuffle import first_worker
from skewless.hashing import make_salt, mix
from skewless.sketches.coin_flip import Coin, CoinFlip, Synopsis, SynopsisState, bit_of, next_large, note, require_coin
from skewless.sketches.counting_bloom import CountingBloom, erase, holds, insert

TURN: Final = 0  # in `progress`: the worker that the next tuple of a hot key gets
NOTED: Final = 1  # large values since the last barrier
TUPLES: Final = 2  # tuples since the last barrier
_SHARE_OF_A_WORKER: Final = 1 / 50  # default decline: a key of a 25th of a worker's fair share stays hot
_MOST_DECLINE: Final = 0.01  # that of the authors' code
_LEAST_DECLINE: Final = 1e-6
_NOTES: Final = 4  # times 1 / decline: after that many updates hardly any older bit is left
_MOST_NOTES: Final = 1 << 16
_HOT_KEYS: Final = 2  # times 1 / decline: the keys that the filter is made for


class Filter(NamedTuple):
    """The counting Bloom filter of hot keys."""

    counters: NDArray[np.uint8]
    n_hashes: int
    salt: np.uint64


class Noted(NamedTuple):
    """The latest large values, in a ring: at which tuple, of which key, which bit."""

    at: NDArray[np.int64]
    keys: NDArray[np.uint64]
    bits: NDArray[np.uint8]


class Room(NamedTuple):
    """Room for the events of one update of the synopsis."""

    keys: NDArray[np.uint64]
    appended: NDArray[np.bool_]


@njit(cache=True)
def update_filter(synopsis: Synopsis, key: np.uint64, bit: int, hot: Filter, events: Room) -> None:
    """Update the synopsis by one large value, and the filter by what became hot and what no longer is; in place."""
    n_events = note(synopsis, key, bit, events.keys, events.appended)
    for i in range(n_events):
        word = mix(events.keys[i] ^ hot.salt)
        if events.appended[i]:
            insert(hot.counters, hot.n_hashes, word)
        else:
            erase(hot.counters, hot.n_hashes, word)


@njit(cache=True)
def route_by_popularity(
    stream: NDArray[np.uint64],
    n_workers: int,
    progress: NDArray[np.int64],
    coin: Coin,
    noted: Noted,
    synopsis: Synopsis,
    hot: Filter,
    events: Room,
) -> NDArray[np.int32]:
    """Deal tuples whose key is in the filter to the workers in turn, send all others home; flip a coin for each.

    Changes progress, notes, synopsis and filter in place.
    """
    counters, n_hashes, salt = hot
    workers = np.empty(stream.size, dtype=np.int32)
    start = 0
    while start < stream.size:
        flipped = progress[TUPLES]
        at = next_large(coin, flipped, flipped + stream.size - start)
        end = min(start + at - flipped + 1, stream.size)
        turn = progress[TURN]
        for i in range(start, end):  # nothing is learned before the last of these
            word = mix(stream[i] ^ salt)
            if holds(counters, n_hashes, word):
                workers[i] = turn
                turn += 1
                if turn == n_workers:
                    turn = 0
            else:
                workers[i] = home_of(stream[i], salt, n_workers)
        progress[TURN] = turn
        progress[TUPLES] += end - start
        if at < flipped + stream.size - start:
            key = stream[end - 1]
            bit = bit_of(coin, at)
            place = progress[NOTED] % noted.keys.size
            noted.at[place], noted.keys[place], noted.bits[place] = at, key, bit
            progress[NOTED] += 1
            update_filter(synopsis, key, bit, hot, events)
        start = end
    return workers


@dataclass(frozen=True, kw_only=True, eq=False)
class Notes:
    """Large values of a source since the last barrier, the oldest first: at which tuple, of which key, which bit."""

    at: NDArray[np.int64]
    keys: NDArray[np.uint64]
    bits: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class PopularityAwareState(State):
    """What a source keeps.

    Parameters
    ----------
    seed : np.uint64
        That of the stream.
    source : int
        The number of the source: each flips coins of its own.
    barriers : int
        Barriers so far.
    agreed : SynopsisState
        By all sources up to the last barrier.
    progress : array
        Whose turn it is, and large values and tuples since the last barrier.
    notes : Notes
        The latest large values.
    hot_filter : array
        Counters of the filter of hot keys.
    own : SynopsisState
        What all agreed on, with this source's notes.
    """

    seed: np.uint64
    source: int
    barriers: int
    agreed: SynopsisState
    progress: NDArray[np.int64]
    notes: Notes
    hot_filter: NDArray[np.uint8]
    own: SynopsisState


@dataclass(frozen=True, kw_only=True)
class PopularityAware(Coordinated[PopularityAwareState]):
    """Deal the tuples of hot keys to all workers in turn, and send every other key to the worker its hash names.

    The coin-flip predictor finds hot keys, a counting Bloom filter looks them up. Each source flips the coins of its
    tuples. At a barrier the large values of all sources update one synopsis, in the order of their tuples and, at the
    same tuple, of the sources; all continue from that synopsis and its filter. Between two barriers a source follows
    its own large values at once, and so shuffles a new hot key before the others do.

    A worker's excess is that of key grouping without the hot keys: no key above 4 `decline` of the tuples is likely to
    stay whole. A hot key is merged from all workers; the others, but for the filter's false positives, from one. The
    state is bounded by the synopsis, which has room for 4 / `decline` keys, and as many large values since the last
    barrier, of which only the latest count.

    Parameters
    ----------
    threshold : int
        The predictor's r.
    length : int
        The predictor's l.
    min_bits : int
        The predictor's zeta.
    decline : float, optional
        The predictor's p. Default: 1 / (50 n_workers), but at most 0.01.
    offset : int
        The lowest bit that the predictor sets.
    false_positive_rate : float
        Fraction of the other keys that the filter takes for hot when it is full, with 2 / decline keys.
    filter_size : int, optional
        Counters of the filter, a power of two, whatever that does to the rate.

    >>> router = PopularityAware.as_released(workers=10).start(source=0, seed=0)
    >>> workers = router.route(np.full(10_000, 7, dtype=np.uint64), 0)
    >>> len(set(workers[:10].tolist())), len(set(workers[-10:].tolist()))
    (1, 10)

    Reference
    ---------
    Chen, Zhang & Jin, *Popularity-aware Differentiated Distributed Stream Processing on Skewed Streams* (2017),
    sections III to V; predictor and filter: `skewless.sketches.coin_flip` and `counting_bloom`.

    Deviations: in the paper the predictor is a component of its own, which gets a signal for each tuple and broadcasts
    every change at once; here its synopsis is a pure function of what the sources noted, computed at the barrier, and
    a source acts on its own notes before. The paper leaves p open and its code has 0.01 for any number of workers; then
    keys of more than a worker's fair share stay whole from about 50 workers on. So p follows the number of workers
    here, and r is the code's, which finds hot keys 16 times sooner than the paper's; `as_published` and `as_released`
    have the numbers of both. Round robin is each source's own.
    """

    name: ClassVar[str] = "popularity_aware"
    aliases: ClassVar[tuple[str, ...]] = ("DSTREAM", "POPULARITY")
    state_class = PopularityAwareState

    threshold: int = 6
    length: int = 16
    min_bits: int = 2
    decline: float | None = None
    offset: int = 0
    false_positive_rate: float = 0.01
    filter_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_coin(self.threshold, self.length, self.min_bits, self.decline_rate, self.offset)
        CountingBloom(1, self.false_positive_rate, size=self.filter_size)  # refuses what it cannot be

    @classmethod
    def as_published(cls, *, workers: int | None = None) -> PopularityAware:
        """Return the variant of the paper: r = 10, two bits; it names neither l nor p, so these are the code's."""
        return cls(workers=workers, threshold=10, length=16, min_bits=2, decline=0.01)

    @classmethod
    def as_released(cls, *, workers: int | None = None) -> PopularityAware:
        """Return the variant of the authors' code: r = 6, l = 16, p = 0.01, and a filter of 16 counters.

        See `CoinFlip.as_released` (PredictorHotKeyUtil.java). The filter (SchedulerBolt.java) is full with a few hot
        keys: then it takes every key for hot, and all tuples are shuffled.
        """
        return cls(workers=workers, threshold=5, length=11, min_bits=2, decline=0.01, offset=6, filter_size=16)

    @property
    def decline_rate(self) -> float:
        """The fraction of the vectors that an update of the synopsis shifts."""
        if self.decline is None:
            return max(_LEAST_DECLINE, min(_MOST_DECLINE, _SHARE_OF_A_WORKER / self.n_workers))
        return self.decline

    @property
    def n_notes(self) -> int:
        """Large values that a source keeps for the barrier."""
        return min(_MOST_NOTES, ceil(_NOTES / self.decline_rate))

    def first_state(self, source: int, seed: int, /) -> PopularityAwareState:
        return self._at_barrier(
            np.uint64(seed % 2**64), 0, self.make_predictor(seed), source, first_worker(source, seed, self.n_workers)
        )

    def resume(self, state: PopularityAwareState, /) -> Router[PopularityAwareState]:
        return _PopularityAwareRouter(self, state)

    def merge(self, states: Sequence[PopularityAwareState]) -> PopularityAwareState:
        """Return the state of a source that has noted nothing yet, so that nothing is ever counted twice."""
        furthest = _furthest(states)
        turn = sum(int(state.progress[TURN]) for state in states) % self.n_workers
        agreed = self.make_predictor(int(furthest.seed), furthest.agreed)
        return self._at_barrier(furthest.seed, furthest.barriers, agreed, len(states), turn)

    def barrier(self, states: Sequence[PopularityAwareState], _now_ms: int, /) -> Sequence[PopularityAwareState]:
        furthest = _furthest(states)
        agreed = self.make_predictor(int(furthest.seed), furthest.agreed)
        notes = [state.notes for state in states]
        sources = np.repeat(np.arange(len(states)), [own.at.size for own in notes])
        order = np.lexsort((sources, np.concatenate([own.at for own in notes])))  # by tuple, then by source
        keys, bits = np.concatenate([own.keys for own in notes]), np.concatenate([own.bits for own in notes])
        agreed.note(keys[order], bits[order])
        return [
            self._at_barrier(furthest.seed, furthest.barriers + 1, agreed, source, int(state.progress[TURN]))
            for source, state in enumerate(states)
        ]

    def remark(self, state: PopularityAwareState, /) -> str:
        return f"hot keys: {np.count_nonzero(state.own.hot)}, watched: {state.own.hot.size}"

    def make_predictor(self, seed: int, synopsis: SynopsisState | None = None) -> CoinFlip:
        """Return a predictor that knows nothing yet, or continues from a snapshot."""
        predictor = CoinFlip(
            threshold=self.threshold,
            length=self.length,
            min_bits=self.min_bits,
            decline=self.decline_rate,
            offset=self.offset,
            seed=seed,
        )
        if synopsis is not None:
            predictor.restore(synopsis)
        return predictor

    def make_filter(self, seed: int, hot: NDArray[np.uint64]) -> CountingBloom:
        """Return the filter of hot keys; its salt is that of the grouping, so that one hash of a key serves both."""
        expected = ceil(_HOT_KEYS / self.decline_rate)
        hot_filter = CountingBloom(expected, self.false_positive_rate, salt=make_salt(seed), size=self.filter_size)
        hot_filter.update(hot)
        return hot_filter

    def _at_barrier(
        self, seed: np.uint64, barriers: int, agreed: CoinFlip, source: int, turn: int
    ) -> PopularityAwareState:
        """Return the state of a source right after a barrier, or at the start."""
        synopsis = agreed.snapshot()
        return PopularityAwareState(
            seed=seed,
            source=source,
            barriers=barriers,
            agreed=synopsis,
            progress=np.array([turn, 0, 0]),
            notes=Notes(
                at=np.zeros(0, dtype=np.int64), keys=np.zeros(0, dtype=np.uint64), bits=np.zeros(0, dtype=np.uint8)
            ),
            hot_filter=self.make_filter(int(seed), agreed.hot()).counters,
            own=synopsis,
        )


def _furthest(states: Sequence[PopularityAwareState]) -> PopularityAwareState:
    """Return the state that knows most of what all agreed on: sources that lost theirs have started afresh."""
    return max(states, key=lambda state: state.barriers)


class _PopularityAwareRouter(Router[PopularityAwareState]):
    def __init__(self, grouping: PopularityAware, state: PopularityAwareState) -> None:
        self._n_workers = grouping.n_workers
        self._state = state
        self._predictor = grouping.make_predictor(int(state.seed), state.own)
        self._filter = grouping.make_filter(int(state.seed), state.notes.keys[:0])
        self._filter.counters[:] = state.hot_filter
        self._progress = state.progress.copy()
        # Every source flips coins of its own, and others after each barrier.
        own_salt = make_salt(int(self._predictor.coin.salt), use=state.source)
        self._coin = self._predictor.coin._replace(salt=make_salt(int(own_salt), use=state.barriers))
        self._notes = Noted(
            at=np.zeros(grouping.n_notes, dtype=np.int64),
            keys=np.zeros(grouping.n_notes, dtype=np.uint64),
            bits=np.zeros(grouping.n_notes, dtype=np.uint8),
        )
        places = self._places()
        self._notes.at[places] = state.notes.at
        self._notes.keys[places] = state.notes.keys
        self._notes.bits[places] = state.notes.bits
        self._events = Room(*self._predictor.room_for_events())

    def _places(self) -> NDArray[np.int64]:
        """Return the places of the notes, the oldest first: the latest have overwritten those before."""
        noted, room = int(self._progress[NOTED]), self._notes.at.size
        return np.arange(max(0, noted - room), noted) % room

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        predictor, hot_filter = self._predictor, self._filter
        hot = Filter(hot_filter.counters, hot_filter.n_hashes, hot_filter.salt)
        workers: NDArray[np.int32] = route_by_popularity(
            keys, self._n_workers, self._progress, self._coin, self._notes, predictor.synopsis, hot, self._events
        )
        return workers

    def snapshot(self) -> PopularityAwareState:
        places, notes = self._places(), self._notes
        return replace(
            self._state,
            progress=self._progress.copy(),
            notes=Notes(at=notes.at[places], keys=notes.keys[places], bits=notes.bits[places]),
            hot_filter=self._filter.counters.copy(),
            own=self._predictor.snapshot(),
        )
