"""All kinds of faults, and the fault of a number."""

from __future__ import annotations

from random import Random
from typing import Final

from chaos.fault import Fault
from chaos.kinds.base import Kind
from chaos.kinds.broker_restarted import BrokerRestarted
from chaos.kinds.disk_full import DiskFull
from chaos.kinds.driver_killed import DriverKilled
from chaos.kinds.executor_killed import ExecutorKilled
from chaos.kinds.ledger_damaged import LedgerDamaged
from chaos.kinds.task_slowed import TaskSlowed
from chaos.kinds.worker_killed import WorkerKilled

KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        WorkerKilled(),
        ExecutorKilled(),
        TaskSlowed(),
        BrokerRestarted(),
        DriverKilled(),
        LedgerDamaged(),
        DiskFull(),
    )
}


def draw(seed: int, index: int) -> Fault:
    """Return the fault of a number: the same on every machine."""
    chance = Random(f"{seed}:{index}")
    (kind,) = chance.choices([*KINDS.values()], [kind.share for kind in KINDS.values()])
    return Fault(seed=seed, index=index, kind=kind.name, **kind.draw(chance))
