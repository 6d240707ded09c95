"""The coin-flip predictor: which keys are hot now, from one coin per tuple and a few bits per key."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, StorageError, require_at_least
from skewless.hashing import mix, random_word, upper_choice
from skewless.seeding import make_salt
from skewless.sketches.base import Sketch
from skewless.sketches.key_table import FULL, capacity_for, find_or_add, make_index, remove

# Positions in `marks`.
N: Final = 0  # keys in the synopsis
CREDIT: Final = 1  # shifts that are due, in units of 1 / UNIT
DRAWS: Final = 2  # vectors drawn so far
UNIT: Final = 1 << 32
_SMALLEST_DECLINE: Final = 1e-6
_CAPACITY: Final = 4  # times 1 / decline: twice the keys that a stream of nothing but new keys keeps in the synopsis
_WORD: Final = 64
_COIN, _DECLINE, _INDEX = 11, 12, 13  # uses of the seed


class Events(NamedTuple):
    """Changes in order: the position of the tuple, the key, and whether it became hot or ceased to be."""

    positions: NDArray[np.int64]
    keys: NDArray[np.uint64]
    appended: NDArray[np.bool_]


class Coin(NamedTuple):
    """What the kernels need to flip: the coin's salt, r and l, and the lowest bit that a large value sets."""

    salt: np.uint64
    threshold: int
    length: int
    offset: int = 0


class Synopsis(NamedTuple):
    """The keys with their bit vectors, in dense slots, and the parameters that rule them."""

    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    vectors: NDArray[np.uint64]
    hot: NDArray[np.bool_]
    marks: NDArray[np.int64]
    draw_salt: np.uint64
    index_salt: np.uint64
    min_bits: int
    decline: int  # in units of 1 / UNIT, so that every machine adds up the same
    repeats: bool  # a hot key is an event at each of its updates, and every key that leaves is one


@njit(cache=True)
def next_large(coin: Coin, start: int, stop: int) -> int:
    """Return the first position from `start` whose flips give more heads than the threshold; `stop` if none does.

    Heads are the trailing zeros of one random word per tuple, so most tuples cost a word and a comparison.
    """
    mask = (uint64(1) << uint64(coin.threshold + 1)) - uint64(1) if coin.threshold < _WORD - 1 else ~uint64(0)
    for position in range(start, stop):
        if random_word(coin.salt, position) & mask == uint64(0):
            return position
    return stop


@njit(cache=True)
def bit_of(coin: Coin, position: int) -> int:
    """Return the bit that a large value sets: offset + heads - threshold - 1, for up to threshold + length heads."""
    word = random_word(coin.salt, position) >> uint64(coin.threshold + 1) if coin.threshold < _WORD - 1 else uint64(0)
    bit = 0
    while bit < coin.length - 1 and word & uint64(1) == uint64(0):
        word >>= uint64(1)
        bit += 1
    return coin.offset + bit


@njit(cache=True)
def note(
    synopsis: Synopsis, key: np.uint64, bit: int, event_keys: NDArray[np.uint64], appended: NDArray[np.bool_]
) -> int:
    """Update the synopsis: set a bit of a key's vector, then shift the share of vectors that is due.

    Changes the synopsis in place, writes events to the start of `event_keys` and `appended`, and returns their number.
    """
    keys, vectors, hot, marks = synopsis.keys, synopsis.vectors, synopsis.hot, synopsis.marks
    n_events = 0
    slot = find_or_add(synopsis.slots, keys, marks[N], key, mix(key ^ synopsis.index_salt))
    if slot != FULL:
        if slot == marks[N]:
            vectors[slot] = uint64(0)
            hot[slot] = False
            marks[N] += 1
        vectors[slot] |= uint64(1) << uint64(bit)
        if (synopsis.repeats or not hot[slot]) and _ones(vectors[slot]) >= synopsis.min_bits:
            hot[slot] = True
            event_keys[n_events], appended[n_events] = key, True
            n_events += 1
    marks[CREDIT] += marks[N] * synopsis.decline
    while marks[CREDIT] >= UNIT and marks[N] > 0:
        marks[CREDIT] -= UNIT
        slot = upper_choice(random_word(synopsis.draw_salt, marks[DRAWS]), marks[N])
        marks[DRAWS] += 1
        vectors[slot] >>= uint64(1)
        if vectors[slot] == uint64(0):
            if hot[slot] or synopsis.repeats:
                event_keys[n_events], appended[n_events] = keys[slot], False
                n_events += 1
            _evict(synopsis, slot)
    return n_events


