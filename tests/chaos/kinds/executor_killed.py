"""An executor is killed with all that it has: its tasks, its part of the exchange, its state of a stream."""

from __future__ import annotations

from random import Random
from typing import Any

from chaos.fault import BATCHES, STREAMS, draw_query, draw_strike
from chaos.kinds.base import Kind


class ExecutorKilled(Kind):
    """One of two executors of a cluster."""

    name = "executor killed"
    share = 13

    def draw(self, chance: Random) -> dict[str, Any]:
        """Draw a fault."""
        query = draw_query(chance, chance.choice(STREAMS + BATCHES))
        strike = draw_strike(chance, query, "kill java")
        return {"stage": "cluster", "query": query, "strike": strike, "micro_batches": 2}
