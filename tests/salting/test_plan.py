"""A plan at hand: printed, saved, loaded, and made for other workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import SkewlessError
from skewless.metrics import imbalance
from skewless.salting.plan import Plan, PlanTask
from skewless.salting.planning_task import Task

NAMES = [b"hot", b"<b>bold</b>", b"\xff", b"line\nbreak"]


def make(workers: int = 4, seed: int = 0) -> Plan:
    rows = np.concatenate([[9_000, 500, 400, 300], np.full(2_000, 5)])
    hashes = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, rows.size)
    names = NAMES + [b"%d" % number for number in range(2_000)]
    sources = np.random.default_rng(seed).integers(1, 6, rows.size)
    batch = pa.record_batch([hashes, rows, pa.array(names, pa.binary()), sources], ["h", "n", "t", "s"])
    batches = [batch.slice(start, 700) for start in range(0, rows.size, 700)]
    (planned,) = PlanTask(columns={"k": "string"}, task=Task(workers=workers, salt=3))(iter(batches))
    return Plan.from_json(planned.column(0)[0].as_py())


def test_a_plan_says_what_it_does() -> None:
    plan = make()
    assert (plan.rows, plan.distinct, len(plan.keys)) == (20_200, 2_004, 64)
    assert imbalance(plan.loads) < 2
    assert imbalance(plan.totals) > 50
    assert 1 <= plan.n_cuts < 4
    assert plan.sources == 5
    assert not plan.has_few_partials
    text = str(plan)
    assert "20,200 rows, 2,004 keys (all rows counted) on 4 workers" in text
    assert all(key.key for key in plan.keys)
    assert "hot " in text
    assert "44.55%" in text
    assert f"cut in {plan.n_cuts + 1}: " in text
    assert "line·break" in text
    assert "<b>" not in plan._repr_html_()
    assert "&lt;b&gt;bold" in plan._repr_html_()


@given(workers=st.integers(1, 200), salt=st.integers(0, 2**64 - 1), may_cut=st.booleans())
def test_a_plan_serves_any_number_of_workers(workers: int, salt: int, may_cut: bool) -> None:
    plan = make().for_workers(workers, salt, may_cut=may_cut)
    assert plan.workers == workers
    assert sum(plan.loads) == pytest.approx(20_200)
    assert max(plan.loads) <= max(plan.totals) + 1e-6
    assert plan.n_cuts == 0 or may_cut
    assert plan.for_workers(workers, salt, may_cut=may_cut) is plan


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    plan, path = make(), tmp_path / "plan.json"
    plan.save(path)
    assert Plan.load(path) == plan
    assert Plan.load(path).table() == plan.table()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"skewless_plan": 1', '"skewless_plan": 99'),
        ('"workers": 4', '"workers": 5'),
        ('"keys"', '"kys"'),
        ('"shares": [', '"shares": [-1, '),
        ("{", "["),
    ],
)
def test_what_is_no_plan_is_refused(old: str, new: str) -> None:
    with pytest.raises(SkewlessError, match="plan_keys"):
        Plan.from_json(make().to_json().replace(old, new))


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(SkewlessError, match="cannot read a plan"):
        Plan.load(tmp_path / "none.json")
    with pytest.raises(SkewlessError, match="cannot write the plan"):
        make().save(tmp_path)
