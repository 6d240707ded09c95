"""From what a user told to a run: everything that is wrong with it at once, or the pipeline and what belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from functools import partial
from pathlib import Path as File
from typing import Any, Final, TypeVar

from skewless.errors import SkewlessError, errors_of, raise_all
from skewless.groupings import Grouping, find_grouping, make_grouping
from skewless.observing import Query
from skewless.producing.kafka_address import SCHEME, Address
from skewless.runner.applications.base import Application
from skewless.runner.applications.catalogue import COUNT, make_app
from skewless.runner.applications.sessionize import SessionApplication
from skewless.runner.applications.sql import SqlApplication
from skewless.runner.config.conflicts import contradictions, directories
from skewless.runner.config.pipeline_file import Errors, Told, listen, understand, unknown
from skewless.runner.config.tables import Definition
from skewless.runner.config.toml_lines import Path
from skewless.runner.inputs.base import FileInput, Input, NamedStream, RateInput
from skewless.runner.inputs.kafka import KafkaInput
from skewless.runner.pipeline import Pipeline
from skewless.spark.work import Cost

DEFAULT_STREAM: Final = "country-skew-r80"
DEFAULT_SCALE: Final = 0.01
DEFAULT_TUPLES: Final = 100_000
"""Of an application's stand-in where neither is given: the first tuples of a stream that is the same throughout."""

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class Job:
    """A pipeline, what the rest of the definition asks for, and where it was told."""

    pipeline: Pipeline
    definition: Definition
    told: Told

    @property
    def shows(self) -> bool:
        """Whether what each micro-batch changes is to be printed."""
        return "console" in self.definition.sink.output

    @property
    def spark_settings(self) -> dict[str, str]:
        """The settings of the session, beside its master."""
        spark = self.definition.spark
        own = {"spark.jars.packages": ",".join(spark.packages), "spark.jars": ",".join(spark.jars)}
        own["archive"] = spark.archive or ""
        return {name: value for name, value in own.items() if value} | spark.conf

    @property
    def query(self) -> Query:
        """What observers call it."""
        observer, file = self.definition.observer, self.told.file
        name = observer.name or (self.pipeline.input.label if file is None else File(file).stem)
        return Query(name=name, tags={"grouping": self.pipeline.grouping.name, **observer.tags})


def make_job(file: str | None, flags: Mapping[str, Any]) -> Job:
    """Read a pipeline file, or none, put flags on top, and make the run; raise everything that is wrong at once."""
    told = listen(file, flags)
    definition, errors = understand(told)
    broken = [path for path, _ in errors]
    for path, message in contradictions(definition, told):
        if not any(other[: len(path)] == path for other in broken):  # of what cannot be used, that is enough to say
            errors.append((path, message))
    making = _Making(told, errors)
    grouping = making.grouping(definition)
    app = making.attempt((), lambda: _make_app(definition))
    place = ("source", "input") if definition.source.input else ("source",)
    source = making.attempt(place, lambda: _make_input(definition, app or COUNT))
    cost = making.attempt(("cost",), lambda: Cost(ms=definition.cost.ms, kind=definition.cost.kind))
    sink = making.attempt(("sink", "output"), lambda: _address(definition))
    observer = definition.observer
    making.attempt(("observer",), lambda: Query(name=observer.name or "query", tags=observer.tags))
    settings = _settings(definition)
    pipeline = making.attempt(
        (),
        lambda: Pipeline(
            # What could not be made is stood in for, so that contradictions among the rest are told as well.
            input=source if source and app else NamedStream(name=DEFAULT_STREAM),
            app=app if source and app else COUNT,
            grouping=grouping or make_grouping("auto", workers=1),
            cost=cost if cost and cost.ms else None,
            sink=sink,
            **settings,
        ),
    )
    raise_all([SkewlessError(line) for line in told.sorted(errors)])
    assert pipeline is not None  # noqa: S101 - otherwise there are errors
    return Job(pipeline=pipeline, definition=definition, told=told)


