"""One fault: tried, and judged."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import Final

from chaos.drawing import KINDS
from chaos.fault import Fault, write_input
from chaos.kinds import disk_full
from chaos.kinds.base import Trial
from chaos.stages import Hung, Lost, Stage
from chaos.strike import arm, disarm, has_struck

SURVIVED: Final = "survived"
REFUSED: Final = "refused"
WRONG: Final = "wrong"
NOT_STRUCK: Final = "not struck"
IMPOSSIBLE: Final = "impossible"
_STARTS: Final = 4  # of a query that refuses


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a fault.

    `survived`: the right answer, although it was struck. `refused`: an error with a message, and the right answer when
    the query was started again. `wrong`: another answer, a traceback, no end, or no right answer however often it is
    started. `not struck`: the query was over before, so nothing was tried. `impossible`: this machine has no means.
    """

    seed: int
    index: int
    kind: str
    operation: str
    stage: str
    point: str
    deed: str
    outcome: str
    strikes: int
    starts: int
    seconds: float
    message: str = ""
    detail: str = ""


def try_fault(fault: Fault, stage: Stage) -> Result:
    """Run the query of a fault, strike, start it again where it refuses, and compare with plain Spark."""
    kind, folder = KINDS[fault.kind], stage.home / "fault"
    start = time.monotonic()
    if kind is KINDS[disk_full.DiskFull.name] and not disk_full.is_possible():
        return _result(fault, IMPOSSIBLE, 0, 0, 0.0, "", "a disk can only be mounted by root")
    shutil.rmtree(folder, ignore_errors=True)
    trial = Trial(fault=fault, stage=stage, folder=folder, rows=write_input(fault, folder / "input"))
    try:
        kind.prepare(trial)
        arm(stage.strikes, trial.strike)
        verdict = _judge(trial)
    finally:
        disarm(stage.strikes)
        kind.clean(trial)
    outcome, strikes, starts, message, detail = verdict
    return _result(fault, outcome, strikes, starts, time.monotonic() - start, message, detail)


def _judge(trial: Trial) -> tuple[str, int, int, str, str]:
    """Return the outcome, the number of strikes and of starts, the first message, and what was wrong."""
    kind, stage = KINDS[trial.fault.kind], trial.stage
    strikes, message, noticed = 0, "", False

    def watch() -> None:
        nonlocal noticed
        if not noticed and has_struck(stage.strikes):
            noticed = True
            kind.struck(trial)

    for starts in range(1, _STARTS + 1):
        try:
            answer = stage.ask(trial.query, watch if starts == 1 else lambda: None)
        except Hung as error:
            return WRONG, has_struck(stage.strikes), starts, message, str(error)
        except Lost as error:
            strikes = max(strikes, has_struck(stage.strikes))
            if trial.fault.kind == "driver killed and restarted" and strikes and starts == 1:
                continue
            return WRONG, strikes, starts, message, f"the driver has ended: {error}"
        strikes = max(strikes, has_struck(stage.strikes))
        if "error" not in answer:
            if answer["wrong"]:
                return WRONG, strikes, starts, message, "; ".join(answer["wrong"])
            right = REFUSED if message else SURVIVED
            return right if strikes else NOT_STRUCK, strikes, starts, message, ""
        message = message or str(answer["error"]) or "no message"
        disarm(stage.strikes)
        kind.repair(trial, str(answer["error"]))
    return WRONG, strikes, _STARTS, message, f"does not start again: {answer['error']}"


def _result(fault: Fault, outcome: str, strikes: int, starts: int, seconds: float, message: str, detail: str) -> Result:
    return Result(
        seed=fault.seed,
        index=fault.index,
        kind=fault.kind,
        operation=fault.query["operation"],
        stage=fault.stage,
        point=fault.strike.point,
        deed=fault.strike.deed,
        outcome=outcome,
        strikes=strikes,
        starts=starts,
        seconds=round(seconds, 1),
        message=message,
        detail=detail[-2000:],
    )
