"""Event logs as they are found: compressed, rolling, cut off, broken, foreign, running."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from skewless.doctor import Examination, examine
from skewless.doctor.compression import CutOffError, read_bytes
from skewless.doctor.log_files import find_logs
from skewless.errors import InputError

LOGS: Final = Path(__file__).parent / "logs" / "4.3"
PLAIN: Final = LOGS / "join.log"


def only(path: Path) -> Examination:
    (found,) = examine([str(path)])
    return found


def frame(codec: str) -> Callable[[bytes], bytes]:
    def compress(content: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(content)
        return bytes(sink.getvalue())

    return compress


@pytest.mark.parametrize("compress", [gzip.compress, frame("zstd"), frame("lz4"), frame("bz2")])
def test_any_compression_is_recognised_without_a_name(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "application_1"
    path.write_bytes(compress(PLAIN.read_bytes()))
    assert only(path).findings == only(PLAIN).findings


def cut_off() -> dict[str, bytes]:
    """Return logs without their last quarter, as Spark and others compress them."""
    logs = [log for path in sorted(LOGS.glob("*.zstd")) for log in find_logs(str(path))]
    long = b"".join(block for log in logs for block in read_bytes(log.system, log.paths[0]))
    whole = {name: (LOGS / name).read_bytes() for name in ("aggregate_static.lz4", "aggregate_null.snappy")}
    whole |= {"plain": PLAIN.read_bytes(), "zstd": frame("zstd")(long), "gzip": gzip.compress(long, mtime=0)}
    return {name: content[: len(content) * 3 // 4] for name, content in whole.items()}


@pytest.mark.parametrize("name", cut_off())
def test_a_log_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "cut"
    path.write_bytes(cut_off()[name])
    found = only(path)
    assert found.name
    assert found.tasks > 0
    assert any("cut off" in remark for remark in found.remarks)


def test_a_log_of_which_nothing_can_be_read_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes((LOGS / "aggregate_static.lz4").read_bytes()[:500])
    with pytest.raises(InputError, match="is not an event log of Spark: cut is cut off or broken after 0 events"):
        only(path)


def test_blocks_that_are_broken_are_no_crash(tmp_path: Path) -> None:
    for name in ("aggregate_static.lz4", "aggregate_null.snappy", "join_left.zstd"):
        content = bytearray((LOGS / name).read_bytes())
        path = tmp_path / name
        for place in range(8, len(content), max(1, len(content) // 40)):
            broken = bytes(content[:place]) + b"\xff\x00\xff\x7f" + bytes(content[place + 4 :])
            path.write_bytes(broken)
            (log,) = find_logs(str(path))
            try:
                for _ in read_bytes(log.system, log.paths[0]):
                    pass
            except CutOffError:
                continue


def test_rolling_logs_are_one(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    lines = PLAIN.read_bytes().splitlines(keepends=True)
    parts = [lines[:20], lines[20:30], lines[30:]]
    for number, part in enumerate(parts, 9):  # 9, 10, 11: by number, not by name
        (folder / f"events_{number}_app-1.zstd").write_bytes(frame("zstd")(b"".join(part)))
    (folder / "appstatus_app-1").touch()
    found = only(tmp_path)
    assert found.findings == only(PLAIN).findings
    assert found.log == str(folder)
    compacted = frame("zstd")(b"".join(parts[0] + parts[1]))
    (folder / "events_10_app-1.zstd.compact").write_bytes(compacted)
    (folder / "events_9_app-1.zstd").unlink()
    assert only(folder).findings == only(PLAIN).findings


def test_a_folder_has_many_applications_and_other_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copy(PLAIN, tmp_path / name)
    (tmp_path / "notes.txt").write_text("no log\n")
    (tmp_path / "zeros").write_bytes(bytes(100_000))
    (tmp_path / ".a.crc").write_bytes(b"crc")
    found = {Path(one.log).name: one for one in examine([str(tmp_path)])}
    assert set(found) == {"a", "b", "notes.txt", "zeros"}
    assert found["a"].findings == found["b"].findings != []
    for name in ("notes.txt", "zeros"):
        assert found[name].remarks == [f"{tmp_path / name} is not an event log of Spark"]


def test_a_folder_of_other_files_alone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no log\n")
    found = examine([str(tmp_path)])
    assert not next(found).readable
    with pytest.raises(InputError, match=f"no event log of Spark in {tmp_path}: 1 other file$"):
        next(found)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not an event log"),
        (b"\x89PNG\r\n\x1a\n" + bytes(1_000), "is not an event log"),
        (b"{}\n" * 100, "is not an event log"),
        (b"ZV\x01" + bytes(100), "is compressed with lzf, which is not supported"),
        (gzip.compress(b"hello\n", mtime=0), "is not an event log"),
    ],
)
def test_a_foreign_file_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        only(path)


def test_an_empty_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no event log in the folder"):
        list(examine([str(tmp_path)]))


def test_a_running_application_is_shown_so_far(tmp_path: Path) -> None:
    lines = PLAIN.read_bytes().splitlines(keepends=True)
    path = tmp_path / "app-1.inprogress"
    path.write_bytes(b"".join(lines[:-3]) + lines[-3][:50])
    found = only(path)
    assert not found.finished
    assert found.remarks == ["the application has not ended, or its log is cut off", "1 line could not be read"]
    assert found.findings[0].operator == "inner join"
    assert found.seconds > 0


def test_a_task_that_still_runs_counts(tmp_path: Path) -> None:
    """Cut just before the hot task ends: what a running application looks like when only its straggler is left."""
    known = events()
    ends = [at for at, event in enumerate(known) if event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] == 4]
    longest = max(ends, key=lambda at: known[at]["Task Info"]["Finish Time"] - known[at]["Task Info"]["Launch Time"])
    finish = known[longest]["Task Info"]["Finish Time"]
    news = {"Event": "SparkListenerExecutorAdded", "Timestamp": finish - 1, "Executor ID": "driver"}
    late = {**news, "Executor Info": {"Host": "host-1", "Total Cores": 4}}
    (done,) = (event["Stage Info"] for event in known if event["Event"].endswith("StageCompleted") and last(event) == 4)
    known[ends[0]]["Task Info"]["Accumulables"] = done["Accumulables"]
    (finding,) = only(write(tmp_path / "running", [*known[:longest], late])).findings
    assert (finding.stage, finding.operator, finding.cause) == (4, "inner join", "still running")
    assert finding.longest_s > 2 * finding.median_s


def last(event: dict[str, Any]) -> int:
    return int(event["Stage Info"]["Stage ID"])


def test_memory_is_bounded_by_samples_and_skipped_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = only(PLAIN).findings[0]
    monkeypatch.setattr("skewless.doctor.stage.MOST_TASKS", 5)
    sampled = only(PLAIN).findings[0]
    assert (sampled.stage, sampled.tasks, sampled.longest_s) == (expected.stage, expected.tasks, expected.longest_s)
    assert sampled.lost_s == expected.lost_s
    monkeypatch.setattr("skewless.doctor.events.LONGEST_LINE", 20_000)
    path = tmp_path / "long"
    path.write_bytes(b'{"Event":"SparkListenerStageCompleted","x":"' + b"x" * 100_000 + b'"}\n' + PLAIN.read_bytes())
    found = only(path)
    assert found.remarks == ["1 event of more than 0 MB skipped"]
    assert found.tasks == 17


def test_a_uri_is_read_as_a_path_is() -> None:
    (found,) = examine([PLAIN.resolve().as_uri()])
    assert found.findings == only(PLAIN).findings


def events() -> list[dict[str, Any]]:
    return [json.loads(line) for line in PLAIN.read_text().splitlines()]


def write(path: Path, changed: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(event)}\n" for event in changed))
    return path


def test_events_of_another_shape_say_nothing(tmp_path: Path) -> None:
    strange = []
    for event in events():
        strange += [event, {"Event": event["Event"]}, {"Event": event["Event"], "Stage Info": 7, "Task Info": []}]
    found = only(write(tmp_path / "strange", strange))
    assert found.findings == only(PLAIN).findings


def test_without_plans_the_operator_is_unknown_but_the_stage_is_found(tmp_path: Path) -> None:
    without = [event for event in events() if "SQL" not in event["Event"]]
    found = only(write(tmp_path / "without", without))
    assert [(one.stage, one.operator, one.cause) for one in found.findings] == [(4, "RDD", "hot key")]


def test_the_stages_of_a_loop_are_one_finding() -> None:
    (found,) = (path for path in LOGS.iterdir() if path.name.startswith("state_aggregate"))
    worst = only(found).findings[0]
    assert worst.stages >= 2
    assert worst.lost_s > worst.lost * worst.longest_s
