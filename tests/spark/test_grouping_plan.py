"""The planning task without Spark: from the ledger in a stream, from counts in a batch job; every planned grouping."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from simulated.exchange import send
from skewless.groupings import GROUPINGS, Grouping, make_grouping
from skewless.groupings.planned import Planned
from skewless.hashing import rehash
from skewless.metrics import imbalance
from skewless.salting.plan import Plan
from skewless.salting.plan_task import COUNTED, PlanTask
from skewless.salting.planning_task import Task
from skewless.seeding import make_salt
from skewless.spark import grouping_plan
from skewless.spark.grouping_plan import GroupingPlan
from skewless.spark.routing import Routing
from skewless.spark.work import make_report
from skewless.storage.ledger import Ledger

WORKERS = 6
ROWS = 20_000
PLANNED = sorted(name for name, kind in GROUPINGS.items() if issubclass(kind, Planned))


def batch_of(seed: int, hot: int = 1) -> NDArray[np.uint64]:
    """Half of the rows have one key, the others one of 3,000."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(ROWS) < 0.5, hot, rng.integers(10, 3_010, ROWS)).astype(np.uint64)
    return rehash(keys, 5)


class Stream:
    """Micro-batches one after the other: plan, send, report."""

    def __init__(self, grouping: Grouping, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger = Ledger(uri=str(folder / "ledger"))
        self.routing = Routing(grouping=grouping, ledger=self.ledger, seed=3, keys=("k",))
        self.monkeypatch = monkeypatch

    def plan(self, batch: int, learned: Plan | None = None) -> pa.RecordBatch:
        self.monkeypatch.setattr(grouping_plan, "micro_batch", lambda: batch)
        clock = pa.record_batch([pa.array([1_000 * batch])], ["clock"])
        (table,) = GroupingPlan(routing=self.routing, learned=learned)(iter([clock]))
        return table

    def run(self, batch: int, hashes: NDArray[np.uint64], learned: Plan | None = None) -> NDArray[np.int64]:
        workers = send(self.plan(batch, learned), self.routing.grouping, hashes, 3)
        units = self.routing.grouping.units(3)  # type: ignore[attr-defined]
        for worker in range(WORKERS):
            keys, rows = np.unique(hashes[workers == worker], return_counts=True)
            if keys.size:
                names = pa.table({"k": keys.astype(str)})
                self.ledger.write_worker(batch, make_report(worker, names, rows, keys, 1.0, units))
        return workers


def spread_of(workers: NDArray[np.int64]) -> float:
    return imbalance(np.bincount(workers, minlength=WORKERS))


@pytest.mark.parametrize("name", PLANNED)
def test_a_stream_is_planned_from_what_workers_report(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grouping = make_grouping(name, workers=WORKERS)
    stream = Stream(grouping, tmp_path, monkeypatch)
    for batch in range(5):
        hashes = batch_of(batch)
        workers = stream.run(batch, hashes)
        if grouping.single_owner:
            pairs = np.unique(np.stack([hashes, workers.astype(np.uint64)]), axis=1)
            assert pairs.shape[1] == np.unique(hashes).size, "a key has two owners"
    if name in {"even", "auto", "shuffle", "consistent"}:
        assert spread_of(workers) < 8
    elif name in {"eager", "distribution_aware", "key_isolator"}:  # half of the rows are one key, which they do not cut
        assert spread_of(workers) < 100 * (0.5 * WORKERS - 1) + 25


def test_the_first_micro_batch_is_even(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(make_grouping("even", workers=WORKERS), tmp_path, monkeypatch)
    assert spread_of(stream.run(0, batch_of(0))) < 8


@pytest.mark.parametrize("name", ["even", "distribution_aware", "eager"])
def test_what_was_learned_elsewhere_serves_the_first_micro_batch(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, rows = np.unique(batch_of(9).view(np.int64), return_counts=True)
    names = pa.array(keys.astype(str)).cast(pa.binary())
    unknown = pa.nulls(keys.size, COUNTED.field("ones").type)
    counted = pa.record_batch([keys, np.zeros(keys.size, np.int32), names, rows, rows, unknown], COUNTED.names)
    planning = PlanTask(columns={"k": "bigint"}, content=(), task=Task(workers=WORKERS, salt=int(make_salt(3))))
    (planned,) = planning(iter([counted]))
    plan = Plan.from_json(planned.column(0)[0].as_py())
    stream = Stream(make_grouping(name, workers=WORKERS), tmp_path, monkeypatch)
    hashes = batch_of(0)
    workers = stream.run(0, hashes, plan)
    bound = 8 if name == "even" else 100 * (0.5 * WORKERS - 1) + 25
    assert spread_of(workers) < bound
    cost = np.unique(np.stack([hashes, workers.astype(np.uint64)]), axis=1).shape[1] / np.unique(hashes).size
    assert cost < 1.05, "keys are whole, but for the few that are cut"


def test_a_replayed_micro_batch_has_the_same_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(make_grouping("even", workers=WORKERS), tmp_path, monkeypatch)
    for batch in range(3):
        stream.run(batch, batch_of(batch))
    assert stream.plan(3) == stream.plan(3)
    stream.run(3, batch_of(3))
    assert stream.plan(3) == stream.plan(3), "what its own workers reported does not matter"


def test_a_new_hot_key_is_cut_in_the_next_micro_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(make_grouping("even", workers=WORKERS), tmp_path, monkeypatch)
    for batch in range(4):
        stream.run(batch, batch_of(batch))
    assert spread_of(stream.run(4, batch_of(4, hot=2))) > 50
    assert spread_of(stream.run(5, batch_of(5, hot=2))) < 8


@pytest.mark.parametrize("damage", ["reports", "state", "one report", "all"])
def test_what_is_missing_costs_balance_only(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(make_grouping("even", workers=WORKERS), tmp_path, monkeypatch)
    for batch in range(3):
        stream.run(batch, batch_of(batch))
    lost = {"reports": "*/worker-*", "state": "*/source-*", "one report": "*2/worker-1*", "all": "*/*.npz"}[damage]
    for file in Path(stream.ledger.uri).glob(lost):
        file.write_bytes(b"nonsense")
    workers = stream.run(3, batch_of(3))
    assert workers.size == ROWS
    assert spread_of(stream.run(4, batch_of(4))) < 40


@pytest.mark.parametrize("name", PLANNED)
def test_a_batch_job_is_planned_from_its_counts(name: str) -> None:
    grouping = make_grouping(name, workers=WORKERS)
    hashes = batch_of(1)
    task = GroupingPlan(routing=Routing(grouping=grouping, ledger=None, seed=3, keys=("k",)))
    (table,) = task(iter([pa.record_batch([hashes.view(np.int64)], ["h"])]))
    assert spread_of(send(table, grouping, hashes, 3)) < (8 if name in {"even", "auto", "shuffle"} else 301)
    (empty,) = task(iter([]))
    assert empty.schema == table.schema


def test_row_by_row_there_is_nothing_to_plan() -> None:
    routing = Routing(grouping=make_grouping("PKG", workers=2), ledger=None, seed=0, keys=("k",))
    with pytest.raises(ValueError, match="decides row by row"):
        next(GroupingPlan(routing=routing)(iter([])))
