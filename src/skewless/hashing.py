"""Hashes of keys: Spark's xxhash64 outside Spark, and the hash families that groupings derive from it.

`hash_keys` returns, bit for bit, what `pyspark.sql.functions.xxhash64` returns for the same column, so that a
simulation and a Spark run route alike. Everything after it works on those 64-bit hashes.

Reference
---------
XXH64: the xxHash specification, sections "XXH64 algorithm" steps 1-6. Seed 42, the encoding of each type and
the value of null (the seed itself): Spark's expression `xxhash64`.
Strongly universal multiply-shift for pairs: M. Thorup, *High Speed Hashing for Integers and Strings*, section 3.5.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ColumnError, ConfigurationError, InputError
from skewless.seeding import make_salt

SPARK_SEED: Final = 42

# The five primes of XXH64, and the golden ratio, the increment of splitmix64.
_P1: Final = np.uint64(0x9E3779B185EBCA87)
_P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_P3: Final = np.uint64(0x165667B19E3779F9)
_P4: Final = np.uint64(0x85EBCA77C2B2AE63)
_P5: Final = np.uint64(0x27D4EB2F165667C5)
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


# Types that Spark hashes as a wider integer.
_WIDENED: Final = {
    **dict.fromkeys((pa.bool_(), pa.int8(), pa.int16(), pa.uint8(), pa.uint16()), pa.int32()),
    pa.uint32(): pa.int64(),
}


@njit(inline="always")
def _rotate_left(x: np.uint64, bits: int) -> Any:
    return (x << uint64(bits)) | (x >> uint64(64 - bits))


@njit(inline="always")
def _round(accumulator: np.uint64, lane: np.uint64) -> Any:
    return _rotate_left(accumulator + lane * _P2, 31) * _P1


@njit(inline="always")
def _avalanche(h: np.uint64) -> np.uint64:
    h = (h ^ (h >> uint64(33))) * _P2
    h = (h ^ (h >> uint64(29))) * _P3
    return h ^ (h >> uint64(32))


@njit(inline="always")
def _read(data: NDArray[np.uint8], at: int, n_bytes: int) -> Any:
    word = uint64(0)
    for i in range(n_bytes):
        word |= uint64(data[at + i]) << uint64(8 * i)
    return word


@njit(cache=True)
def _xxhash64(data: NDArray[np.uint8], start: int, stop: int, seed: np.uint64) -> Any:
    """Return the XXH64 of data[start:stop]."""
    at = start
    if stop - start >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= stop:
            a = _round(a, _read(data, at, 8))
            b = _round(b, _read(data, at + 8, 8))
            c = _round(c, _read(data, at + 16, 8))
            d = _round(d, _read(data, at + 24, 8))
            at += 32
        h = _rotate_left(a, 1) + _rotate_left(b, 7) + _rotate_left(c, 12) + _rotate_left(d, 18)
        for lane in (a, b, c, d):
            h = (h ^ _round(uint64(0), lane)) * _P1 + _P4
    else:
        h = seed + _P5
    h += uint64(stop - start)
    while at + 8 <= stop:
        h = _rotate_left(h ^ _round(uint64(0), _read(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= stop:
        h = _rotate_left(h ^ (_read(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < stop:
        h = _rotate_left(h ^ (uint64(data[at]) * _P5), 11) * _P1
        at += 1
    return _avalanche(h)


@njit(cache=True)
def _hash_bytes(data: NDArray[np.uint8], offsets: NDArray[np.int64], seeds: NDArray[np.uint64]) -> None:
    """Hash data[offsets[i]:offsets[i + 1]] with seeds[i], into seeds[i]."""
    for i in range(seeds.size):
        seeds[i] = _xxhash64(data, offsets[i], offsets[i + 1], seeds[i])


@njit(cache=True)
def _hash_fours(words: NDArray[np.uint32], seeds: NDArray[np.uint64]) -> None:
    """Hash each word as four little-endian bytes with seeds[i], into seeds[i]."""
    for i in range(seeds.size):
        h = seeds[i] + _P5 + uint64(4)
        seeds[i] = _avalanche(_rotate_left(h ^ (uint64(words[i]) * _P1), 23) * _P2 + _P3)


@njit(cache=True)
def _hash_eights(words: NDArray[np.uint64], seeds: NDArray[np.uint64]) -> None:
    """Hash each word as eight little-endian bytes with seeds[i], into seeds[i]."""
    for i in range(seeds.size):
        h = seeds[i] + _P5 + uint64(8)
        seeds[i] = _avalanche(_rotate_left(h ^ _round(uint64(0), uint64(words[i])), 27) * _P1 + _P4)


def hash_keys(*columns: pa.Array | pa.ChunkedArray | NDArray[Any]) -> NDArray[np.uint64]:
    """Hash each row of the key columns as Spark's `xxhash64(*columns)` does.

    Null is a key of its own. Keys may be integers, booleans, floats, strings, binary, dates, timestamps, decimals of up
    to 18 digits, and dictionaries of these. NumPy arrays are converted to Arrow arrays.

    >>> import pyarrow as pa
    >>> hash_keys(pa.array(["Spark", None])).astype("int64").tolist()
    [-4294468057691064905, 42]
    """
    if not columns:
        raise InputError("hash_keys needs at least one key column; got none", subject="columns")
    arrays = [_as_array(column) for column in columns]
    lengths = {len(array) for array in arrays}
    if len(lengths) > 1:
        raise InputError(f"key columns must be of one length; got {sorted(lengths)}", subject="columns")
    hashes = np.full(len(arrays[0]), SPARK_SEED, dtype=np.uint64)
    for array in arrays:
        _hash_column(array, hashes)
    return hashes


def _as_array(column: pa.Array | pa.ChunkedArray | NDArray[Any]) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column if isinstance(column, pa.Array) else pa.array(column)


def _hash_column(array: pa.Array, hashes: NDArray[np.uint64]) -> None:
    """Fold one column into the hashes of the columns before it, in place; null leaves them as they are."""
    if pa.types.is_dictionary(array.type):
        _hash_dictionary(array, hashes)
        return
    before = hashes.copy() if array.null_count else None
    kind = array.type
    if pa.types.is_null(kind):
        return
    if _is_text(kind):
        array = array.cast(pa.large_binary())
        _, offset_buffer, data_buffer = array.buffers()
        offsets = np.frombuffer(offset_buffer, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
        data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
        _hash_bytes(data, offsets, hashes)
    else:
        words = _words(array)
        (_hash_fours if words.dtype == np.uint32 else _hash_eights)(words, hashes)
    if before is not None:
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        hashes[nulls] = before[nulls]


def _hash_dictionary(array: pa.DictionaryArray, hashes: NDArray[np.uint64]) -> None:
    if len(hashes) and np.all(hashes == hashes[0]):  # the first column: hash each distinct value once
        distinct = np.full(len(array.dictionary) + 1, hashes[0], dtype=np.uint64)
        _hash_column(array.dictionary, distinct[:-1])
        codes = array.indices.cast(pa.int64()).fill_null(len(array.dictionary)).to_numpy(zero_copy_only=False)
        hashes[:] = distinct[codes]
    else:
        _hash_column(array.dictionary_decode(), hashes)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or str(kind) in {"string_view", "binary_view"}  # which PyArrow has no functions for before 16
    )


def _words(array: pa.Array) -> NDArray[Any]:
    """Return each value as the 32- or 64-bit word that Spark hashes for its type."""
    kind = array.type
    if kind in _WIDENED:
        array = array.cast(_WIDENED[kind])
    elif pa.types.is_uint64(kind) or pa.types.is_date32(kind):
        array = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    elif pa.types.is_timestamp(kind):
        array = _micros(array)
    elif pa.types.is_floating(kind):
        array = _normalised_floats(array)
    elif pa.types.is_decimal(kind) and kind.precision <= 18:
        array = _unscaled(array)
    elif kind not in {pa.int32(), pa.int64()}:
        raise ColumnError(
            f"a key of type {kind} cannot be hashed as Spark does",
            hint="cast it to a string, an integer or a timestamp",
        )
    if array.null_count:
        array = array.fill_null(0)
    values: NDArray[Any] = np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
    return values.view(np.uint32 if values.dtype.itemsize == 4 else np.uint64)


def _micros(array: pa.Array) -> pa.Array:
    """Return timestamps as Spark stores them: in microseconds, rounded down."""
    try:
        rounded = pc.floor_temporal(array, unit="microsecond") if array.type.unit == "ns" else array
        return rounded.cast(pa.timestamp("us", array.type.tz)).view(pa.int64())
    except pa.ArrowInvalid as error:
        raise ColumnError(f"a key of type {array.type} is outside the range of Spark's timestamps: {error}") from error


def _unscaled(array: pa.Array) -> pa.Array:
    """Return short decimals as the integers that they are stored as: the lower half of each 128-bit value."""
    wide = array.cast(pa.decimal128(38, array.type.scale))
    halves = np.frombuffer(wide.buffers()[1], dtype=np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide))]
    return pa.array(halves[::2], mask=array.is_null().to_numpy(zero_copy_only=False))


def _normalised_floats(array: pa.Array) -> pa.Array:
    """Return floats with one zero and one NaN, as Java's floatToIntBits and Spark's hash see them."""
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    values = array.fill_null(0).to_numpy(zero_copy_only=False).copy()
    values[values == 0] = 0.0
    values[np.isnan(values)] = np.nan
    return pa.array(values, mask=array.is_null().to_numpy(zero_copy_only=False))


@njit(inline="always")
def mix(word: np.uint64) -> np.uint64:
    """Apply the finaliser of splitmix64: a bijection whose every output bit depends on every input bit."""
    word = uint64(word)
    word = (word ^ (word >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> uint64(27))) * uint64(0x94D049BB133111EB)
    return word ^ (word >> uint64(31))


@njit(inline="always")
def random_word(salt: np.uint64, position: int | np.integer) -> Any:
    """Draw word number `position` of the splitmix64 sequence that starts at `salt`."""
    return mix(uint64(salt) + (uint64(position) + uint64(1)) * _GOLDEN)


@njit(inline="always")
def upper_choice(word: np.uint64, n: int) -> np.int64:
    """Reduce the upper 32 bits of a well-mixed word to 0 … n - 1."""
    return np.int64(((word >> uint64(32)) * uint64(n)) >> uint64(32))


@njit(inline="always")
def lower_choice(word: np.uint64, n: int) -> np.int64:
    """Reduce the lower 32 bits of a well-mixed word to 0 … n - 1, independent of `upper_choice`."""
    return np.int64(((word & uint64(0xFFFFFFFF)) * uint64(n)) >> uint64(32))


def rehash(keys: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Hash keys again, without new collisions; the hashes of two seeds look independent.

    >>> keys = np.array([1, 2], dtype=np.uint64)
    >>> bool(np.any(rehash(keys, seed=7) == rehash(keys, seed=8)))
    False
    """
    hashes: NDArray[np.uint64] = _rehash(np.ascontiguousarray(keys, dtype=np.uint64), make_salt(seed))
    return hashes


