"""Streams whose driver is killed without warning, at moments that a seed chooses: the counts stay exact.

`make test-all` has more seeds, and more kills with each.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from services.long import SEED, only_if_long
from services.representatives import ON_SPARK
from services.standalone import Program, driver, require_java, wait_for
from services.stream_driver import run
from skewless import Zipf

pytestmark = pytest.mark.spark

WORKERS = 4
SOURCES = 2
BATCH = 2000


@pytest.mark.parametrize(
    ("seed", "kills", "grouping"),
    [
        (1, 1, "even"),
        pytest.param(1, 2, "even", marks=only_if_long),
        *(pytest.param(n, 4, ON_SPARK[n % len(ON_SPARK)], marks=only_if_long) for n in range(SEED + 2, SEED + 10)),
    ],
)
def test_counts_are_exact_whenever_the_driver_is_killed(
    spark: SparkSession, tmp_path: Path, seed: int, kills: int, grouping: str
) -> None:
    require_java()
    chance = Random(seed)
    n_batches = 2 * kills + 1
    expected = write_input(tmp_path / "input", n_batches, seed)
    options = {"folder": str(tmp_path), "workers": WORKERS, "grouping": grouping, "cost_ms": 0.4}
    story = [f"seed {seed}", str(options)]
    for number in range(kills):
        # One batch at least is done before the first kill; later on the batch that was hit may be hit again.
        batch = last_commit(tmp_path) + (chance.randint(1, 2) if number else 2)
        during = number % 2 == 0
        delay = chance.uniform(0, 1.5) if number > 1 else 0.0  # the first two hit the moment that they are named for
        with driver("stream_driver.py", options, tmp_path, f"run-{number}") as program:
            look = routed if during else committed
            wait_for(
                lambda look=look, batch=batch, program=program: look(tmp_path, batch, program),  # type: ignore[misc]
                f"batch {batch}; {story}",
                pause=0.01,
            )
            time.sleep(delay)
            program.kill()
        hit = last_commit(tmp_path) + 1
        if not delay:
            assert bool(sources(tmp_path, hit)) == during, f"batch {hit} was {'not ' * during}under way: {story}"
        damage = chance.choice(["delete", "corrupt", "nothing"]) if number > 1 else ("nothing", "corrupt")[number]
        break_ledger(tmp_path / "ledger", damage)
        story.append(f"killed {'during' if during else 'after'} batch {batch}, before commit {hit}; ledger: {damage}")
    run(spark, options)  # the session of the tests has started already
    assert last_commit(tmp_path) == n_batches - 1, story
    found = latest(tmp_path, n_batches)
    wrong = {key: (found.get(key), n) for key, n in expected.items() if found.get(key) != n}
    assert not wrong, f"(found, expected) by key: {wrong}; {story}"
    assert found.keys() == expected.keys(), story


def write_input(folder: Path, n_batches: int, seed: int) -> Counter[int]:
    """Write a file for each source of each batch; give the count of each key."""
    folder.mkdir()
    n_files = n_batches * SOURCES
    keys = Zipf(n_keys=2000).slice(0, n_batches * BATCH, tuples=n_batches * BATCH, seed=seed)
    for number in range(n_files):
        file = folder / f"{number:03}.parquet"
        pq.write_table(pa.table({"key": keys[number * len(keys) // n_files :][: len(keys) // n_files]}), file)
        os.utime(file, (number, number))  # Spark takes the oldest first
    return Counter(keys.to_pylist())


def sources(folder: Path, batch: int) -> list[Path]:
    return list((folder / "ledger" / f"{batch:012d}").glob("source-*.npz"))


def routed(folder: Path, batch: int, program: Program) -> bool | None:
    """See a batch under way: it is planned or being routed, and not all workers are done."""
    must_run(program)
    done = list((folder / "ledger" / f"{batch:012d}").glob("worker-*.npz"))
    return (bool(sources(folder, batch)) and len(done) < WORKERS) or None


def committed(folder: Path, batch: int, program: Program) -> bool | None:
    must_run(program)
    return last_commit(folder) >= batch or None


def must_run(program: Program) -> None:
    if program.has_ended():
        pytest.fail(f"the driver ended before it was killed:\n{program.log_tail()}")


def last_commit(folder: Path) -> int:
    commits = folder / "checkpoint" / "commits"
    return max((int(file.name) for file in commits.glob("*") if file.name.isdigit()), default=-1)


def break_ledger(ledger: Path, damage: str) -> None:
    if damage == "delete":
        shutil.rmtree(ledger)
    if damage == "corrupt":
        for file in ledger.glob("*/*.npz"):
            file.write_bytes(file.read_bytes()[:50])


def latest(folder: Path, n_batches: int) -> dict[Any, int]:
    """Give the last update of each key."""
    counts: dict[Any, int] = {}
    for batch in range(n_batches):
        for file in (folder / "updates" / f"batch={batch}").glob("*.parquet"):
            table = pq.read_table(file, partitioning=None)
            counts.update(zip(table["key"].to_pylist(), table["n"].to_pylist(), strict=True))
    return counts
