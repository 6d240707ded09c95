"""Distributions of keys: exact counts, and tuples drawn from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless import CountrySkew, SkewlessError, Stream, hash_keys
from skewless.diagnosis.key_distribution import Drawn, KeyDistribution, draw, keys_with, names_of

COUNTS = st.lists(st.integers(1, 5_000), min_size=1, max_size=60).map(np.array)


@dataclass(frozen=True, kw_only=True)
class Listed(Stream):
    """Keys that are listed, a few at a time."""

    keys: tuple[str | None, ...]
    chunk: int

    @property
    def label(self) -> str:
        return "listed"

    @property
    def summary(self) -> str:
        return "keys that are listed"

    def length(self, tuples: int | None = None) -> int:
        return len(self.keys) if tuples is None else tuples

    def generate(self, *, tuples: int | None = None, seed: int = 0) -> Iterator[pa.Array]:  # noqa: ARG002
        keys = self.keys[:tuples]
        for start in range(0, len(keys), self.chunk):
            yield pa.array(keys[start : start + self.chunk], pa.string())


def made_of(counts: NDArray[np.int64], head: int = 1_000) -> KeyDistribution:
    return KeyDistribution.of_counts("numbers", pa.array(range(counts.size)), counts, head=head)


def counted(stream: Drawn) -> dict[int, int]:
    """Give how often each hash comes."""
    (keys,) = stream.generate()
    return dict(Counter(hash_keys(keys).tolist()))


@given(hashes=st.lists(st.integers(0, 2**64 - 1)))
def test_every_hash_has_its_key(hashes: list[int]) -> None:
    assert hash_keys(keys_with(np.array(hashes, dtype=np.uint64))).tolist() == hashes


@given(keys=st.lists(st.sampled_from(["a", "a", "a", "b", "", None, "ключ"]), min_size=1), chunk=st.integers(1, 9))
def test_a_stream_is_counted_exactly(keys: list[str | None], chunk: int) -> None:
    distribution = KeyDistribution.of_stream(Listed(keys=tuple(keys), chunk=chunk), head=2)
    expected = Counter("null" if key is None else key for key in keys)
    assert (distribution.rows, distribution.distinct) == (len(keys), len(expected))
    assert distribution.counts.tolist() == [count for _, count in expected.most_common(2)]
    assert [expected[name] for name in distribution.names] == distribution.counts.tolist()
    values = [None if name == "null" else name for name in distribution.names]
    assert distribution.hashes.tolist() == hash_keys(pa.array(values, pa.string())).tolist()


def test_dictionaries_limits_and_progress() -> None:
    seen: list[int] = []
    stream = CountrySkew(percent=80)
    distribution = KeyDistribution.of_stream(stream, tuples=20_000, seed=3, progress=seen.append)
    expected = Counter(name for chunk in stream.generate(tuples=20_000, seed=3) for name in chunk.to_pylist())
    assert dict(zip(distribution.names, distribution.counts.tolist(), strict=True)) == expected
    assert (distribution.names[0], seen) == ("Turkey", [20_000])
    assert not distribution.tail_keys.any()


@given(counts=COUNTS, head=st.integers(1, 10))
def test_the_tail_is_kept_by_classes(counts: NDArray[np.int64], head: int) -> None:
    distribution = made_of(counts, head)
    in_order = sorted(counts.tolist(), reverse=True)
    assert distribution.counts.tolist() == in_order[:head]
    for digits in range(64):
        members = [count for count in in_order[head:] if count.bit_length() == digits]
        assert (distribution.tail_keys[digits], distribution.tail_rows[digits]) == (len(members), sum(members))


def test_equal_keys_are_ordered_by_hash_whatever_came_first() -> None:
    keys = pa.array([str(number) for number in range(50)])
    one = KeyDistribution.of_counts("one", keys, np.full(50, 3), head=5)
    other = KeyDistribution.of_counts("other", keys[::-1], np.full(50, 3), head=5)
    assert one.names == other.names
    assert one.hashes.view(np.int64).tolist() == sorted(hash_keys(keys).view(np.int64).tolist())[:-6:-1]


@given(counts=COUNTS, seed=st.integers(0, 5))
def test_all_rows_of_a_known_head_are_drawn_as_they_are(counts: NDArray[np.int64], seed: int) -> None:
    expected = dict(zip(hash_keys(pa.array(range(counts.size))).tolist(), counts.tolist(), strict=True))
    assert counted(draw(made_of(counts), 10**6, seed=seed)) == expected


@given(counts=COUNTS, head=st.integers(1, 5))
def test_all_rows_of_a_tail_keep_number_and_size_of_its_keys(counts: NDArray[np.int64], head: int) -> None:
    got = sorted(counted(draw(made_of(counts, head), 10**6)).values())
    assert len(got) == counts.size
    assert sum(got) == counts.sum()
    assert [count.bit_length() for count in got] == sorted(count.bit_length() for count in counts.tolist())


@given(counts=COUNTS, tuples=st.integers(1, 3_000), head=st.integers(1, 60), seed=st.integers(0, 5))
def test_fewer_tuples_keep_the_shares(counts: NDArray[np.int64], tuples: int, head: int, seed: int) -> None:
    distribution = made_of(counts, head)
    part = min(1, tuples / distribution.rows)
    by_rows = counted(draw(distribution, tuples, seed=seed, fewer="rows"))
    by_keys = counted(draw(distribution, tuples, seed=seed, fewer="keys"))
    for got in (by_rows, by_keys):
        assert sum(got.values()) == min(tuples, distribution.rows)
        assert len(got) <= distribution.distinct
        for name, count in zip(distribution.hashes.tolist(), distribution.counts.tolist(), strict=True):
            if count * part >= 32:
                assert abs(got[name] - count * part) <= 1


def test_fewer_rows_keep_the_keys_and_fewer_keys_keep_the_rows_of_a_key() -> None:
    distribution = made_of(np.full(10_000, 20), head=1)
    by_rows, by_keys = (counted(draw(distribution, 50_000, fewer=what)) for what in ("rows", "keys"))
    assert (len(by_rows), set(by_rows.values())) == (10_000, {5})
    assert (len(by_keys), set(by_keys.values())) == (2_500, {20})
    seldom = counted(draw(distribution, 5_000, fewer="rows"))
    assert (len(seldom), set(seldom.values())) == (5_000, {1})
    often = made_of(np.full(1_000, 2_000), head=1)  # 32 rows of a key are enough to see where it goes
    assert set(counted(draw(often, 3_200, fewer="keys")).values()) == {32}


def test_the_order_is_random_and_fixed_by_the_seed() -> None:
    distribution = made_of(np.array([500, 500]))
    one, again, other = (draw(distribution, 1_000, seed=seed).keys for seed in (1, 1, 2))
    assert one.tolist() == again.tolist() != other.tolist()
    changes = int((one[1:] != one[:-1]).sum())
    assert 430 < changes < 570  # 499.5 on average, 16 is one standard deviation


def test_names_of_odd_keys() -> None:
    assert names_of(pa.array([b"\xff", None])) == ["\ufffd", "null"]
    assert names_of(pa.array(["x" * 1_000]))[0] == "x" * 200
    assert names_of(pa.array(["a", "b"]).dictionary_encode()) == ["a", "b"]


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(SkewlessError, match="listed has no rows"):
        KeyDistribution.of_stream(Listed(keys=(), chunk=1))
    with pytest.raises(SkewlessError, match="numbers has no rows"):
        made_of(np.array([], dtype=np.int64))
    with pytest.raises(SkewlessError, match="head must be a whole number of at least 1; got 0"):
        made_of(np.array([1]), head=0)
    with pytest.raises(SkewlessError, match="tuples must be"):
        draw(made_of(np.array([1])), 0)
    nothing = np.zeros(64, dtype=np.int64)
    with pytest.raises(SkewlessError, match="got 2, 1 and 1"):
        KeyDistribution(
            label="x", names=("a", "b"), hashes=np.ones(1, dtype=np.uint64), counts=np.ones(1, dtype=np.int64),
            tail_keys=nothing, tail_rows=nothing,
        )  # fmt: skip