@njit(cache=True)
def _ones(vector: np.uint64) -> int:
    n = 0
    while vector != uint64(0):
        vector &= vector - uint64(1)
        n += 1
    return n


@njit(cache=True)
def _evict(synopsis: Synopsis, slot: int | np.int64) -> None:
    """Remove a key from the synopsis; the last key moves to its slot, so that slots stay dense."""
    slots, keys, vectors, hot = synopsis.slots, synopsis.keys, synopsis.vectors, synopsis.hot
    remove(slots, keys, slot, synopsis.index_salt)
    last = synopsis.marks[N] - 1
    if slot != last:
        mask = uint64(slots.size - 1)
        at = mix(keys[last] ^ synopsis.index_salt) & mask
        while slots[at] != last:
            at = (at + uint64(1)) & mask
        slots[at] = slot
        keys[slot], vectors[slot], hot[slot] = keys[last], vectors[last], hot[last]
    synopsis.marks[N] = last


@njit(cache=True)
def _predict(
    stream: NDArray[np.uint64], start: int, flipped: int, coin: Coin, synopsis: Synopsis, events: Events
) -> tuple[int, int]:
    """Flip for stream[start:], the first with coin number `flipped`; return the position reached and number of events.

    A position short of the end means that there might be no room for the events of one more update.
    """
    n_events = 0
    while start < stream.size and n_events + synopsis.keys.size + 1 <= events.keys.size:
        at = next_large(coin, flipped, flipped + stream.size - start)
        start += at - flipped
        flipped = at
        if start < stream.size:
            more = note(synopsis, stream[start], bit_of(coin, at), events.keys[n_events:], events.appended[n_events:])
            events.positions[n_events : n_events + more] = start
            n_events += more
            start += 1
            flipped += 1
    return start, n_events


@njit(cache=True)
def _note_all(
    synopsis: Synopsis,
    keys: NDArray[np.uint64],
    bits: NDArray[np.uint8],
    event_keys: NDArray[np.uint64],
    appended: NDArray[np.bool_],
) -> None:
    for i in range(keys.size):
        note(synopsis, keys[i], bits[i], event_keys, appended)


def require_coin(threshold: int, length: int, min_bits: int, decline: float, offset: int = 0) -> None:
    """Refuse parameters of the predictor outside their ranges.

    >>> require_coin(10, 16, 17, 0.01)
    Traceback (most recent call last):
        ...
    skewless.errors.ConfigurationError: min_bits must be between 1 and length (16); got 17
    """
    require_at_least("threshold", threshold, 0)
    require_at_least("length", length, 1)
    require_at_least("min_bits", min_bits, 1)
    require_at_least("offset", offset, 0)
    if offset + length > _WORD:
        raise ConfigurationError(
            f"{{offset}} + {{length}} must be at most {_WORD}, the bits of a vector; got {offset} + {length}",
            subject="offset",
        )
    if threshold + length > _WORD:
        raise ConfigurationError(
            f"{{threshold}} + {{length}} must be at most {_WORD}, the coins of a word; got {threshold} + {length}",
            subject="length",
        )
    if min_bits > length:
        raise ConfigurationError(subject="min_bits", expected=f"between 1 and {{length}} ({length})", value=min_bits)
    if not _SMALLEST_DECLINE <= decline < 1:
        raise ConfigurationError(subject="decline", expected=f"at least {_SMALLEST_DECLINE} and below 1", value=decline)


