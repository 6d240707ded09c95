"""Kafka's broker is killed in the middle of a micro-batch, and comes back with the same topics."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from chaos.fault import draw_query, draw_strike
from chaos.kinds.base import Kind, Trial


class BrokerRestarted(Kind):
    """A broker of one node."""

    name = "broker restarted"
    share = 5

    def draw(self, chance: Random) -> dict[str, Any]:
        """Draw a fault."""
        query = draw_query(chance, "agg stream")
        strike = draw_strike(chance, query, "kill process")
        return {"stage": "classic", "query": query, "strike": strike, "micro_batches": 2}

    def prepare(self, trial: Trial) -> None:
        """Send the rows to a topic of their own."""
        from confluent_kafka import Producer

        broker = trial.stage.broker
        topic = f"rows-{trial.fault.seed}-{trial.fault.index}-{broker.runs}"
        producer = Producer({"bootstrap.servers": broker.servers})
        for row in trial.rows:
            producer.produce(topic, json.dumps(row).encode(), key=str(row["k"]).encode())
        left = producer.flush(60)
        assert left == 0, f"{left} messages were not sent"
        trial.query |= {"kafka": broker.servers, "topic": topic}
        assert broker.program is not None
        trial.aim(str(broker.program.process.pid))

    def struck(self, trial: Trial) -> None:
        """Start it again."""
        trial.stage.broker.stop()
        trial.stage.broker.start()
