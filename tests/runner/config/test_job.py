"""Pipeline files without Spark: what they may say, what is wrong with them, and that flags say the same."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest
import tomllib
import typer
from jsonschema import Draft202012Validator

from skewless.cli.main import app, main
from skewless.combiners import COMBINERS, ApproxDistinct, ApproxQuantile, ApproxTopK, Count, Custom, Sum, Variance, Vwap
from skewless.errors import CombinedError, SkewlessError

pytest.importorskip("pyspark")

from skewless.groupings import GROUPINGS, Consistent, DynamicKey, Even
from skewless.runner.applications.catalogue import APPS
from skewless.runner.applications.sql import SqlApplication
from skewless.runner.config.combiner_syntax import make_combiner
from skewless.runner.config.job import Job, make_job
from skewless.runner.config.names import FLAGS, NAMES
from skewless.runner.config.schema import SCHEMA_FILE, as_text, make_schema
from skewless.runner.config.tables import Definition
from skewless.runner.inputs.file import FileInput
from skewless.runner.inputs.kafka import KafkaInput
from skewless.runner.inputs.named_stream import NamedStream
from skewless.runner.table_join import TableJoin

ROOT: Final = Path(__file__).parents[3]
EXAMPLES: Final = [*sorted((ROOT / "examples").glob("*.toml")), SCHEMA_FILE.with_name("pipeline.toml")]
RUN: Final = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]


@pytest.fixture
def trades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trades").mkdir()
    (tmp_path / "trades" / "a.csv").write_text("symbol,price,size,at\n")
    return tmp_path


def job(folder: Path, text: str, **flags: Any) -> Job:
    file = folder / "p.toml"
    file.write_text(text)
    return make_job(str(file), {f"--{name.replace('_', '-')}": value for name, value in flags.items()})


def errors(folder: Path, text: str, **flags: Any) -> list[str]:
    with pytest.raises(CombinedError) as caught:
        job(folder, text, **flags)
    return [line.removeprefix(f"{folder}/") for line in map(str, caught.value.each)]


# ---- flags -----------------------------------------------------------------------------------------------------


def options() -> dict[str, Any]:
    return {max(one.opts, key=len): one for one in RUN.params if one.name not in {"help", "pipeline_file", "context"}}


def test_every_flag_and_every_parameter_has_its_place_in_the_file() -> None:
    assert set(options()) == set(FLAGS)
    assert len(set(FLAGS.values())) == len(FLAGS)
    schema = make_schema()
    for key, _ in NAMES.values():
        table = schema
        for part in key.split("."):
            reference = table["properties"][part]
            reference = next(iter(reference.get("anyOf", [])), reference)  # a table, or null
            table = schema["$defs"][reference["$ref"].rpartition("/")[2]] if "$ref" in reference else reference


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag not in {"--set", "--column"}])
def test_a_flag_and_its_key_have_the_same_default(flag: str) -> None:
    value: Any = Definition()
    for part in FLAGS[flag]:
        value = getattr(value, {"json": "as_json"}.get(part, part))
    default = options()[flag].default
    assert value == (() if default is None and isinstance(value, tuple) else default) or value == (default,)


def test_flags_go_before_the_file(tmp_path: Path) -> None:
    text = """
        app = "vwap"
        seed = 3
        window = "1m"
        [source]
        scale = 0.001
        [grouping]
        name = "DKG"
        workers = 4
        warm_up_s = 2
        expected_keys = 7
    """
    made = job(tmp_path, text, seed=5, set={"warm_up_s": 1}, output="out", verify=True)
    assert made.pipeline.grouping == DynamicKey(workers=4, warm_up_s=1, expected_keys=7)
    assert (made.pipeline.seed, made.pipeline.window, made.pipeline.output) == (5, "1 minutes", "out")
    assert (made.pipeline.rejects, made.pipeline.verify, made.query.name) == ("out.rejects", True, "p")
    assert made.pipeline.input == NamedStream(name="trades-0.001", seed=5)
    assert made.query.tags == {"grouping": "dynamic_key"}


def test_errors_of_parameters_set_by_flags_name_them(tmp_path: Path) -> None:
    text = '[grouping]\nname = "even"\nhalf_life_s = 60'
    (found,) = errors(tmp_path, text, set={"slack": 7.0})
    assert found.startswith("--set slack")
    (found,) = errors(tmp_path, text, set={"slak": 7.0})
    assert found == "--set slak: unknown; did you mean slack?"
    (found,) = errors(tmp_path, 'window = "1m"', trigger="1s")
    assert found == "--trigger has no effect without follow. Set follow as well"


def test_a_flag_takes_the_place_of_what_it_excludes(trades: Path) -> None:
    assert job(trades, '[source]\nstream = "zipf"', input="trades", key="symbol").pipeline.input == FileInput(
        path="trades", key="symbol"
    )
    text = (ROOT / "examples" / "vwap.toml").read_text()
    assert isinstance(job(trades, text).pipeline.app, SqlApplication)
    found = errors(trades, text, app="vwap")
    assert len(found) == 1
    assert "source.fields: types of fields are for expressions" in found[0]


def test_a_file_and_flags_make_the_same_pipeline(tmp_path: Path) -> None:
    text = """
        app = "sessions"
        checkpoint = "check"
        follow = true
        trigger = "5s"
        [source]
        input = "kafka://a:1/clicks"
        key = "user"
        time = "at"
        [cost]
        ms = 1.5
        [sink]
        output = ["kafka://b:2", "console"]
        [spark]
        packages = ["x:y:1", "z:z:2"]
        conf = { "spark.executor.cores" = 2, "spark.ui.enabled" = true }
    """
    flags = {"--app": "sessions", "--checkpoint": "check", "--follow": True, "--trigger": "5s",
             "--input": "kafka://a:1/clicks", "--key": "user", "--time": "at", "--process-ms": 1.5,
             "--output": "kafka://b:2", "--packages": "x:y:1,z:z:2"}  # fmt: skip
    told, flagged = job(tmp_path, text), make_job(None, flags)
    assert told.pipeline == flagged.pipeline
    assert told.shows
    assert flagged.spark_settings == {"spark.jars.packages": "x:y:1,z:z:2"}
    assert told.spark_settings == flagged.spark_settings | {"spark.executor.cores": "2", "spark.ui.enabled": "true"}


# ---- SQL and combiners -----------------------------------------------------------------------------------------


def test_expressions_and_combiners(tmp_path: Path) -> None:
    text = """
        [source]
        input = "kafka://a:1/orders"
        fields = { time = "bigint", key = "string", price = "decimal(10, 2)" }
        [sql]
        key = "lower(key)"
        where = "price > 0"
        time = "timestamp_millis(time)"
        values = { twice = "2 * price" }
        [combine]
        total = { sum = "twice" }
        spread = { variance = "price", ddof = 0 }
    """
    pipeline = job(tmp_path, text).pipeline
    made = pipeline.app
    assert isinstance(made, SqlApplication)
    assert isinstance(pipeline.input, KafkaInput)
    assert set(pipeline.input.given.values()) == {"time", "key", "price"}
    assert "time" not in pipeline.input.given  # a field of this name is not the time of the row
    assert made.combiners == {"total": Sum("twice"), "spread": Variance("price", ddof=0), "n": Count()}
    assert made.plain == {"total": "sum(`twice`)", "spread": "var_pop(double(`price`))", "n": "count(*)"}
    other = job(tmp_path, text.replace("2 * price", "3 * price")).pipeline
    assert other.fingerprint()["app"] != pipeline.fingerprint()["app"]


def test_a_table_to_join_with(trades: Path) -> None:
    (trades / "names.csv").write_text("id,name\n")
    text = """
        [join]
        path = "names.csv"
        on = { symbol = "id" }
        columns = "name"
        [source]
        input = "trades"
        [sql]
        key = "name"
        [grouping]
        workers = 3
    """
    pipeline = job(trades, text).pipeline
    assert pipeline.app.join == TableJoin(path="names.csv", on={"symbol": "id"}, columns={"name": "name"}, workers=3)
    fingerprints = [
        job(trades, other).pipeline.fingerprint()["app"]
        for other in (
            text,
            text.replace("workers = 3", "workers = 4"),
            text.replace("columns", 'how = "left"\n columns'),
        )
    ]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]
    for old, new, message in (
        ('"names.csv"', '"nams.csv"', "3: join.path: no such file or folder: nams.csv"),
        ("columns", 'how = "lefft"\ncolumns', "5: join.how: must be 'inner', 'left', 'left_semi' or 'left_anti'; got"),
        ("columns", 'how = "left_semi"\ncolumns', "6: join.columns: left_semi adds no columns"),
        ('on = { symbol = "id" }', "", "2: join.on: is missing"),
        ('{ symbol = "id" }', "[]", "4: join.on: must be at least one column"),
        (
            '[sql]\n        key = "name"',
            'key = "symbol"',
            "2: join: only expressions read columns of a table. Add the table sql",
        ),
    ):
        (found,) = errors(trades, text.replace(old, new))
        assert found.removeprefix("p.toml:").startswith(message)


WRITTEN: Final = {
    "count": Count(), "sum": Sum("x"), "approx_distinct": ApproxDistinct("x", log2_buckets=8),
    "variance": Variance("x"), "vwap": Vwap("x", "y"), "approx_quantile": ApproxQuantile("x", 0.5),
    "approx_top_k": ApproxTopK("x", 3),
}  # fmt: skip


def test_every_combiner_can_be_written() -> None:
    for name, kind in COMBINERS.items():
        if kind is Custom:
            continue
        wanted = WRITTEN.get(name) or kind("x")  # type: ignore[call-arg]
        read = list(wanted.columns)
        table = {name: read[0] if len(read) == 1 else read}
        own = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
        table |= {key: value for key, value in own.items() if value not in (*read, None)}
        assert make_combiner(table) == wanted
    assert make_combiner("count") == make_combiner({"count": []}) == Count()


@pytest.mark.parametrize(
    ("combiner", "message"),
    [
        ("summ", "did you mean 'sum'"),
        ("sum", "sum takes the name of a column"),
        ({"vwap": "price"}, "vwap takes a list of columns: price, volume"),
        ({"sum": "a", "mean": "a"}, "one combiner each: sum and mean"),
        ({"approx_quantile": "ms"}, "approx_quantile needs fraction as well"),
        ({"approx_quantile": "ms", "fracton": 0.5}, "did you mean 'fraction'"),
        ({"approx_top_k": "a", "k": 0}, "k must be a whole number of at least 1"),
        ({"count": [], "k": 1}, "count takes no parameters; got 'k'"),
        ({"custom": "x"}, "unknown combiner 'custom'"),
        (7, "a combiner is written as"),
    ],
)
def test_combiners_that_cannot_be_read(combiner: Any, message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        make_combiner(combiner)


# ---- errors ----------------------------------------------------------------------------------------------------

BAD: Final = """\
app = "vwpa"
windw = "1m"
window = "soon"
verify = "yes"
follow = true
batch = true
json = true

