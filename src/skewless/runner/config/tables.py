"""The tables of a pipeline file: the one definition of a run's settings, their defaults, checks and JSON schema.

Flags of `skewless run` fill the same tables (see `names`). Each key is checked alone here; whether keys fit together,
in `conflicts` and `job`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema

from skewless.combiners import Combiner
from skewless.durations import parse_duration
from skewless.errors import ConfigurationError, UnknownNameError
from skewless.groupings import find_grouping
from skewless.observing import InfluxSink
from skewless.observing.http_server import host_and_port
from skewless.runner.applications.catalogue import APPS, make_app
from skewless.runner.config.combiner_syntax import combiner_schema, make_combiner
from skewless.runner.config.parameter_schema import grouping_schema
from skewless.streams import make_stream

_SIMPLE: Final = (
    *("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
    *("date", "timestamp", "binary"),
)
_TYPE: Final = re.compile(
    rf"(?:{'|'.join(_SIMPLE)})|decimal\(\d+(?:,\s*\d+)?\)|(?:array|map|struct)<.+>", re.IGNORECASE
)


def _known_type(text: str) -> str:
    if not _TYPE.fullmatch(text.strip()):
        raise UnknownNameError("type", text, [*_SIMPLE, "array<…>", "map<…>", "struct<…>"])
    return text.strip()


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _as_pairs(value: Any) -> Any:
    names = _as_list(value)
    return dict(zip(names, names, strict=True)) if isinstance(names, list) else names


def _as_text(value: Any) -> Any:
    """Write a number or a truth value as Spark reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _checked(check: Any) -> AfterValidator:
    """Return a validator that keeps the value, unless a function refuses it."""

    def keep(value: Any) -> Any:
        check(value)
        return value

    return AfterValidator(keep)


def _positive(value: float) -> None:
    if not 0 < value < float("inf"):
        raise ConfigurationError(subject="scale", expected="a number above 0", value=value)


_TEXTS: Final = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
_PAIRS: Final = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}},
            {"type": "object", "additionalProperties": {"type": "string"}},
        ]
    }
)
_SCALAR: Final = WithJsonSchema({"type": ["string", "integer", "number", "boolean"]})

Duration = Annotated[str, _checked(parse_duration)]
Type = Annotated[str, AfterValidator(_known_type)]
OneOrMore = Annotated[tuple[str, ...], Field(strict=False), BeforeValidator(_as_list), _TEXTS]
Separated = Annotated[tuple[str, ...], Field(strict=False), BeforeValidator(_split), _TEXTS]
Pairs = Annotated[dict[str, str], BeforeValidator(_as_pairs), _PAIRS]
Text = Annotated[str, BeforeValidator(_as_text), _SCALAR]
AtLeastOne = Annotated[int, Field(ge=1)]


class Table(BaseModel):
    """The base of all tables: nothing is converted, unknown keys are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)


class Source(Table):
    """Where rows come from: one of `stream`, `input` and `rate_source`; without any, the stand-in of the app."""

    stream: Annotated[str, _checked(make_stream)] | None = None
    """A named stream, such as country-skew-r80; see `skewless streams`."""
    input: str | None = None
    """A file or a folder of text, CSV, TSV, JSON lines (also .gz) or Parquet; or kafka://host:port/topic?option=value."""
    rate_source: AtLeastOne | None = None
    """Rows per second of Spark's rate source, which stops after `tuples`."""
    key: str | None = None
    """The column of `input` that holds the key. For an expression see the table `sql`."""
    time: str | None = None
    """The column of `input` that holds the time."""
    columns: dict[str, str] = {}
    """Columns that the app reads, such as price = "px"; usual names are found without it."""
    fields: dict[str, Type] = {}
    """Types of the columns that expressions read, such as price = "double". Kafka: the fields of a JSON message."""
    tuples: AtLeastOne | None = None
    """Tuples (records) to read of `stream` or `rate_source`; default: as many as the stream has."""
    sources: AtLeastOne = 5
    """Sources: tasks that read and route side by side; of files and topics Spark decides how many."""
    rate: AtLeastOne = 9_000
    """Tuples of `stream` per second of event time."""
    batch_size: AtLeastOne = 20_000
    """Tuples of `stream` per micro-batch; of files, a micro-batch is one file."""
    scale: Annotated[float, _checked(_positive)] | None = None
    """Size of the app's stand-in, as a fraction of the published data set."""


class Sql(Table):
    """Expressions of Spark SQL instead of an app. The table `combine` says what is computed of them."""

    key: str
    """What rows are grouped by, such as "lower(country)"."""
    values: dict[str, str] = {}
    """What combiners read, by name, such as amount = "price * size"; columns need no entry."""
    where: str | None = None
    """Condition for a row to count, such as "price > 0"."""
    time: str | None = None
    """The time of a row, for windows, such as "timestamp_millis(at)"."""


