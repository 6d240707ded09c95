"""An archive of Spark's classes, which every Java program that a test starts maps instead of loading them one by one.

Class Data Sharing halves the time in which Spark starts. `python tests/services/class_archive.py` makes the archive, by
a run that loads what tests need. Without one, or with that of another Java or Spark, Java starts as usual.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

_CACHE: Final = Path(__file__).parents[2] / ".cache"
_TRAIN: Final = "SKEWLESS_TRAIN"  # set in the run whose classes are kept


def _archive() -> Path:
    """Name the archive by everything that it depends on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    package = find_spec("pyspark")
    places = [Path(java).resolve()] if java else []
    if package is not None and package.origin is not None:
        places.append(Path(package.origin).parent / "jars")
    key = [(str(place), place.stat().st_mtime_ns) for place in places if place.exists()]
    return _CACHE / f"classes-{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}.jsa"


_ALWAYS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
_COMPILING: Final = "-XX:CompileThresholdScaling=0.2 -XX:ReservedCodeCacheSize=240m"
QUICK: Final = f"{_ALWAYS} {_COMPILING} -XX:SharedArchiveFile={_archive()}"
"""Options of Java for programs that live some minutes: the second compiler and G1 never pay off there.

The first compiler is cheap, so methods are compiled early, not after 200 calls in the interpreter. With that compiler
alone Java reserves 48 MB for machine code, of which thirty seconds of queries fill more than half.
"""


def make_archive() -> None:
    """Make the archive, unless there is one."""
    archive = _archive()
    if archive.exists() or find_spec("pyspark") is None:
        return
    archive.parent.mkdir(exist_ok=True)
    temporary = archive.with_name(f".{uuid.uuid4().hex}.jsa")
    options = f"{_ALWAYS} -XX:ArchiveClassesAtExit={temporary}"
    try:
        # Waits until the output is closed, not only for Python: Java writes the archive after Python has ended.
        subprocess.run(
            [sys.executable, __file__],
            env=os.environ | {"SPARK_SUBMIT_OPTS": options, _TRAIN: "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=True,
            timeout=300,
        )
        temporary.rename(archive)
        for other in archive.parent.glob("classes-*.jsa"):
            if other != archive:  # of an earlier Java or Spark, 200 MB each
                other.unlink()
    except (subprocess.SubprocessError, FileNotFoundError) as error:  # an archive saves time and nothing else
        output = (getattr(error, "output", None) or b"")[-2000:].decode(errors="replace")
        sys.stderr.write(f"no archive of Spark's classes, so tests take longer: {error}\n{output}")
    finally:
        temporary.unlink(missing_ok=True)


def _train() -> None:
    """Load most of the classes that tests need: files of every kind, windows, state, Python, a stream."""
    from skewless.combiners import Combiner, Count, Variance
    from skewless.spark import group
    from skewless.spark.deploy.session import make_session

    spark = make_session("local[2]", spark_sql_shuffle_partitions="2")
    rows = spark.range(500).selectExpr("id % 7 AS k", "id AS v", "timestamp_seconds(id) AS ts")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("parquet", "json", "csv"):
            rows.write.format(kind).option("header", True).save(f"{folder}/{kind}")
            spark.read.format(kind).option("header", True).load(f"{folder}/{kind}").groupBy("k").count().collect()
        rows.mapInArrow(_unchanged, rows.schema).collect()
        stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/parquet").withWatermark("ts", "1 minute")
        merged: dict[str, dict[str, Combiner]] = {"native": {"n": Count()}, "python": {"v": Variance("v")}}
        for name, combiners in merged.items():
            grouped = group(stream, "k", workers=2, grouping="key", ledger=f"{folder}/ledger-{name}")
            query = grouped.window("ts", "1 minute").agg(**combiners).writeStream.outputMode("update").format("noop")
            query = query.option("checkpointLocation", f"{folder}/check-{name}")
            query.trigger(availableNow=True).start().awaitTermination()
        group(rows, "k", workers=2, grouping="key").agg(n=Count(), v=Variance("v")).collect()
        spark.stop()


def _unchanged(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


if __name__ == "__main__":
    if os.environ.get(_TRAIN):
        _train()
    else:
        make_archive()
