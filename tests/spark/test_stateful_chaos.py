"""Ordered state whose driver is killed without warning, while random substreams move in every micro-batch.

`make test-all` has more seeds, and kills at random times beside those at moments that are waited for.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from services.kept import given_rows, kept_states, set_aside
from services.long import SEED, only_if_long
from services.random_owner import chained
from services.standalone import Program, driver, require_java, wait_for
from services.stateful_driver import run

pytestmark = pytest.mark.spark

WORKERS: Final = 4
BATCH: Final = 80
NAMES: Final = ["hot", "hot", "hot", None, "", *(f"k{number}" for number in range(40))]
MOMENTS: Final = ("before", "partly", "unwritten", "uncommitted", "committed")

Rows = list[tuple[str | None, int]]


@pytest.mark.parametrize(
    ("seed", "moments"),
    [
        (1, ["partly", "uncommitted"]),  # planned owners if the seed is odd
        *(pytest.param(seed, None, marks=only_if_long) for seed in range(SEED + 2, SEED + 13)),
    ],
)
def test_output_and_state_are_exact_whenever_the_driver_is_killed(
    spark: SparkSession, tmp_path: Path, seed: int, moments: list[str] | None
) -> None:
    require_java()
    chance = Random(seed)
    plan = moments or [*chance.sample(MOMENTS, 3), "any", "any"]
    n_batches = 2 * len(plan) + (4 if moments is None else 1)
    rows = write_input(tmp_path / "input", n_batches, chance)
    options = {"folder": str(tmp_path), "workers": WORKERS, "seed": seed, "planned": seed % 2 == 1}
    story = [f"seed {seed}", str(options)]
    for number, moment in enumerate(plan):
        # One batch at least is done before the first kill; later on the batch that was hit may be hit again.
        batch = last_commit(tmp_path) + (2 if number == 0 else chance.randint(1, 2))
        held = tmp_path / (f"hold-after-{batch}" if moment == "committed" else f"hold-{moment}")
        earlier = files(tmp_path)
        if moment == "committed":  # in this batch and no other
            held.touch()
        with driver("stateful_driver.py", options, tmp_path, f"run-{number}") as program:
            wait_until_begun(tmp_path, batch, program, earlier, story)
            if moment == "any":
                time.sleep(chance.uniform(0, 3))  # however far it gets
            else:
                held.touch()
                wait_for(
                    lambda moment=moment, program=program, earlier=earlier: has_come(  # type: ignore[misc]
                        tmp_path, moment, program, earlier
                    ),
                    f"{moment!r}; {story}",
                    pause=0.01,
                )
            program.kill()
        story.append(f"killed at {moment!r}: {what_is_there(tmp_path, earlier)}")
        held.unlink(missing_ok=True)
        # Without its ledger a grouping starts anew, so the batch is repeated with other owners.
        if number == 0 or chance.random() < 0.3:
            shutil.rmtree(tmp_path / "ledger")
            story.append("ledger deleted")
    run(spark, options)  # the session of the tests has started already
    output, states = chained(rows)
    assert sorted(given_rows(tmp_path / "sink"), key=repr) == sorted(output, key=repr), story
    expected = {(key,): {"n": n, "word": word} for key, (n, word) in states.items()}
    assert kept_states(tmp_path / "state") == expected, story
    rejects = [(reject["key"][0], reject["row"]["v"]) for reject in set_aside(tmp_path / "state" / "rejects")]
    assert sorted(rejects, key=repr) == sorted((row for row in rows if row[1] < 0), key=repr), story


def write_input(folder: Path, n_batches: int, chance: Random) -> Rows:
    """Write two files for each batch, whose rows are out of order; give all rows in their order.

    A kill at the wrong moment makes Spark put the files of two batches into one.
    """
    folder.mkdir()
    rows = [(chance.choice(NAMES), chance.randint(-50, 999), number) for number in range(n_batches * BATCH)]
    for number in range(n_batches):
        shuffled = chance.sample(rows[number * BATCH : (number + 1) * BATCH], BATCH)
        cut = chance.randint(1, BATCH - 1)
        for half, part in enumerate((shuffled[:cut], shuffled[cut:])):
            file = folder / f"{2 * number + half:03}.parquet"
            columns = dict(zip(("k", "v", "seq"), zip(*part, strict=True), strict=True))
            pq.write_table(pa.table({name: list(column) for name, column in columns.items()}), file)
            os.utime(file, (2 * number + half,) * 2)  # Spark takes the oldest first
    return [(key, value) for key, value, _ in rows]


def wait_until_begun(folder: Path, batch: int, program: Program, earlier: dict[Path, int], story: list[str]) -> None:
    """Wait until rows of a batch have come to workers in this run, not in one before it."""

    def look() -> bool | None:
        must_run(program)
        now = what_is_there(folder, earlier)
        return now["batch"] > batch or (now["batch"] == batch and now["routed"]) or None

    wait_for(look, f"batch {batch}; {story}", pause=0.01)


def files(folder: Path) -> dict[Path, int]:
    """List what a query has written, with the times: a repeated batch writes over what a killed run has left."""
    patterns = ("state/*/worker-*", "begun/*/rows.npz", "sink/*/rows.parquet")
    found = {}
    for pattern in patterns:
        for file in folder.glob(pattern):
            with suppress(FileNotFoundError):  # of an old batch, and just removed
                found[file] = file.stat().st_mtime_ns
    return found


def what_is_there(folder: Path, earlier: dict[Path, int]) -> dict[str, Any]:
    """Say how far this run has come in the batch that is not committed."""
    batch = last_commit(folder) + 1
    names = (f"{batch:012d}", str(batch))
    fresh = [file for file, time in files(folder).items() if earlier.get(file) != time and file.parent.name in names]
    suffixes = Counter(file.suffix for file in fresh)
    counted = {"routed": ".npz", "written": ".arrows", "done": ".json", "sunk": ".parquet"}
    return {"batch": batch, **{name: suffixes[suffix] for name, suffix in counted.items()}}


def has_come(folder: Path, moment: str, program: Program, earlier: dict[Path, int]) -> bool | None:
    """See whether the program stands still at a moment, in whatever batch it is by now."""
    must_run(program)
    now = what_is_there(folder, earlier)
    come = {
        "before": now["routed"] > 0 and not now["written"],
        "partly": 0 < now["done"] < WORKERS,
        "unwritten": now["done"] == WORKERS and not now["sunk"],
        "uncommitted": now["done"] == WORKERS and now["sunk"],
        "committed": (folder / f"hold-after-{now['batch'] - 1}").exists(),
    }
    return True if come[moment] else None


def must_run(program: Program) -> None:
    if program.has_ended():
        pytest.fail(f"the driver ended before it was killed:\n{program.log_tail()}")


def last_commit(folder: Path) -> int:
    commits = folder / "checkpoint" / "commits"
    return max((int(file.name) for file in commits.glob("*") if file.name.isdigit()), default=-1)
