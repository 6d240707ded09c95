"""`run --app time-in-cells`: the third query of DEBS 2013, compared with a slow twin and with plain Spark."""

from __future__ import annotations

import gzip
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from naive.datasets import read_cells
from naive.time_in_cells import seconds_in_cells
from skewless.experiments.data_files import data_file
from skewless.groupings import make_grouping
from skewless.processors import KeyState
from skewless.streams import make_stream
from skewless.streams.debs2013 import PLAYERS

pytest.importorskip("pyspark")

from skewless.runner.applications.catalogue import TIME_IN_CELLS
from skewless.runner.applications.time_in_cells import TimeInCells
from skewless.runner.inputs.file import FileInput
from skewless.runner.pipeline import Pipeline
from skewless.runner.run_report import RunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_SECOND = 10**12  # picoseconds
Found = dict[tuple[str, int, str, int | None], tuple[int, int]]


def line(sensor: int, moment: int, x: int, y: int) -> str:
    return f"{sensor},{moment},{x},{y}" + ",0" * 9


def wandering(n: int) -> list[str]:
    """Return readings of players who walk over the field for 23 minutes, some of them off it, with pauses."""
    draw = random.Random(7)
    places = {sensor: [draw.randrange(52_000), draw.randrange(-33_000, 33_000)] for sensor in (13, 14, 47, 4, 105)}
    moment, lines = 10_753_295_594_424_116, []
    for _ in range(n):
        sensor = draw.choice(list(places))
        place = places[sensor]
        for at in (0, 1):
            place[at] += draw.randint(-900, 900)
        lines.append(line(sensor, moment, *place))
        moment += draw.choice([0, 200_000_000_000, 400_000_000_000, 2 * _SECOND])
    return lines


def run(
    spark: SparkSession, folder: Path, parts: Sequence[Sequence[str]], app: TimeInCells, **settings: Any
) -> tuple[RunReport, Found]:
    """Run on a file for each part; return the report and the rows of the result."""
    (folder / "in").mkdir()
    for number, lines in enumerate(parts):
        file = folder / "in" / f"{number}.txt"
        file.write_text("\n".join(lines))
        os.utime(file, (number, number))  # the order in which they are read
    source = FileInput(path=str(folder / "in"))
    output = str(folder / "out")
    report = Pipeline(app=app, input=source, verify=True, output=output, **settings).run(spark)
    found: Found = {}
    for row in pq.read_table(output).to_pylist():
        start = None if row["window_start"] is None else round(row["window_start"].timestamp() * 1e6)
        key = (row["key"], row["player"], row["span"], start)
        assert key not in found
        found[key] = (round(row["seconds"] * 1e6), row["n"])
    return report, found


def test_rows_of_several_calls_are_those_of_one() -> None:
    lines, processor = wandering(1_500), TIME_IN_CELLS.processor()
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in lines:
        sensor, moment = (int(text) for text in one.split(",")[:2])
        ts = datetime.fromtimestamp(0, timezone.utc) + timedelta(microseconds=moment // 1_000_000)
        for cell in read_cells(one):
            rows[cell].append({"key": cell, "player": PLAYERS.get(sensor, sensor), "ts": ts})
    draw, found = random.Random(3), {}
    for cell, own in rows.items():
        state, at = KeyState(), 0
        while at < len(own):
            n = draw.randint(1, 9)
            for row in processor.process((cell,), own[at : at + n], state):
                begins = row["window_start"]
                start = None if begins is None else round(begins.timestamp() * 1e6)
                found[cell, row["player"], row["span"], start] = (round(row["seconds"] * 1e6), row["n"])
            at += n
            state = KeyState(deepcopy(dict(state)))
    assert found == seconds_in_cells(lines, gap_us=1_000_000, players=PLAYERS)


@pytest.mark.parametrize(("grouping", "batch"), [("eager", False), ("auto", True)])
def test_players_in_cells(spark: SparkSession, tmp_path: Path, grouping: str, batch: bool) -> None:
    lines = wandering(2_000)
    report, found = run(
        spark, tmp_path, [lines[:900], lines[900:]], TIME_IN_CELLS,
        grouping=make_grouping(grouping, workers=3), batch=batch,
    )  # fmt: skip
    expected = seconds_in_cells(lines, gap_us=1_000_000, players=PLAYERS)
    assert found == expected
    assert (report.exact, report.rejected) == (True, 0)
    assert report.tuples == sum(len(read_cells(one)) for one in lines)
    assert {player for _, player, *_ in found} == {13, 47, 4, 105}  # 14 is the other foot of 13
    game = sum(us for (_, _, span, _), (us, _) in found.items() if span == "game")
    for span in ("1 minute", "5 minutes", "10 minutes"):
        assert sum(us for (_, _, other, _), (us, _) in found.items() if other == span) == game > 0


def test_time_over_the_end_of_a_window_is_divided(spark: SparkSession, tmp_path: Path) -> None:
    lines = [line(4, moment * _SECOND // 10, 26_242, 3) for moment in (598, 604, 610, 621, 700)]
    _, found = run(spark, tmp_path, [lines], TIME_IN_CELLS, grouping=make_grouping("key", workers=2), batch=True)
    cell = "8x13:4,6"
    minutes = {start: value for (key, _, span, start), value in found.items() if (key, span) == (cell, "1 minute")}
    assert minutes == {0: (200_000, 1), 60_000_000: (1_000_000, 4)}  # between 61 and 62.1 s it was elsewhere
    assert found[cell, 4, "game", None] == (1_200_000, 5)


def test_the_stand_in(spark: SparkSession, tmp_path: Path) -> None:
    stream = make_stream("debs2013-0.01")
    lines = stream.records(0, 4_000, tuples=4_000, seed=0).column("line").to_pylist()
    app = replace(TIME_IN_CELLS, gap="30 seconds")
    report, found = run(spark, tmp_path, [lines], app, grouping=make_grouping("even", workers=2, single_owner=True))
    assert report.exact
    assert found == seconds_in_cells(lines, gap_us=30_000_000, players=PLAYERS)


@pytest.mark.parametrize("name", ["debs2013_full_game_head.csv.gz", "soccer_tromso.csv.gz"])
def test_real_matches(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = data_file(name)
    if path is None:
        pytest.skip(f"no real data: {name}")
    if name.startswith("debs2013"):
        lines, app = gzip.decompress(path.read_bytes()).decode().splitlines()[1:], TIME_IN_CELLS
    else:  # along and across the pitch, in metres; the numbers are those of players
        readings = pa_csv.read_csv(path).slice(0, 20_000)
        first = readings["t"][0].value
        lines = [
            line(player, (moment - first) * 1_000, round(y / 68 * 52_483), round(x / 105 * 67_925) - 33_960)
            for moment, player, x, y in zip(
                readings["t"].cast("int64").to_pylist(), *(readings[at].to_pylist() for at in ("id", "x", "y")),
                strict=True,
            )
        ]  # fmt: skip
        app = replace(TIME_IN_CELLS, players={})
    report, found = run(spark, tmp_path, [lines], app, grouping=make_grouping("auto", workers=2), batch=True)
    assert report.exact
    assert found == seconds_in_cells(lines, gap_us=1_000_000, players=app.players)
    assert sum(us for us, _ in found.values()) > 0