@dataclass(frozen=True)
class _Making:
    """Makes one thing after the other, and gathers what goes wrong."""

    told: Told
    errors: Errors

    def attempt(self, table: Path, make: Callable[[], Made]) -> Made | None:
        made: list[Made] = []
        found = errors_of(lambda: made.append(make()))
        self.errors.extend((self.told.blame(table, str(error)), str(error)) for error in found)
        return made[0] if made else None

    def grouping(self, definition: Definition) -> Grouping | None:
        """Try each parameter alone, then all together."""
        name, workers = definition.grouping.name, definition.grouping.workers
        given = {
            parameter: tuple(value) if isinstance(value, list) else value
            for parameter, value in (definition.grouping.model_extra or {}).items()
        }
        known = [one.name for one in fields_of(find_grouping(name)) if one.name != "workers"]
        wrong: Errors = []
        for parameter, value in given.items():
            if parameter not in known:
                wrong.append((("grouping", parameter), unknown(parameter, [*known, "name", "workers"])))
            else:
                found = errors_of(partial(_make_grouping, name, workers, {parameter: value}))
                wrong += [(("grouping", parameter), str(error)) for error in found]
        self.errors.extend(wrong)
        return None if wrong else self.attempt(("grouping",), lambda: _make_grouping(name, workers, given))


def _make_grouping(name: str, workers: int, parameters: Mapping[str, Any]) -> Grouping:
    try:
        return make_grouping(name, workers=workers, **parameters)
    except (TypeError, AttributeError) as error:  # a text where a number belongs
        given = ", ".join(f"{parameter} = {value!r}" for parameter, value in parameters.items())
        raise SkewlessError(f"{name} cannot take {given}: it is of the wrong type") from error


def _address(definition: Definition) -> Address | None:
    addresses = [Address.parse(one) for one in definition.sink.output if one.startswith(SCHEME)]
    return addresses[0] if addresses else None


def _make_app(definition: Definition) -> Application:
    sql, source = definition.sql, definition.source
    if sql is not None:
        return SqlApplication(
            key=sql.key,
            expressions=sql.values,
            where=sql.where,
            time=sql.time,
            fields={name: kind for name, kind in source.fields.items() if name != source.time},
            combiners=definition.combine,
        )
    app = make_app(definition.app)
    return replace(app, gap=definition.gap) if definition.gap and isinstance(app, SessionApplication) else app


def _make_input(definition: Definition, app: Application) -> Input:
    source = definition.source
    if source.input is not None:
        # A field stands for itself: under a name that no role has, for it may be called key or time.
        fields = source.fields if definition.sql is not None else {}
        typed = {f"field {name}": name for name in fields if name != source.time}
        columns = tuple(({role.lower(): column for role, column in source.columns.items()} | typed).items())
        if source.input.startswith(SCHEME):
            address = Address.parse(source.input)
            return KafkaInput(address=address, key=source.key, time=source.time, columns=columns)
        return FileInput(path=source.input, key=source.key, time=source.time, columns=columns)
    if source.rate_source is not None:
        return RateInput(rows_per_second=source.rate_source, tuples=source.tuples or 1, sources=source.sources)
    name, tuples = source.stream or DEFAULT_STREAM, source.tuples
    if source.stream is None and app.stand_in is not None:
        tuples = DEFAULT_TUPLES if tuples is None and source.scale is None else tuples
        name = f"{app.stand_in}-{DEFAULT_SCALE if source.scale is None else source.scale}"
    return NamedStream(
        name=name,
        tuples=tuples,
        sources=source.sources,
        batch_size=source.batch_size,
        rate=source.rate,
        seed=definition.seed,
    )


def _settings(definition: Definition) -> dict[str, Any]:
    """Give what a pipeline takes as it stands, and where rejects go unless that is told."""
    names = ("batch", "window", "watermark", "checkpoint", "ledger", "follow", "trigger", "verify", "seed")
    output = (*directories(definition), None)[0]
    checkpoint = definition.checkpoint and f"{definition.checkpoint.rstrip('/')}/run"
    beside = output or definition.ledger or checkpoint
    rejects = definition.sink.rejects or (beside and f"{beside.rstrip('/')}.rejects")
    return {name: getattr(definition, name) for name in names} | {"output": output, "rejects": rejects}
