"""The doctor on jobs that were drawn from seeds after it was written; docs/doctor.md has the first judgements."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from doctor.accuracy import Verdict, judge

SETS: Final = sorted((Path(__file__).parent / "drawn").iterdir())


def named(part: object) -> str:
    return part.name if isinstance(part, Path | Verdict) else ""


@pytest.mark.parametrize(("folder", "verdict"), [(one, found) for one in SETS for found in judge(one)], ids=named)
def test_stage_and_operator_are_right_and_nothing_healthy_is_ill(folder: Path, verdict: Verdict) -> None:
    assert verdict.place, f"{folder.name}: {verdict.said}"


@pytest.mark.parametrize("folder", SETS, ids=named)
def test_causes_and_columns_are_right_but_for_few(folder: Path) -> None:
    ill = [one for one in judge(folder) if one.ill]
    assert sum(one.cause for one in ill) >= 0.95 * len(ill)
    assert sum(one.keys for one in ill) >= 0.95 * len(ill)
