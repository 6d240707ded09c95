"""Diagnose: count the keys of a DataFrame natively, and predict what each grouping makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.combiners import Combiner
from skewless.diagnosis.diagnosis import Diagnosis, check_request
from skewless.diagnosis.diagnosis import diagnose as diagnose_distribution
from skewless.diagnosis.key_distribution import CLASSES, HEAD, LONGEST_NAME, KeyDistribution, by_size
from skewless.errors import SkewlessError
from skewless.spark.columns import require_keys
from skewless.spark.merge import quoted, safe_names

_PARTITIONS: Final = "spark.sql.shuffle.partitions"


def diagnose(
    df: DataFrame,
    *keys: str | Sequence[str],
    workers: int | None = None,
    groupings: Sequence[str] | None = None,
    aggregates: Sequence[str | Combiner] = (),
    streaming: bool = False,
    sources: int = 5,
    top: int = 10,
    seed: int = 0,
    label: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Read a batch DataFrame once, and tell how skewed its keys are, what groupings make of them, and which to use.

    Parameters
    ----------
    keys: the columns of the key, one by one or as a list; null is a key.
    workers: partitions that the rows would be spread over; default: `spark.sql.shuffle.partitions`.
    groupings, aggregates, streaming, top, seed, progress: as in `skewless.diagnosis.diagnosis`.
    sources: map tasks that would route side by side.
    label: the name of the data in the report; default: the keys.

    Example
    -------
    `print(diagnose(df, "customer", workers=32))`
    """
    columns = [name for key in keys for name in ([key] if isinstance(key, str) else key)]
    n_workers = _partitions(df) if workers is None else workers
    check_request(n_workers, groupings, aggregates, sources, top, seed)
    return diagnose_distribution(
        count_keys(df, columns, label=", ".join(columns) if label is None else label),
        workers=n_workers,
        groupings=groupings,
        aggregates=aggregates,
        streaming=streaming,
        sources=sources,
        top=top,
        seed=seed,
        workers_from=_PARTITIONS if workers is None else "",
        progress=progress,
    )


def count_keys(df: DataFrame, keys: Sequence[str], *, label: str) -> KeyDistribution:
    """Count the rows of each key in one pass: exact, all of it in Spark's own aggregates.

    Spark counts on the map side, so that a hot key does not hurt. It exchanges one row per key and map task; with more
    keys than memory it goes on on disk. A sketch (`approx_top_k`) would exchange less, but would tell neither the
    number of keys nor how rows lie on the tail. To the driver come the largest 1,000 keys of each of at most 64 classes
    of size, however many keys there are.
    """
    require_keys(df, keys, "diagnose")
    if df.isStreaming:
        raise SkewlessError(
            "diagnose reads a DataFrame to its end, which a stream does not have: give it a batch DataFrame of the "
            "same data, or look at the running query with `skewless watch LEDGER`"
        )
    found = _classes(df, keys).collect()
    largest = [key for row in found for key in row["largest"]]
    hashes = np.array([key["hash"] for key in largest], dtype=np.int64).view(np.uint64)
    counts = np.array([key["n"] for key in largest], dtype=np.int64)
    head = by_size(counts, hashes)[:HEAD]
    names = [" | ".join("null" if text is None else text for text in largest[i]["texts"]) for i in head.tolist()]
    class_keys, class_rows = np.zeros(CLASSES, dtype=np.int64), np.zeros(CLASSES, dtype=np.int64)
    for row in found:
        class_keys[row["digits"]], class_rows[row["digits"]] = row["keys"], row["rows"]
    return KeyDistribution.of_classes(label, names, hashes[head], counts[head], class_keys, class_rows)


def _classes(df: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Give per number of binary digits of a key's count: how many keys and rows there are, and the largest keys."""
    names = safe_names(keys)
    rows = df.select(*(sf.col(quoted(key)).alias(name) for key, name in zip(keys, names, strict=True)))
    counts = rows.groupBy(*names).agg(sf.count("*").alias("n")).withColumn("hash", sf.xxhash64(*names))
    largest = sf.max_by(sf.struct("n", "hash", *names), sf.struct("n", "hash"), HEAD)
    classes = counts.groupBy(sf.length(sf.bin("n")).alias("digits")).agg(
        sf.count("*").alias("keys"), sf.sum("n").alias("rows"), largest.alias("largest")
    )

    def written(key: Column) -> Column:
        texts = [sf.substring(key[name].cast("string"), 1, LONGEST_NAME) for name in names]
        return sf.struct(key["n"].alias("n"), key["hash"].alias("hash"), sf.array(*texts).alias("texts"))

    return classes.withColumn("largest", sf.transform("largest", written))


def _partitions(df: DataFrame) -> int:
    text = str(df.sparkSession.conf.get(_PARTITIONS))
    if not text.isdecimal():
        raise SkewlessError(f"{_PARTITIONS} is {text!r}, not a number: say how many with workers=")
    return int(text)
