"""Jars that tests need and Spark does not include, fetched with Maven."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from services.standalone import HERE

_CACHE: Final = HERE.parents[1] / ".cache" / "jars"


class Unavailable(Exception):  # noqa: N818 - not an error: the test is skipped
    """There is no Maven, or it cannot fetch the jars of a pom."""


def fetch_jars(name: str) -> list[Path]:
    """Return the jars of one of the poms in `poms`; fetched once."""
    pom = HERE / "poms" / f"{name}.xml"
    folder = _CACHE / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise Unavailable("no Maven on the PATH")
        temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={temporary}"]
        done = subprocess.run(
            [maven, "-B", "-q", "-f", str(pom), *goal], capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode:
            shutil.rmtree(temporary, ignore_errors=True)
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            raise Unavailable(f"Maven could not get {name}: {lines[0] if lines else done.returncode}")
        with suppress(OSError):  # another process was faster
            temporary.rename(folder)
    return sorted(folder.glob("*.jar"))


def require_jars(name: str) -> list[Path]:
    """Return the jars, or skip the test where they cannot be fetched."""
    try:
        return fetch_jars(name)
    except Unavailable as error:
        pytest.skip(str(error))
