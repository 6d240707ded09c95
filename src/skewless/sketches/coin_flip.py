"""The coin-flip predictor: which keys are hot now, from one coin per tuple and a few bits per key."""

from __future__ import annotations

from math import ceil
from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import SkewlessError, require_at_least
from skewless.hashing import make_salt, mix, random_word, upper_choice
from skewless.sketches.key_table import FULL, capacity_for, find_or_add, forget, make_index

# What stands where in `marks`.
N: Final = 0  # keys in the synopsis
CREDIT: Final = 1  # shifts that are due, in units of 1 / UNIT
DRAWS: Final = 2  # vectors drawn so far
UNIT: Final = 1 << 32
_SMALLEST_DECLINE: Final = 1e-6
_ROOM: Final = 4  # times 1 / decline: twice the keys that a stream of ever new keys keeps in the synopsis
_WORD: Final = 64
_COIN, _DECLINE, _INDEX = 11, 12, 13  # uses of the seed


class Events(NamedTuple):
    """What changed, in order: at which tuple, for which key, and whether it was appended to the hot keys or deleted."""

    positions: NDArray[np.int64]
    keys: NDArray[np.uint64]
    appended: NDArray[np.bool_]


@njit(cache=True)
def next_large(coin: Any, begin: int, end: int, threshold: int) -> Any:
    """Give the first position from `begin` whose flips give more heads than the threshold; `end` if none does.

    Heads are the trailing zeros of one random word per tuple, so most tuples cost a word and a comparison.
    """
    mask = (uint64(1) << uint64(threshold + 1)) - uint64(1) if threshold < _WORD - 1 else ~uint64(0)
    for position in range(begin, end):
        if random_word(coin, position) & mask == uint64(0):
            return position
    return end


@njit(cache=True)
def bit_of(coin: Any, position: int, threshold: int, length: int) -> Any:
    """Give the bit that a large value sets: heads - threshold - 1, where flipping ends at threshold + length heads."""
    word = random_word(coin, position) >> uint64(threshold + 1) if threshold < _WORD - 1 else uint64(0)
    bit = 0
    while bit < length - 1 and word & uint64(1) == uint64(0):
        word >>= uint64(1)
        bit += 1
    return bit


@njit(cache=True)
def note(
    index: Any,
    keys: Any,
    vectors: Any,
    hot: Any,
    marks: Any,
    salts: Any,
    key: Any,
    bit: int,
    min_bits: int,
    decline: int,
    event_keys: Any,
    appended: Any,
) -> Any:
    """Update the synopsis: set a bit of a key's vector, then shift the share of vectors that is due.

    `salts` are those of the draws and of the index; `decline` is in units of 1 / UNIT. Changes all other arrays in
    place; events go to the beginning of `event_keys` and `appended`. Returns their number.
    """
    n_events = 0
    slot = find_or_add(index, keys, marks[N], key, mix(key ^ salts[1]))
    if slot != FULL:
        if slot == marks[N]:
            vectors[slot] = uint64(0)
            hot[slot] = False
            marks[N] += 1
        vectors[slot] |= uint64(1) << uint64(bit)
        if not hot[slot] and _ones(vectors[slot]) >= min_bits:
            hot[slot] = True
            event_keys[n_events], appended[n_events] = key, True
            n_events += 1
    marks[CREDIT] += marks[N] * decline
    while marks[CREDIT] >= UNIT and marks[N] > 0:
        marks[CREDIT] -= UNIT
        slot = upper_choice(random_word(salts[0], marks[DRAWS]), marks[N])
        marks[DRAWS] += 1
        vectors[slot] >>= uint64(1)
        if vectors[slot] == uint64(0):
            if hot[slot]:
                event_keys[n_events], appended[n_events] = keys[slot], False
                n_events += 1
            _evict(index, keys, vectors, hot, marks, salts[1], slot)
    return n_events


@njit(cache=True)
def _ones(vector: Any) -> Any:
    n = 0
    while vector != uint64(0):
        vector &= vector - uint64(1)
        n += 1
    return n


@njit(cache=True)
def _evict(index: Any, keys: Any, vectors: Any, hot: Any, marks: Any, salt: Any, slot: int) -> None:
    """Take a key out of the synopsis; the last one gets its slot, so that slots stay dense."""
    forget(index, keys, slot, salt)
    last = marks[N] - 1
    if slot != last:
        mask = uint64(index.size - 1)
        at = mix(keys[last] ^ salt) & mask
        while index[at] != last:
            at = (at + uint64(1)) & mask
        index[at] = slot
        keys[slot], vectors[slot], hot[slot] = keys[last], vectors[last], hot[last]
    marks[N] = last


