"""Secrets in addresses appear nowhere: not in errors, not in logs, not in what ledgers and states hold."""

from __future__ import annotations

import logging
import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import ConfigurationError, SkewlessError, StorageError
from skewless.masking import masked_logger, without_secrets
from skewless.processors.processing import EXPIRES, HASH
from skewless.producing.kafka_address import Address
from skewless.storage import Ledger, StateStore, WorkerReport, batch_directory
from skewless.storage.file_system import FAILURES

SECRET = "wJalrXUtnFEMI"  # noqa: S105 - it is none
URIS = [
    f"nowhere://id:{SECRET}@bucket/ledger",
    f"nowhere://id:{SECRET}/{SECRET}@bucket/ledger",
    f"nowhere://{SECRET}@bucket/ledger",
    f"nowhere://bucket/ledger?region=eu&secret_key={SECRET}",
    f"nowhere://bucket/ledger?sig={SECRET}&x=1",
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_directory, "_PAUSES_S", (0.0,))


@pytest.mark.parametrize("uri", URIS)
def test_a_ledger_out_of_reach_tells_no_secret(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ledger = Ledger(uri=uri)
    report = WorkerReport(
        worker=0, tuples=0, keys=0, busy_s=0, finished_ms=0, hashes=_none(), top_keys=[], top_counts=[]
    )
    ledger.write_worker(0, report)
    assert ledger.read_workers(0) == []
    assert ledger.clock(0) is None
    ledger.directory.remove_old(5, 1)
    for fails in (lambda: ledger.claim({}), ledger.batches, lambda: ledger.clock(0, must_agree=True)):
        with pytest.raises(StorageError, match="bucket/ledger") as caught:
            fails()
        cause = caught.value.__cause__
        assert SECRET not in f"{caught.value} {cause} {caught.value.render(str.upper)}"
    assert len(caplog.records) > 3
    assert "bucket/ledger" in caplog.text
    assert SECRET not in caplog.text


def _none() -> pa.Array:
    return pa.array([], pa.uint64()).to_numpy()


@pytest.mark.parametrize("uri", URIS)
def test_a_state_store_out_of_reach_tells_no_secret(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    store = StateStore(uri=uri, schema=pa.schema([(HASH, pa.uint64()), (EXPIRES, pa.int64())]))
    with pytest.raises(FAILURES) as caught:
        store.before(3, "query", 8)
    assert SECRET not in f"{caught.value} {caplog.text}"


def test_an_error_that_travelled_tells_no_secret() -> None:
    error = pickle.loads(pickle.dumps(ConfigurationError(subject="ledger", expected="local", value=URIS[0])))  # noqa: S301
    assert str(error) == "ledger must be local; got 'nowhere://bucket/ledger'"


WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)


@given(
    user=WORDS,
    password=st.text(st.characters(categories=["L", "N"], include_characters="/:?&=%+-"), max_size=20),
    before=st.text(st.characters(categories=["L", "N", "Zs"]), max_size=10),
)
def test_no_password_survives(user: str, password: str, before: str) -> None:
    secret = f"{password}{SECRET}"
    text = without_secrets(f"{before} s3://{user}:{secret}@bucket/a: no such host")
    assert SECRET not in text
    assert text.startswith(f"{before} s3://")
    assert text.endswith("bucket/a: no such host")


@given(st.text())
def test_what_has_no_address_is_shown_as_it_is(text: str) -> None:
    if "://" not in text and not set("?&;") & set(text):
        assert without_secrets(text) == text


def test_numbers_stay_numbers_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    masked_logger("skewless.test").warning("%s: %d of %.1f", URIS[0], 3, 4.0)
    assert caplog.messages == ["nowhere://bucket/ledger: 3 of 4.0"]


def test_a_topic_is_shown_without_its_options() -> None:
    url = f"kafka://host:9092/topic?kafka.sasl.jaas.config={SECRET}"
    address = Address.parse(url)
    assert SECRET not in f"{address!r} {address} {address.label}"
    for wrong in (f"kafka://me:{SECRET}@host:9092/topic", f"kafka:///topic?password={SECRET}"):
        with pytest.raises(SkewlessError) as caught:
            Address.parse(wrong)
        assert SECRET not in str(caught.value)
