"""`make chaos N=1000 SEED=0`: a thousand faults on Spark, one after the other; a repeated call goes on.

`make chaos ONLY=0:17` repeats one. Each finished fault is a line of a file in `tried`, and the report is made of all
of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from itertools import groupby
from math import inf
from pathlib import Path
from time import monotonic
from typing import Final

from chaos.drawing import KINDS, draw
from chaos.fault import Fault
from chaos.report import write_report
from chaos.stages import STAGES, Stage
from chaos.trial import WRONG, Result, try_fault
from simulated.tried import TRIED

_BLOCK: Final = 120  # faults within which those of a stage come together
_ROOT: Final = Path(__file__).parents[2]
_TRIED: Final = Path(__file__).parent / "tried"


def main() -> int:
    """Try the faults that are not done yet; return 1 if one of them was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=1000, metavar="N", help="how many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="SEED:INDEX", help="repeat one fault, and show what came of it")
    parser.add_argument("--stage", choices=[*STAGES], help="only faults of this one")
    parser.add_argument("--kind", choices=[*KINDS], help="only faults of this kind")
    parser.add_argument("--minutes", type=float, default=inf, help="start no more after that")
    parser.add_argument("--progress", type=Path, default=_TRIED)
    parser.add_argument("--report", type=Path, default=_ROOT / "docs" / "chaos.md")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that stages are taken down
    if given.only:
        seed, index = map(int, given.only.split(":"))
        results = [*try_all([draw(seed, index)])]
    else:
        faults = [draw(given.seed, index) for index in range(given.faults)]
        asked = [fault for fault in faults if given.stage in {None, fault.stage} and given.kind in {None, fault.kind}]
        results = _go_on(given.progress / f"seed-{given.seed}.jsonl", asked, given.minutes)
        write_report(given.progress, TRIED, given.report)
    return 1 if any(result.outcome == WRONG for result in results) else 0


def _go_on(file: Path, faults: Sequence[Fault], minutes: float) -> list[Result]:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_text().splitlines() if file.exists() else []
    done = {result.index: result for result in (Result(**json.loads(line)) for line in lines)}
    end = monotonic() + 60 * minutes
    tried = try_all(fault for fault in faults if fault.index not in done)
    with closing(tried):
        while monotonic() < end and (result := next(tried, None)) is not None:
            done[result.index] = result
            with file.open("a") as out:
                out.write(json.dumps(asdict(result)) + "\n")
    return [*done.values()]


def try_all(faults: Iterable[Fault]) -> Generator[Result, None, None]:
    """Try faults; within a block, those of a stage come together."""
    order = [*STAGES]
    ordered = sorted(faults, key=lambda fault: (fault.index // _BLOCK, order.index(fault.stage), fault.index))
    for name, group in groupby(ordered, key=lambda fault: fault.stage):
        with standing(name) as stage:
            for fault in group:
                result = try_fault(fault, stage)
                _show(fault, result)
                yield result


@contextmanager
def standing(name: str) -> Iterator[Stage]:
    """Set up a stage."""
    home = Path(tempfile.mkdtemp(prefix="skewless-chaos-"))
    stage = STAGES[name](home)
    try:
        yield stage
    finally:
        stage.close()
        shutil.rmtree(home, ignore_errors=True)


def _show(fault: Fault, result: Result) -> None:
    what = f"{fault.kind}, {result.operation} on {result.stage}, {result.point}+{fault.strike.after}"
    why = result.detail or result.message
    sys.stdout.write(f"{fault.name} {result.outcome}: {what} ({result.seconds:.1f} s) {why[:300]}\n")
    if result.outcome == WRONG:
        sys.stdout.write(f"  to repeat it: make chaos ONLY={fault.name}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