@njit(cache=True)
def _predict(
    stream: Any,
    begin: int,
    flipped: int,
    index: Any,
    keys: Any,
    vectors: Any,
    hot: Any,
    marks: Any,
    salts: Any,
    coin: Any,
    threshold: int,
    length: int,
    min_bits: int,
    decline: int,
    positions: Any,
    event_keys: Any,
    appended: Any,
) -> Any:
    """Flip for stream[begin:], the first with coin number `flipped`; give the position reached and the events.

    A position short of the end means that there might be no room for the events of one more update.
    """
    n_events = 0
    while begin < stream.size and n_events + keys.size + 1 <= positions.size:
        at = next_large(coin, flipped, flipped + stream.size - begin, threshold)
        begin += at - flipped
        flipped = at
        if begin < stream.size:
            bit = bit_of(coin, at, threshold, length)
            more = note(
                index, keys, vectors, hot, marks, salts, stream[begin], bit, min_bits, decline,
                event_keys[n_events:], appended[n_events:],
            )  # fmt: skip
            positions[n_events : n_events + more] = begin
            n_events += more
            begin += 1
            flipped += 1
    return begin, n_events


@njit(cache=True)
def _note_all(
    index: Any,
    keys: Any,
    vectors: Any,
    hot: Any,
    marks: Any,
    salts: Any,
    noted_keys: Any,
    bits: Any,
    min_bits: int,
    decline: int,
    event_keys: Any,
    appended: Any,
) -> None:
    for i in range(noted_keys.size):
        note(
            index, keys, vectors, hot, marks, salts, noted_keys[i], bits[i], min_bits, decline, event_keys, appended
        )  # fmt: skip


def require_coin(threshold: int, length: int, min_bits: int, decline: float) -> None:
    """Refuse parameters of the predictor outside their ranges.

    >>> require_coin(10, 16, 17, 0.01)
    Traceback (most recent call last):
        ...
    skewless.errors.SkewlessError: min_bits must be between 1 and length (16); got 17
    """
    require_at_least("threshold", threshold, 0)
    require_at_least("length", length, 1)
    require_at_least("min_bits", min_bits, 1)
    if threshold + length > _WORD:
        raise SkewlessError(
            f"threshold + length must be at most {_WORD}, the coins of a word; got {threshold} + {length}"
        )
    if min_bits > length:
        raise SkewlessError(f"min_bits must be between 1 and length ({length}); got {min_bits}")
    if not _SMALLEST_DECLINE <= decline < 1:
        raise SkewlessError(f"decline must be at least {_SMALLEST_DECLINE} and below 1; got {decline}")


