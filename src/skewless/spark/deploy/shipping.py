"""What executors import as `skewless`: the copy installed there if it is the driver's, else the one that was sent.

This file travels as the `__init__` of a folder `skewless` that Spark unpacks into the working directory of an executor,
in which Python looks first. Imported there, it makes way for the real package. An installed copy is preferred because
it keeps its compiled kernels from one application to the next.
"""

import hashlib
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

DIGEST: Final = "digest"
FOLDER: Final = "package"

_LEFT_OUT: Final = frozenset({"__pycache__", "experiments"})


def files_of(package: Path) -> list[Path]:
    """Return the files that executors need: not what Python and Numba compiled, nor the experiments of the papers."""
    files = (file for file in package.rglob("*") if file.is_file() and not _LEFT_OUT & {*_parts(file, package)})
    return sorted(files, key=lambda file: file.relative_to(package).as_posix())


def _parts(file: Path, package: Path) -> tuple[str, ...]:
    return file.relative_to(package).parts


def digest_of(package: Path) -> str:
    """Return what tells copies of a package apart: a hash of the files that executors need."""
    digest = hashlib.sha256()
    for file in files_of(package):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(package).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _make_way(here: Path) -> None:
    """Put the real package in the place of the folder `here`."""
    elsewhere = [entry for entry in sys.path if Path(entry or ".").resolve() != here.parent.resolve()]
    installed = PathFinder.find_spec(here.name, elsewhere)
    homes = [] if installed is None else installed.submodule_search_locations or []
    wanted = (here / DIGEST).read_text()
    same = any(digest_of(Path(home)) == wanted for home in homes)
    sys.path[:] = elsewhere if same else [str(here / FOLDER), *elsewhere]
    del sys.modules[here.name]
    import_module(here.name)


if __name__ == "skewless":
    _make_way(Path(__file__).resolve().parent)
