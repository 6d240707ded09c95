"""Stored results, a directory for each version of the code that computed them, so that no table ever mixes two.

`<root>/<version>/points/` holds the rows of single steps, with which an interrupted run resumes;
`<root>/<version>/<preset>/` the table of each experiment as Parquet and CSV, with its provenance.
"""

from __future__ import annotations

import ast
import csv
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from inspect import getsource, isclass, isfunction, unwrap
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import dedent
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import skewless
from skewless.errors import StorageError
from skewless.experiments.base import SIMULATED, SPARK, Experiment, Preset, Row, Rows

ENGINES: Final = (SIMULATED, SPARK)
_SOURCES: Final = Path(skewless.__file__).parent
_SIMULATED_BY: Final = frozenset(
    {"groupings", "hashing.py", "metrics", "processors", "simulation", "sketches", "streams"}
)
_MEASURED_BY: Final = _SIMULATED_BY | {"combiners", "runner", "spark", "storage"}
"""The code that numbers depend on, besides the experiments themselves."""
_LIBRARIES: Final = ("numpy", "numba", "pyarrow", "pyspark")


@cache
def fingerprint(*, spark: bool = False) -> str:
    """Return a checksum of the code that numbers depend on."""
    digest = sha256()
    used = _MEASURED_BY if spark else _SIMULATED_BY
    for path in sorted(_SOURCES.rglob("*.py")):
        place = path.relative_to(_SOURCES)
        if place.parts[0] in used:
            digest.update(place.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def this_version() -> str:
    """Return the version of the installed code."""
    return f"{skewless.__version__}-{fingerprint()[:10]}"


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

    def key(self, run: Callable[..., Any], point: Mapping[str, Any], engine: str) -> str:
        """Identify a step by all that its rows depend on."""
        parts = [fingerprint(spark=engine == SPARK), *_sources(run), dict(point)]
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


def _sources(function: Callable[..., Any]) -> list[str]:
    """Return the source of a function and of all that it uses of the experiments, so that other edits keep its rows."""
    found: dict[str, str] = {}
    waiting: list[tuple[str, Any]] = [(function.__qualname__, function)]
    while waiting:
        name, used = waiting.pop()
        used = unwrap(getattr(used, "py_func", used))  # below a kernel or a cache
        if not (isfunction(used) or isclass(used)):
            found.setdefault(name, repr(used))
            continue
        module = used.__module__
        if f"{module}.{name}" in found or not module.startswith((function.__module__, __package__)):
            continue
        found[f"{module}.{name}"] = source = getsource(used)
        known = vars(sys.modules[module])
        words = {node.id for node in ast.walk(ast.parse(dedent(source))) if isinstance(node, ast.Name)}
        waiting += [(word, known[word]) for word in sorted(words & known.keys()) if _is_reproducible(known[word])]
    return [f"{name}: {source}" for name, source in sorted(found.items())]


def _is_reproducible(value: Any) -> bool:
    """Whether a global is code, or a value with the same representation in every process."""
    value = getattr(value, "py_func", value)
    return callable(value) or isinstance(value, (int, float, str, tuple, frozenset, dict))


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


def provenance_of(experiment: Experiment, name: str, preset: Preset, engine: str, seconds: float, n_points: int) -> Row:
    """Describe where rows come from."""
    return {
        "experiment": name,
        "title": experiment.title,
        "preset": preset,
        "engine": engine,
        "version": this_version(),
        "commit": _commit(),
        "points": n_points,
        "seconds": round(seconds, 2),
        "computed": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        **{library: found for library in _LIBRARIES if (found := _version(library))},
    }


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


@cache
def _commit() -> str | None:
    """Return the commit of the code, with a plus if it was changed since; None outside of git."""
    try:
        command = ["git", "-C", str(_SOURCES), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - ours
    except (OSError, subprocess.CalledProcessError):
        return None
