"""What cannot stand side by side in a definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skewless.producing.kafka_address import SCHEME
from skewless.runner.applications.catalogue import make_app
from skewless.runner.config.pipeline_file import Told
from skewless.runner.config.tables import Definition
from skewless.runner.config.toml_lines import Path

Found = Iterator[tuple[Path, str]]

_TAKEN: Final = frozenset({"key", "ts", "batch", "window", "window_start", "window_end"})


def contradictions(definition: Definition, told: Told) -> Found:
    """Tell what cannot stand side by side, and by which key."""
    yield from _in_source(definition, told)
    yield from _in_sql(definition, told)
    yield from _in_targets(definition)


def directories(definition: Definition) -> list[str]:
    """Give those of the outputs that are directories."""
    return [one for one in definition.sink.output if one not in {"memory", "console"} and not one.startswith(SCHEME)]


def _in_source(definition: Definition, told: Told) -> Found:
    source = definition.source
    given = [name for name in ("stream", "input", "rate_source") if told.has("source", name)]
    if len(given) > 1:
        yield ("source", given[-1]), "--stream, --input and --rate-source exclude each other: give one of them"
    if "input" not in given:
        for name in ("key", "time", "columns", "fields"):
            if getattr(source, name):
                yield ("source", name), "--key, --time and --column name columns of --input: give the file as well"
    elif source.tuples is not None:
        yield ("source", "tuples"), "--tuples is for --stream and --rate-source: files are read to their end"
    if source.rate_source is not None and source.tuples is None:
        yield ("source", "rate_source"), "the rate source never ends: say with --tuples when to stop"
    stand_in = None if definition.sql is not None else make_app(definition.app).stand_in
    if source.scale is not None and (given or stand_in is None):
        message = "--scale is for the stream that --app runs on without an input: leave it out, or the input"
        yield ("source", "scale"), message


def _in_sql(definition: Definition, told: Told) -> Found:
    source, sql = definition.source, definition.sql
    if sql is not None and told.has("app"):
        yield ("app",), "an app and the table sql exclude each other: leave out one of them"
    if sql is not None and sql.time is not None and source.time is not None:
        yield ("sql", "time"), "the time is told twice: leave out sql.time or --time"
    if sql is None and definition.combine:
        yield ("combine",), "an app has results of its own: say in the table sql what is combined"
    if sql is None and source.fields:
        yield ("source", "fields"), "types of fields are for expressions: give the table sql as well"
    for name in definition.combine:
        if name in _TAKEN:
            yield ("combine", name), "results have a column of this name already: take another"
    if definition.gap is not None and (sql is not None or make_app(definition.app).name != "sessions"):
        yield ("gap",), f"--gap is for --app sessions; got --app {definition.app}"


def _in_targets(definition: Definition) -> Found:
    observer, output = definition.observer, definition.sink.output
    if (observer.name or observer.tags) and not (observer.influx or observer.prometheus or observer.log):
        yield ("observer",), "there is nothing to observe for: give influx, prometheus or log as well"
    if "console" in output and definition.as_json:
        yield ("sink", "output"), "--output console and --json exclude each other: both want standard output"
    if max(len(directories(definition)), sum(one.startswith(SCHEME) for one in output)) > 1:
        yield ("sink", "output"), "one directory and one address of Kafka at most"
