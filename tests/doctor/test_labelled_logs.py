"""The doctor on logs of real jobs with known problems, of two versions of Spark (`make_logs.py` makes them)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from skewless.doctor import Examination, examine

LOGS: Final = Path(__file__).parent / "logs"
LABELS: Final[dict[str, list[str]]] = json.loads((LOGS / "labels.json").read_text())
CASES: Final = sorted((path.parent.name, path.name.partition(".")[0], path) for path in LOGS.glob("*/*"))
ILL: Final = [case for case in CASES if LABELS[case[1]][0]]
WELL: Final = [case for case in CASES if not LABELS[case[1]][0]]


def named(part: object) -> str:
    return "" if isinstance(part, Path) else str(part)


def examined(log: Path) -> Examination:
    (found,) = examine([str(log)])
    return found


@pytest.mark.parametrize(("version", "name", "log"), ILL, ids=named)
def test_the_stage_its_operator_and_the_cause_are_right(version: str, name: str, log: Path) -> None:
    operator, cause = LABELS[name]
    found = examined(log)
    assert found.version.startswith(version)
    assert found.finished
    assert found.remarks == []
    worst = found.findings[0]
    assert worst.operator.startswith(operator)
    assert worst.cause == cause
    assert worst.lost >= 0.2
    assert 0 < worst.lost_s < found.seconds
    if cause in {"hot key", "null key"} and operator != "RDD":
        assert worst.keys == ["k"]
        assert '"k"' in worst.advice
        assert worst.longest_s > 2 * worst.median_s


@pytest.mark.parametrize(("version", "name", "log"), WELL, ids=named)
def test_there_is_no_false_alarm(version: str, name: str, log: Path) -> None:
    found = examined(log)
    assert (found.name, found.version.startswith(version)) == (name, True)
    assert found.findings == []
    assert (found.lost, found.finished, found.remarks) == (0, True, [])
    assert found.tasks >= 8
