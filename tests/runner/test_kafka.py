"""Kafka, with a real broker: a topic in, topics out, messages that cannot be used, a broker that goes away."""

from __future__ import annotations

import base64
import json
import re
import runpy
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from services.broker import Broker, free_port, running_broker
from services.jars import require_jars
from services.long import only_if_long
from services.standalone import wait_for
from skewless.cli.main import main
from skewless.errors import SkewlessError
from skewless.groupings import make_grouping
from skewless.producing.kafka_address import Address

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from skewless.producing.formats import Text
from skewless.producing.kafka_target import KafkaTarget
from skewless.runner.applications.catalogue import VWAP, WORD_COUNT
from skewless.runner.inputs.kafka import KafkaInput
from skewless.runner.pipeline import Pipeline
from skewless.runner.run_report import RunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    require_jars("connector")  # the session has it then, see conftest
    with running_broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


def address(broker: Broker, topic: str = "", **options: str) -> Address:
    return Address(servers=broker.servers, topic=topic, options=tuple(options.items()))


def send(spark: SparkSession, broker: Broker, topic: str, values: list[Any]) -> None:
    rows = [(bytearray(value if isinstance(value, bytes) else value.encode()),) if value is not None else (None,)
            for value in values]  # fmt: skip
    frame = spark.createDataFrame(rows, "value binary").repartition(3)
    options = address(broker).for_spark | {"topic": topic, "kafka.max.request.size": "2000000"}
    frame.write.format("kafka").options(**options).save()


def received(spark: SparkSession, broker: Broker, topic: str) -> list[dict[str, Any]]:
    rows = spark.read.format("kafka").options(**address(broker).for_spark, subscribe=topic).load().collect()
    return [json.loads(row["value"]) for row in sorted(rows, key=lambda row: (row["partition"], row["offset"]))]


def run(spark: SparkSession, source: KafkaInput, **settings: Any) -> RunReport:
    return Pipeline(input=source, grouping=make_grouping("even", workers=2), verify=True, **settings).run(spark)


def test_a_topic_is_counted_and_what_comes_out_is_sent(spark: SparkSession, broker: Broker) -> None:
    keys = ["hot"] * 300 + [f"k{number % 40}" for number in range(200)]
    send(spark, broker, "clicks", keys)
    source = KafkaInput(address=address(broker, "clicks", maxOffsetsPerTrigger="200"))
    report = run(spark, source, sink=address(broker), window="1h")
    assert (report.exact, report.tuples, report.sources, report.rejected) == (True, 500, 3, 0)
    assert report.batches > 1
    updates = received(spark, broker, "clicks-s3-w2-even-aggregator")
    last = {row["key"]: row["n"] for row in updates}
    assert last == {"hot": 300} | {f"k{number}": 5 for number in range(40)}
    assert set(updates[0]) == {"key", "window_start", "window_end", "n"}
    metrics = sorted(received(spark, broker, "clicks-s3-w2-even-distribution"), key=lambda one: one["batch"])
    assert [one["batch"] for one in metrics] == [*range(report.batches)]
    assert sum(one["tuples"] for one in metrics) == 500


