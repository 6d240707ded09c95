"""How the rows of a data set are distributed over its keys, and tuples drawn from that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.combiners import Partials, Sum
from skewless.errors import ConfigurationError, InputError, require_at_least
from skewless.hashing import SPARK_SEED, hash_keys, rehash
from skewless.seeding import make_salt
from skewless.streams import Stream, SyntheticStream

HEAD: Final = 1_000
"""Most keys that are known by name."""
LONGEST_NAME: Final = 200
"""Most characters of a key's name that are kept."""
CLASSES: Final = 64
"""Number of classes of the tail: no count has more binary digits."""
_SEEN: Final = 32  # rows of a key that show over how many workers a grouping spreads it
_MASK: Final = 2**64 - 1
# The primes by which XXH64 multiplies an integer key, and their inverses.
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip
_INVERSE_P1, _INVERSE_P2, _INVERSE_P3 = (np.uint64(pow(prime, -1, 2**64)) for prime in (_P1, _P2, _P3))


@dataclass(frozen=True, kw_only=True)
class KeyDistribution:
    """The largest keys by name, hash and count; of all others, how many have how many rows.

    Exact except for the tail, whose keys are known by classes only: class `b` has the keys whose count has `b` binary
    digits, so that within a class no key has twice the rows of another.

    Parameters
    ----------
    label : str
        Name of the data.
    names : tuple of str
        The largest keys, largest first: the head.
    hashes : array of uint64
        Their hashes, as `hash_keys` computes them.
    counts : array of int64
        Their rows.
    tail_keys : array of int64
        Number of the other keys in each class.
    tail_rows : array of int64
        Number of their rows in each class.

    >>> counts = np.array([5, 80, 5, 10])
    >>> some = KeyDistribution.of_counts("some", pa.array(["a", "b", "c", None]), counts, head=2)
    >>> some.rows, some.distinct, some.names, some.shares.tolist()
    (100, 4, ('b', 'null'), [0.8, 0.1])
    >>> some.tail_keys.tolist()[:5], some.tail_rows.tolist()[:5]
    ([0, 0, 0, 2, 0], [0, 0, 0, 10, 0])
    """

    label: str
    names: tuple[str, ...]
    hashes: NDArray[np.uint64] = field(repr=False)
    counts: NDArray[np.int64]
    tail_keys: NDArray[np.int64] = field(repr=False)
    tail_rows: NDArray[np.int64] = field(repr=False)

    def __post_init__(self) -> None:
        if not len(self.names) == self.hashes.size == self.counts.size:
            raise ConfigurationError(
                "the head needs a name, a hash and a count for each key; got "
                f"{len(self.names)}, {self.hashes.size} and {self.counts.size}"
            )
        if self.rows == 0:
            raise InputError(f"{self.label} has no rows, so there are no keys to diagnose")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum() + self.tail_rows.sum())

    @property
    def distinct(self) -> int:
        """Number of keys."""
        return int(self.counts.size + self.tail_keys.sum())

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of all rows that each key of the head has."""
        shares: NDArray[np.float64] = self.counts / self.rows
        return shares

    @classmethod
    def of_counts(cls, label: str, keys: pa.Array, counts: NDArray[np.int64], *, head: int = HEAD) -> KeyDistribution:
        """Return the distribution of distinct keys, given the rows of each."""
        require_at_least("head", head, 1)
        least = 0 if counts.size <= head else int(np.partition(counts, counts.size - head)[counts.size - head])
        candidates = np.flatnonzero(counts >= least)
        hashes = hash_keys(keys.take(pa.array(candidates)))
        largest = candidates[by_size(counts[candidates], hashes)[:head]]
        named = keys.take(pa.array(largest))
        return cls.of_classes(label, names_of(named), hash_keys(named), counts[largest], *_classified(counts))

    @classmethod
    def of_classes(
        cls,
        label: str,
        names: Sequence[str],
        hashes: NDArray[np.uint64],
        counts: NDArray[np.int64],
        class_keys: NDArray[np.int64],
        class_rows: NDArray[np.int64],
    ) -> KeyDistribution:
        """Return the distribution of a head and of classes that still contain the head."""
        keys, rows = _classified(counts)
        return cls(
            label=label,
            names=tuple(names),
            hashes=hashes,
            counts=counts,
            tail_keys=class_keys - keys,
            tail_rows=class_rows - rows,
        )

    @classmethod
    def of_stream(
        cls,
        stream: Stream,
        *,
        tuples: int | None = None,
        seed: int = 0,
        head: int = HEAD,
        progress: Callable[[int], None] | None = None,
    ) -> KeyDistribution:
        """Read a stream once, in memory bounded by its distinct keys; `progress` gets the tuples read so far."""
        partials: Partials | None = None
        done = 0
        for chunk in stream.generate(tuples=tuples, seed=seed):
            counted = chunk.value_counts()
            keys, counts = counted.field(0), counted.field(1)
            if pa.types.is_dictionary(keys.type):
                keys = keys.dictionary_decode()
            table = pa.table({"key": keys, "n": counts})
            if partials is None:
                partials = Partials(table.schema, ["key"], {"rows": Sum("n")})
            partials.add_rows(table)
            done += len(chunk)
            if progress is not None:
                progress(done)
        if partials is None:
            raise InputError(f"{stream.label} has no rows, so there are no keys to diagnose")
        result = partials.results().combine_chunks()
        (keys,) = result["key"].chunks or [pa.array([], result.schema.field("key").type)]
        return cls.of_counts(stream.label, keys, result["rows"].to_numpy(), head=head)


@dataclass(frozen=True, kw_only=True)
class Drawn(SyntheticStream):
    """Integer keys in memory, already in random order."""

    keys: NDArray[np.int64] = field(repr=False)

    @property
    def label(self) -> str:
        return "drawn"

    @property
    def summary(self) -> str:
        return "keys drawn from a distribution"

    def _keys(self, start: int, stop: int, _seed: int, _tuples: int, /) -> pa.Array:
        return pa.array(self.keys[start:stop])


def draw(
    distribution: KeyDistribution, tuples: int, *, seed: int = 0, fewer: Literal["rows", "keys"] = "rows"
) -> Drawn:
    """Return a stream of `tuples` tuples, or of all rows if there are no more, in random order.

    Only the order is random. With all rows, every key has exactly its rows; with fewer, each key of the head has its
    share. Keys of the head get their real hash.

    Parameters
    ----------
    distribution : KeyDistribution
        Where the keys come from.
    tuples : int
        Most tuples to draw.
    seed : int
        Determines the order.
    fewer : {"rows", "keys"}
        If not all rows are drawn, whether the tail has fewer rows per key, like a sample of rows, or fewer keys with up
        to 32 rows each, like a sample of keys: the former preserves the balance of the workers, the latter the number
        of workers per key.

    >>> some = KeyDistribution.of_counts("some", pa.array(["a", "b"]), np.array([3, 1]))
    >>> stream = draw(some, 100)
    >>> keys = stream.slice(0, 4, tuples=4, seed=0)
    >>> bool(np.all(np.sort(hash_keys(keys)) == np.sort(hash_keys(pa.array(["a", "a", "a", "b"])))))
    True
    """
    require_at_least("tuples", tuples, 1)
    total = min(tuples, distribution.rows)
    part = total / distribution.rows
    counts = distribution.counts
    hot = (counts * part >= _SEEN) | (part == 1)
    cold_keys, cold_rows = _classified(counts[~hot])
    class_keys, class_rows = distribution.tail_keys + cold_keys, distribution.tail_rows + cold_rows
    there = class_keys > 0
    class_keys, class_rows = class_keys[there], class_rows[there]
    ends = np.rint(np.cumsum(np.concatenate([counts[hot], class_rows])) * part).astype(np.int64)
    shown = np.diff(ends, prepend=0)
    hot_shown, class_shown = shown[: hot.sum()], shown[hot.sum() :]
    mean = class_rows / class_keys
    per_key = mean * part if fewer == "rows" else np.maximum(mean * part, np.minimum(mean, _SEEN))
    n_keys = np.clip(np.rint(class_shown / per_key).astype(np.int64), 1, class_keys)
    n_keys = np.minimum(n_keys, class_shown)
    tail_counts = [_even_counts(n, rows) for n, rows in zip(n_keys.tolist(), class_shown.tolist(), strict=True)]
    first = int(make_salt(seed, use=1)) >> 2
    tail = first + np.arange(int(n_keys.sum()), dtype=np.int64)
    keys = np.concatenate([keys_with(distribution.hashes[hot]), tail])
    tuples_in_order = np.repeat(keys, np.concatenate([hot_shown, *tail_counts]))
    order = np.argsort(rehash(np.arange(total, dtype=np.uint64), seed))
    return Drawn(keys=tuples_in_order[order], default_tuples=total)


def by_size(counts: NDArray[np.int64], hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the order of keys by count, largest first; ties by hash as a signed number, largest first, as in Spark."""
    return np.lexsort((hashes.view(np.int64), counts))[::-1]


