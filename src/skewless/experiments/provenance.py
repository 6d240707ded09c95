"""Where results come from: the version of the code, the source of a step, and the environment of a run."""

from __future__ import annotations

import ast
import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from inspect import getsource, isclass, isfunction, unwrap
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import skewless
from skewless.experiments.base import Experiment, Preset
from skewless.experiments.rows import Row

_SOURCES: Final = Path(skewless.__file__).parent
SIMULATED_BY: Final = frozenset(
    {"groupings", "hashing.py", "metrics", "processors", "simulation", "sketches", "streams"}
)
MEASURED_BY: Final = SIMULATED_BY | {"combiners", "runner", "spark", "storage"}
"""The code that numbers depend on, besides the experiments themselves."""
_LIBRARIES: Final = ("numpy", "numba", "pyarrow", "pyspark")


@cache
def fingerprint(*, spark: bool = False) -> str:
    """Return a checksum of the code that numbers depend on."""
    digest = sha256()
    used = MEASURED_BY if spark else SIMULATED_BY
    for path in sorted(_SOURCES.rglob("*.py")):
        place = path.relative_to(_SOURCES)
        if place.parts[0] in used:
            digest.update(place.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def this_version() -> str:
    """Return the version of the installed code."""
    return f"{skewless.__version__}-{fingerprint()[:10]}"


def sources_of(function: Callable[..., Any]) -> list[str]:
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