[source]
stream = "contry-skew-r80"
input = "no-such.csv"
tuples = 0
fields = { price = "dobule" }

[sql]
kee = "lower(x)"

[combine]
m = "cuont"
key = "count"
[combine.top]
approx_top_k = "i"
k = 0

[grouping]
name = "consistent"
workers = "ten"
slak = 2
slack = "x"
virtual_per_worker = 0

[sink]
output = ["a", "b", "console"]

[observer]
prometheus = "http"
tags = { worker = "x" }

[spark.conf]
"spark.x" = [1]
"""
EXPECTED: Final = [
    "1: app: unknown app 'vwpa': did you mean 'vwap'?",
    "2: windw: unknown; did you mean window?",
    "3: window: expected a length of time such as 15s or '1 minute'; got 'soon'",
    "4: verify: must be true or false; got 'yes'",
    "6: batch: a batch job neither follows its input nor sends to Kafka",
    "10: source.stream: unknown stream 'contry-skew-r80': did you mean 'country-skew-r80'?",
    "11: source.input: source.stream and source.input exclude each other. Keep one of them",
    "11: source.input: no such file or folder: no-such.csv",
    "12: source.tuples: must be a whole number of at least 1; got 0",
    "13: source.fields.price: unknown type 'dobule': did you mean 'double'?",
    "15: sql.key: is missing",
    "16: sql.kee: unknown; did you mean key?",
    "19: combine.m: unknown combiner 'cuont': did you mean 'count'?",
    "20: combine.key: results have a column of this name already",
    "23: combine.top.k: must be a whole number of at least 1; got 0",
    "27: grouping.workers: must be a whole number; got 'ten'",
    "28: grouping.slak: unknown; did you mean slack?",
    "29: grouping.slack: consistent cannot take slack = 'x'",
    "30: grouping.virtual_per_worker: must be a whole number of",
    "33: sink.output: console and json exclude each other",
    "33: sink.output: must be at most one directory and one Kafka address",
    "36: observer.prometheus: ",
    "37: observer.tags.worker: the tag 'worker' is",
    '40: spark.conf."spark.x": must be a text',
]


def test_all_errors_at_once_with_line_and_key(tmp_path: Path) -> None:
    found = errors(tmp_path, BAD)
    assert [line[: len(want) + 7] for line, want in zip(found, EXPECTED, strict=True)] == [
        f"p.toml:{want}" for want in EXPECTED
    ]
    assert all("\n" not in line for line in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[source]\nstream = "zipf"\nkey = "x"', ":3: source.key: names columns of source.input, which is missing"),
        ('window = "1m"\n[source]\ninput = "trades"\nkey = "symbol"', ":1: window: windows need a time. Name"),
        ('window = "1m"\n[source]\ninput = "trades"\n[sql]\nkey = "x"', ":1: window: windows need a time. Name"),
        ('app = "vwap"\n[sql]\nkey = "x"', ":1: app: excludes the table sql. Keep one of them"),
        ('app = "count"\n[combine]\nn = "count"', ":2: combine: an app has results of its own"),
        ('gap = "1m"', ":1: gap: is for app sessions and time-in-cells"),
        ('trigger = "1s"', ":1: trigger: has no effect without follow. Set follow as well"),
        ('[observer]\nname = "x"', ":1: observer: there is nothing to write metrics to. Set"),
        ('[observer]\nlog = true\ntags = { worker = "x" }', ":3: observer.tags.worker: the tag 'worker' is"),
        ('[source]\ninput = "trades"\ntime = "a"\n[sql]\nkey = "x"\ntime = "y"', ":6: sql.time: the time is set twice"),
        ('[source]\ninput = "trades"\nkey = "at"\n[sql]\nkey = "x"', ":5: sql.key: the key is an expression"),
        ("[source]\nrate_source = 5", ":2: source.rate_source: the rate source never ends. Set source.tuples"),
        ("[source]\nscale = 0.1", ":2: source.scale: is for the stream that app runs on"),
        ('[sql]\nkey = "x"\nvalues = { ts = "1" }', ":3: sql.values.ts: a value cannot be called 'ts'"),
        ('[sql]\nkey = "x"\n[combine]\nn = { sum = "x" }', ":4: combine.n: n is the number of rows"),
        ('[sink]\noutput = "kafka://nowhere"', ":2: sink.output: a broker is written as host:port"),
        ('[observer]\ninflux = "http://me:secret@x:1"', ":2: observer.influx: "),
        ('batch = true\ncheckpoint = "x"', ":2: checkpoint: a batch job has no checkpoint"),
        ('[grouping]\nname = "key"\nslack = 1', ":3: grouping.slack: unknown; known here: name, workers"),
        ('sink = "out"', ":1: sink: must be a table; got 'out'"),
    ],
)  # fmt: skip
def test_contradictions(trades: Path, text: str, message: str) -> None:
    (found,) = errors(trades, text)
    assert message in found
    assert found.startswith("p.toml:")
    assert "secret" not in found


@pytest.mark.parametrize(
    ("text", "place"),
    [("a = 1\nb = ", ":2: "), ("a = 1\n\n[x\n", ":3: "), ("a = 1\na = 2\n", ":2: "), ('a = """\nb', ":2: ")],
)
def test_a_file_that_is_not_toml(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(SkewlessError, match=rf"p\.toml{place}this is not TOML: \w"):
        job(tmp_path, text)


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    for name, message in {"no.toml": "skewless init", "binary.toml": "not a text in UTF-8", ".": "directory"}.items():
        with pytest.raises(SystemExit) as caught:
            main(["run", str(tmp_path / name)])
        printed = capsys.readouterr()
        assert (caught.value.code, printed.out, len(printed.err.splitlines())) == (2, "", 1)
        assert message in printed.err


def test_errors_of_flags_name_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.toml").write_text("[source]\ntuples = 0\n")
    with pytest.raises(SystemExit):
        main(["run", str(tmp_path / "p.toml"), "--workers", "0", "-g", "evne"])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("skewless: --grouping: unknown grouping 'evne': did you mean 'even'?")
    assert lines[1] == "skewless: --workers must be a whole number of at least 1; got 0"
    assert lines[2].endswith("p.toml:2: source.tuples: must be a whole number of at least 1; got 0")
    assert len(lines) == 3


# ---- the schema and what comes with it -------------------------------------------------------------------------


def test_the_schema_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == as_text(make_schema()), "python -m skewless.runner.config.schema"
    with pytest.raises(SystemExit):
        main(["init", "--schema"])
    assert json.loads(capsys.readouterr().out) == make_schema()


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_examples_keep_to_the_schema_and_can_be_built(
    example: Path, trades: Path, validator: Draft202012Validator
) -> None:
    text = example.read_text()
    assert [error.message for error in validator.iter_errors(tomllib.loads(text))] == []
    schema = re.match(r"#:schema (\S+)\n", text)
    assert schema is not None
    assert (example.parent / schema[1]).resolve() == SCHEMA_FILE
    assert job(trades, text).pipeline.grouping.n_workers > 1


def test_the_schema_knows_what_the_tables_know(validator: Draft202012Validator) -> None:
    for name, kind in GROUPINGS.items():
        own = [field for field in fields(kind) if field.name != "workers"]
        given = {field.name: field.default for field in own if field.default is not None}
        for spelled in (name, *kind.aliases, name.upper().replace("_", "-")):
            assert validator.is_valid({"grouping": {"name": spelled, "workers": 3, **given}}), spelled
            assert not validator.is_valid({"grouping": {"name": spelled, "n_workers": 3}}), spelled
    for name in APPS:
        assert validator.is_valid({"app": name})
    assert validator.is_valid({"grouping": {"name": "even", "capacities": [1, 2.5]}, "combine": {"n": "count"}})
    bad: list[dict[str, Any]] = [
        {"sourc": {}}, {"grouping": {"slak": 1}}, {"combine": {"n": "sum"}}, {"batch": 1}, {"sql": {}},
        {"combine": {"p": {"approx_quantile": "x"}}}, {"source": {"tuples": 0}},
    ]  # fmt: skip
    for wrong in bad:
        assert not validator.is_valid(wrong), wrong


def test_parameters_of_groupings_that_are_lists(tmp_path: Path) -> None:
    made = job(tmp_path, '[grouping]\nname = "CG"\nworkers = 2\ncapacities = [1.0, 2.0]').pipeline.grouping
    assert made == Consistent(workers=2, capacities=(1.0, 2.0))
    (found,) = errors(tmp_path, '[grouping]\nname = "even"\nworkers = 2\ncapacities = [1.0]')
    assert found.startswith("p.toml:4: grouping.capacities: ")
    assert job(tmp_path, '[grouping]\nname = "even"\nworkers = 2').pipeline.grouping == Even(workers=2)


def test_init_writes_a_file_that_can_be_built_and_keeps_yours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["init"])
    assert caught.value.code == 0
    assert "skewless run pipeline.toml" in capsys.readouterr().err
    assert make_job("pipeline.toml", {}).shows
    (tmp_path / "pipeline.toml").write_text("mine")
    with pytest.raises(SystemExit) as caught:
        main(["init"])
    assert caught.value.code == 2
    assert "pipeline.toml exists already. Choose another name, or overwrite it with --force" in capsys.readouterr().err
    assert (tmp_path / "pipeline.toml").read_text() == "mine"
    with pytest.raises(SystemExit):
        main(["init", "--force"])
    assert (tmp_path / "pipeline.toml").read_text() == SCHEMA_FILE.with_name("pipeline.toml").read_text()


def test_what_is_commented_out_in_it_is_right() -> None:
    """Uncommented, table by table, each key is one that there is."""
    text = SCHEMA_FILE.with_name("pipeline.toml").read_text()
    lines = [line.removeprefix("# ") if re.match(r"# [\[\w]+( =|\])", line) else line for line in text.splitlines()]
    assert len([line for line in lines if not line.startswith("#")]) > 40
    once: dict[str, str] = {}
    for number, line in enumerate(lines):
        key = line.partition(" =")[0] if " = " in line else str(number)
        once[f"{sum(one.startswith('[') for one in lines[:number])}.{key}"] = line
    values = tomllib.loads("\n".join(once.values()))
    assert set(values) == {"app", "window", "watermark", "batch", "follow", "trigger", "checkpoint", "ledger", "verify",
                           "seed", "source", "join", "sql", "combine", "grouping", "sink", "observer",
                           "spark"}  # fmt: skip
    Definition.model_validate(values)
