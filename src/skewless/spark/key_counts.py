"""Diagnose: count the keys of a DataFrame natively, and predict what each grouping makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.combiners import Combiner
from skewless.diagnosis.diagnosis import Diagnosis, check_request
from skewless.diagnosis.diagnosis import diagnose as diagnose_distribution
from skewless.diagnosis.key_distribution import CLASSES, HEAD, LONGEST_NAME, KeyDistribution, by_size
from skewless.errors import ConfigurationError
from skewless.spark import versions
from skewless.spark.columns import PARTITIONS, require_dataframe, require_keys, shuffle_partitions
from skewless.spark.merge import quoted, safe_names


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
    """Read a batch DataFrame once; report how skewed its keys are, how groupings would spread them, and which to use.

    Parameters
    ----------
    df : DataFrame
        The rows; not a stream.
    keys : str or sequence of str
        The key columns, one by one or as a list; null is a key.
    workers : int
        Partitions that the rows would be spread over. Default: `spark.sql.shuffle.partitions`.
    groupings : sequence of str
        Groupings to compare. Default: as in `skewless.diagnosis.diagnosis`.
    aggregates : sequence of str or Combiner
        What is to be computed per key, where that is known.
    streaming : bool
        Whether the rows would come as a stream.
    sources : int
        Map tasks that would route side by side.
    top : int
        Keys that the report names.
    seed : int
        Seed of the groupings.
    label : str
        Name of the data in the report. Default: the keys.
    progress : callable
        Called with a line of text at every step.

    Examples
    --------
    `print(diagnose(df, "customer", workers=32))`
    """
    require_dataframe(df)
    columns: list[Any] = [name for key in keys for name in (key if isinstance(key, list | tuple) else [key])]
    require_keys(df, columns, "diagnose")
    n_workers = shuffle_partitions(df.sparkSession) if workers is None else workers
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
        workers_from=PARTITIONS if workers is None else "",
        progress=progress,
    )


def count_keys(df: DataFrame, keys: Sequence[str], *, label: str) -> KeyDistribution:
    """Count the rows of each key in one pass: exact, all of it in Spark's own aggregates.

    Spark counts on the map side, so a hot key does not hurt. It exchanges one row per key and map task, and spills to
    disk where keys exceed memory. A sketch (`approx_top_k`) would exchange less, but would show neither the number of
    keys nor the tail. The driver receives the largest 1,000 keys of each of at most 64 size classes, however many keys
    there are.
    """
    require_keys(df, keys, "diagnose")
    if df.isStreaming:
        raise ConfigurationError(
            "diagnose reads a DataFrame to its end, which a stream does not have",
            subject="df",
            hint="pass a batch DataFrame of the same data, or observe the running query with `skewless watch LEDGER`",
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
    """Return, per number of binary digits of a key's count, the number of keys and rows, and the largest keys."""
    names = safe_names(keys)
    rows = df.select(*(sf.col(quoted(key)).alias(name) for key, name in zip(keys, names, strict=True)))
    counts = rows.groupBy(*names).agg(sf.count("*").alias("n")).withColumn("hash", sf.xxhash64(*names))
    counts = counts.withColumn("digits", sf.length(sf.bin("n")))
    ranked, largest = versions.largest(counts, "digits", ("n", "hash"), ("n", "hash", *names), HEAD)
    classes = ranked.groupBy("digits").agg(
        sf.count("*").alias("keys"), sf.sum("n").alias("rows"), largest.alias("largest")
    )

    def written(key: Column) -> Column:
        texts = [sf.substring(key[name].cast("string"), 1, LONGEST_NAME) for name in names]
        return sf.struct(key["n"].alias("n"), key["hash"].alias("hash"), sf.array(*texts).alias("texts"))

    return classes.withColumn("largest", sf.transform("largest", written))
