"""The driver is killed with all its processes, or the Connect server is; a new one goes on from the checkpoint."""

from __future__ import annotations

from random import Random
from typing import Any

from chaos.fault import STREAMS, draw_query, draw_strike
from chaos.kinds.base import Kind, Trial


class DriverKilled(Kind):
    """A driver, and everything that it has started."""

    name = "driver killed and restarted"
    share = 8

    def draw(self, chance: Random) -> dict[str, Any]:
        """Draw a fault."""
        query = draw_query(chance, chance.choice(STREAMS))
        stage = chance.choices(("classic", "Connect"), (4, 1))[0]
        strike = draw_strike(chance, query, "kill java")
        return {"stage": stage, "query": query, "strike": strike, "micro_batches": 3}

    def struck(self, trial: Trial) -> None:
        """Kill the rest of it."""
        trial.stage.stop()