class CoinFlip:
    """Tell the keys that are hot now: rare large values of a coin leave bits, and a steady decline takes them away.

    Each tuple flips a coin until tails. Only more heads than `threshold` count: once in 2 ** (threshold + 1) tuples.
    They set a bit in the key's vector in the synopsis, the higher the more heads there were. At every such update a
    share `decline` of all vectors, drawn at random, is shifted right by one. A key is hot from having `min_bits` bits
    until its vector is empty, when it leaves the synopsis.

    With r = `threshold`, two bits and no decline, a key of fewer than 2 ** c tuples becomes hot with a probability
    below 1 - (1 + 2 ** (c - r)) e ** -(2 ** (c - r)). A key stays in the synopsis with high probability if its part
    of the tuples is above 2 `decline`, and leaves it if it is well below. The synopsis has room for 4 / `decline`
    keys; a stream of nothing but new keys keeps 2 / `decline` of them in it, a skewed one fewer.

    Parameters
    ----------
    threshold: r, the heads that do not count yet.
    length: l, the bits of a vector; flipping ends at threshold + length heads.
    min_bits: zeta, the bits from which a key is hot.
    decline: p, the share of the vectors that is shifted at each update of the synopsis.
    seed: fixes all coins and draws.

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
        self, *, threshold: int = 10, length: int = 16, min_bits: int = 2, decline: float = 0.01, seed: int = 0
    ) -> None:
        require_coin(threshold, length, min_bits, decline)
        self.threshold, self.length, self.min_bits, self.decline = threshold, length, min_bits, decline
        self.shift_share = max(1, round(decline * UNIT))  # whole, so that every machine adds up the same
        self.coin = make_salt(seed, use=_COIN)
        self.salts = np.array([make_salt(seed, use=_DECLINE), make_salt(seed, use=_INDEX)], dtype=np.uint64)
        self.flipped = 0
        capacity = capacity_for(ceil(_ROOM / decline))
        self.keys = np.zeros(capacity, dtype=np.uint64)
        self.vectors = np.zeros(capacity, dtype=np.uint64)
        self.is_hot = np.zeros(capacity, dtype=np.bool_)
        self.marks = np.zeros(DRAWS + 1, dtype=np.int64)
        self.index = make_index(self.keys[:0], capacity, self.salts[1])

    @classmethod
    def as_published(cls, *, seed: int = 0) -> CoinFlip:
        """Give the predictor of the paper: r = 10, two bits; it names neither l nor p, so these are the code's."""
        return cls(threshold=10, length=16, min_bits=2, decline=0.01, seed=seed)

    @classmethod
    def as_released(cls, *, seed: int = 0) -> CoinFlip:
        """Give the predictor of the authors' code: r = 6, l = 16, p = 0.01, two bits."""
        return cls(threshold=6, length=16, min_bits=2, decline=0.01, seed=seed)

    @property
    def n(self) -> int:
        """Keys in the synopsis, hot or not."""
        return int(self.marks[N])

    @property
    def memory(self) -> int:
        """Bytes that the synopsis takes."""
        return sum(array.nbytes for array in (self.keys, self.vectors, self.is_hot, self.index))

    def update(self, keys: NDArray[np.uint64]) -> Events:
        """Flip for each key; give the keys that became hot and those that no longer are."""
        room = 2 * (self.keys.size + 1)
        positions = np.empty(room, dtype=np.int64)
        event_keys = np.empty(room, dtype=np.uint64)
        appended = np.empty(room, dtype=np.bool_)
        parts = []
        begin = 0
        while True:
            reached, n_events = _predict(
                keys, begin, self.flipped, self.index, self.keys, self.vectors, self.is_hot, self.marks, self.salts,
                self.coin, self.threshold, self.length, self.min_bits, self.shift_share, positions, event_keys,
                appended,
            )  # fmt: skip
            self.flipped += reached - begin
            begin = reached
            parts.append([array[:n_events].copy() for array in (positions, event_keys, appended)])
            if begin == keys.size:
                return Events(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def note(self, keys: NDArray[np.uint64], bits: NDArray[np.uint8]) -> None:
        """Update the synopsis by large values that were flipped elsewhere: keys and the bits that they set."""
        _note_all(
            self.index, self.keys, self.vectors, self.is_hot, self.marks, self.salts, keys, bits, self.min_bits,
            self.shift_share, *self.room_for_events(),
        )  # fmt: skip

    def room_for_events(self) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Give arrays that hold the events of any one update."""
        return np.empty(self.keys.size + 1, dtype=np.uint64), np.empty(self.keys.size + 1, dtype=np.bool_)

    def hot(self) -> NDArray[np.uint64]:
        """Give the keys that are hot now, in ascending order."""
        return np.sort(self.keys[: self.n][self.is_hot[: self.n]])

    def items(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.bool_]]:
        """Give the keys of the synopsis, their vectors, and whether they are hot."""
        return self.keys[: self.n].copy(), self.vectors[: self.n].copy(), self.is_hot[: self.n].copy()

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Copy the synopsis and how far the coins have come, to go on from with `restore`."""
        keys, vectors, is_hot = self.items()
        return {
            "synopsis_keys": keys,
            "synopsis_vectors": vectors,
            "synopsis_hot": is_hot,
            "synopsis_marks": self.marks.copy(),
            "synopsis_flipped": np.array(self.flipped),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take over the snapshot of a predictor with the same parameters and seed."""
        keys = state["synopsis_keys"]
        if keys.size > self.keys.size or keys.size != state["synopsis_marks"][N]:
            raise SkewlessError(
                f"a synopsis with room for {self.keys.size} keys cannot go on from a snapshot of another size"
            )
        self.keys[: keys.size] = keys
        self.vectors[: keys.size] = state["synopsis_vectors"]
        self.is_hot[: keys.size] = state["synopsis_hot"]
        self.marks[:] = state["synopsis_marks"]
        self.flipped = int(state["synopsis_flipped"])
        self.index = make_index(keys, self.keys.size, self.salts[1])
