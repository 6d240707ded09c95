"""hash_keys against the specification's XXH64, and the hash families that are drawn from it."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.hashing import SPARK_SEED, spark_hash, xxhash64
from skewless.errors import SkewlessError
from skewless.hashing import hash_keys, lower_choice, mix, random_word, rehash, universal_hash, upper_choice
from skewless.seeding import make_salt

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - Arrow's plain timestamps have no zone either
# Long enough for several stripes of 32 bytes and every length of the rest.
texts = st.lists(st.none() | st.text(max_size=20) | st.text(min_size=32, max_size=120), max_size=12)
binaries = st.lists(st.none() | st.binary(max_size=130), max_size=12)
seeds = st.integers(0, 2**64 - 1)
words = st.integers(0, 2**64 - 1)


def ints(bits: int) -> st.SearchStrategy[list[int | None]]:
    return st.lists(st.none() | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), max_size=12)


def expected(values: list[Any], bits: int = 64) -> list[int]:
    return [spark_hash(value, bits=bits) for value in values]


def java_bits(value: float | None, kind: str) -> int | None:
    """Return the word of Java's doubleToLongBits (d) or floatToIntBits (f), with one zero."""
    if value is None:
        return None
    canonical = float("nan") if isnan(value) else value + 0.0  # -0.0 + 0.0 is 0.0
    return int.from_bytes(struct.pack("<" + kind, canonical), "little", signed=True)


@pytest.mark.parametrize(
    ("data", "seed", "digest"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"xxhash", 20141025, 0xB559B98D844E0635),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
    ],
)
def test_the_twin_gives_published_digests(data: bytes, seed: int, digest: int) -> None:
    assert xxhash64(data, seed) == digest


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
@given(values=texts)
def test_text(kind: pa.DataType, values: list[str | None]) -> None:
    assert hash_keys(pa.array(values, kind)).tolist() == expected(values)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
@given(values=binaries)
def test_binary(kind: pa.DataType, values: list[bytes | None]) -> None:
    assert hash_keys(pa.array(values, kind)).tolist() == expected(values)


@given(values=st.lists(st.none() | st.binary(min_size=5, max_size=5), max_size=12))
def test_binary_of_one_width(values: list[bytes | None]) -> None:
    assert hash_keys(pa.array(values, pa.binary(5))).tolist() == expected(values)


@pytest.mark.parametrize("length", range(100))
def test_every_length(length: int) -> None:
    key = bytes(range(150, 150 + length))
    assert hash_keys(pa.array([key])).tolist() == [xxhash64(key, SPARK_SEED)]


def test_a_key_of_a_megabyte() -> None:
    key = np.random.default_rng(1).bytes(2**20 + 13)
    assert hash_keys(pa.array([b"", key, b"x"])).tolist() == expected([b"", key, b"x"])


@pytest.mark.parametrize(("kind", "bits"), [(pa.int8(), 8), (pa.int16(), 16), (pa.int32(), 32)])
@given(data=st.data())
def test_ints_of_up_to_32_bits(kind: pa.DataType, bits: int, data: st.DataObject) -> None:
    values = data.draw(ints(bits))
    assert hash_keys(pa.array(values, kind)).tolist() == expected(values, 32)


@given(values=ints(64))
def test_bigints(values: list[int | None]) -> None:
    assert hash_keys(pa.array(values, pa.int64())).tolist() == expected(values)


@pytest.mark.parametrize(
    ("kind", "value", "word", "bits"),
    [
        (pa.uint8(), 2**8 - 1, 2**8 - 1, 32),
        (pa.uint16(), 2**16 - 1, 2**16 - 1, 32),
        (pa.uint32(), 2**32 - 1, 2**32 - 1, 64),
        (pa.uint64(), 2**64 - 1, -1, 64),
    ],
)
def test_unsigned_ints(kind: pa.DataType, value: int, word: int, bits: int) -> None:
    assert hash_keys(pa.array([value, None, 7], kind)).tolist() == expected([word, None, 7], bits)


