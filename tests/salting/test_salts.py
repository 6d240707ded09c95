"""Salts: every piece of a key gets its share of the rows, and every copy of a row its own salt."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skewless.salting.salts import Salts, apportioned
from skewless.salting.slots import landings_of_salts

SHARES = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=9)


def salts_of(salts: Salts, key: int, turn: int) -> list[int]:
    """Look the salts of a row up, as the query does."""
    entry = salts.guide[salts.starts[key] + turn % salts.sizes[key]]
    return list(salts.cells[entry : entry + salts.copies[key]]) if salts.cells else [entry]


@given(keys=st.lists(st.tuples(SHARES, st.integers(1, 4)), min_size=1, max_size=4), first=st.integers(0, 1 << 20))
def test_rows_take_the_salts_of_one_piece(keys: list[tuple[list[float], int]], first: int) -> None:
    pieces = []
    for number, (shares, copies) in enumerate(keys):
        cells = first + np.arange(len(shares) * copies, dtype=np.int64).reshape(len(shares), copies)
        pieces.append((number, -number, cells, shares))
    salts = Salts.of_pieces(pieces)
    for number, _, cells, shares in pieces:
        size = salts.sizes[number]
        taken = [salts_of(salts, number, turn) for turn in range(size)]
        rows = cells.tolist()
        counts = [taken.count(row) for row in rows]
        assert sum(counts) == size  # nobody takes anything else
        exact = np.array(shares) / sum(shares) * size
        assert np.abs(counts - exact).max() < 1
        if size < 64 * len(shares):
            assert (counts - exact).max() <= 0.01 * size / len(shares), "a piece is larger than planned"


@given(pieces=st.integers(1, 300), last=st.sampled_from([1.0, 0.5, 0.25, 0.75]))
def test_equal_pieces_take_few_entries(pieces: int, last: float) -> None:
    entries = apportioned(np.array([*[1.0] * pieces, last]))
    assert entries.sum() <= 4 * (pieces + 1)


@given(
    workers=st.lists(st.integers(0, 6), min_size=1, max_size=7, unique=True),
    spark_hash=st.integers(-(2**31), 2**31 - 1),
)
def test_pieces_are_steered_to_their_workers(workers: list[int], spark_hash: int) -> None:
    salts = Salts.of([(1, spark_hash, workers, [1.0] * len(workers))], 7)
    landed = landings_of_salts(np.array(salts.guide), np.array([spark_hash]), 7)
    assert {*landed.tolist()} == {*workers}
