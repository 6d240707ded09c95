"""A Kafka topic as a target, through librdkafka (the package confluent-kafka)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from skewless.errors import ConfigurationError, StorageError, require_at_least
from skewless.producing.base import Target
from skewless.producing.formats import Format, written
from skewless.producing.kafka_address import SCHEME, Address

_CLIENT: Final = "kafka."
_OWN: Final = ("format", "timeout")
_DEFAULTS: Final = {
    "queue.buffering.max.messages": "100000",
    "queue.buffering.max.kbytes": "65536",
    "partitioner": "murmur2_random",  # where Java's client would put a key
    "log_level": "0",  # what goes wrong is in the report
}
_RENAMED: Final = {"max.request.size": "message.max.bytes"}  # the names in Java's client
_CREDENTIALS: Final = re.compile(r"""\b(username|password)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;]+))""")
_MOMENT_S: Final = 0.05
_DELIVERY_MS: Final = ("delivery.timeout.ms", "message.timeout.ms")


class KafkaTarget(Target):
    """Sends each row as a message, to the topic's partitions in turn.

    Messages are written exactly once and in order, even if the broker is unreachable for a while: the client retries,
    and those that it gives up are counted in `failed`. At most 100,000 messages or 64 MB wait in memory.

    Parameters
    ----------
    address : Address
        Brokers, topic and options of the client.
    form : Format
        How a row is written.
    key : str, optional
        The column whose value is the message's key. Kafka puts all messages of a key into one partition: that is key
        grouping, with its imbalance.
    partitions : int, optional
        Number of partitions with which the topic is created; an existing topic must have as many.
    """

    def __init__(
        self, address: Address, form: Format, *, key: str | None = None, partitions: int | None = None
    ) -> None:
        if not address.topic:
            raise ConfigurationError(
                "the address has no topic", subject="to", hint=f"write to {SCHEME}{address.servers}/topic"
            )
        if partitions is not None:
            require_at_least("partitions", partitions, 1)
        self._address = address
        self._form = form
        self._key = key
        self._settings = client_settings(address)
        self._room = int(self._settings["queue.buffering.max.messages"])
        address.require_broker()
        self._producer = self._connect()
        if partitions is not None:
            self._make_topic(partitions)
        self._partitions = self._wait_for_topic()
        if partitions not in {None, self._partitions}:
            raise ConfigurationError(
                f"the topic {address.topic!r} has {self._partitions} partitions; got {{partitions}} {partitions}",
                subject="partitions",
            )
        self._turn = 0

    @property
    def label(self) -> str:
        """The address without its options."""
        return self._address.label

    def send(self, rows: pa.RecordBatch) -> int:
        """Pass rows to the client, as many as its queue has room for."""
        room = self._room - len(self._producer)
        if room <= 0:
            self._producer.poll(_MOMENT_S)
            return 0
        self._producer.poll(0)
        rows = rows.slice(0, room)
        keys = [None] * rows.num_rows if self._key is None else written(rows.column(self._key))
        for sent, (value, key) in enumerate(zip(self._form.messages(rows), keys, strict=True)):
            try:
                self._produce(value, key)
            except BufferError:  # 64 MB before 100,000 messages
                self._producer.poll(_MOMENT_S)
                return sent
            self._turn += 1
        return int(rows.num_rows)

    def _produce(self, value: bytes, key: bytes | None) -> None:
        partition = self._turn % self._partitions if self._key is None else -1
        try:
            self._producer.produce(self._address.topic, value, key, partition)
        except KafkaException as error:
            self._note(error.args[0])
            if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise StorageError(f"cannot send to {self.label}: {self.trouble}", subject="to") from error
            self.failed += 1

    def close(self) -> None:
        """Wait until all messages are delivered, or given up by the client."""
        self._flush(self._delivery_s)

    def interrupt(self) -> None:
        """Wait for messages that are not delivered yet, but only for the timeout of the address."""
        self._flush(self._address.timeout)

    def _flush(self, seconds: float) -> None:
        for _ in range(int(seconds / _MOMENT_S)):  # in small steps, as nothing can interrupt one of them
            if self._producer.flush(_MOMENT_S) == 0:
                return
        self.failed += len(self._producer)
        self._producer.purge()

    @property
    def _delivery_s(self) -> float:
        """Seconds after which the client gives up, and a little more."""
        given = next((self._settings[name] for name in _DELIVERY_MS if name in self._settings), "300000")
        return int(given) / 1000 + 10

    def _connect(self) -> Producer:
        callbacks: dict[str, Any] = {
            "on_delivery": self._undelivered,
            "error_cb": self._note,
            "delivery.report.only.error": True,
        }
        try:
            return Producer(self._settings | callbacks)
        except KafkaException as error:
            self._note(error.args[0])
            raise ConfigurationError(
                f"the client rejects an option of {self.label}: {self.trouble}", subject="to"
            ) from error

    def _undelivered(self, error: KafkaError, _: object) -> None:
        self.failed += 1
        self._note(error)

    def _note(self, error: KafkaError) -> None:
        secrets = (value for name, value in self._settings.items() if re.search("password|secret|key|token", name))
        self.trouble = error.str()
        for secret in filter(None, secrets):
            self.trouble = self.trouble.replace(secret, "…")

    def _make_topic(self, partitions: int) -> None:
        topic = NewTopic(self._address.topic, num_partitions=partitions, replication_factor=-1)
        admin = AdminClient({**self._settings})  # must live until the request is done
        try:
            admin.create_topics([topic], request_timeout=self._address.timeout)[topic.topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                self._note(error.args[0])
                raise StorageError(
                    f"cannot create the topic {self._address.topic!r}: {self.trouble}", subject="partitions"
                ) from error

    def _wait_for_topic(self) -> int:
        """Return the number of partitions; a broker that creates topics on demand needs a moment."""
        for _ in range(max(1, round(self._address.timeout / _MOMENT_S))):
            if found := self._count_partitions():
                self.trouble = None
                return found
            self._producer.poll(_MOMENT_S)
        place = f"{self._address.topic!r} at {self._address.servers}"
        raise StorageError(
            f"there is no topic {place} ({self.trouble})", subject="to", hint="create it with {partitions}"
        )

    def _count_partitions(self) -> int:
        try:
            topic = self._producer.list_topics(self._address.topic, self._address.timeout).topics[self._address.topic]
        except KafkaException as error:
            self._note(error.args[0])
            raise StorageError(f"no broker answers at {self._address.servers}: {self.trouble}", subject="to") from error
        if topic.error is not None:
            self._note(topic.error)
            return 0
        return len(topic.partitions)


def client_settings(address: Address) -> dict[str, str]:
    """Return the options of an address as librdkafka takes them.

    >>> address = Address.parse("kafka://one:9092/clicks?kafka.acks=1&kafka.max.request.size=2000000")
    >>> settings = client_settings(address)
    >>> settings["bootstrap.servers"], settings["acks"], settings["message.max.bytes"]
    ('one:9092', '1', '2000000')

    User and password in the form of Java's client, `kafka.sasl.jaas.config`, are understood as well.
    """
    given: dict[str, str] = {}
    for name, value in address.options:
        if name in _OWN:
            continue
        if not name.startswith(_CLIENT):
            raise ConfigurationError(
                f"an option of a topic to write to is kafka.…, {' or '.join(_OWN)}; got {name!r}", subject="to"
            )
        java = name.removeprefix(_CLIENT)
        given |= _credentials(value) if java == "sasl.jaas.config" else {_RENAMED.get(java, java): value}
    once = {} if _weak(given) else {"enable.idempotence": "true"}
    return _DEFAULTS | once | given | {"bootstrap.servers": address.servers}


def _weak(given: Mapping[str, str]) -> bool:
    """Whether the acknowledgements rule out writing exactly once."""
    return any(given.get(name, "all") not in {"all", "-1"} for name in ("acks", "request.required.acks"))


def _credentials(jaas: str) -> dict[str, str]:
    found = {match[1]: match[2] or match[3] or match[4] or "" for match in _CREDENTIALS.finditer(jaas)}
    if set(found) != {"username", "password"}:
        raise ConfigurationError(
            "kafka.sasl.jaas.config needs a username and a password",
            subject="to",
            hint="or use kafka.sasl.username and kafka.sasl.password",
        )
    return {f"sasl.{name}": value for name, value in found.items()}