@given(values=st.lists(st.none() | st.booleans(), max_size=20))
def test_booleans_are_ints(values: list[bool | None]) -> None:
    as_ints = [None if value is None else int(value) for value in values]
    assert hash_keys(pa.array(values, pa.bool_())).tolist() == expected(as_ints, 32)


@given(values=st.lists(st.none() | st.floats(), max_size=12))
def test_doubles(values: list[float | None]) -> None:
    assert hash_keys(pa.array(values, pa.float64())).tolist() == expected([java_bits(value, "d") for value in values])


@given(values=st.lists(st.none() | st.floats(width=32), max_size=12))
def test_floats(values: list[float | None]) -> None:
    hashed = hash_keys(pa.array(values, pa.float32())).tolist()
    assert hashed == expected([java_bits(value, "f") for value in values], 32)


def test_there_is_one_zero_and_one_nan() -> None:
    payload = struct.unpack("<d", (0xFFF8000000000001).to_bytes(8, "little"))[0]
    plus, minus, nan, other_nan = hash_keys(np.array([0.0, -0.0, np.nan, payload])).tolist()
    assert plus == minus
    assert nan == other_nan != plus


@given(values=st.lists(st.none() | st.integers(-(10**18) + 1, 10**18 - 1), max_size=12))
def test_short_decimals_are_their_unscaled_value(values: list[int | None]) -> None:
    keys = pa.array([None if value is None else Decimal(value).scaleb(-2) for value in values], pa.decimal128(18, 2))
    assert hash_keys(keys).tolist() == expected(values)


@given(values=st.lists(st.none() | st.dates(), max_size=12))
def test_dates_are_days(values: list[dt.date | None]) -> None:
    days = [None if value is None else (value - EPOCH.date()).days for value in values]
    assert hash_keys(pa.array(values, pa.date32())).tolist() == expected(days, 32)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Rome"])
@pytest.mark.parametrize(("unit", "micros"), [("s", 10**6), ("ms", 10**3), ("us", 1)])
@given(values=st.lists(st.none() | st.integers(-(2**40), 2**40), max_size=8))
def test_timestamps_are_microseconds(unit: str, micros: int, zone: str | None, values: list[int | None]) -> None:
    keys = pa.array(values, pa.timestamp(unit, zone))
    assert hash_keys(keys).tolist() == expected([None if value is None else value * micros for value in values])


def test_nanoseconds_of_whole_microseconds() -> None:
    assert hash_keys(pa.array([-5_000, None], pa.timestamp("ns"))).tolist() == expected([-5, None])


def test_finer_nanoseconds_are_rounded_down_or_refused_in_our_words() -> None:
    keys = pa.array([1_999, -1], pa.timestamp("ns"))
    try:
        assert hash_keys(keys).tolist() == expected([1, -1])
    except SkewlessError:
        return


def test_nulls_of_no_type() -> None:
    assert hash_keys(pa.nulls(3)).tolist() == [SPARK_SEED] * 3


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.binary(),
        pa.string_view(),
        pa.binary(4),
        pa.int32(),
        pa.bool_(),
        pa.float64(),
        pa.date32(),
        pa.timestamp("us"),
        pa.decimal128(18, 2),
        pa.dictionary(pa.int32(), pa.string()),
        pa.null(),
    ],
)
def test_no_rows_and_only_nulls(kind: pa.DataType) -> None:
    assert hash_keys(pa.array([], kind)).tolist() == []
    assert hash_keys(pa.chunked_array([], kind)).tolist() == []
    assert hash_keys(pa.array([None, None], kind)).tolist() == [SPARK_SEED] * 2


SAMPLES: dict[pa.DataType, list[Any]] = {
    pa.string(): ["a", None, "", "κλειδί" * 9, "b"],
    pa.string_view(): ["a", None, "", "κλειδί" * 9, "b"],
    pa.binary(): [b"\0", None, b"", bytes(40), b"\xff"],
    pa.binary(2): [b"ab", None, b"cd", b"ef", b"\0\0"],
    pa.int16(): [1, None, -1, 0, 77],
    pa.int64(): [1, None, -1, 2**62, 0],
    pa.bool_(): [True, None, False, True, True],
    pa.float32(): [1.5, None, -0.0, float("inf"), 2.0],
    pa.float64(): [1.5, None, -0.0, float("nan"), 2.0],
    pa.date32(): [dt.date(1969, 12, 31), None, dt.date(2020, 2, 29), dt.date(1, 1, 1), dt.date(1970, 1, 1)],
    pa.timestamp("ms"): [1, None, -1, 2**40, 0],
    pa.decimal128(18, 2): [Decimal("1.50"), None, Decimal("-0.01"), Decimal("9999999999999999.99"), Decimal(0)],
}


