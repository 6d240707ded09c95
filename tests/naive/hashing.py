"""XXH64 word for word from the xxHash specification, on Python's unbounded integers."""

from __future__ import annotations

from typing import Final

P1: Final = 0x9E3779B185EBCA87
P2: Final = 0xC2B2AE3D27D4EB4F
P3: Final = 0x165667B19E3779F9
P4: Final = 0x85EBCA77C2B2AE63
P5: Final = 0x27D4EB2F165667C5
WORD: Final = 2**64
SPARK_SEED: Final = 42


def rotate_left(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) % WORD


def mix_lane(accumulator: int, lane: int) -> int:
    return rotate_left((accumulator + lane * P2) % WORD, 31) * P1 % WORD


def merge_accumulator(h: int, accumulator: int) -> int:
    return ((h ^ mix_lane(0, accumulator)) * P1 + P4) % WORD


def xxhash64(data: bytes, seed: int = 0) -> int:
    """Hash bytes: steps 1 to 6 of the specification.

    >>> hex(xxhash64(b"")), hex(xxhash64(b"abc"))
    ('0xef46db3751d8e999', '0x44bc2cf5ad770999')
    """
    rest = data
    if len(data) < 32:
        h = seed + P5
    else:
        accumulators = [seed + P1 + P2, seed + P2, seed, seed - P1]
        while len(rest) >= 32:
            lanes = [int.from_bytes(rest[at : at + 8], "little") for at in (0, 8, 16, 24)]
            accumulators = [mix_lane(*pair) for pair in zip(accumulators, lanes, strict=True)]
            rest = rest[32:]
        h = sum(rotate_left(a, bits) for a, bits in zip(accumulators, (1, 7, 12, 18), strict=True)) % WORD
        for accumulator in accumulators:
            h = merge_accumulator(h, accumulator)
    h = (h + len(data)) % WORD
    while len(rest) >= 8:
        h ^= mix_lane(0, int.from_bytes(rest[:8], "little"))
        h = (rotate_left(h, 27) * P1 + P4) % WORD
        rest = rest[8:]
    if len(rest) >= 4:
        h ^= int.from_bytes(rest[:4], "little") * P1 % WORD
        h = (rotate_left(h, 23) * P2 + P3) % WORD
        rest = rest[4:]
    for byte in rest:
        h ^= byte * P5 % WORD
        h = rotate_left(h, 11) * P1 % WORD
    h = (h ^ h >> 33) * P2 % WORD
    h = (h ^ h >> 29) * P3 % WORD
    return h ^ h >> 32


def spark_hash(value: str | bytes | int | None, *, bits: int = 64, seed: int = SPARK_SEED) -> int:
    """Hash one value as Spark's xxhash64 does; `bits` tells an int (32) from a bigint (64)."""
    if value is None:
        return seed
    if isinstance(value, int):
        value = value.to_bytes(bits // 8, "little", signed=True)
    return xxhash64(value.encode() if isinstance(value, str) else value, seed)
