"""Settings of a definition that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skewless.errors import ConfigurationError
from skewless.producing.kafka_address import SCHEME
from skewless.runner.applications.catalogue import make_app
from skewless.runner.config.settings import Settings
from skewless.runner.config.tables import Definition

_TAKEN: Final = frozenset({"key", "ts", "batch", "window", "window_start", "window_end"})


def contradictions(definition: Definition, settings: Settings) -> Iterator[ConfigurationError]:
    """Return an error for each contradiction; its subject is the parameter to leave out or to change."""
    yield from _in_source(definition, settings)
    yield from _in_sql(definition, settings)
    yield from _in_targets(definition)


def directories(definition: Definition) -> list[str]:
    """Return those of the outputs that are directories."""
    return [one for one in definition.sink.output if one not in {"memory", "console"} and not one.startswith(SCHEME)]


def _in_source(definition: Definition, settings: Settings) -> Iterator[ConfigurationError]:
    source = definition.source
    given = [name for name in ("stream", "input", "rate_source") if settings.has("source", name)]
    if len(given) > 1:
        both = " and ".join(f"{{{name}}}" for name in given)
        yield ConfigurationError(f"{both} exclude each other", subject=given[-1], hint="keep one of them")
    if "input" not in given:
        for name in ("key", "time", "columns", "fields"):
            if getattr(source, name):
                yield ConfigurationError(
                    f"{{{name}}} names columns of {{input}}, which is missing", subject=name, hint="set {input} as well"
                )
    elif source.tuples is not None:
        yield ConfigurationError(
            "{tuples} is for streams: files and topics are read to their end", subject="tuples", hint="leave it out"
        )
    if source.rate_source is not None and source.tuples is None:
        yield ConfigurationError(
            "the rate source never ends", subject="rate_source", hint="set {tuples}, after which it stops"
        )
    stand_in = None if definition.sql is not None else make_app(definition.app).stand_in
    if source.scale is not None and (given or stand_in is None):
        yield ConfigurationError(
            "{scale} is for the stream that {app} runs on without an input", subject="scale", hint="leave it out"
        )


def _in_sql(definition: Definition, settings: Settings) -> Iterator[ConfigurationError]:
    source, sql = definition.source, definition.sql
    if sql is not None and settings.has("app"):
        yield ConfigurationError("{app} excludes the table {sql}", subject="app", hint="keep one of them")
    if sql is not None and sql.time is not None and source.time is not None:
        yield ConfigurationError("the time is set twice, here and by {time}", subject="sql.time", hint="keep one")
    if sql is None and definition.combine:
        yield ConfigurationError(
            "an app has results of its own", subject="combine", hint="replace {app} by the table {sql}"
        )
    if sql is None and source.fields:
        yield ConfigurationError(
            "types of fields are for expressions", subject="fields", hint="add the table {sql}, or leave them out"
        )
    if sql is None and definition.join is not None:
        yield ConfigurationError(
            "only expressions read columns of a table", subject="join", hint="add the table {sql}, or leave it out"
        )
    for name in definition.combine:
        if name in _TAKEN:
            yield ConfigurationError(
                "results have a column of this name already", subject=f"combine.{name}", hint="choose another name"
            )
    if definition.gap is not None and (
        sql is not None or make_app(definition.app).name not in {"sessions", "time-in-cells"}
    ):
        yield ConfigurationError("{gap} is for {app} sessions and time-in-cells", subject="gap", hint="leave it out")


def _in_targets(definition: Definition) -> Iterator[ConfigurationError]:
    observer, output = definition.observer, definition.sink.output
    targets = observer.influx or observer.prometheus or observer.log or observer.page
    if (observer.name or observer.tags or observer.mask_keys) and not targets:
        yield ConfigurationError(
            "there is nothing to write metrics to",
            subject="observer",
            hint="set {influx}, {prometheus}, {log} or {page}",
        )
    if observer.page and definition.batch and definition.ledger is None:
        yield ConfigurationError("a batch job has no ledger to show", subject="page", hint="set {ledger}")
    if "console" in output and definition.as_json:
        yield ConfigurationError(
            "{output} console and {json} exclude each other: both write to standard output", subject="output"
        )
    if max(len(directories(definition)), sum(one.startswith(SCHEME) for one in output)) > 1:
        yield ConfigurationError(subject="output", expected="at most one directory and one Kafka address")
