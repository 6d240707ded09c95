"""Stored results, a directory for each version of the code that computed them, so that no table ever mixes two.

`<root>/<version>/points/` holds the rows of single steps, with which an interrupted run resumes;
`<root>/<version>/<preset>/` the table of each experiment as Parquet and CSV, with its provenance.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from skewless.errors import StorageError
from skewless.experiments.base import SIMULATED, SPARK, Point, Preset
from skewless.experiments.provenance import fingerprint, sources_of, this_version
from skewless.experiments.rows import Row, Rows

ENGINES: Final = (SIMULATED, SPARK)


@dataclass(frozen=True)
class Results:
    """The results of one version.

    Parameters
    ----------
    root : Path
        Directory of all versions.
    version : str
        The version, also the name of its directory.
    """

    root: Path
    version: str

    @classmethod
    def at(cls, root: Path) -> Results:
        """Return the results of the installed code."""
        return cls(root, this_version())

    @classmethod
    def latest(cls, root: Path, preset: Preset) -> Results:
        """Return the results of the installed code or, if there are none, those that were computed last."""
        own = cls.at(root)
        found = sorted(root.glob(f"*/{preset}/*.json"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise StorageError(
                f"there are no results of preset {preset} in {root}",
                subject="results",
                hint="run `skewless experiment run all`",
            )
        versions = [path.parts[-3] for path in found]
        return own if own.version in versions else cls(root, versions[-1])

    def key(self, run: Callable[..., Any], point: Point, engine: str) -> str:
        """Identify a step by all that its rows depend on."""
        parts = [fingerprint(spark=engine == SPARK), *sources_of(run), dict(point)]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def _points(self) -> Path:
        return self.root / self.version / "points"

    def prepare(self) -> None:
        """Make the directory of steps; fail before anything is computed if it cannot be written."""
        with _writing(self._points):
            self._points.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=self._points).close()

    def load_point(self, key: str) -> tuple[Rows, float] | None:
        """Return the rows of a step and the seconds that it took, or None if it was not computed."""
        path = self._points / f"{key}.json"
        try:
            stored = json.loads(path.read_text())
        except (OSError, ValueError):  # not there, or torn by a crash
            return None
        return Rows(stored["rows"]), stored["seconds"]

    def save_point(self, key: str, rows: Iterable[Row], seconds: float) -> None:
        """Store the rows of a step, atomically."""
        path = self._points / f"{key}.json"
        draft = path.with_suffix(".draft")
        with _writing(path):
            draft.write_text(json.dumps({"seconds": seconds, "rows": [dict(row) for row in rows]}))
            draft.replace(path)

    def save_table(self, name: str, preset: Preset, engine: str, rows: Rows, provenance: Mapping[str, Any]) -> None:
        """Write the rows of an experiment as Parquet and CSV, and their provenance."""
        folder = self.root / self.version / preset
        stem = _stem(name, engine)
        table = pa.Table.from_pylist([dict.fromkeys(_columns(rows)) | dict(row) for row in rows])
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            draft = folder / f"{stem}.draft"
            pq.write_table(table, draft)
            draft.replace(folder / f"{stem}.parquet")  # atomically
            write_csv(folder / f"{stem}.csv", rows)
            (folder / f"{stem}.json").write_text(json.dumps(provenance, indent=1))

    def load_table(self, name: str, preset: Preset) -> tuple[Rows, list[dict[str, Any]]]:
        """Return the rows of an experiment from all engines that ran it, and their provenance."""
        folder = self.root / self.version / preset
        rows, provenance = Rows(), []
        for engine in ENGINES:
            path = folder / f"{_stem(name, engine)}.json"
            if path.exists():
                rows += pq.read_table(path.with_suffix(".parquet")).to_pylist()
                provenance.append(json.loads(path.read_text()))
        return rows, provenance


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write results to {path}: {error.strerror or error}", subject="results") from error


def _stem(name: str, engine: str) -> str:
    return name if engine == SIMULATED else f"{name}.{engine}"


def _columns(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def write_csv(path: Path, rows: Rows) -> None:
    """Write rows as CSV, with all digits of numbers, so that they can be read back exactly."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _columns(rows), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: Path) -> Rows:
    """Read what `write_csv` has written; an empty cell is None."""
    with path.open(newline="", encoding="utf-8") as file:
        return Rows({name: _value(text) for name, text in row.items()} for row in csv.DictReader(file))


def _value(text: str) -> Any:
    if text in {"", "True", "False"}:
        return None if text == "" else text == "True"
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        return float(text)
    return text
