"""A task stands still, and Spark starts it a second time elsewhere: two attempts run at the same time."""

from __future__ import annotations

from random import Random
from typing import Any

from chaos.fault import BATCHES, STREAMS, draw_query, draw_strike
from chaos.kinds.base import Kind


class TaskSlowed(Kind):
    """A task of a cluster that starts slow tasks a second time; the first may go on when the second is done."""

    name = "task slowed, and speculated"
    share = 8

    def draw(self, chance: Random) -> dict[str, Any]:
        """Draw a fault."""
        query = draw_query(chance, chance.choice(STREAMS + BATCHES))
        strike = draw_strike(chance, query, "sleep", seconds=chance.choice((0.7, 1.5, 4.0)))
        return {"stage": "cluster", "query": query, "strike": strike, "micro_batches": 2}