@njit(cache=True)
def _rehash(keys: NDArray[np.uint64], salt: np.uint64) -> NDArray[np.uint64]:
    hashes = np.empty_like(keys)
    for i in range(keys.size):
        hashes[i] = mix(keys[i] ^ salt)
    return hashes


def universal_hash(keys: NDArray[np.uint64], seed: int, n_buckets: int) -> NDArray[np.int64]:
    """Hash keys to buckets with a member, drawn by `seed`, of a 2-universal family.

    For two different keys and a random seed the buckets agree with probability at most
    (1 + n_buckets / 2**32) / n_buckets, whatever the keys are.

    >>> universal_hash(np.arange(4, dtype=np.uint64), seed=3, n_buckets=1).tolist()
    [0, 0, 0, 0]
    """
    if not 1 <= n_buckets <= 2**32:
        raise ConfigurationError(subject="n_buckets", expected="between 1 and 2**32", value=n_buckets)
    words = np.ascontiguousarray(keys, dtype=np.uint64)
    buckets: NDArray[np.int64] = universal_buckets(words, universal_salts(seed), n_buckets)
    return buckets


def universal_salts(seed: int) -> NDArray[np.uint64]:
    """Draw the member of the family that `universal_hash` uses for a seed: the three words of `universal_choice`."""
    return np.array([make_salt(seed, use=use) for use in (1, 2, 3)], dtype=np.uint64)


@njit(inline="always")
def universal_choice(key: np.uint64, a: np.uint64, b: np.uint64, c: np.uint64, n: int) -> Any:
    """Hash one key to 0 … n - 1 with the member of the 2-universal family that three random words select."""
    return upper_choice(a * (key & uint64(0xFFFFFFFF)) + b * (key >> uint64(32)) + c, n)


@njit(cache=True)
def universal_buckets(keys: NDArray[np.uint64], salts: NDArray[np.uint64], n_buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each key, by the member of the family that `salts` select."""
    buckets = np.empty(keys.size, dtype=np.int64)
    a, b, c = salts[0], salts[1], salts[2]
    for i in range(keys.size):
        buckets[i] = universal_choice(keys[i], a, b, c, n_buckets)
    return buckets
