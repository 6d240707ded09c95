"""How often the doctor is right on labelled logs.

PYTHONPATH=tests python -m doctor.accuracy tests/doctor/drawn/seed-*   # a table, and every miss
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skewless.doctor import Finding, examine


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the doctor said about a log, beside what is true.

    Parameters
    ----------
    name : str
        The job.
    ill : bool
        Whether it has a problem.
    place : bool
        Whether stage and operator of the worst finding are right; of a job without a problem, that there is none.
    cause, keys : bool
        Whether the cause and the columns are right as well.
    said : str
        The worst finding, for people.
    """

    name: str
    ill: bool
    place: bool
    cause: bool
    keys: bool
    said: str


def judge(folder: Path) -> Iterator[Verdict]:
    """Examine the logs of a folder, and compare what is found with their labels."""
    labels: dict[str, dict[str, Any]] = json.loads((folder / "labels.json").read_text())
    for name, label in labels.items():
        (found,) = examine([str(folder / f"{name}.zstd")])
        worst = found.findings[0] if found.findings else None
        yield _verdict(name, label, worst)


def _verdict(name: str, label: dict[str, Any], worst: Finding | None) -> Verdict:
    said = "nothing"
    if worst is not None:
        said = f"{worst.operator} by {', '.join(worst.keys)}, stage {worst.stage}: {worst.cause} ({worst.evidence})"
    if not label or worst is None:
        right = not label and worst is None
        return Verdict(name=name, ill=bool(label), place=right, cause=right, keys=right, said=said)
    place = worst.operator.startswith(label["operator"]) and worst.stage in label["stages"]
    cause = place and worst.cause == label["cause"]
    keys = place and (not label["keys"] or set(worst.keys) == set(label["keys"]))
    return Verdict(name=name, ill=True, place=place, cause=cause, keys=keys, said=said)


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        verdicts = [*judge(folder)]
        ill, well = [one for one in verdicts if one.ill], [one for one in verdicts if not one.ill]
        counts = ", ".join(
            f"{what} {sum(getattr(one, name) for one in ill)} of {len(ill)}"
            for what, name in (("stage and operator", "place"), ("cause", "cause"), ("columns", "keys"))
        )
        sys.stdout.write(f"{folder.name}: {counts}; false alarms {sum(not one.place for one in well)} of {len(well)}\n")
        for one in verdicts:
            wrong = [name for name in ("place", "cause", "keys") if not getattr(one, name)]
            if wrong:
                sys.stdout.write(f"  {one.name}: wrong {', '.join(wrong)}: {one.said}\n")


if __name__ == "__main__":
    main()
