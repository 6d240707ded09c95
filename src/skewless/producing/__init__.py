"""Producers: the tuples of a stream or a file, sent to Kafka, a file or standard output at a steady rate."""

from __future__ import annotations

from importlib.util import find_spec

from skewless.errors import SkewlessError
from skewless.producing.base import Target
from skewless.producing.feed import KEYS, PARTS, Feed, make_feed
from skewless.producing.file_target import STDOUT, FileTarget
from skewless.producing.formats import Csv, choose_format
from skewless.producing.kafka_address import SCHEME, Address
from skewless.producing.produce import CLOSED, INTERRUPTED, Produced, Progress, produce


def open_target(
    where: str,
    feed: Feed,
    *,
    form: str | None = None,
    key: str | None = None,
    partitions: int | None = None,
    force: bool = False,
) -> Target:
    """Open kafka://host:port/topic, a file, or `-`, standard output; `form` is one of text, json and csv.

    `key`, the column of the message's key, and `partitions` are of a topic only, `force` of a file only.
    """
    if where.startswith(SCHEME):
        address = Address.parse(where)
        if force:
            raise SkewlessError("{force} overwrites a file: a topic is only ever added to", subject="force")
        chosen = choose_format(form or address.option("format", "") or None, feed)
        if isinstance(chosen, Csv):
            raise SkewlessError("a message is text or json; got csv")
        if find_spec("confluent_kafka") is None:
            raise SkewlessError("sending to Kafka needs confluent-kafka: pip install skewless[kafka]")
        from skewless.producing.kafka_target import KafkaTarget  # noqa: PLC0415 - the client is an extra

        return KafkaTarget(address, chosen, key=key, partitions=partitions)
    if "://" in where:
        raise SkewlessError(f"send to {SCHEME}host:port/topic, to a file, or to - for standard output; got {where!r}")
    for given, option in ((key, "keyed"), (partitions, "partitions")):
        if given is not None:
            raise SkewlessError(f"{{{option}}} is for topics: a file has no messages", subject=option)
    return FileTarget(where, choose_format(form, feed, "" if where == STDOUT else where), feed.columns, force=force)


__all__ = [
    "CLOSED",
    "INTERRUPTED",
    "KEYS",
    "PARTS",
    "STDOUT",
    "Feed",
    "Produced",
    "Progress",
    "Target",
    "make_feed",
    "open_target",
    "produce",
]