@pytest.mark.parametrize("kind", SAMPLES, ids=str)
@pytest.mark.parametrize("start", range(5))
def test_a_slice_hashes_like_its_rows(kind: pa.DataType, start: int) -> None:
    values = SAMPLES[kind]
    whole = pa.array(values, kind)
    one_by_one = [hash_keys(pa.array([value], kind)).item() for value in values]
    for stop in range(start, 6):
        assert hash_keys(whole[start:stop]).tolist() == one_by_one[start:stop]


@pytest.mark.parametrize("kind", SAMPLES, ids=str)
def test_chunks_hash_like_the_whole(kind: pa.DataType) -> None:
    whole = pa.array(SAMPLES[kind], kind)
    chunked = pa.chunked_array([whole[1:3], whole[:0], whole[2:]])
    hashes = hash_keys(whole).tolist()
    assert hash_keys(chunked).tolist() == hashes[1:3] + hashes[2:]


@pytest.mark.parametrize("kind", SAMPLES, ids=str)
def test_a_dictionary_hashes_like_its_values(kind: pa.DataType) -> None:
    # The dictionary holds a null of its own, and the codes are null once more.
    values = pa.array(SAMPLES[kind], kind)
    codes = [4, 0, None, 1, 1, 3, 2]
    keys = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), values)
    hashes = hash_keys(values).tolist()
    rows = [SPARK_SEED if code is None else hashes[code] for code in codes]
    assert hash_keys(keys).tolist() == rows
    assert hash_keys(keys[2:5]).tolist() == rows[2:5]


def test_a_dictionary_in_chunks_with_different_values() -> None:
    chunked = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()])
    assert hash_keys(chunked).tolist() == expected(["a", "b", "c", "a"])


@pytest.mark.parametrize("encode", [False, True])
@given(rows=st.lists(st.tuples(st.none() | st.text(max_size=3), st.none() | st.integers(-9, 9)), max_size=12))
def test_further_columns_go_on_from_the_hash_so_far(encode: bool, rows: list[tuple[str | None, int | None]]) -> None:
    names, numbers = pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.int32())
    chained = [spark_hash(name, seed=spark_hash(number, bits=32)) for name, number in rows]
    assert hash_keys(numbers, names.dictionary_encode() if encode else names).tolist() == chained
    chained = [spark_hash(number, bits=32, seed=spark_hash(name)) for name, number in rows]
    assert hash_keys(names.dictionary_encode() if encode else names, numbers).tolist() == chained


def test_numpy_arrays_are_columns_too() -> None:
    assert hash_keys(np.array([3, -3])).tolist() == expected([3, -3])
    assert hash_keys(np.array([3, -3], dtype=np.int32)[::-1]).tolist() == expected([-3, 3], 32)
    assert hash_keys(np.array(["a", "é"])).tolist() == expected(["a", "é"])


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([1], pa.duration("s")),
        pa.array([1], pa.time64("us")),
        pa.array([1], pa.date64()),
        pa.array([Decimal(1)], pa.decimal128(19, 0)),
        pa.array([], pa.list_(pa.int8())),
        pa.array([1], pa.duration("s")).dictionary_encode(),
    ],
    ids=lambda keys: str(keys.type),
)
def test_unsupported_types_are_refused(keys: pa.Array) -> None:
    with pytest.raises(SkewlessError, match=r"a key of type .* cannot be hashed as Spark does"):
        hash_keys(keys)


def test_columns_must_be_there_and_of_one_length() -> None:
    with pytest.raises(SkewlessError, match="at least one key column"):
        hash_keys()
    with pytest.raises(SkewlessError, match=r"of one length; got \[1, 2\]"):
        hash_keys(pa.array([1]), pa.array([1, 2]))