class Join(Table):
    """A table that rows are joined with before anything is computed of them; expressions read its columns."""

    path: str
    """A file or a folder of Parquet, CSV, TSV or JSON lines (also .gz); or what Spark's reader of `format` loads."""
    format: str | None = None
    """A format of Spark's, such as "delta" or "orc"; default: by the ending of `path`."""
    on: Pairs
    """The key columns: one, a list, or { page = "id" } if the input calls it page and the table id."""
    how: Literal["inner", "left", "left_semi", "left_anti"] = "inner"
    """Type of join: inner, left (keeps rows without a partner), left_semi or left_anti (rows with or without one)."""
    columns: Pairs | None = None
    """The columns to add: a list, or { name = "column of the table" }; default: all."""
    fields: dict[str, Type] = {}
    """Types of columns that the table has as text, such as rate = "double"."""


class Grouping(Table):
    """How keys are spread over workers: `name`, `workers`, and the parameters of the grouping."""

    model_config = ConfigDict(extra="allow", json_schema_extra=grouping_schema)

    name: Annotated[str, _checked(find_grouping)] = "auto"
    """Name or alias: auto, even, partial_key (PKG)…; see `skewless groupings`."""
    workers: AtLeastOne = 10
    """Workers (partitions) that the rows are spread over."""


class Sink(Table):
    """Where results go, and rejects: rows that cannot be used."""

    output: OneOrMore = ("memory",)
    """A directory for the result as Parquet, "console", "memory" (nowhere), "kafka://host:port"; one, or a list."""
    rejects: str | None = None
    """Directory for rows that cannot be used; default: beside the output, the ledger or the checkpoint."""


class Observer(Table):
    """Where the metrics of each micro-batch go during the run. A target that cannot be reached is a warning."""

    influx: Annotated[str, _checked(lambda url: InfluxSink(url, environ={}))] | None = None
    """InfluxDB: http://host:8086?db=NAME (1.x) or ?org=ORG&bucket=BUCKET (2.x); secrets come from the environment."""
    prometheus: Annotated[Text, _checked(host_and_port)] | None = None
    """Port, or "host:port", on which /metrics is served."""
    log: bool = False
    """Write #DIST and #HOTTEST KEYS lines to standard error."""
    page: Annotated[Text, _checked(partial(host_and_port, subject="page"))] | None = None
    """Port, or "host:port", on which a live page is served during the run."""
    mask_keys: bool = False
    """Show hashes instead of keys on the page."""
    name: str | None = None
    """Name of the query in dashboards; default: the name of the pipeline file."""
    tags: dict[str, str] = {}
    """Further labels of its metrics."""


class Cost(Table):
    """Simulated work per row, for experiments."""

    ms: float = 0.0
    """Milliseconds."""
    kind: Literal["sleep", "cpu"] = "sleep"
    """Kind of work: sleep, or busy cpu."""


class Spark(Table):
    """The session."""

    master: str = "local[12]"
    """Where Spark runs: local[12], spark://host:7077…"""
    packages: Separated = ()
    """Maven coordinates of further packages for Spark, such as its Kafka connector."""
    jars: Separated = ()
    """Further packages for Spark as JAR files."""
    archive: str | None = None
    """A packed environment for the executors of a cluster; see `skewless pack`."""
    log: str | None = None
    """File for Spark's own messages; default: nowhere."""
    conf: dict[str, Text] = {}
    """Any setting of Spark, such as "spark.executor.memory" = "4g"."""


class Definition(Table):
    """A pipeline of skewless, for `skewless run`."""

    model_config = ConfigDict(title="skewless pipeline")

    app: Annotated[str, _checked(make_app), Field(json_schema_extra={"examples": list(APPS)})] = "count"
    """What to compute: count (rows per key), word-count, vwap, hashtags, sessions…; or use the table `sql`."""
    gap: Duration | None = None
    """For sessions: how long a key must be silent for its session to end; default 30s. For time-in-cells: the longest
    time between two readings of a player in a cell for which he is there; default 1s."""
    window: Duration | None = None
    """Also group by windows of this length: 15s, 1m, "1 minute"."""
    watermark: Duration = "1m"
    """How late rows of a stream may arrive for their window."""
    batch: bool = False
    """One batch job instead of a stream."""
    follow: bool = False
    """Continue at the end of the input, until Ctrl-C; with a checkpoint."""
    trigger: Duration | None = None
    """With `follow`: time from the start of a micro-batch to the start of the next; default: none."""
    verify: bool = False
    """Compare the result with that of a plain groupBy."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the stream and the hashes: same seed, same numbers."""
    checkpoint: str | None = None
    """Directory from which a stopped run resumes; default: a temporary one."""
    ledger: str | None = None
    """Directory of the ledger, which `skewless watch` reads; default: inside the checkpoint."""
    as_json: Annotated[bool, Field(alias="json")] = False
    """Print the report as JSON instead of a table."""
    source: Source = Source()
    sql: Sql | None = None
    combine: dict[str, Annotated[Combiner, PlainValidator(make_combiner), WithJsonSchema(combiner_schema())]] = {}
    """Results by name: n = "count", total = { sum = "price" }, p99 = { approx_quantile = "ms", fraction = 0.99 }."""
    join: Join | None = None
    grouping: Grouping = Grouping()
    sink: Sink = Sink()
    observer: Observer = Observer()
    cost: Cost = Cost()
    spark: Spark = Spark()
