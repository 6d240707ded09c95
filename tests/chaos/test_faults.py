"""A fault of each kind that is cheap to try; `make chaos` tries a thousand of all kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.drawing import KINDS, draw
from chaos.fault import Fault, draw_query
from chaos.kinds import disk_full
from chaos.report import write_report
from chaos.run import standing
from chaos.stages import Stage
from chaos.strike import Strike, arm, has_struck, pass_point
from chaos.trial import NOT_STRUCK, REFUSED, SURVIVED, Result, try_fault
from services.standalone import require_java

# What a stage needs is the same in all of these, so they share one.
STREAM = {"operation": "agg stream", "workers": 2, "seed": 1, "grouping": "even", "merged": False}
BATCH = {**STREAM, "operation": "agg batch", "grouping": "partial_key", "merged": True, "ledger": False}
STATEFUL = {"operation": "stateful", "workers": 2, "seed": 1, "grouping": "random_owner"}


@pytest.fixture(scope="module")
def stage(kernels: None) -> Iterator[Stage]:  # noqa: ARG001
    require_java()
    with standing("classic") as started:
        yield started


def fault(kind: str, query: dict[str, Any], strike: Strike, **extra: Any) -> Fault:
    return Fault(seed=0, index=0, kind=kind, stage="classic", query=query, strike=strike, micro_batches=2, extra=extra)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "query", "strike", "outcome"),
    [
        ("Python worker killed", BATCH, Strike(point="merge", deed="kill worker"), SURVIVED),
        ("Python worker killed", BATCH, Strike(point="route", deed="kill worker", after=3), SURVIVED),
        ("ledger deleted or corrupted", STREAM, Strike(point="work", deed="corrupt", pattern="*/*", after=9), SURVIVED),
    ],
)
def test_a_fault_is_survived(stage: Stage, kind: str, query: dict[str, Any], strike: Strike, outcome: str) -> None:
    result = try_fault(fault(kind, query, strike), stage)
    assert (result.outcome, result.detail) == (outcome, "")
    assert result.strikes == 1
    shown = stage.command_lines()
    assert any("java" in line for line in shown)
    assert not any("unseen-unheard" in line for line in shown)


@pytest.mark.spark
def test_a_full_disk_is_refused_with_a_message(stage: Stage) -> None:
    if not disk_full.is_possible():
        pytest.skip("no full device: only root can mount one")
    strike = Strike(point="stateful", deed="fill", after=5)
    result = try_fault(fault("disk full", STATEFUL, strike, disk="state"), stage)
    assert (result.outcome, result.detail) == (REFUSED, "")
    assert "No space left on device" in result.message


def test_a_fault_follows_from_its_number() -> None:
    assert draw(3, 5) == draw(3, 5)
    faults = [draw(0, index) for index in range(300)]
    assert {found.kind for found in faults} == {*KINDS}
    assert {found.stage for found in faults} == {"classic", "Connect", "cluster"}
    assert len({found.query["operation"] for found in faults}) == 6
    assert {found.strike.point for found in faults} == {"come", "go", "route", "work", "merge", "plan", "stateful"}
    assert sum(kind.share for kind in KINDS.values()) == 100


def test_a_strike_happens_as_often_and_as_late_as_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKEWLESS_STRIKES", str(tmp_path / "strikes"))
    (tmp_path / "a").touch()
    arm(tmp_path / "strikes", Strike(point="work", deed="delete", after=2, times=2, target=str(tmp_path), pattern="a"))
    seen = []
    for _ in range(6):
        pass_point("route")
        pass_point("work")
        seen.append(has_struck(tmp_path / "strikes"))
        assert (tmp_path / "a").exists() == (seen[-1] == 0)
    assert seen == [0, 0, 1, 2, 2, 2]


def test_the_report_counts_what_was_struck(tmp_path: Path) -> None:
    common = {"seed": 7, "kind": "disk full", "operation": "stateful", "stage": "classic", "point": "plan",
              "deed": "fill", "strikes": 1, "starts": 1, "seconds": 1.0}  # fmt: skip
    outcomes = [SURVIVED, REFUSED, NOT_STRUCK]
    results = [Result(index=i, outcome=outcome, message="no /x/ledger/1", **common)  # type: ignore[arg-type]
               for i, outcome in enumerate(outcomes)]  # fmt: skip
    (tmp_path / "seed-7.jsonl").write_text("".join(json.dumps(asdict(result)) + "\n" for result in results))
    (tmp_path / "crashes").write_text("# of a run\n0 1 10 4 0\n4 9 5 3 0\n")
    write_report(tmp_path, tmp_path / "crashes", tmp_path / "chaos.md")
    text = (tmp_path / "chaos.md").read_text()
    assert "**2 faults** of seed 7 (numbers up to 2): 1 survived, 1 refused,\n**0 wrong**" in text
    assert "| disk full | 2 | 1 | 1 | 0 |" in text
    assert "- 1 times: no <ledger>" in text
    assert "**15 crash points**, which left 7 different disks, of seeds 0 to 1, 4 to 9:\n**0 wrong**" in text


@pytest.mark.parametrize("operation", ["agg batch", "agg stream", "stateful", "join", "over", "repartition"])
def test_queries_are_drawn_with_all_that_they_need(operation: str) -> None:
    for seed in range(20):
        query = draw_query(Random(seed), operation)
        assert {"operation", "workers", "seed"} <= query.keys()
        assert ("how" in query) == (operation == "join")