@given(keys=st.lists(words, unique=True, min_size=2, max_size=50), seed=st.integers())
def test_rehash_keeps_keys_apart(keys: list[int], seed: int) -> None:
    assert len(set(rehash(np.array(keys, dtype=np.uint64), seed).tolist())) == len(keys)


def test_rehash_has_no_collision_among_neighbours_and_depends_on_the_seed() -> None:
    keys = np.arange(200_000, dtype=np.uint64)
    first, second = rehash(keys, 0), rehash(keys, 1)
    assert np.unique(first).size == np.unique(second).size == keys.size
    assert not np.any(first == second)
    assert np.array_equal(first, rehash(keys, 0))


@given(word=words)
def test_mix_is_splitmix64(word: int) -> None:
    z = word
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    assert mix(np.uint64(word)) == z ^ z >> 31


def test_random_words_are_the_published_splitmix64_sequence() -> None:
    # The first outputs of Vigna's splitmix64.c for the seed 1234567.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [int(random_word(np.uint64(1234567), np.uint64(i))) for i in range(3)] == published


@given(word=words, n=st.integers(1, 2**31))
def test_choices_take_one_half_of_the_word_each(word: int, n: int) -> None:
    assert upper_choice(np.uint64(word), n) == (word >> 32) * n >> 32
    assert lower_choice(np.uint64(word), n) == (word % 2**32) * n >> 32


@given(seed=st.integers(), use=st.integers(0, 100))
def test_salts_are_words_and_differ_by_use(seed: int, use: int) -> None:
    assert make_salt(seed, use=use) == make_salt(seed + 2**64, use=use)
    assert make_salt(seed, use=use) != make_salt(seed, use=use + 1)
    assert make_salt(seed, use=use) != make_salt(seed + 1, use=use)


@given(keys=st.lists(words, max_size=30), seed=seeds, n_buckets=st.integers(1, 2**32))
def test_universal_hash_stays_in_range(keys: list[int], seed: int, n_buckets: int) -> None:
    buckets = universal_hash(np.array(keys, dtype=np.uint64), seed, n_buckets)
    assert buckets.size == len(keys)
    assert all(0 <= bucket < n_buckets for bucket in buckets.tolist())


@pytest.mark.parametrize("n_buckets", [0, -1, 2**32 + 1])
def test_universal_hash_refuses_other_numbers_of_buckets(n_buckets: int) -> None:
    with pytest.raises(SkewlessError, match="n_buckets must be between 1 and"):
        universal_hash(np.arange(3, dtype=np.uint64), 0, n_buckets)


@pytest.mark.parametrize("n_buckets", [2, 10, 64, 1000])
def test_universal_hash_collides_as_seldom_as_promised_whatever_the_keys(n_buckets: int) -> None:
    # Pairs that simpler families fail on: neighbours, halves exchanged, one high bit apart, multiples.
    pairs = [(0, 1), (1, 2), (1, 2**32), (7, 2**63 + 7), (0, 2**62), (2**32, 2**33), (0, 2**64 - 1)]
    pairs += [(0, n_buckets), (2**20 * n_buckets, 0), (0, n_buckets * 2**32)]
    keys = np.array(pairs, dtype=np.uint64).ravel()
    n_seeds = 4000
    buckets = np.array([universal_hash(keys, seed, n_buckets) for seed in range(n_seeds)])
    collisions = np.count_nonzero(buckets[:, ::2] == buckets[:, 1::2], axis=0)
    share = 1 / n_buckets
    allowed = n_seeds * share + 5 * (n_seeds * share * (1 - share)) ** 0.5  # five standard deviations
    too_many = {pair: n for pair, n in zip(pairs, collisions.tolist(), strict=True) if n > allowed}
    assert not too_many


def test_universal_hash_fills_buckets_evenly() -> None:
    counts = np.bincount(universal_hash(np.arange(100_000, dtype=np.uint64), 5, 50), minlength=50)
    assert counts.min() > 1_800
    assert counts.max() < 2_200