def test_messages_that_cannot_be_used_are_set_aside_with_their_offset(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    good = [json.dumps({"symbol": "A", "price": 10 + number, "size": 2, "ts": 1_700_000_000}) for number in range(20)]
    bad = [b"\xff\xfe\x00binary", "{not json", good[0][:30], '{"symbol": "A"}', None,
           json.dumps({"symbol": "A", "price": -1, "size": 1}),
           json.dumps({"symbol": "A", "price": 1, "size": 1, "ts": "soon"}), "x" * 1_500_000]  # fmt: skip
    send(spark, broker, "trades", [*good, *bad])
    source = KafkaInput(address=address(broker, "trades", format="json"))
    report = run(spark, source, app=VWAP, rejects=str(tmp_path / "rejects"))
    assert (report.exact, report.tuples, report.rejected) == (True, 20, len(bad))
    assert report.top[0]["price"] == pytest.approx(19.5)
    rejects = [json.loads(line) for line in _lines(tmp_path / "rejects")]
    assert {reject["topic"] for reject in rejects} == {"trades"}
    assert len({(reject["partition"], reject["offset"]) for reject in rejects}) == len(bad)
    assert report.reasons["the message is not UTF-8 text"] == 1
    assert report.reasons["the message is empty"] == 1
    assert report.reasons["the message has more than 1,000,000 bytes"] == 1
    assert report.reasons["the message is not a JSON object"] == 2
    (binary,) = (reject for reject in rejects if "base64" in reject)
    assert (base64.b64decode(binary["base64"]), "row" in binary) == (bad[0], False)
    assert sum(n for reason, n in report.reasons.items() if reason.startswith("cannot read the time in ")) == 1


def test_rejects_go_to_a_topic_while_the_stream_runs(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    good = json.dumps({"user": "a"})
    binary, oversized = b"\xff" * 100_000, "x" * 1_500_000
    send(spark, broker, "visits", [good, "{", binary])
    pipeline = Pipeline(
        input=KafkaInput(address=address(broker, "visits"), key="user"),
        grouping=make_grouping("even", workers=2),
        follow=True,
        trigger="1s",
        checkpoint=str(tmp_path / "work"),
        rejects=f"kafka://{broker.servers}/refused",
    )
    reports: list[RunReport] = []
    failures: list[BaseException] = []
    done = Thread(target=lambda: _follow(pipeline, spark, failures, reports), daemon=True)
    done.start()

    def refused(n: int) -> list[dict[str, Any]] | None:
        assert failures == []
        if len([*_lines(tmp_path / "work" / "rejects")]) < n:  # they are kept before they are sent
            return None
        with suppress(Py4JError):  # there is no such topic yet
            found = received(spark, broker, "refused")
            return found if len(found) == n else None
        return None

    wait_for(lambda: refused(2), "the first rejects")
    send(spark, broker, "visits", [good, oversized])
    rejects = wait_for(lambda: refused(3), "the next reject")
    wait_for(lambda: _counted(spark, tmp_path / "work") == {"a": 2} or None, "what is in order")
    for query in spark.streams.active:
        query.stop()
    done.join(timeout=240)
    assert failures == []
    assert (reports[0].rejected, reports[0].rejects) == (3, f"kafka://{broker.servers}/refused")
    assert len({(one["topic"], one["partition"], one["offset"]) for one in rejects}) == 3
    by_reason = {reject["reason"]: reject for reject in rejects}
    assert by_reason["the message is not a JSON object"]["row"] == "{"
    cut = by_reason["the message is not UTF-8 text"]
    assert (base64.b64decode(cut["base64"]), cut["cut"]) == (binary[:49_152], True)
    long = by_reason["the message has more than 1,000,000 bytes"]
    assert (long["row"], long["cut"]) == (oversized[:65_536], True)
    # A run that goes on from there finds only what is new.
    send(spark, broker, "visits", [None])
    again = replace(pipeline, follow=False, trigger=None).run(spark)
    assert (again.tuples, again.rejected) == (2, 4)
    assert refused(4)


def _lines(folder: Path) -> Iterator[str]:
    for file in folder.glob("batch=*/*.json"):
        yield from file.read_text().splitlines()


@only_if_long
def test_the_benchmark_measures(spark: SparkSession, broker: Broker) -> None:
    benchmark = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "kafka.py"))
    load = benchmark["Load"](
        servers=broker.servers, rate=1_000, seconds=2, trigger_s=1, warm_up=1, workers=2, grouping="even", partitions=2
    )
    benchmark["fill"](load)
    plain, paced = (benchmark["measure"](spark, load, query, paced=query != "plain") for query in ("plain", "skewless"))
    assert (plain.tuples, paced.tuples, len(plain.lags), len(paced.lags)) == (2_000, 2_000, 0, 2)
    plain_counts, counts = (received(spark, broker, f"tuples-{name}") for name in ("plain", "skewless"))
    last = [{(row["key"], row["window"]["start"]): row["n"] for row in rows} for rows in (plain_counts, counts)]
    assert last[0] == last[1]
    assert sum(last[0].values()) == load.tuples


def test_text_is_text(spark: SparkSession, broker: Broker) -> None:
    send(spark, broker, "tweets", ["Nice day today", "the day"])
    report = run(spark, KafkaInput(address=address(broker, "tweets")), app=WORD_COUNT)
    assert report.exact
    assert {row["key"]: row["n"] for row in report.top} == {"nice": 1, "day": 2, "today": 1}


