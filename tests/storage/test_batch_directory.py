"""The directory under ledger and state store: one rule for URIs, one way to write, list and remove."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs

from skewless.groupings import State
from skewless.storage import BatchDirectory, Ledger, batch_directory
from skewless.storage.batch_directory import absolute, file_of, is_uri, open_file_system, retry
from skewless.storage.file_system import LocalFiles


@pytest.fixture
def directory(tmp_path: Path) -> BatchDirectory:
    return BatchDirectory(str(tmp_path / "shared"))


@pytest.mark.parametrize("path", ["s3://bucket/a", "hdfs://host:9000/a", "file:/a", "dbfs:/a", "abfs+x.y://a"])
def test_a_scheme_makes_a_uri(path: str) -> None:
    assert is_uri(path)
    assert absolute(path) == path


@pytest.mark.parametrize("path", ["a", "./a", "/a:b/c", "C:/a", "C:\\a", "day:1/a", "2024-01-01T00:/a"])
def test_everything_else_is_a_local_path(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not is_uri(path)
    assert Path(absolute(path)).is_absolute()
    system, place = open_file_system(path)
    assert isinstance(system, fs.LocalFileSystem)
    assert place == absolute(path)


def test_names_that_a_uri_would_have_to_escape(tmp_path: Path) -> None:
    directory = BatchDirectory(str(tmp_path / "a b%20#c?d"))
    directory.write("x", b"1")
    assert (tmp_path / "a b%20#c?d" / "x").read_bytes() == b"1"


def test_batches_and_their_files_come_in_the_order_of_their_numbers(directory: BatchDirectory) -> None:
    assert directory.batches() == []
    for batch in (10**12, 2, 11):
        for worker in (10, 9):
            directory.write(file_of(batch, f"worker-{worker}.json"), b"{}")
    directory.write(file_of(2, "worker-1.json.crc"), b"")
    directory.write("offsets/3", b"")
    assert directory.batches() == [2, 11, 10**12]
    names = {worker: file_of(2, f"worker-{worker}.json") for worker in (9, 10)}
    assert [*directory.numbered(2, "worker-", ".json").items()] == [*names.items()]
    with pytest.raises(FileNotFoundError):
        directory.numbered(3, "worker-", ".json")


def test_what_the_current_batch_reads_is_kept_however_old(directory: BatchDirectory) -> None:
    for batch in (0, 1, 2, 9):
        directory.write(file_of(batch, "source-0.npz"), b"")
    directory.remove_old(9, keep=1)
    assert directory.batches() == [1, 2, 9]
    directory.remove_old(10, keep=0)
    assert directory.batches() == [9]


def test_a_repeated_batch_after_a_long_gap_finds_its_history(tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path), keep=3)
    for batch in (0, 50):
        ledger.write_source(batch, 0, State(), batch)
    states, now_ms = ledger.last_sources(State, before=50)
    assert (list(states), now_ms) == ([0], 0)


@pytest.mark.parametrize("failures", range(5))
def test_a_read_that_fails_is_repeated_three_times_within_a_few_seconds(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(batch_directory, "sleep", pauses.append)
    results = iter([OSError("out of reach")] * failures + ["found"])

    def read() -> str:
        result = next(results)
        if isinstance(result, OSError):
            raise result
        return result

    if failures < 4:
        assert retry(read) == "found"
    else:
        with pytest.raises(OSError, match="out of reach"):
            retry(read)
    assert pauses == [0.1, 0.5, 2.0][:failures]


@pytest.mark.parametrize(("length", "shown"), [(300, "x" * 300), (301, "x" * 299 + "…")])
def test_a_message_is_cut_where_it_is_too_long(length: int, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise ValueError("x" * length)

    monkeypatch.setattr(batch_directory, "fs", SimpleNamespace(FileSystem=SimpleNamespace(from_uri=fail)))
    with pytest.raises(ValueError, match=f"^{shown}$"):
        open_file_system("nowhere://bucket")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is done to the disk, in order: the operation, and the beginning of the name."""
    done: list[tuple[str, str]] = []

    def watched(name: str) -> Any:
        real = getattr(LocalFiles, name)

        def call(self: LocalFiles, path: str, *more: Any) -> Any:
            done.append((name, Path(path).name.lstrip(".").partition(".")[0]))
            return real(self, path, *more)

        return call

    for name in ("save", "sync", "rename", "link", "delete"):
        monkeypatch.setattr(LocalFiles, name, watched(name))
    return done


def test_only_what_is_durable_waits_for_the_disk(directory: BatchDirectory, steps: list[tuple[str, str]]) -> None:
    directory.write("batch/x", b"1")
    assert steps == [("save", "x"), ("rename", "x")]
    steps.clear()
    directory.write("batch/x", b"1", durable=True)
    assert steps == [("save", "x"), ("sync", "x"), ("rename", "x"), ("sync", "batch"), ("sync", "shared")]


def test_the_first_to_create_a_file_wins_and_survives_a_loss_of_power(
    directory: BatchDirectory, steps: list[tuple[str, str]]
) -> None:
    directory.create("batch/x", b"first")
    written = [("save", "x"), ("sync", "x"), ("rename", "x"), ("sync", "batch"), ("sync", "shared")]
    assert steps == [*written, ("link", "x"), ("delete", "x"), ("sync", "batch")]
    directory.create("batch/x", b"second")
    assert directory.read("batch/x") == b"first"
    assert directory.names("batch") == ["x"]


def test_where_files_have_no_second_names_the_last_to_create_one_wins(
    directory: BatchDirectory, steps: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalFiles, "has_links", False)
    directory.create("batch/x", b"first")
    assert ("sync", "x") in steps
    directory.create("batch/x", b"second")
    assert directory.read("batch/x") == b"second"
