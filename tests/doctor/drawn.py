"""What a seed decides about a job: its keys, how uneven they are, how many partitions there are, how long it takes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

CORES: Final = 4
COLUMNS: Final = ("user", "customer_id", "country", "device", "item", "k")
HOT, NULL, EVEN = "hot", "null", "even"
SHUFFLE: Final = "spark.sql.shuffle.partitions"
ADAPTIVE: Final = "spark.sql.adaptive"


@dataclass
class Drawn:
    """Numbers and names of one job, all of them functions of the seed and the job's name.

    Parameters
    ----------
    seed : int
        Of the set of logs.
    job : str
        Its name.
    kind : str
        Whether one key is hot, null is, or all are alike.
    """

    seed: int
    job: str
    kind: str = HOT
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        draw = self.chance = random.Random(f"{self.seed} {self.job}")
        self.key = draw.choice(COLUMNS)
        self.number = draw.choice((True, False))  # or a text
        self.partitions = draw.randrange(8, 17)
        self.rows = draw.randrange(400, 1_200)
        self.shape = draw.choice(("one", "one", "two", "power")) if self.kind == HOT else "one"
        self.share = draw.uniform(0.45, 0.85)
        self.steepness = draw.uniform(1.0, 1.8)
        self.lost_s = draw.uniform(5.0, 10.0)
        self.salt = draw.randrange(10**6)

    @property
    def sleep_ms(self) -> int:
        """The work of a row: so much that a core waits for some seconds, had the largest key a core of its own."""
        largest = {"one": self.share, "two": self.share / 2 + 0.2, "power": 1 - 0.5**self.steepness}[self.shape]
        seconds = 8 * self.lost_s if self.kind == EVEN else self.lost_s / (largest - 1 / CORES)
        return max(1, round(1_000 * seconds / self.rows))

    def keys(self, at: str = "id") -> str:
        """Return an expression of the key of a row, from its number."""
        # Mixed twice: Spark hashes keys to partitions with the same function.
        even = f"pmod(xxhash64(xxhash64({at}, {self.salt})), 1000000) / 1000000.0D"
        cold = f"2 + pmod(xxhash64({at}, {self.salt + 1}), {self.rows})"
        if self.kind == EVEN:
            key = f"pmod({at} * 7919, {self.rows // 2})"
        elif self.kind == NULL:
            key = f"IF({even} < {self.share}, NULL, {cold})"
        elif self.shape == "one":
            key = f"IF({even} < {self.share}, 1, {cold})"
        elif self.shape == "two":  # both hot, the first a little more than the other
            first = self.share / 2 + 0.2
            key = f"CASE WHEN {even} < {first} THEN 0 WHEN {even} < {self.share + 0.1} THEN 1 ELSE {cold} END"
        else:
            key = f"CAST(least(1000000, pow(greatest({even}, 1e-6D), {-1 / self.steepness})) AS BIGINT)"
        return f"CAST({key} AS BIGINT)" if self.number else f"concat('key ', CAST({key} AS BIGINT))"

    def facts(self, spark: SparkSession, *, slices: int = CORES) -> DataFrame:
        """Return rows with the key, a number, a second column that few rows share, and a time."""
        return spark.range(0, self.rows, 1, slices).selectExpr(
            f"{self.keys()} AS {self.key}",
            "id AS v",
            "pmod(id, 3) AS part",
            "timestamp_seconds(1700000000 + id) AS ts",
        )

    def things(self, spark: SparkSession) -> DataFrame:
        """Return a row for each key that the facts have, except null: the other side of a join."""
        numbers = spark.range(0, self.rows + 2, 1, CORES)
        key = "id" if self.number else "concat('key ', id)"
        return numbers.selectExpr(f"{key} AS {self.key}", "id * 2 AS w")

    def slow(self) -> Column:
        """Return an expression that takes the time of a row."""
        return sf.expr(_sleep(f"{self.sleep_ms}L"))

    def slow_list(self, column: str) -> Column:
        """Return an expression that takes the time of a row for each element of a list."""
        return sf.expr(f"size(transform({column}, x -> {_sleep(f'{self.sleep_ms}L')}))")

    def slow_text(self, column: str) -> str:
        """Return the same as SQL."""
        return f"size(transform({column}, x -> {_sleep(f'{self.sleep_ms}L')}))"

    def slow_on_host(self, times: int) -> Column:
        """Return an expression that takes many times as long on the host that is slow."""
        slow = "java_method('java.lang.System', 'getenv', 'DOCTOR_SLOW') = '1'"
        return sf.expr(_sleep(f"IF({slow}, {times * self.sleep_ms}L, {self.sleep_ms}L)"))

    def settings(self, **more: str) -> dict[str, str]:
        """Return settings of Spark: adaptive execution in one of its ways, and no broadcast of small tables."""
        way = self.chance.choice(("off", "on", "on", "merging") if self.kind != NULL else ("off", "on"))
        chosen = {SHUFFLE: str(self.partitions), f"{ADAPTIVE}.enabled": str(way != "off").lower()}
        chosen["spark.sql.autoBroadcastJoinThreshold"] = "-1"
        if way != "merging":
            chosen[f"{ADAPTIVE}.coalescePartitions.enabled"] = "false"
        else:  # of a size that merges some, as on data of a usual size
            chosen[f"{ADAPTIVE}.coalescePartitions.minPartitionSize"] = "200b"
            chosen[f"{ADAPTIVE}.advisoryPartitionSizeInBytes"] = "800b"
        return chosen | more


def _sleep(milliseconds: str) -> str:
    return f"java_method('java.lang.Thread', 'sleep', {milliseconds})"
