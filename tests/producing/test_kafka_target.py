"""A topic as a target, with a client that does as it is told; tests/spark/test_kafka.py has a real broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from skewless import producing
from skewless.errors import SkewlessError
from skewless.producing import make_feed, open_target, produce
from skewless.producing.formats import Json, Text
from skewless.producing.kafka_address import Address

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, KafkaException

from skewless.producing import kafka_target
from skewless.producing.kafka_target import KafkaTarget, client_settings


class Client:
    """Replaces librdkafka's producer: `full_at` messages stay in its queue until it is polled, `dead` for ever."""

    full_at = 1 << 30
    dead = False

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.queue: list[tuple[bytes, bytes | None, int]] = []
        self.delivered: list[tuple[bytes, bytes | None, int]] = []

    def __len__(self) -> int:
        return len(self.queue)

    def list_topics(self, topic: str, _: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None, 1: None, 2: None})})

    def produce(self, _: str, value: bytes, key: bytes | None, partition: int) -> None:
        if len(value) > 100:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if len(self.queue) >= self.full_at:
            raise BufferError
        self.queue.append((value, key, partition))

    def poll(self, timeout: float) -> int:
        if timeout and not self.dead:
            self.delivered += self.queue
            self.queue.clear()
        return 0

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return len(self.queue)

    def purge(self) -> None:
        self.queue.clear()


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_target, "Producer", Client)
    monkeypatch.setattr(Address, "require_broker", lambda _: None)


def target(url: str = "kafka://host:1/clicks", **others: Any) -> tuple[KafkaTarget, Any]:
    made = KafkaTarget(Address.parse(url), others.pop("form", Text()), **others)
    return made, made._producer  # noqa: SLF001 - the client that is not one


def rows_of(n: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"key": [str(number) for number in range(n)], "n": [*range(n)]})


def test_partitions_get_even_shares_in_turn() -> None:
    feed = make_feed(stream="country-skew-r100", tuples=3_001)
    made, client = target()
    report = produce(feed, made)
    assert (report.messages, report.failed, report.target) == (3_001, 0, "kafka://host:1/clicks")
    assert [partition for _, _, partition in client.delivered] == [number % 3 for number in range(3_001)]
    assert {key for _, key, _ in client.delivered} == {None}


def test_with_keys_kafka_chooses_the_partition() -> None:
    made, client = target(key="key", form=Json())
    assert made.send(rows_of(2)) == 2
    assert client.queue == [(b'{"key":"0","n":0}', b"0", -1), (b'{"key":"1","n":1}', b"1", -1)]


@pytest.mark.parametrize("full_at", [7, 10, 1 << 30])
def test_a_full_queue_is_waited_for(monkeypatch: pytest.MonkeyPatch, full_at: int) -> None:
    monkeypatch.setattr(Client, "full_at", full_at)
    made, client = target("kafka://host:1/clicks?kafka.queue.buffering.max.messages=10")
    feed = make_feed(stream="zipf-1-50", tuples=500)
    report = produce(feed, made)
    keys = [key for rows in make_feed(stream="zipf-1-50", tuples=500).rows for key in rows.column(0).to_pylist()]
    assert (report.messages, report.failed) == (500, 0)
    assert [int(value) for value, _, _ in client.delivered] == keys


def test_what_is_not_delivered_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    made, client = target("kafka://host:1/clicks?timeout=1s")
    sizes = pa.RecordBatch.from_pydict({"key": ["a", "x" * 101, "b"]})
    assert made.send(sizes) == 3
    assert (made.failed, [value for value, _, _ in client.queue]) == (1, [b"a", b"b"])
    client.settings["on_delivery"](KafkaError(KafkaError._MSG_TIMED_OUT), None)  # noqa: SLF001
    assert made.failed == 2
    assert "timed out" in str(made.trouble)
    monkeypatch.setattr(Client, "dead", True)
    made.interrupt()
    assert (made.failed, len(client)) == (4, 0)


def test_options_are_those_of_the_client() -> None:
    url = "kafka://one:1,two:2/t?timeout=3s&format=json&kafka.compression.type=lz4&kafka.sasl.jaas.config="
    settings = client_settings(Address.parse(url + "x.PlainLoginModule required username%3D%22me%22 password%3D'a b';"))
    assert settings["bootstrap.servers"] == "one:1,two:2"
    assert settings["enable.idempotence"] == "true"
    assert settings["compression.type"] == "lz4"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("me", "a b")
    assert not any(name.startswith(("kafka", "timeout", "format")) for name in settings)
    assert "enable.idempotence" not in client_settings(Address.parse("kafka://one:1/t?kafka.acks=1"))
    with pytest.raises(SkewlessError, match=r"is kafka\.…, format or timeout; got 'startingOffsets'"):
        client_settings(Address.parse("kafka://one:1/t?startingOffsets=latest"))
    with pytest.raises(SkewlessError, match="username and a password") as caught:
        client_settings(Address.parse("kafka://one:1/t?kafka.sasl.jaas.config=hidden"))
    assert "hidden" not in str(caught.value)


def test_a_password_is_not_shown_by_the_client_either() -> None:
    made, client = target("kafka://host:1/clicks?kafka.sasl.password=hidden")
    client.settings["error_cb"](KafkaError(KafkaError._AUTHENTICATION, "hidden is wrong"))  # noqa: SLF001
    assert made.trouble == "… is wrong"


def test_a_topic_has_the_partitions_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaTarget, "_make_topic", lambda *_: None)
    with pytest.raises(SkewlessError, match=r"the topic 'clicks' has 3 partitions; got partitions 5"):
        target(partitions=5)
    with pytest.raises(SkewlessError, match="partitions must be a whole number of at least 1; got 0"):
        target(partitions=0)
    with pytest.raises(SkewlessError, match="the address has no topic"):
        target("kafka://host:1")


def test_without_the_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing, "find_spec", lambda _: None)
    with pytest.raises(SkewlessError, match=r"needs confluent-kafka. Install it with pip install skewless\[kafka\]"):
        open_target("kafka://host:1/clicks", make_feed(stream="zipf", tuples=1))
