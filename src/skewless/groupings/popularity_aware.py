"""Popularity-aware grouping (DStream): shuffle grouping for hot keys, key grouping for all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import UnknownNameError
from skewless.groupings.base import Coordinated, Router, State
from skewless.groupings.key import home_of
from skewless.groupings.shuffle import first_worker
from skewless.hashing import mix
from skewless.seeding import make_salt
from skewless.sketches.coin_flip import Coin, CoinFlip, Synopsis, SynopsisState, bit_of, next_large, note, require_coin
from skewless.sketches.counting_bloom import HADOOP, PLAIN, CountingBloom, Kind, erase, holds, insert

TURN: Final = 0  # in `progress`: the worker that the next tuple of a hot key gets
NOTED: Final = 1  # large values since the last barrier
TUPLES: Final = 2  # tuples since the last barrier
_SHARE_OF_A_WORKER: Final = 1 / 50  # default decline: a key of a 25th of a worker's fair share stays hot
_MOST_DECLINE: Final = 0.01  # that of the authors' code
_LEAST_DECLINE: Final = 1e-6
_NOTES: Final = 4  # times 1 / decline: after that many updates hardly any older bit is left
_MOST_NOTES: Final = 1 << 16
_HOT_KEYS: Final = 2  # times 1 / decline: the keys that the filter is made for


class Rules(NamedTuple):
    """What a variant goes by, see `PopularityAware`."""

    threshold: int
    length: int
    decline: float | None
    """None follows the number of workers."""
    offset: int = 0
    filter_size: int | None = None
    repeats: bool = False
    deletes: bool = True
    kind: Kind = PLAIN


VARIANTS: Final = {
    "scaled": Rules(threshold=6, length=16, decline=None),
    "paper": Rules(threshold=10, length=16, decline=0.01),
    "released": Rules(threshold=5, length=11, decline=0.01, offset=6, filter_size=16, repeats=True, kind=HADOOP),
    "first_release": Rules(
        threshold=5, length=11, decline=0.01, offset=6, filter_size=16, repeats=True, deletes=False, kind=HADOOP
    ),
}


class Filter(NamedTuple):
    """The counting Bloom filter of hot keys."""

    counters: NDArray[np.uint8]
    n_hashes: int
    salt: np.uint64
    deletes: bool
    """Whether a key that leaves the synopsis is deleted; otherwise the key that was noted is added."""
    kind: Kind


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
    """Update the synopsis by one large value, and the filter by what became hot and what no longer is; in place.

    A key that is hot once more is only added if the filter has lost it.
    """
    n_events = note(synopsis, key, bit, events.keys, events.appended)
    for i in range(n_events):
        changed = events.keys[i] if events.appended[i] or hot.deletes else key
        word = mix(changed ^ hot.salt)
        if hot.deletes and not events.appended[i]:
            erase(hot.counters, hot.n_hashes, word, hot.kind)
        elif not (synopsis.repeats and holds(hot.counters, hot.n_hashes, word, hot.kind)):
            insert(hot.counters, hot.n_hashes, word, hot.kind)


@njit(cache=True)
def update_by_notes(
    synopsis: Synopsis, keys: NDArray[np.uint64], bits: NDArray[np.uint8], hot: Filter, events: Room
) -> None:
    """Update synopsis and filter by large values that were flipped elsewhere, in place."""
    for i in range(keys.size):
        update_filter(synopsis, keys[i], bits[i], hot, events)


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
    counters, n_hashes, salt, kind = hot.counters, hot.n_hashes, hot.salt, hot.kind
    workers = np.empty(stream.size, dtype=np.int32)
    start = 0
    while start < stream.size:
        flipped = progress[TUPLES]
        at = next_large(coin, flipped, flipped + stream.size - start)
        end = min(start + at - flipped + 1, stream.size)
        turn = progress[TURN]
        for i in range(start, end):  # nothing is learned before the last of these
            word = mix(stream[i] ^ salt)
            if holds(counters, n_hashes, word, kind):
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
    agreed_filter : array
        Counters of the filter of hot keys at the last barrier.
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
    agreed_filter: NDArray[np.uint8]
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
    variant : {"scaled", "paper", "released", "first_release"}
        Whose settings are the default. `scaled`: those of the authors' code, but p follows the number of workers: 1 /
        (50 n_workers), at most 0.01. `paper`: r = 10 and two bits (Table I, section IV.A); it names neither l nor p, so
        these are the code's. `released`, the authors' code since January 2018: r = 6, l = 16, p = 0.01
        (dstream.properties), a large value once in 2 ** r tuples, whose bit is the number of heads itself
        (PredictorHotKeyUtil.java), and Hadoop's filter of 16 counters (SchedulerBolt.java), which stop at 15 for good;
        hashes of a key may be the same. Every key that leaves the synopsis is deleted from that filter
        (PredictorBolt.java), even if only other keys' counters make it look as if it were there; a hot key returns at
        its next large value. `first_release`, their code from September 2017 until then:
        PredictorBolt.java does not send that deletion, but once more the key that was just noted, as hot. So nothing
        ever leaves the filter: it is full after a few keys, and from then on every key is dealt to all workers.
    threshold : int, optional
        The predictor's r, instead of that of the variant.
    length : int, optional
        The predictor's l, instead of that of the variant.
    min_bits : int
        The predictor's zeta.
    decline : float, optional
        The predictor's p, instead of that of the variant.
    false_positive_rate : float
        Fraction of the other keys that the filter takes for hot when it is full, with 2 / decline keys; not for
        `released` and `first_release`.

    >>> router = PopularityAware(variant="released", workers=10).start(source=0, seed=0)
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
    by default, and r is the code's, which finds hot keys 16 times sooner than the paper's. Round
    robin is each source's own.
    """

    name: ClassVar[str] = "popularity_aware"
    aliases: ClassVar[tuple[str, ...]] = ("DSTREAM", "POPULARITY")
    state_class = PopularityAwareState

    variant: str = "scaled"
    threshold: int | None = None
    length: int | None = None
    min_bits: int = 2
    decline: float | None = None
    false_positive_rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant not in VARIANTS:
            raise UnknownNameError("variant", self.variant, VARIANTS, subject="variant")
        rules = self.rules
        # without a number of workers the rate is not known yet, and then no other one than it will be is refused
        rate = _MOST_DECLINE if self.workers is None and rules.decline is None else self.decline_rate
        require_coin(rules.threshold, rules.length, self.min_bits, rate, rules.offset)
        CountingBloom(1, self.false_positive_rate, size=rules.filter_size)  # refuses what it cannot be

    @property
    def rules(self) -> Rules:
        """The variant, with what was set otherwise."""
        rules = VARIANTS[self.variant]
        return rules._replace(
            threshold=rules.threshold if self.threshold is None else self.threshold,
            length=rules.length if self.length is None else self.length,
            decline=rules.decline if self.decline is None else self.decline,
        )

    @property
    def decline_rate(self) -> float:
        """The fraction of the vectors that an update of the synopsis shifts."""
        decline = self.rules.decline
        if decline is None:
            return max(_LEAST_DECLINE, min(_MOST_DECLINE, _SHARE_OF_A_WORKER / self.n_workers))
        return decline

    @property
    def n_notes(self) -> int:
        """Large values that a source keeps for the barrier."""
        return min(_MOST_NOTES, ceil((_NOTES + 2 * self.rules.offset) / self.decline_rate))

    def first_state(self, source: int, seed: int, /) -> PopularityAwareState:
        turn = first_worker(source, seed, self.n_workers)
        return self._at_barrier(
            np.uint64(seed % 2**64), 0, self.make_predictor(seed), self.make_filter(seed), source, turn
        )

    def resume(self, state: PopularityAwareState, /) -> Router[PopularityAwareState]:
        return _PopularityAwareRouter(self, state)

    def merge(self, states: Sequence[PopularityAwareState]) -> PopularityAwareState:
        """Return the state of a source that has noted nothing yet, so that nothing is ever counted twice."""
        furthest = _furthest(states)
        turn = sum(int(state.progress[TURN]) for state in states) % self.n_workers
        return self._at_barrier(furthest.seed, furthest.barriers, *self._agreed(furthest), len(states), turn)

    def barrier(self, states: Sequence[PopularityAwareState], _now_ms: int, /) -> Sequence[PopularityAwareState]:
        furthest = _furthest(states)
        agreed, hot_filter = self._agreed(furthest)
        notes = [state.notes for state in states]
        sources = np.repeat(np.arange(len(states)), [own.at.size for own in notes])
        order = np.lexsort((sources, np.concatenate([own.at for own in notes])))  # by tuple, then by source
        keys, bits = np.concatenate([own.keys for own in notes]), np.concatenate([own.bits for own in notes])
        hot = Filter(hot_filter.counters, hot_filter.n_hashes, hot_filter.salt, self.rules.deletes, self.rules.kind)
        update_by_notes(agreed.synopsis, keys[order], bits[order], hot, Room(*agreed.room_for_events()))
        return [
            self._at_barrier(
                furthest.seed, furthest.barriers + 1, agreed, hot_filter, source, int(state.progress[TURN])
            )
            for source, state in enumerate(states)
        ]

    def _agreed(self, state: PopularityAwareState) -> tuple[CoinFlip, CountingBloom]:
        """Return predictor and filter of the last barrier."""
        seed = int(state.seed)
        return self.make_predictor(seed, state.agreed), self.make_filter(seed, state.agreed_filter)

    def remark(self, state: PopularityAwareState, /) -> str:
        return f"hot keys: {np.count_nonzero(state.own.hot)}, watched: {state.own.hot.size}"

    def make_predictor(self, seed: int, synopsis: SynopsisState | None = None) -> CoinFlip:
        """Return a predictor that knows nothing yet, or continues from a snapshot."""
        rules = self.rules
        predictor = CoinFlip(
            threshold=rules.threshold,
            length=rules.length,
            min_bits=self.min_bits,
            decline=self.decline_rate,
            offset=rules.offset,
            repeats=rules.repeats,
            seed=seed,
        )
        if synopsis is not None:
            predictor.restore(synopsis)
        return predictor

    def make_filter(self, seed: int, counters: NDArray[np.uint8] | None = None) -> CountingBloom:
        """Return an empty filter of hot keys, or one with these counters; one hash of a key serves it and the home."""
        expected = ceil(_HOT_KEYS / self.decline_rate)
        size = self.rules.filter_size
        hot_filter = CountingBloom(expected, self.false_positive_rate, salt=make_salt(seed), size=size)
        if counters is not None:
            hot_filter.counters[:] = counters
        return hot_filter

    def _at_barrier(
        self, seed: np.uint64, barriers: int, agreed: CoinFlip, hot_filter: CountingBloom, source: int, turn: int
    ) -> PopularityAwareState:
        """Return the state of a source right after a barrier, or at the start."""
        synopsis = agreed.snapshot()
        return PopularityAwareState(
            seed=seed,
            source=source,
            barriers=barriers,
            agreed=synopsis,
            agreed_filter=hot_filter.counters,
            progress=np.array([turn, 0, 0]),
            notes=Notes(
                at=np.zeros(0, dtype=np.int64), keys=np.zeros(0, dtype=np.uint64), bits=np.zeros(0, dtype=np.uint8)
            ),
            hot_filter=hot_filter.counters,
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
        self._filter = grouping.make_filter(int(state.seed), state.hot_filter)
        self._rules = grouping.rules
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
        hot = Filter(hot_filter.counters, hot_filter.n_hashes, hot_filter.salt, self._rules.deletes, self._rules.kind)
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
