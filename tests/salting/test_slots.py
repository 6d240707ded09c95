"""Slots: Spark's hash, bit for bit, and where it sends a row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from skewless.salting.slots import homes, landings, slots
from skewless.seeding import make_salt


@given(st.integers(1, 3000))
def test_every_worker_has_a_slot(workers: int) -> None:
    assert landings(slots(workers).astype(np.uint64), workers).tolist() == list(range(workers))


@pytest.mark.spark
def test_homes_are_where_spark_sends_the_rows(spark: SparkSession) -> None:
    hashes = np.random.default_rng(3).integers(0, 2**64, 500, dtype=np.uint64)
    salt = make_salt(9)
    frame = spark.createDataFrame([(int(h),) for h in hashes.view(np.int64)], "h bigint")
    slot = sf.hash(sf.col("h").bitwiseXOR(sf.lit(int(salt.view(np.int64)))))
    sent = frame.withColumn("slot", slot).repartition(7, "slot").select("h", sf.spark_partition_id()).collect()
    expected = dict(zip(hashes.view(np.int64).tolist(), homes(hashes, salt, 7).tolist(), strict=True))
    assert dict(map(tuple, sent)) == expected


@pytest.mark.spark
def test_a_slot_after_other_columns_is_hashed_with_their_hash_as_the_seed(spark: SparkSession) -> None:
    # whatever the types of these columns are; and a null slot leaves a row where the other columns send it
    texts = "concat('k', id) AS a", "cast(id AS decimal(30, 3)) AS b", "cast(id % 9 AS int) AS s"
    frame = spark.range(60).selectExpr(*texts)
    hashes = frame.select(sf.hash("a", "b"), "s", sf.hash("a", "b", "s"), sf.hash("a", "b", sf.lit(None).cast("int")))
    for seed, slot, both, alone in hashes.collect():
        word = np.uint64(seed & 0xFFFFFFFF)
        assert landings(np.array([slot], dtype=np.uint64), 13, word)[0] == both % 13
        assert alone == seed
        assert landings(slots(13, word).astype(np.uint64), 13, word).tolist() == list(range(13))
