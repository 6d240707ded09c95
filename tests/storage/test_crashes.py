"""Whole histories on simulated disks, broken off at every operation: the answer is that of an undisturbed run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from simulated.crashes import Trial
from simulated.disk import Crash, CrashPoint, Disk
from simulated.tried import Tried, add, read
from skewless.storage import BatchDirectory, Ledger, StateStore, batch_directory
from skewless.storage.file_system import FAILURES

SEEDS: Final = range(24)
"""Many more with `make crashes SEEDS=0:1000`."""


@pytest.mark.parametrize("seed", SEEDS)
def test_every_crash_leads_to_the_same_answer(seed: int) -> None:
    tally = Trial(seed).crash_everywhere()
    assert not tally.failures, "\n".join(["from simulated.crashes import *", *tally.failures])
    assert tally.points > 100


# What the first seeds found: each of these goes wrong again if its fix is undone.


def test_seed_10_finds_state_that_is_not_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "sync", lambda *_: None)
    assert any("'power'" in failure for failure in Trial(10).crash_everywhere().failures)


def test_seed_27_finds_state_of_a_batch_that_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def last(_: StateStore, batch: int, listed: Sequence[int]) -> int | None:
        return max((number for number in listed if number < batch), default=None)

    monkeypatch.setattr(StateStore, "_last", last)
    assert Trial(27).crash_everywhere().failures


def test_seed_19_finds_keys_that_expire_late(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ledger.clock
    monkeypatch.setattr(Ledger, "clock", lambda ledger, batch, **_: clock(ledger, batch))
    assert Trial(19).crash_everywhere().failures


# The simulated disk itself.


def on(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> BatchDirectory:
    monkeypatch.setattr(batch_directory, "open_files", lambda uri: (disk, uri))
    disk.begin("")
    return BatchDirectory("/d")


def test_power_takes_what_is_not_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = set()
    for seed in range(30):
        disk = Disk(kind="local", seed=str(seed), fails=False)
        directory = on(disk, monkeypatch)
        directory.write("a/kept", b"0123456789", durable=True)
        directory.write("a/torn", b"0123456789")
        disk.lose_power()
        assert directory.read("a/kept") == b"0123456789"
        contents.add(disk.files["/d/a/torn"].content if "/d/a/torn" in disk.files else None)
    assert {None, b"0123456789"} < contents


@pytest.mark.parametrize("kind", ["local", "object"])
def test_a_file_is_whole_or_not_there_wherever_writing_it_is_broken_off(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for operation in range(6):
        for moment in ("before", "middle"):
            disk = Disk(kind=kind, seed="0", fails=False)  # type: ignore[arg-type]
            directory = on(disk, monkeypatch)
            directory.write("a/x", b"old")
            disk.begin("1", CrashPoint(operation, moment, "query"))
            try:
                directory.write("a/x", b"newer", durable=True)
            except Crash:
                seen.add(disk.files["/d/a/x"].content)
            else:
                assert disk.files["/d/a/x"].content == b"newer"
    assert seen == {b"old", b"newer"}


def test_an_object_store_lists_late_and_reads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(kind="object", seed="0")
    directory = on(disk, monkeypatch)
    monkeypatch.setattr(disk, "_step", lambda *_, **__: False)
    late = 0
    for number in range(100):
        disk.sleep(0.1)
        directory.write(f"f/{number}", b"")
        assert directory.read(f"f/{number}") == b""
        try:
            late += str(number) not in directory.names("f")
        except FileNotFoundError:
            late += 1
    assert 10 < late < 90
    disk.sleep(10.0)
    assert len(directory.names("f")) == 100


def test_operations_fail_now_and_then_some_of_them_after_they_were_done(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(kind="object", seed="1")
    directory = on(disk, monkeypatch)
    outcomes = set()
    for number in range(600):
        try:
            directory.write(f"f/{number}", b"")
        except FAILURES:  # noqa: PERF203 - failures are what is tested
            outcomes.add(f"/d/f/{number}" in disk.files)
    assert outcomes == {True, False}


# The file of what was tried.


def test_what_was_tried_is_neither_lost_nor_counted_twice(tmp_path: Path) -> None:
    file = tmp_path / "tried.txt"
    assert read(file) == []
    for seed in (5, 7, 6, 1):
        add(file, Tried(seed, seed, 10 * seed, seed, 0))
    assert read(file) == [Tried(1, 1, 10, 1, 0), Tried(5, 7, 180, 18, 0)]
    with pytest.raises(ValueError, match="seeds 6 to 7 are counted twice"):
        add(file, Tried(6, 8, 1, 1, 0))