@dataclass(frozen=True, kw_only=True, eq=False)
class SynopsisState:
    """A snapshot of a predictor: the keys of the synopsis, their vectors, and the position of the coins."""

    keys: NDArray[np.uint64]
    vectors: NDArray[np.uint64]
    hot: NDArray[np.bool_]
    marks: NDArray[np.int64]
    flipped: int


class CoinFlip(Sketch):
    """Name the keys that are hot now: rare large values of a coin set bits, and a steady decline removes them.

    Each tuple flips a coin until tails. Only more heads than `threshold` count: once in 2 ** (threshold + 1) tuples.
    They set a bit in the key's vector in the synopsis, the higher the more heads there were. At every such update a
    share `decline` of all vectors, drawn at random, is shifted right by one. A key becomes hot when it has `min_bits`
    bits and stays hot until its vector is empty, when it leaves the synopsis.

    With r = `threshold`, two bits and no decline, a key of fewer than 2 ** c tuples becomes hot with a probability
    below 1 - (1 + 2 ** (c - r)) e ** -(2 ** (c - r)). A key stays in the synopsis with high probability if its share
    of the tuples is above 2 `decline`, and leaves it if it is well below. The synopsis has room for 4 / `decline`
    keys; a stream of nothing but new keys keeps 2 / `decline` of them in it, a skewed one fewer.

    Parameters
    ----------
    threshold : int
        Heads that do not count yet; r in the paper.
    length : int
        Bits of a vector, l in the paper; flipping ends at `threshold` + `length` heads.
    min_bits : int
        Bits from which a key is hot; zeta in the paper.
    decline : float
        Share of the vectors that is shifted at each update of the synopsis; p in the paper.
    offset : int
        Lowest bit that a large value sets. With 0, as in the paper, it is gone after one shift; the authors' code takes
        r more.
    repeats : bool
        Whether a key with enough bits is an event at each of its updates, and every key that leaves the synopsis is
        one, hot or not, as in the authors' code; otherwise events are changes.
    seed : int
        Fixes all coins and draws.

    >>> predictor = CoinFlip(threshold=2)
    >>> events = predictor.update(np.full(100, 7, dtype=np.uint64))
    >>> events.keys.tolist(), events.appended.tolist(), predictor.hot().tolist()
    ([7], [True], [7])

    Reference
    ---------
    Chen, Zhang & Jin, *Popularity-aware Differentiated Distributed Stream Processing on Skewed Streams* (2017),
    sections III.B and IV; `as_released` has the numbers of the authors' code.

    Deviations: none in the rule. Heads are counted in one random word, not flip by flip. The paper shifts p times m of
    the m vectors at each update; here what is due adds up in whole units, and each one draws a vector at random: the
    same share in the mean, at a cost of p m per update, which is constant. Like the authors' synopsis this one deletes
    a hot key when its vector is empty, not when it has lost one of its two bits. Theorem 3 bounds the synopsis by
    1 / p: that holds where hot keys have about half of the tuples or more. Its proof lets every vector be shifted
    within 1 / p updates, where chance takes longer: without hot keys the mean is 2 / p. A full synopsis takes no new
    key until one leaves.
    """

    def __init__(
        self,
        *,
        threshold: int = 10,
        length: int = 16,
        min_bits: int = 2,
        decline: float = 0.01,
        offset: int = 0,
        repeats: bool = False,
        seed: int = 0,
    ) -> None:
        require_coin(threshold, length, min_bits, decline, offset)
        self.coin = Coin(make_salt(seed, use=_COIN), threshold, length, offset)
        self.flipped = 0
        capacity = capacity_for(ceil((_CAPACITY + 2 * offset) / decline))
        keys, index_salt = np.zeros(capacity, dtype=np.uint64), make_salt(seed, use=_INDEX)
        self.synopsis = Synopsis(
            slots=make_index(keys[:0], capacity, index_salt),
            keys=keys,
            vectors=np.zeros(capacity, dtype=np.uint64),
            hot=np.zeros(capacity, dtype=np.bool_),
            marks=np.zeros(DRAWS + 1, dtype=np.int64),
            draw_salt=make_salt(seed, use=_DECLINE),
            index_salt=index_salt,
            min_bits=min_bits,
            decline=max(1, round(decline * UNIT)),
            repeats=repeats,
        )

    @classmethod
    def as_published(cls, *, seed: int = 0) -> CoinFlip:
        """Make the predictor of the paper: r = 10, two bits; it names neither l nor p, so these are the code's."""
        return cls(threshold=10, length=16, min_bits=2, decline=0.01, seed=seed)

    @classmethod
    def as_released(cls, *, seed: int = 0) -> CoinFlip:
        """Make the predictor of the authors' code: r = 6, l = 16, p = 0.01, two bits.

        In PredictorHotKeyUtil.java a value is large with a probability of 2 ** -r, twice that of the paper's rule; and
        the bit that it sets is the number of heads itself, from r to l, so that a key stays for at least r shifts more.
        PredictorBolt.java sends a signal for each update of a key with two bits, and for every key that leaves.
        """
        return cls(threshold=5, length=11, min_bits=2, decline=0.01, offset=6, repeats=True, seed=seed)

    @property
    def n(self) -> int:
        """Keys in the synopsis, hot or not."""
        return int(self.synopsis.marks[N])

    @property
    def memory(self) -> int:
        """Bytes of memory that the synopsis takes."""
        synopsis = self.synopsis
        return sum(array.nbytes for array in (synopsis.keys, synopsis.vectors, synopsis.hot, synopsis.slots))

    def update(self, keys: NDArray[np.uint64]) -> Events:
        """Flip for each key; return the keys that became hot and those that ceased to be."""
        room = 2 * (self.synopsis.keys.size + 1)
        events = Events(np.empty(room, dtype=np.int64), np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.bool_))
        parts = []
        start = 0
        while True:
            reached, n_events = _predict(keys, start, self.flipped, self.coin, self.synopsis, events)
            self.flipped += reached - start
            start = reached
            parts.append([array[:n_events].copy() for array in events])
            if start == keys.size:
                return Events(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def note(self, keys: NDArray[np.uint64], bits: NDArray[np.uint8]) -> None:
        """Update the synopsis by large values that were flipped elsewhere: keys and the bits that they set."""
        _note_all(self.synopsis, keys, bits, *self.room_for_events())

    def room_for_events(self) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return arrays that hold the events of any one update."""
        room = self.synopsis.keys.size + 1
        return np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.bool_)

    def hot(self) -> NDArray[np.uint64]:
        """Return the keys that are hot now, in ascending order."""
        keys, _, hot = self.items()
        return np.sort(keys[hot])

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the bits that each key's vector has, from which the paper predicts its popularity."""
        known, vectors, _ = self.items()
        bits = dict(zip(known.tolist(), (vector.bit_count() for vector in vectors.tolist()), strict=True))
        return np.array([bits.get(key, 0) for key in keys.tolist()], dtype=np.int64)

    def items(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the keys of the synopsis, their vectors, and whether they are hot."""
        n, synopsis = self.n, self.synopsis
        return synopsis.keys[:n].copy(), synopsis.vectors[:n].copy(), synopsis.hot[:n].copy()

    def snapshot(self) -> SynopsisState:
        """Copy the synopsis and the position of the coins, for `restore`."""
        keys, vectors, hot = self.items()
        marks = self.synopsis.marks.copy()
        return SynopsisState(keys=keys, vectors=vectors, hot=hot, marks=marks, flipped=self.flipped)

    def restore(self, state: SynopsisState) -> None:
        """Replace the synopsis by a snapshot of a predictor with the same parameters and seed."""
        keys, synopsis = state.keys, self.synopsis
        capacity = synopsis.keys.size
        if keys.size > capacity or keys.size != state.marks[N]:
            raise StorageError(f"a synopsis with room for {capacity} keys cannot go on from a snapshot of another size")
        synopsis.keys[: keys.size] = keys
        synopsis.vectors[: keys.size] = state.vectors
        synopsis.hot[: keys.size] = state.hot
        synopsis.marks[:] = state.marks
        self.flipped = state.flipped
        self.synopsis = synopsis._replace(slots=make_index(keys, capacity, synopsis.index_salt))
