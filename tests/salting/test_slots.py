"""Slots: Spark's hash, bit for bit, and where it sends a row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from skewless.hashing import make_salt
from skewless.salting.slots import homes, landings, slots


@given(st.integers(1, 3000))
def test_every_worker_has_a_slot(workers: int) -> None:
    assert landings(slots(workers).astype(np.uint64), workers).tolist() == list(range(workers))


def test_homes_are_where_spark_sends_the_rows(spark: SparkSession) -> None:
    hashes = np.random.default_rng(3).integers(0, 2**64, 500, dtype=np.uint64)
    salt = make_salt(9)
    frame = spark.createDataFrame([(int(h),) for h in hashes.view(np.int64)], "h bigint")
    slot = sf.hash(sf.col("h").bitwiseXOR(sf.lit(int(salt.view(np.int64)))))
    sent = frame.withColumn("slot", slot).repartition(7, "slot").select("h", sf.spark_partition_id()).collect()
    expected = dict(zip(hashes.view(np.int64).tolist(), homes(hashes, salt, 7).tolist(), strict=True))
    assert dict(map(tuple, sent)) == expected
