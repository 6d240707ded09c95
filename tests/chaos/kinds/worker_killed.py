"""A Python worker is killed in the middle of a task: Spark runs the task again, up to four times."""

from __future__ import annotations

from random import Random
from typing import Any

from chaos.fault import BATCHES, STREAMS, draw_query, draw_strike
from chaos.kinds.base import Kind


class WorkerKilled(Kind):
    """One kill, or several; of more than three in one task the query dies with a message."""

    name = "Python worker killed"
    share = 32

    def draw(self, chance: Random) -> dict[str, Any]:
        """Draw a fault."""
        query = draw_query(chance, chance.choice(STREAMS + BATCHES))
        times = chance.choice((1, 1, 1, 2, 4))
        stage = chance.choices(("classic", "Connect", "cluster"), (6, 3, 1))[0]
        strike = draw_strike(chance, query, "kill worker", times=times)
        return {"stage": stage, "query": query, "strike": strike, "micro_batches": 2}
