"""Producers: the tuples of a stream or a file, sent to Kafka, a file or standard output at a given rate."""

from __future__ import annotations

from importlib.util import find_spec

from skewless.errors import ConfigurationError, SetupError
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
    """Open a topic, a file or standard output to send to.

    Parameters
    ----------
    where : str
        `kafka://host:port/topic`, a file, or `-` for standard output.
    feed : Feed
        What will be sent.
    form : str, optional
        One of text, json and csv; by default what suits the target and the feed.
    key : str, optional
        The column of the message's key; for topics only.
    partitions : int, optional
        Number of partitions with which the topic is created; for topics only.
    force : bool
        Whether an existing file may be overwritten; for files only.
    """
    if where.startswith(SCHEME):
        address = Address.parse(where)
        if force:
            raise ConfigurationError("{force} overwrites a file; a topic is only appended to", subject="force")
        chosen = choose_format(form or address.option("format", "") or None, feed)
        if isinstance(chosen, Csv):
            raise ConfigurationError("a message is text or json; got csv", subject="form")
        if find_spec("confluent_kafka") is None:
            raise SetupError(
                "sending to Kafka needs confluent-kafka", hint="install it with pip install skewless[kafka]"
            )
        from skewless.producing.kafka_target import KafkaTarget  # noqa: PLC0415 - the client is an extra

        return KafkaTarget(address, chosen, key=key, partitions=partitions)
    if "://" in where:
        raise ConfigurationError(
            subject="to", expected=f"{SCHEME}host:port/topic, a file, or - for standard output", value=where
        )
    for given, option in ((key, "keyed"), (partitions, "partitions")):
        if given is not None:
            raise ConfigurationError(f"{{{option}}} is for topics only; a file has no messages", subject=option)
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
