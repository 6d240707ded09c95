"""Archives for executors: skewless alone, or this Python with all that skewless needs.

Spark unpacks them in the working directory of each executor (`spark.archives`). The packed environment holds the
interpreter, its standard library, and the distributions that `skewless[spark]` asks for, so that executors need no
Python of their own; only their operating system and processor must be of the kind it was packed on.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path
from sysconfig import get_path
from typing import Final
from uuid import uuid4

import skewless
from skewless.errors import ConfigurationError, SetupError, StorageError
from skewless.spark.deploy import shipping

ENVIRONMENT: Final = "skewless-environment"  # the folder into which executors unpack it
PYTHON: Final = f"./{ENVIRONMENT}/bin/python"

_NEEDED: Final = ("skewless[spark]",)
_ENDINGS: Final = (".tar.gz", ".tgz")
_PACKAGE: Final = Path(skewless.__file__).parent
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?")
_VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Executors have the jars and programs of their own Spark; nobody there reads tests and headers.
_LEFT_OUT: Final = re.compile(
    r"(?:^|/)(?:tests|test|include|idlelib|turtledemo|tkinter|ensurepip|lib2to3|(?:site|dist)-packages|config-[^/]*)/"
    r"|^pyspark/(?:jars|bin|sbin|data|examples|licenses|python)/|^skewless/"  # skewless is added by shipping.files_of
    r"|^lib-dynload/_(?:test|tkinter)"
    r"|\.(?:pyi|pxd|pyx|h|hpp|a|pth|opt-[12]\.pyc)$"
)
_OF_LIBC: Final = re.compile(r"(?:ld-linux|lib(?:c|m|dl|rt|util|pthread|resolv|anl|nsl))\b")  # every Linux has its own
_LAUNCHER: Final = f"""#!/bin/sh
home=$(cd "$(dirname "$0")/.." && pwd -P)
PYTHONHOME=$home
PYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}$home/packages
PYTHONNOUSERSITE=1
LD_LIBRARY_PATH=$home/libraries${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
export PYTHONHOME PYTHONPATH PYTHONNOUSERSITE LD_LIBRARY_PATH
exec "$home/bin/{_VERSION}" "$@"
"""


def pack_package(folder: Path) -> Path:
    """Write skewless alone into a folder, to be unpacked as `skewless`, see `shipping`; return the archive.

    Parameters
    ----------
    folder : Path
        Where the archive is written.
    """
    path = folder / "skewless.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(Path(shipping.__file__), "__init__.py")
        archive.writestr(shipping.DIGEST, shipping.digest_of(_PACKAGE))
        for file in shipping.files_of(_PACKAGE):
            archive.write(file, f"{shipping.FOLDER}/skewless/{file.relative_to(_PACKAGE).as_posix()}")
    return path


def pack_environment(path: Path, *, also: Sequence[str] = (), level: int = 1) -> dict[str, int]:
    """Write the packed environment; return its `files`, their `bytes`, and the bytes `packed`.

    Parameters
    ----------
    path : Path
        The archive, named `*.tar.gz` or `*.tgz`.
    also : sequence of str
        Further distributions, with all that they require.
    level : int
        Compression of gzip: 0 is fast and large, 9 slow and small.
    """
    if not path.name.endswith(_ENDINGS):
        endings = " or ".join(f"*{ending}" for ending in _ENDINGS)
        raise ConfigurationError(f"the archive must be named {endings}; got {path.name}", subject="path")
    if not 0 <= level <= 9:
        raise ConfigurationError(subject="level", expected="between 0 and 9", value=level)
    if not path.absolute().parent.is_dir():
        raise StorageError(f"cannot write {path}: there is no directory {path.absolute().parent}", subject="path")
    content = _packages([*_NEEDED, *also]) | _interpreter()
    temporary = path.with_name(f".{uuid4().hex}{_ENDINGS[0]}")
    try:
        with tarfile.open(temporary, "w:gz", compresslevel=level, dereference=True) as archive:
            launcher = tarfile.TarInfo("bin/python")
            launcher.size, launcher.mode = len(_LAUNCHER.encode()), 0o755
            archive.addfile(launcher, BytesIO(_LAUNCHER.encode()))
            for name, file in sorted(content.items()):
                archive.add(file, name, recursive=False, filter=_without_owner)
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}", subject="path") from error
    finally:
        temporary.unlink(missing_ok=True)
    total = sum(file.stat().st_size for file in content.values())
    return {"files": len(content) + 1, "bytes": total, "packed": path.stat().st_size}


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _interpreter() -> dict[str, Path]:
    """Return the interpreter, its standard library, and the shared libraries that both are linked with."""
    program = Path(sys.executable).resolve()
    library = Path(get_path("stdlib"))
    content = {f"bin/{_VERSION}": program}
    for file in library.rglob("*"):
        name = file.relative_to(library).as_posix()
        if file.is_file() and not _LEFT_OUT.search(name):
            content[f"{sys.platlibdir}/{_VERSION}/{name}"] = file
    linked = [program, *(file for file in content.values() if file.suffix == ".so")]
    return content | {f"libraries/{file.name}": file for file in _shared_libraries(linked)}


def _shared_libraries(programs: Sequence[Path]) -> Iterator[Path]:
    ldd = shutil.which("ldd")
    if ldd is None:  # not Linux
        return
    done = subprocess.run([ldd, *map(str, programs)], capture_output=True, text=True, check=False)  # noqa: S603
    for name, path in sorted(set(re.findall(r"^\s*(\S+) => (/\S+) \(", done.stdout, re.MULTILINE))):
        if not _OF_LIBC.match(name):
            yield Path(path)


def _packages(requirements: Iterable[str]) -> dict[str, Path]:
    """Return the files of distributions and of all that they require."""
    content = {}
    for one in _closure(requirements):
        if one.files is None:
            raise SetupError(f"the files of {one.name} are not recorded", hint="install it again with pip")
        for entry in one.files:
            name, place = entry.as_posix(), Path(entry.locate())
            if ".." not in entry.parts and not _LEFT_OUT.search(name) and place.is_file():
                content[f"packages/{name}"] = place
    for file in shipping.files_of(_PACKAGE):  # where it is installed in place, pip knows none of them
        content[f"packages/skewless/{file.relative_to(_PACKAGE).as_posix()}"] = file
    return content


def _closure(requirements: Iterable[str]) -> list[Distribution]:
    """Follow requirements as far as they are installed; what a marker or an extra rules out is not."""
    found: dict[str, Distribution] = {}
    waiting = [(text, True) for text in requirements]
    seen = set()
    while waiting:
        text, must = waiting.pop()
        match = _REQUIREMENT.fullmatch(text)
        if match is None:
            raise ConfigurationError(f"a distribution is written as name or name[extra]; got {text!r}", subject="also")
        name, extras = match[1], tuple(extra.strip() for extra in (match[2] or "").split(",") if extra.strip())
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            one = distribution(name)
        except PackageNotFoundError:
            if must:
                raise SetupError(
                    f"{name} is not installed here", subject="also", hint=f"pip install {name}, then pack again"
                ) from None
            continue
        if must and text not in _NEEDED:
            _require_files(one)
        found[re.sub(r"[-_.]+", "-", name).lower()] = one
        waiting += [(more, False) for more in one.requires or () if _applies(more, extras)]
    return list(found.values())


def _applies(requirement: str, extras: Sequence[str]) -> bool:
    """Whether a requirement holds for these extras.

    >>> _applies("pandas>=2; extra == 'spark'", ["spark"]), _applies("pandas>=2; extra == 'spark'", [])
    (True, False)
    """
    wanted = re.findall(r"extra\s*==\s*['\"]([^'\"]+)['\"]", requirement)
    return not wanted or any(extra in extras for extra in wanted)


def _require_files(one: Distribution) -> None:
    """Refuse what is installed in place: its files are not where pip records them."""
    origin = json.loads(one.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        raise SetupError(
            f"{one.name} is installed in place", subject="also", hint="install it without -e, then pack again"
        )
