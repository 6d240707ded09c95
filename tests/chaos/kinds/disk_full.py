"""The disk is full: that of the ledger, of the state or of the checkpoint. Somebody makes room, and starts again.

The disk is a small `tmpfs`, so this needs root; the strike fills it to the last page.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

from chaos.fault import STREAMS, draw_query, draw_strike
from chaos.kinds.base import Kind, Trial

_SIZE = "16m"


class DiskFull(Kind):
    """A full disk under one of the directories of a stream."""

    name = "disk full"
    share = 15

    def draw(self, chance: Random) -> dict[str, Any]:
        """Draw a fault."""
        query = draw_query(chance, chance.choice(STREAMS))
        places = ["ledger", "checkpoint", *(["state"] * 2 if query["operation"] == "stateful" else [])]
        stage = chance.choices(("classic", "Connect"), (7, 3))[0]
        strike = draw_strike(chance, query, "fill")
        extra = {"disk": chance.choice(places)}
        return {"stage": stage, "query": query, "strike": strike, "micro_batches": 3, "extra": extra}

    def prepare(self, trial: Trial) -> None:
        """Put a small disk where the directory will be."""
        place = _disk(trial)
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", place], check=True, timeout=60)
        trial.aim(str(place))

    def repair(self, trial: Trial, message: str) -> None:  # noqa: ARG002
        """Make room."""
        (_disk(trial) / "ballast").unlink(missing_ok=True)

    def clean(self, trial: Trial) -> None:
        """Take the disk away."""
        place = _disk(trial)
        if place.is_mount():
            subprocess.run(["umount", "--lazy", place], check=True, timeout=60)


def is_possible() -> bool:
    """Whether a disk can be mounted here."""
    return os.geteuid() == 0 and shutil.which("mount") is not None


def _disk(trial: Trial) -> Path:
    return trial.folder / str(trial.fault.extra["disk"])
