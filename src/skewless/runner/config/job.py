"""From settings to a run: everything that is wrong with them at once, or the pipeline and what belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
from skewless.runner.applications.processed import ProcessedApplication
from skewless.runner.applications.sql import SqlApplication
from skewless.runner.config.conflicts import contradictions, directories
from skewless.runner.config.settings import PlacedError, Settings, make_definition, read_settings, unknown_key
from skewless.runner.config.tables import Definition
from skewless.runner.config.toml_lines import Path
from skewless.runner.inputs.base import Input
from skewless.runner.inputs.file import FileInput
from skewless.runner.inputs.kafka import KafkaInput
from skewless.runner.inputs.named_stream import NamedStream
from skewless.runner.inputs.rate import RateInput
from skewless.runner.pipeline import Pipeline
from skewless.runner.table_join import TableJoin
from skewless.spark.work import Cost

DEFAULT_STREAM: Final = "country-skew-r80"
DEFAULT_SCALE: Final = 0.01
DEFAULT_TUPLES: Final = 100_000
"""Of an application's stand-in where neither is set: the first tuples of a stream that is the same throughout."""

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class Job:
    """A pipeline, the rest of its definition, and the settings that both were made of."""

    pipeline: Pipeline
    definition: Definition
    settings: Settings

    @property
    def shows(self) -> bool:
        """Whether to print what each micro-batch changes."""
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
        """The name and the tags of its metrics."""
        observer, file = self.definition.observer, self.settings.file
        name = observer.name or (self.pipeline.input.label if file is None else File(file).stem)
        return Query(name=name, tags={"grouping": self.pipeline.grouping.name, **observer.tags})

    def place(self, error: SkewlessError) -> SkewlessError:
        """Return an error of the run with the lines and keys, or the flags, that it is about."""
        scope = "sql" if isinstance(self.pipeline.app, SqlApplication) else ""
        return self.settings.place_all(error, scope=scope)


def make_job(file: str | None, flags: Mapping[str, Any]) -> Job:
    """Read a pipeline file, or none, put flags on top, and make the run; raise everything that is wrong at once.

    Parameters
    ----------
    file : str or None
        The pipeline file.
    flags : mapping
        Values by flag, such as `--workers`.
    """
    settings = read_settings(file, flags)
    definition, errors = make_definition(settings)
    unusable = [error.path for error in errors]
    for contradiction in contradictions(definition, settings):
        placed = settings.place(contradiction)
        if not any(path[: len(placed.path)] == placed.path for path in unusable):  # one error for each key is enough
            errors.append(placed)
    attempts = _Attempts(settings, errors)
    grouping = attempts.grouping(definition)
    join = None
    if not any(path[:1] == ("join",) for path in unusable):
        join = attempts.make(lambda: _make_join(definition))
    app = attempts.make(lambda: _make_app(definition, join), scope="sql")
    place = ("source", "input") if definition.source.input else ("source", "stream")
    source = attempts.make(lambda: _make_input(definition, app or COUNT), place)
    cost = attempts.make(lambda: Cost(ms=definition.cost.ms, kind=definition.cost.kind), ("cost", "ms"), scope="cost")
    sink = attempts.make(lambda: _address(definition), ("sink", "output"), scope="sink")
    for tag, value in definition.observer.tags.items():
        attempts.make(partial(Query, name="query", tags={tag: value}), ("observer", "tags", tag))
    pipeline = attempts.make(
        lambda: Pipeline(
            # A stand-in for what could not be made, so that contradictions among the rest are reported as well.
            input=source if source and app else NamedStream(name=DEFAULT_STREAM),
            app=app if source and app else COUNT,
            grouping=grouping or make_grouping("auto", workers=1),
            cost=cost if cost and cost.ms else None,
            sink=sink,
            **_pipeline_settings(definition),
        ),
    )
    raise_all(attempts.sorted_errors)
    assert pipeline is not None  # noqa: S101 - otherwise there are errors
    return Job(pipeline=pipeline, definition=definition, settings=settings)


@dataclass(frozen=True)
class _Attempts:
    """Makes the parts of a run one after the other, and collects what goes wrong."""

    settings: Settings
    errors: list[PlacedError] = field(default_factory=list)

    @property
    def sorted_errors(self) -> list[PlacedError]:
        by_text = {error.problem: error for error in self.errors}
        return sorted(by_text.values(), key=lambda error: error.line)

    def make(self, make: Callable[[], Made], place: Path = (), *, scope: str = "") -> Made | None:
        made: list[Made] = []
        found = errors_of(lambda: made.append(make()))
        self.errors.extend(self.settings.place(error, place, scope=scope) for error in found)
        return made[0] if made else None

    def grouping(self, definition: Definition) -> Grouping | None:
        """Try each parameter alone, then all together."""
        name, workers = definition.grouping.name, definition.grouping.workers
        parameters = {
            parameter: tuple(value) if isinstance(value, list) else value
            for parameter, value in (definition.grouping.model_extra or {}).items()
        }
        known = [one.name for one in fields_of(find_grouping(name)) if one.name != "workers"]
        n_errors = len(self.errors)
        for parameter, value in parameters.items():
            place = ("grouping", parameter)
            if parameter not in known:
                self.errors.append(self.settings.place(unknown_key(parameter, [*known, "name", "workers"]), place))
            else:
                self.make(partial(make_grouping, name, workers=workers, **{parameter: value}), place)
        if len(self.errors) > n_errors:
            return None
        return self.make(lambda: make_grouping(name, workers=workers, **parameters), ("grouping",))


def _address(definition: Definition) -> Address | None:
    addresses = [Address.parse(one) for one in definition.sink.output if one.startswith(SCHEME)]
    return addresses[0] if addresses else None


def _make_join(definition: Definition) -> TableJoin | None:
    join = definition.join
    if join is None:
        return None
    return TableJoin(**dict(join), workers=definition.grouping.workers, seed=definition.seed)


def _make_app(definition: Definition, join: TableJoin | None) -> Application:
    sql, source = definition.sql, definition.source
    if sql is not None:
        return SqlApplication(
            key=sql.key,
            expressions=sql.values,
            where=sql.where,
            time=sql.time,
            fields={name: kind for name, kind in source.fields.items() if name != source.time},
            combiners=definition.combine,
            join=join,
        )
    app = make_app(definition.app)
    return replace(app, gap=definition.gap) if definition.gap and isinstance(app, ProcessedApplication) else app


def _make_input(definition: Definition, app: Application) -> Input:
    source = definition.source
    if source.input is not None:
        # A field is its own role, under a name that no role has: it may be called key or time.
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


def _pipeline_settings(definition: Definition) -> dict[str, Any]:
    """Return what a pipeline takes unchanged, and where rejects go by default."""
    names = ("batch", "window", "watermark", "checkpoint", "ledger", "follow", "trigger", "verify", "seed")
    output = (*directories(definition), None)[0]
    checkpoint = definition.checkpoint and f"{definition.checkpoint.rstrip('/')}/run"
    beside = output or definition.ledger or checkpoint
    rejects = definition.sink.rejects or (beside and f"{beside.rstrip('/')}.rejects")
    return {name: getattr(definition, name) for name in names} | {"output": output, "rejects": rejects}
