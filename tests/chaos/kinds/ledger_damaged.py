"""Files of the ledger are deleted or overwritten with noise, while a query writes and reads them."""

from __future__ import annotations

import shutil
from random import Random
from typing import Any

from chaos.fault import STREAMS, draw_query, draw_strike
from chaos.kinds.base import Kind, Trial

_PATTERNS = ("*/source-*.npz", "*/worker-*.npz", "*/*.npz", "ledger.json", "*", "*/source-0.npz")


class LedgerDamaged(Kind):
    """Some of the files, the owner's mark, or all of it."""

    name = "ledger deleted or corrupted"
    share = 19

    def draw(self, chance: Random) -> dict[str, Any]:
        """Draw a fault."""
        query = draw_query(chance, chance.choice((*STREAMS, *STREAMS, "agg batch")))
        if query["operation"] == "agg batch":
            query["ledger"] = True
        deed, pattern = chance.choice(("delete", "corrupt")), chance.choice(_PATTERNS)
        if deed == "corrupt" and pattern == "*":
            pattern = "**/*.*"
        stage = chance.choices(("classic", "Connect", "cluster"), (6, 3, 1))[0]
        strike = draw_strike(chance, query, deed, pattern=pattern, times=chance.choice((1, 1, 3)))
        return {"stage": stage, "query": query, "strike": strike, "micro_batches": 3}

    def prepare(self, trial: Trial) -> None:
        """Aim at the ledger."""
        trial.aim(str(trial.folder / "ledger"))

    def repair(self, trial: Trial, message: str) -> None:
        """Delete the ledger where the message says so."""
        if "delete this one" in message:
            shutil.rmtree(trial.folder / "ledger")
