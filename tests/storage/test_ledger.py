"""The ledger: what is written is read again, and what is broken costs a warning, never a task."""

from __future__ import annotations

import io
import json
import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from pyarrow import fs

from skewless.errors import SkewlessError, StorageError
from skewless.groupings.base import Arrays, State
from skewless.groupings.partial_key import PartialKey, PartialKeyState
from skewless.storage import batch_directory
from skewless.storage.ledger import Ledger
from skewless.storage.worker_report import SAMPLE, TOP, WorkerReport, sample_hashes

OWNER = {"grouping": "even", "workers": 8, "keys": "user", "seed": 0}

# "file" and "allow_pickle" are arguments of np.savez, which loses or refuses arrays of that name.
NAMES = st.sampled_from(["loads", "file", "allow_pickle", "a.npy", "a/b", "ä"]) | st.text("abc_", min_size=1)
ARRAYS = hnp.arrays(
    dtype=st.sampled_from([np.int64, np.uint64, np.float64, np.bool_, np.int32, np.uint8]),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class AnyState(State):
    """Arrays of any name and type."""

    named: dict[str, NDArray[Any]]

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.named

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> AnyState:
        return cls(named=dict(arrays))


STATES = st.builds(AnyState, named=st.dictionaries(NAMES.filter(lambda name: name != "now_ms"), ARRAYS, max_size=5))
COUNTS = st.integers(0, 2**62)


@st.composite
def reports(draw: st.DrawFn) -> WorkerReport:
    hashes = sample_hashes(draw(hnp.arrays(np.uint64, st.integers(0, 50))))
    top = draw(st.lists(st.tuples(st.text() | st.sampled_from(["", "a\0", "\ud800"]), COUNTS), max_size=TOP))
    return WorkerReport(
        worker=draw(st.integers(0, 10_000)),
        tuples=draw(COUNTS),
        keys=hashes.size,
        busy_s=draw(st.floats(0, 1e9)),
        finished_ms=draw(COUNTS),
        hashes=hashes,
        top_keys=[key for key, _ in top],
        top_counts=[count for _, count in top],
        large_hashes=hashes[:3],
        large_rows=np.arange(hashes[:3].size),
        units=draw(hnp.arrays(np.int64, st.integers(0, 20))),
    )


def make_report(worker: int = 0, keys: int = 3, tuples: int = 10) -> WorkerReport:
    return WorkerReport(
        worker=worker, tuples=tuples, keys=keys, busy_s=0.5, finished_ms=2_000,
        hashes=np.arange(min(keys, SAMPLE), dtype=np.uint64), top_keys=["a"], top_counts=[tuples],
    )  # fmt: skip


def make_state(value: int = 0, size: int = 4) -> AnyState:
    return AnyState(named={"loads": np.full(size, value, dtype=np.int64)})


def assert_same_state(left: AnyState, right: AnyState) -> None:
    assert list(left.named) == list(right.named)
    for name in left.named:
        assert left.named[name].dtype == right.named[name].dtype
        np.testing.assert_array_equal(left.named[name], right.named[name])


def as_plain(report: WorkerReport) -> dict[str, Any]:
    arrays = ("hashes", "large_hashes", "large_rows", "units")
    return {**vars(report), **{name: getattr(report, name).tolist() for name in arrays}}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(uri=str(tmp_path / "ledger"))


def folder(ledger: Ledger, batch: int) -> Path:
    return Path(ledger.uri) / f"{batch:012d}"


@given(states=st.lists(STATES, min_size=1, max_size=12), batch=st.integers(0, 10**13), now_ms=COUNTS)
def test_states_come_back_as_they_were(states: list[AnyState], batch: int, now_ms: int) -> None:
    with TemporaryDirectory() as directory:
        ledger = Ledger(uri=directory)
        for source, state in reversed([*enumerate(states)]):
            ledger.write_source(batch, source, state, now_ms)
        read = ledger.last_sources(AnyState, before=batch + 1)[0]
        assert list(read) == [*range(len(states))]
        for state, again in zip(states, read.values(), strict=True):
            assert_same_state(state, again)
        assert ledger.clock(batch) == now_ms
        assert ledger.batches() == [batch]


@given(report=reports())
def test_reports_come_back_as_they_were(report: WorkerReport) -> None:
    with TemporaryDirectory() as directory:
        ledger = Ledger(uri=directory)
        ledger.write_worker(3, report)
        (read,) = ledger.read_workers(3)
        assert as_plain(read) == as_plain(report)
        assert read.hashes.dtype == np.uint64
        assert ledger.workers(3) == [report.worker]


def test_files_are_what_numpy_reads_and_the_same_bytes_every_time(ledger: Ledger) -> None:
    ledger.write_source(0, 0, make_state(7), 5)
    path = folder(ledger, 0) / "source-0.npz"
    first = path.read_bytes()
    with np.load(io.BytesIO(first), allow_pickle=False) as arrays:
        assert sorted(arrays) == ["loads", "now_ms"]
        assert int(arrays["now_ms"]) == 5
    ledger.write_source(0, 0, make_state(7), 5)  # a retried task
    assert path.read_bytes() == first
    assert [entry.name for entry in folder(ledger, 0).iterdir()] == ["source-0.npz"]


def test_nothing_is_ever_pickled(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        ledger.write_source(0, 0, AnyState(named={"names": np.array(["a", None], dtype=object)}), 0)
    assert not folder(ledger, 0).exists()
    with pytest.raises(SkewlessError, match="must not have an entry 'now_ms'"):
        ledger.write_source(0, 0, AnyState(named={"now_ms": np.zeros(1)}), 0)


def test_pickled_arrays_are_not_read(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    ledger.write_source(0, 0, make_state(), 0)
    np.savez(folder(ledger, 0) / "source-0.npz", loads=np.array([{}], dtype=object), now_ms=np.int64(0))
    assert ledger.last_sources(AnyState, before=1)[0] == {}
    assert "cannot be loaded when allow_pickle=False" in caplog.text


def test_states_of_another_layout_are_no_history(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    """Such as those that an older version wrote: what sources learned is lost, nothing else."""
    state = PartialKey(workers=4).first_state(0, 0)
    ledger.write_source(0, 0, state, 0)
    arrays = state.arrays()
    for number, other in enumerate(
        (
            {"loads": arrays["loads"]},
            {**arrays, "progress": np.zeros(3)},
            {**arrays, "loads": np.zeros(4)},
            {**arrays, "salt": np.zeros(2, dtype=np.uint64)},
        ),
        start=1,
    ):
        ledger.write_source(number, 0, state, 0)
        ledger.write_source(number, 1, AnyState(named=other), 0)
        states, _ = ledger.last_sources(PartialKeyState, before=number + 1)
        assert list(states) == [0]
        assert f"the states of batch {number} are broken" in caplog.text


@pytest.mark.parametrize("prefix", ["", "file://", "file:"])
def test_paths_and_uris_name_the_same_directory(tmp_path: Path, prefix: str) -> None:
    Ledger(uri=f"{prefix}{tmp_path}/new/ledger/").write_source(0, 0, make_state(3), 0)
    for uri in (f"{tmp_path}/new/ledger", f"file://{tmp_path}/new/ledger"):
        states = Ledger(uri=uri).last_sources(AnyState, before=1)[0]
        assert_same_state(states[0], make_state(3))


def test_a_relative_path_means_the_same_to_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(uri="ledger")
    monkeypatch.chdir("/")
    assert ledger.uri == str(tmp_path / "ledger")
    shipped = pickle.loads(pickle.dumps(ledger))  # noqa: S301 - as Spark ships it to executors
    assert shipped == ledger
    shipped.write_worker(0, make_report())
    assert len(ledger.read_workers(0)) == 1


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(SkewlessError, match="empty path"):
        Ledger(uri="")
    with pytest.raises(SkewlessError, match="keep must be a whole number of at least 1; got 0"):
        Ledger(uri="x", keep=0)
    good = vars(make_report())
    changes: list[tuple[dict[str, Any], str]] = [
        ({"worker": -1}, "worker must be"),
        ({"hashes": np.zeros(2, dtype=np.uint64)}, "the 3 smallest hashes"),
        ({"hashes": np.zeros(3)}, "got float64"),
        ({"keys": SAMPLE + 1, "hashes": np.zeros(SAMPLE + 1, dtype=np.uint64)}, f"the {SAMPLE} smallest"),
        ({"top_counts": []}, "of one length"),
        ({"top_keys": ["a"] * 21, "top_counts": [1] * 21}, "at most 20; got 21"),
    ]
    for change, message in changes:
        with pytest.raises(SkewlessError, match=message):
            WorkerReport(**{**good, **change})


# ---- broken, missing, left over --------------------------------------------------------------------------------


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def replace_by_one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def replace_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BREAK: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": truncate,
    "text": lambda path: path.write_text("not an archive"),
    "one array": replace_by_one_array,
    "incomplete": lambda path: np.savez(path, loads=np.zeros(3)),
    "missing": Path.unlink,
    "a folder": replace_by_a_folder,
}


@pytest.mark.parametrize("how", BREAK)
def test_a_broken_source_costs_the_history(ledger: Ledger, how: str, caplog: pytest.LogCaptureFixture) -> None:
    for batch in (4, 5):
        for source in range(3):
            ledger.write_source(batch, source, make_state(10 * batch + source), 1_000 * batch)
    BREAK[how](folder(ledger, 5) / "source-1.npz")
    last = ledger.last_sources(AnyState, before=6)[0]
    if how != "missing":
        assert "batch 5" in caplog.text
        assert {record.levelno for record in caplog.records} == {logging.WARNING}
    # A file that is not there may be a source without rows; a broken one is not trusted to be.
    assert [int(state.named["loads"][0]) for state in last.values()] == ([50, 52] if how == "missing" else [40, 41, 42])
    assert ledger.clock(5) == 5_000


@pytest.mark.parametrize("how", BREAK)
def test_a_broken_report_is_ignored(ledger: Ledger, how: str, caplog: pytest.LogCaptureFixture) -> None:
    for worker in range(3):
        ledger.write_worker(5, make_report(worker))
    BREAK[how](folder(ledger, 5) / "worker-1.npz")
    assert [report.worker for report in ledger.read_workers(5)] == [0, 2]
    assert ("ignoring 000000000005/worker-1.npz" in caplog.text) == (how != "missing")


def test_a_report_under_another_name_is_ignored(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    ledger.write_worker(0, make_report(1))
    (folder(ledger, 0) / "worker-1.npz").rename(folder(ledger, 0) / "worker-2.npz")
    assert ledger.read_workers(0) == []
    assert "it is about worker 1" in caplog.text


@given(position=st.integers(0, 10**6), flip=st.integers(1, 255))
@settings(max_examples=300)
def test_a_flipped_byte_never_makes_another_state(position: int, flip: int) -> None:
    with TemporaryDirectory() as directory:
        ledger = Ledger(uri=directory)
        ledger.write_source(0, 0, make_state(9), 77)
        path = folder(ledger, 0) / "source-0.npz"
        content = bytearray(path.read_bytes())
        content[position % len(content)] ^= flip
        path.write_bytes(content)
        states = ledger.last_sources(AnyState, before=1)[0]
        if states:
            assert_same_state(states[0], make_state(9))


def test_no_history_before_the_first_batch(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    assert ledger.last_sources(AnyState, before=0) == ({}, 0)
    assert caplog.text == ""
    assert ledger.last_sources(AnyState, before=1)[0] == {}
    assert "no states before batch 1" in caplog.text
    assert ledger.batches() == []
    assert ledger.read_workers(0) == []
    assert ledger.clock(0) is None


def test_holes_and_strangers(ledger: Ledger) -> None:
    for source in (0, 1, 3):
        ledger.write_source(2, source, make_state(source), 0)
    assert list(ledger.last_sources(AnyState, before=3)[0]) == [0, 1, 3]
    ledger.write_source(2, 2, make_state(2), 0)
    (folder(ledger, 2) / ".source-4.npz.0123").write_bytes(b"half")
    (folder(ledger, 2) / "source-4.npz.crc").write_bytes(b"?")
    (Path(ledger.uri) / "lost+found").mkdir()
    (Path(ledger.uri) / "17").mkdir()
    states = ledger.last_sources(AnyState, before=3)[0]
    assert [int(state.named["loads"][0]) for state in states.values()] == [0, 1, 2, 3]
    assert ledger.batches() == [2]


def test_batches_without_states_are_passed_over(ledger: Ledger) -> None:
    ledger.write_source(3, 1, make_state(3), 0)
    ledger.write_worker(4, make_report())
    ledger.write_source(6, 0, make_state(6), 0)
    assert list(ledger.last_sources(AnyState, before=6)[0]) == [1]
    assert list(ledger.last_sources(AnyState, before=7)[0]) == [0]
    assert list(ledger.last_sources(AnyState, before=3)[0]) == []


def test_sources_of_an_earlier_run_are_left_out(ledger: Ledger) -> None:
    for source in range(5):
        ledger.write_source(0, source, make_state(1), 1_000)
    for source in range(2):
        ledger.write_source(0, source, make_state(2), 9_000)
    states = ledger.last_sources(AnyState, before=1)[0]
    assert [int(state.named["loads"][0]) for state in states.values()] == [2, 2]


def test_old_batches_are_removed_by_source_0(tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path), keep=3)
    ledger.claim(OWNER)
    for batch in range(10):
        ledger.write_source(batch, 1, make_state(), batch)
        ledger.write_worker(batch, make_report())
    assert ledger.batches() == [*range(10)]
    ledger.write_source(9, 0, make_state(), 9)
    assert ledger.batches() == [6, 7, 8, 9]
    assert ledger.owner() == OWNER


def test_removing_never_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(uri=str(tmp_path), keep=1)

    class Stubborn(Forwarding):
        def delete_dir(self, path: str) -> None:
            raise PermissionError(path)

    ledger.write_source(0, 0, make_state(), 0)
    use(monkeypatch, ledger, Stubborn())
    ledger.write_source(5, 0, make_state(), 0)
    assert ledger.batches() == [0, 5]


# ---- failing file systems --------------------------------------------------------------------------------------


class Forwarding:
    """A local file system of which a test replaces one thing."""

    def __init__(self) -> None:
        self.local = fs.LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)


def use(monkeypatch: pytest.MonkeyPatch, ledger: Ledger, system: Forwarding) -> None:
    monkeypatch.setattr(batch_directory, "open_file_system", lambda _: (system, ledger.uri))


class DiskFull(Forwarding):
    def open_output_stream(self, path: str, **_: Any) -> Any:
        Path(path).write_bytes(b"half a fi")
        raise OSError(28, "No space left on device")


class NoRename(Forwarding):
    def move(self, *_: str) -> None:
        raise pa.ArrowNotImplementedError("no rename here")


@pytest.mark.parametrize("system", [DiskFull, NoRename])
def test_a_failing_write_is_a_warning(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, system: type[Forwarding]
) -> None:
    use(monkeypatch, ledger, system())
    ledger.write_source(0, 0, make_state(), 0)
    ledger.write_worker(0, make_report())
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "could not write 000000000000/source-0.npz" in messages[0]
    assert list(folder(ledger, 0).iterdir()) == []  # nor does the half stay behind
    with pytest.raises(StorageError, match="cannot write the ledger"):
        ledger.claim(OWNER)


@pytest.mark.parametrize("uri", ["nowhere://bucket/ledger", "dbfs:/ledger", "file:///a b", "/dev/null/ledger"])
def test_an_impossible_path_fails_the_claim_but_no_task(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger(uri=uri)
    with pytest.raises(SkewlessError, match=r"cannot (read|write) the ledger"):
        ledger.claim(OWNER)
    ledger.write_source(1, 0, make_state(), 0)
    ledger.write_worker(1, make_report())
    assert ledger.last_sources(AnyState, before=1)[0] == {}
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_reading_what_cannot_be_opened_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger(uri="nowhere://bucket/ledger")
    assert ledger.read_workers(0) == []
    assert ledger.clock(0) is None
    assert "nowhere://bucket/ledger" in caplog.text


# ---- claims ----------------------------------------------------------------------------------------------------


def test_a_claim_is_kept(ledger: Ledger) -> None:
    assert ledger.owner() is None
    ledger.claim(OWNER)
    ledger.claim(dict(reversed(OWNER.items())))
    assert json.loads((Path(ledger.uri) / "ledger.json").read_text()) == ledger.owner() == OWNER


def test_a_claim_of_another_configuration_says_what_differs(ledger: Ledger) -> None:
    ledger.claim({**OWNER, "shape": (1, 2)})
    ledger.claim({**OWNER, "shape": [1, 2]})
    with pytest.raises(SkewlessError) as error:
        ledger.claim({"grouping": "key", "workers": 8, "keys": "user", "seed": 0, "decay": 0.5})
    assert str(error.value) == (
        f"the ledger {ledger.uri} belongs to another configuration: decay nothing → 0.5, "
        'grouping "even" → "key", shape [1, 2] → nothing. Use another directory, or delete this one'
    )
    assert ledger.owner() == {**OWNER, "shape": [1, 2]}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe\x00", b"3"])
def test_a_broken_claim_is_said(ledger: Ledger, content: bytes) -> None:
    ledger.claim(OWNER)
    (Path(ledger.uri) / "ledger.json").write_bytes(content)
    with pytest.raises(SkewlessError, match=r"ledger\.json in the ledger .* is broken. Use another directory"):
        ledger.claim(OWNER)


def test_a_fingerprint_is_text_and_numbers(ledger: Ledger) -> None:
    with pytest.raises(SkewlessError, match="text and numbers only"):
        ledger.claim({"grouping": object()})
    assert ledger.owner() is None


# ---- while others write ----------------------------------------------------------------------------------------


@pytest.fixture
def writer(ledger: Ledger) -> Iterator[Ledger]:
    """Two attempts of the same tasks that write all the time, states of changing size."""
    stop = threading.Event()

    def write() -> None:
        size = 0
        while not stop.is_set():
            size = (size + 7_919) % 50_000
            ledger.write_source(0, 0, make_state(size, size + 1), 5)
            ledger.write_worker(0, make_report(tuples=size))

    ledger.write_source(0, 0, make_state(size=1), 5)
    ledger.write_worker(0, make_report(tuples=0))
    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield ledger
    stop.set()
    for thread in threads:
        thread.join()


def test_a_reader_never_sees_half_a_file(writer: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    sizes = set()
    for _ in range(300):
        states = writer.last_sources(AnyState, before=1)[0]
        loads = states[0].named["loads"]
        assert (loads == loads.size - 1).all()
        (report,) = writer.read_workers(0)
        assert report.top_counts == [report.tuples]
        sizes.add(loads.size)
    assert len(sizes) > 3  # it did change meanwhile
    assert caplog.text == ""


def counted(tuples: int) -> AnyState:
    return AnyState(named={"tuples": np.array(tuples)})


def agreed(ledger: Ledger, batch: int, tuples: int, now_ms: int) -> int:
    return int(ledger.agree_on_plan(batch, counted(tuples), now_ms).named["tuples"])


def test_of_several_plans_of_a_batch_the_first_counts(tmp_path: Path) -> None:
    """However differently its planner would answer the next time."""
    ledger = Ledger(uri=str(tmp_path))
    assert [agreed(ledger, 3, tuples, 1000) for tuples in range(4)] == [0, 0, 0, 0]
    found: list[int] = []
    threads = [threading.Thread(target=lambda n=n: found.append(agreed(ledger, 4, n, 2000))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {int(ledger.plan_of(4, AnyState).named["tuples"])}
    left, now_ms = ledger.last_sources(AnyState, before=5)
    assert ([*left], now_ms) == ([0], 2000)


def test_a_plan_of_an_earlier_run_or_a_broken_one_is_replaced(tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path))
    assert agreed(ledger, 0, 1, 1000) == 1
    assert agreed(ledger, 0, 2, 5000) == 2
    file = tmp_path / f"{0:012d}" / "source-0.npz"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(StorageError, match=r"the plan of batch 0 is not in the ledger .*, or broken there. Start the"):
        ledger.plan_of(0, AnyState)
    assert agreed(ledger, 0, 3, 5000) == 3


def test_a_plan_that_cannot_be_kept_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skewless.storage.batch_directory.sleep", lambda _: None)
    ledger = Ledger(uri=str(tmp_path / "file" / "ledger"))
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot (read|write) the ledger"):
        agreed(ledger, 0, 1, 1000)


def test_the_last_work_is_that_of_an_earlier_batch_and_of_workers_that_there_are(ledger: Ledger) -> None:
    for batch, tuples in ((3, 30), (4, 40), (5, 50)):
        for worker in (0, 1, 2):
            ledger.write_worker(batch, make_report(worker, tuples=tuples + worker))
    found, busy_s = ledger.last_work(5, 2)
    assert found.tolist() == [40, 41]
    assert busy_s.tolist() == [0.5, 0.5]
    assert ledger.last_work(3, 2)[0].tolist() == [0, 0]


def test_plans_remove_old_batches_too(tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path), keep=3)
    for batch in range(6):
        agreed(ledger, batch, batch, 1000 + batch)
    assert ledger.batches() == [2, 3, 4, 5]  # three beside the current one


def test_the_last_plan_comes_with_its_clock_and_reports(ledger: Ledger) -> None:
    assert ledger.last_plan(AnyState, before=3) is None
    ledger.write_source(1, 1, make_state(), 900)  # no plan: that is the state of source 0
    assert ledger.last_plan(AnyState, before=3) is None
    agreed(ledger, 2, 7, 1000)
    ledger.write_worker(2, make_report(1))
    found = ledger.last_plan(AnyState, before=3)
    assert found is not None
    state, now_ms, reports_of_it = found
    assert (int(state.named["tuples"]), now_ms, [report.worker for report in reports_of_it]) == (7, 1000, [1])


@pytest.mark.parametrize("must_agree", [False, True])
def test_the_clock_is_that_of_the_plan_or_of_any_source(ledger: Ledger, must_agree: bool) -> None:
    assert ledger.clock(2, must_agree=must_agree) is None
    ledger.write_source(2, 3, make_state(), 900)
    assert ledger.clock(2, must_agree=must_agree) == 900
    agreed(ledger, 2, 7, 1000)
    assert ledger.clock(2, must_agree=must_agree) == 1000


def test_what_differs_is_shown_in_one_order(ledger: Ledger) -> None:
    ledger.claim({**OWNER, "options": {"b": 1, "a": "é"}})
    with pytest.raises(SkewlessError, match=r'options \{"a": "é", "b": 1\} → nothing'):
        ledger.claim(OWNER)


def test_a_hundred_batches_are_kept_beside_the_current_one(ledger: Ledger) -> None:
    for batch in (0, 1, 100):
        ledger.write_source(batch, 1, make_state(), 0)
    ledger.write_source(101, 0, make_state(), 0)
    assert ledger.batches() == [1, 100, 101]


def test_the_clock_is_known_before_new_files_are_listed(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    agreed(ledger, 2, 7, 1000)
    monkeypatch.setattr(batch_directory.BatchDirectory, "numbered", lambda *_: {})
    assert ledger.clock(2) is None
    assert ledger.clock(2, must_agree=True) == 1000


def test_no_worker_has_run_if_all_batches_are_here_without_reports(ledger: Ledger) -> None:
    assert not ledger.has_worked(0)
    assert ledger.has_worked(2)  # who knows what there was
    for batch in range(3):
        ledger.write_source(batch, 0, make_state(), 900 + batch)
    assert not ledger.has_worked(3)
    ledger.write_worker(1, make_report(2))
    assert [ledger.has_worked(batch) for batch in range(4)] == [False, False, True, True]