def test_what_a_producer_sends_is_what_a_run_reads(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    trades = tmp_path / "trades.csv"
    trades.write_text("symbol,price,size\n" + "".join(f"{'AB'[n % 2]},{10 + n % 3},{1 + n % 2}\n" for n in range(600)))
    (tmp_path / "large.txt").write_text(f"tea\n{'x' * 1_000_001}\nmilk\n")
    topic = f"kafka://{broker.servers}/produced"
    given = ["--input", str(trades), "--send", "records", "--to", topic, "--partitions", "2"]
    assert produced(*given, "--rate", "20000") == 0
    report = run(spark, KafkaInput(address=address(broker, "produced", format="json")), app=VWAP)
    assert (report.exact, report.tuples, report.sources, report.rejected) == (True, 600, 2, 0)
    assert {row["key"]: row["price"] for row in report.top} == {"A": 11, "B": 11}
    assert produced("--input", str(tmp_path / "large.txt"), "--to", f"kafka://{broker.servers}/large") == 1
    assert produced("--stream", "country-skew-r80", "-n", "300", "--keyed", "--to", topic) == 0
    messages = spark.read.format("kafka").options(**address(broker).for_spark, subscribe="produced,large").load()
    rows = messages.selectExpr("topic", "partition", "string(key) AS key", "string(value) AS value").collect()
    assert sorted(row["value"] for row in rows if row["topic"] == "large") == ["milk", "tea"]
    assert [sum(row["partition"] == p for row in rows if row["key"] is None and row["topic"] == "produced")
            for p in (0, 1)] == [300, 300]  # fmt: skip
    keyed = [row for row in rows if row["key"] is not None]
    assert len(keyed) == 300
    assert all(row["key"] == row["value"] for row in keyed)
    assert len({row["partition"] for row in keyed if row["key"] == "Turkey"}) == 1


def produced(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["produce", *arguments])
    return int(str(ended.value.code))


def test_the_pipeline_file_for_kafka(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The example with both of its ends, until it is stopped; nobody is there to take its metrics but the log."""

    @contextmanager
    def session(*_: Any, **settings: str) -> Iterator[SparkSession]:
        assert settings == {"quick": False, "spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"}
        yield spark

    orders = [{"shop": shop, "price": 2.5, "pieces": 2, "customer": f"c{number}"} for number, shop in enumerate("aAb")]
    bad = [{"shop": "a", "price": "dear", "pieces": 1}, {"shop": "a", "price": 1, "pieces": 0}]
    send(spark, broker, "orders", [*map(json.dumps, [*orders, *bad]), "{"])
    text = (Path(__file__).parents[2] / "examples" / "kafka.toml").read_text()
    for theirs, ours in {
        "localhost:9092": broker.servers, "orders-run": str(tmp_path / "check"), "9108": "0",
        "localhost:8086": f"127.0.0.1:{free_port()}",
    }.items():  # fmt: skip
        assert theirs in text
        text = text.replace(theirs, ours)
    (tmp_path / "kafka.toml").write_text(text)
    monkeypatch.setattr("skewless.cli.run.spark_session", session)
    ended: list[BaseException] = []
    done = Thread(target=lambda: _main(ended, str(tmp_path / "kafka.toml"), "--workers", "2", "--json"), daemon=True)
    done.start()
    wait_for(lambda: (tmp_path / "check" / "query" / "commits" / "0").exists() or ended or None, "the first messages")
    for query in spark.streams.active:
        query.stop()
    done.join(timeout=60)
    printed = capsys.readouterr()
    assert [repr(one) for one in ended] == ["SystemExit(0)"], printed.err
    report = json.loads(printed.out)
    assert (report["tuples"], report["sources"], report["app"]) == (3, 3, "sql")
    updates = {row["key"]: row for row in received(spark, broker, "orders-s3-w2-even-aggregator")}
    told = {key: (row["orders"], row["revenue"], row["customers"]) for key, row in updates.items()}
    assert told == {"a": (2, 10.0, 2), "b": (1, 5.0, 1)}
    assert sum(one["tuples"] for one in received(spark, broker, "orders-s3-w2-even-distribution")) == 3
    assert report["reasons"] == {
        "the field 'price' is not of type double": 1, "the message is not a JSON object": 1,
    }  # fmt: skip
    assert re.search(r"metrics for Prometheus: http://127.0.0.1:\d+/metrics", printed.err)
    assert printed.err.count("#DIST: TotalCount: 3,") == 1
    assert "could not write metrics, the query continues" in caplog.text


def _main(ended: list[BaseException], *arguments: str) -> None:
    try:
        main(["run", *arguments])
    except BaseException as error:  # noqa: BLE001 - handed to the test
        ended.append(error)


def test_a_broker_that_goes_away_costs_nothing(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    work = tmp_path / "work"
    source = KafkaInput(address=address(broker, "steps"))
    pipeline = Pipeline(
        input=source, grouping=make_grouping("even", workers=2), follow=True, checkpoint=str(work), output=None
    )
    failures: list[BaseException] = []
    done = Thread(target=lambda: _follow(pipeline, spark, failures), daemon=True)
    send(spark, broker, "steps", ["a"] * 50)
    target = KafkaTarget(address(broker, "kept"), Text(), partitions=1)
    assert target.send(keys_of(range(100))) == 100
    done.start()
    wait_for(lambda: _counted(spark, work) == {"a": 50} or None, "the first messages")
    broker.stop()
    try:
        assert target.send(keys_of(range(100, 200))) == 100
    finally:
        broker.start()  # the same topics, at the same address
    target.close()
    send(spark, broker, "steps", ["a"] * 5 + ["b"] * 7)
    wait_for(lambda: failures or _counted(spark, work) == {"a": 55, "b": 7} or None, "the others")
    for query in spark.streams.active:
        query.stop()
    done.join(timeout=60)
    kept = spark.read.format("kafka").options(**address(broker).for_spark, subscribe="kept").load().collect()
    assert failures == []
    assert _counted(spark, work) == {"a": 55, "b": 7}
    assert target.failed == 0
    assert [int(row["value"]) for row in sorted(kept, key=lambda row: row["offset"])] == [*range(200)]


def keys_of(numbers: range) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"key": [*numbers]})


def _follow(
    pipeline: Pipeline, spark: SparkSession, failures: list[BaseException], reports: list[RunReport] | None = None
) -> None:
    try:
        report = pipeline.run(spark)
        if reports is not None:
            reports.append(report)
    except BaseException as error:  # noqa: BLE001 - handed to the test
        failures.append(error)


def _counted(spark: SparkSession, work: Path) -> dict[str, int]:
    folders = sorted((work / "updates").glob("batch=*"))
    found: dict[str, int] = {}
    for folder in folders:
        if (folder / "_SUCCESS").exists():
            found |= {row["key"]: row["n"] for row in spark.read.parquet(str(folder)).collect()}
    return found


def test_a_topic_that_is_not_there_is_an_error(spark: SparkSession, broker: Broker) -> None:
    begun = time.monotonic()
    with pytest.raises(SkewlessError, match=r"there is no topic 'nowhere' at 127"):
        run(spark, KafkaInput(address=address(broker, "nowhere")))
    assert time.monotonic() - begun < 60


def test_no_broker_is_an_error_after_the_time_given(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = Address(servers=f"127.0.0.1:{free_port()}", topic="clicks", options=(("timeout", "1s"),))
    with pytest.raises(SkewlessError, match=r"no broker answers at 127.0.0.1:\d+ within 1 s"):
        nobody.require_broker()
    for url, reason in [
        ("kafka://host/topic", "host:port"),
        ("kafka:///topic", "kafka://host:port/topic"),
        ("kafka://user:secret@host:1/topic", "secrets go into options"),
        ("kafka://host:1", "the topic to read is missing in kafka://host:1/topic"),
        ("kafka://host:1/t?format=avro", "text, json"),
    ]:
        with pytest.raises(SystemExit):
            main(["run", "--input", url])
        said = capsys.readouterr().err
        assert reason in said
        assert "secret@" not in said


def test_secrets_are_not_shown() -> None:
    given = Address.parse("kafka://host:1/t?kafka.sasl.jaas.config=password")
    assert "password" not in repr(given)
    assert given.for_spark["kafka.sasl.jaas.config"] == "password"
    source = KafkaInput(address=given)
    assert "password" not in json.dumps(source.fingerprint()) + repr(source)
