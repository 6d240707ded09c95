"""The planning task: counts in, a plan out, as Spark hands them over."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skewless.salting.planning_task import COUNTS, PLAN, make_plan

HASH = -6091425354261976140  # no double is equal to it


def test_a_hot_key_is_cut_and_every_piece_lands_where_it_should() -> None:
    landings = [2, 0, 1, 2, 3, 0]
    rows = [
        {"hash": HASH, "rows": 70, "home": 2, "landings": landings},
        *({"hash": None, "rows": 10 + 70 * (home == 2), "home": home, "landings": None} for home in range(4)),
    ]
    batches = pa.Table.from_pylist(rows, COUNTS).to_batches(max_chunksize=2)
    (plan,) = make_plan(iter(batches), workers=4, sampled=1.0)
    assert plan.schema == PLAN
    (entry,) = plan.to_pylist()
    assert entry["hash"] == HASH
    drawn = np.zeros(4)
    for piece in entry["pieces"]:
        drawn[landings[piece["salt"]]] += piece["split"]
        drawn[landings[piece["other"]]] += 1 - piece["split"]
    assert np.allclose(drawn * 70 / len(entry["pieces"]) + 10, 27.5)


def test_nothing_known_is_nothing_planned() -> None:
    assert next(make_plan(iter([]), workers=4, sampled=0.5)).num_rows == 0
    empty = pa.RecordBatch.from_pylist([], COUNTS)
    assert next(make_plan(iter([empty]), workers=4, sampled=0.5)).num_rows == 0