def names_of(keys: pa.Array) -> list[str]:
    """Return keys as text.

    >>> names_of(pa.array([b"caf\\xc3\\xa9", None])), names_of(pa.array([True, False]))
    (['café', 'null'], ['true', 'false'])
    """
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    try:
        texts = keys.cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # bytes that are not text, types without a cast
        texts = keys.to_pylist()
    return [_name(text) for text in texts]


def _name(value: Any) -> str:
    if value is None:
        return "null"
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text[:LONGEST_NAME]


def keys_with(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for each hash the 64-bit integer that `hash_keys` maps to it, by inverting XXH64 of eight bytes.

    >>> hash_keys(keys_with(np.array([7, 2**63], dtype=np.uint64))).tolist() == [7, 2**63]
    True
    """
    word = np.ascontiguousarray(hashes, dtype=np.uint64)
    word = (word ^ (word >> np.uint64(32))) * _INVERSE_P3
    word = (word ^ (word >> np.uint64(29)) ^ (word >> np.uint64(58))) * _INVERSE_P2
    word = word ^ (word >> np.uint64(33))
    word = _rotate_right((word - np.uint64(_P4)) * _INVERSE_P1, 27) ^ np.uint64((SPARK_SEED + _P5 + 8) & _MASK)
    return (_rotate_right(word * _INVERSE_P1, 31) * _INVERSE_P2).view(np.int64)


def _rotate_right(words: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (words >> np.uint64(bits)) | (words << np.uint64(64 - bits))


def _classified(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of keys, and of their rows, by the number of binary digits of a key's count."""
    digits = np.frexp(counts.astype(np.float64))[1]
    rows = np.zeros(CLASSES, dtype=np.int64)
    np.add.at(rows, digits, counts)
    return np.bincount(digits, minlength=CLASSES), rows


def _even_counts(n: int, rows: int) -> NDArray[np.int64]:
    """Distribute rows over n keys as evenly as possible."""
    counts = np.full(n, rows // n if n else 0, dtype=np.int64)
    counts[: rows - int(counts.sum())] += 1
    return counts
