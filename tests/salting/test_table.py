"""Tables of plans: every piece reaches its worker, in exact proportion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.salting.slots import landings
from skewless.salting.table import TABLE, alias_table, table_of


@given(weights=st.lists(st.floats(0.001, 1000), min_size=1, max_size=50))
def test_a_uniform_number_draws_each_slot_in_proportion(weights: list[float]) -> None:
    slots = np.arange(len(weights), dtype=np.int32)
    split, first, other = alias_table(slots, np.array(weights))
    drawn = np.zeros(len(weights))
    for share, one, two in zip(split, first, other, strict=True):
        assert 0 <= share <= 1
        drawn[one] += share
        drawn[two] += 1 - share
    assert drawn / len(weights) == pytest.approx(np.array(weights) / sum(weights), abs=1e-9)


@given(st.data(), st.integers(1, 40))
def test_rows_land_on_the_workers_of_their_key(data: st.DataObject, workers: int) -> None:
    chosen = data.draw(st.lists(st.integers(0, workers - 1), min_size=1, unique=True))
    shares = data.draw(st.lists(st.floats(0.01, 1), min_size=len(chosen), max_size=len(chosen)))
    table = table_of([(7, [0], [1.0]), (7, chosen, shares), (-3, [workers - 1], [2.0])], workers)
    assert table.schema == TABLE
    entry, other = table.to_pylist()
    assert (entry["id"], other["id"]) == (7, -3), "an id occurs once, or rows would be doubled"
    loads = np.zeros(workers)
    for piece in entry["pieces"]:
        slots = np.array([piece["slot"], piece["other"]], dtype=np.uint64)
        np.add.at(loads, landings(slots, workers), [piece["split"], 1 - piece["split"]])
    assert loads[chosen] / len(chosen) == pytest.approx(np.array(shares) / sum(shares), abs=1e-9)
    assert loads.sum() == pytest.approx(len(chosen))
