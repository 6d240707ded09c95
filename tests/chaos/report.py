"""The report on all faults that were tried, and on the crash points of storage: `docs/chaos.md`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from chaos.trial import IMPOSSIBLE, NOT_STRUCK, REFUSED, SURVIVED, WRONG, Result
from simulated.tried import read

_HEAD: Final = """\
# Faults

<!-- Made by `make chaos` and `make crashes`; do not edit. -->

Every line is a query that was disturbed on purpose and compared with plain Spark afterwards. *Survived*: the right
answer, although it was struck (a query whose driver was killed is started again, which is part of it). *Refused*: an
error with a message, and the right answer when the query was started again. *Wrong*: another answer, a traceback, no
end, or no right answer however often it is started.

A fault follows from a seed and a number alone: `make chaos ONLY=0:17` repeats number 17 of seed 0, and
`make chaos N=1000 SEED=0` goes on where the last call has stopped. A full disk is a `tmpfs` of 16 MB that is filled to
the last page.
"""
_EARLIER: Final = """\
Wrong when they were first tried: 0:33, 0:52 and 0:67. In `foreachBatch` of Spark Connect, `stateful` began every
micro-batch without a state. It refuses that now (`tests/spark/test_connect.py`), and the queries of ordered state write
to a sink of Spark's own instead; the tables have what came of these faults then.
"""
_SHOWN: Final = 12


def write_report(progress: Path, crashes: Path, to: Path) -> None:
    """Write the report on the faults in a directory of progress, and on the crash points in a file."""
    by_seed = {
        int(file.stem.partition("-")[2]): [Result(**json.loads(line)) for line in file.read_text().splitlines()]
        for file in sorted(progress.glob("seed-*.jsonl"))
    }
    to.write_text("\n".join([_HEAD, *_faults(by_seed), *_crashes(crashes)]))


def _faults(by_seed: dict[int, list[Result]]) -> list[str]:
    results = [result for found in by_seed.values() for result in found]
    struck = [result for result in results if result.outcome not in {NOT_STRUCK, IMPOSSIBLE}]
    seeds = ", ".join(
        f"{seed} (numbers up to {max(r.index for r in found)})" for seed, found in by_seed.items() if found
    )
    outcomes = Counter(result.outcome for result in results)
    lines = [
        f"**{len(struck):,} faults** of seed {seeds}: {outcomes[SURVIVED]:,} survived, {outcomes[REFUSED]:,} refused,",
        f"**{outcomes[WRONG]:,} wrong**. {outcomes[NOT_STRUCK]:,} queries more were over before the strike and do not",
        "count.",
        "",
        _EARLIER,
    ]
    tables: dict[str, Callable[[Result], str]] = {
        "fault": lambda result: result.kind,
        "query": lambda result: result.operation,
        "Spark": lambda result: result.stage,
        "struck in": lambda result: _POINTS[result.point],
    }
    for title, by in tables.items():
        lines += [*_table(title, by, struck), ""]
    lines += ["Messages of those that refused, most frequent first:", ""]
    messages = Counter(_general(result.message) for result in struck if result.outcome == REFUSED)
    lines += [f"- {count} times: {message}" for message, count in messages.most_common(_SHOWN)]
    lines += [""]
    for result in results:
        if result.outcome == WRONG:
            lines.append(f"- wrong: `make chaos ONLY={result.seed}:{result.index}`: {result.kind}, {result.operation}")
    return lines


_POINTS: Final = {
    "come": "rows before the operator",
    "go": "rows after the operator",
    "route": "routing",
    "work": "work",
    "merge": "merge",
    "plan": "planning",
    "stateful": "ordered state",
}


def _table(title: str, by: Callable[[Result], str], results: Sequence[Result]) -> list[str]:
    lines = [f"| {title} | faults | survived | refused | wrong |", "|---|---:|---:|---:|---:|"]
    for name in sorted({by(result) for result in results}):
        counts = Counter(result.outcome for result in results if by(result) == name)
        lines.append(
            f"| {name} | {counts.total():,} | {counts[SURVIVED]:,} | {counts[REFUSED]:,} | {counts[WRONG]:,} |"
        )
    return lines


def _general(message: str) -> str:
    """Return a message without what differs from fault to fault."""
    text = re.sub(r"(file:)?/\S*?/(ledger|state|checkpoint|input|sink)\b\S*", r"<\2>", message.splitlines()[0])
    text = re.sub(r"\d+", "N", text)
    return (text if len(text) < 200 else text[:197] + "…").replace("|", "\\|")


def _crashes(file: Path) -> list[str]:
    ranges = read(file)
    if not ranges:
        return []
    points, disks, wrong = (sum(getattr(one, name) for one in ranges) for name in ("points", "disks", "wrong"))
    seeds = ", ".join(f"{one.first} to {one.last}" for one in ranges)
    return [
        "## Crash points of storage",
        "",
        "Whole histories of routing, planning and ordered state on a simulated disk, local or an object store, broken",
        "off at every single operation in turn, started again, and compared with an undisturbed run (`make crashes`).",
        "",
        f"**{points:,} crash points**, which left {disks:,} different disks, of seeds {seeds}:",
        f"**{wrong:,} wrong**.",
        "",
    ]
