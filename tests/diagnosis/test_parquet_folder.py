"""A folder of Parquet files counts like one file of the same rows; what only Spark reads right is left to Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from services.command import run_here
from skewless.diagnosis import KeyDistribution, ParquetFolder
from skewless.streams import KeyFile

KEYS: tuple[Sequence[str | None], ...] = (["a"] * 5, ["b", None], [], ["a", "c"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "clicks"
    path.mkdir()
    for number, keys in enumerate(KEYS):
        pq.write_table(pa.table({"key": pa.array(keys, pa.string())}), path / f"part-{number}.parquet")
    (path / "_SUCCESS").write_bytes(b"")
    (path / ".part-0.parquet.crc").write_bytes(b"?")
    return path


def test_a_folder_counts_like_one_file(folder: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": pa.array(chain.from_iterable(KEYS), pa.string())}), tmp_path / "clicks.parquet")
    whole = KeyDistribution.of_stream(KeyFile(path=str(tmp_path / "clicks.parquet"), column="key"))
    found = ParquetFolder.find(str(folder), "key")
    assert found is not None
    parts = KeyDistribution.of_stream(found)
    assert (parts.label, parts.names, parts.counts.tolist()) == ("clicks:key", whole.names, whole.counts.tolist())
    assert parts.hashes.tolist() == whole.hashes.tolist()


def test_a_limit_ends_within_a_file(folder: Path) -> None:
    found = ParquetFolder.find(str(folder), "key")
    assert found is not None
    for tuples, expected in ((None, 9), (8, 8), (3, 3), (100, 9)):
        assert found.length(tuples) == sum(map(len, found.generate(tuples=tuples))) == expected


def test_what_only_spark_reads_right_is_left_to_it(folder: Path) -> None:
    assert ParquetFolder.find(str(folder), "no such column") is None
    other = folder / "part-4.parquet"
    for column in ([1], [1.5], [date(2024, 1, 1)], [b"a"]):  # of another type, or one whose text differs
        pq.write_table(pa.table({"key": column}), other)
        assert ParquetFolder.find(str(folder), "key") is None
    other.write_bytes(b"broken")
    assert ParquetFolder.find(str(folder), "key") is None
    other.unlink()
    (folder / "notes.txt").write_text("?")
    assert ParquetFolder.find(str(folder), "key") is None
    (folder / "notes.txt").unlink()
    (folder / "day=1").mkdir()
    assert ParquetFolder.find(str(folder), "key") is None


def test_a_type_that_spark_writes_otherwise_is_left_to_it(tmp_path: Path) -> None:
    for kind, alone in ((pa.int32(), True), (pa.bool_(), True), (pa.float64(), False), (pa.uint32(), False)):
        pq.write_table(pa.table({"key": pa.array([1], pa.int64()).cast(kind)}), tmp_path / "part.parquet")
        assert (ParquetFolder.find(str(tmp_path), "key") is not None) == alone


def test_the_command_needs_no_spark_for_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("no Spark is needed")

    monkeypatch.setattr("skewless.cli.diagnose.require_spark", refuse)
    done = run_here("diagnose", str(folder), "--key", "key", "-g", "key", "-w", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("clicks:key: 9 rows, 4 keys, 2 workers")
