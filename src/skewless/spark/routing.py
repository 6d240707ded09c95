"""What the exchange of a query depends on: its grouping, ledger and seed, and Spark's guards against retried tasks.

Nothing here loads a kernel: Python workers import it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql import SparkSession

from skewless.errors import ConfigurationError, StorageError
from skewless.groupings.base import Grouping
from skewless.masking import masked_logger
from skewless.spark.versions import has_guards
from skewless.storage.ledger import Ledger

# A retried map task may see its rows in another order and route them otherwise. Consumers that kept the old output
# would lose or double rows; with both of these on, Spark runs them all again.
_GUARDS: Final = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)

_log: Final = masked_logger(__name__)


def has_retry_guards(spark: SparkSession) -> bool:
    """Whether Spark runs all consumers of a task again when a retry of it writes other data."""
    return has_guards(spark) and all(_is_on(spark, guard) for guard in _GUARDS)


def _is_on(spark: SparkSession, guard: str) -> bool:
    return spark.conf.get(guard) == "true"  # Spark's own default if nobody has set it, which differs by version


def require_retry_guards(spark: SparkSession) -> None:
    """Refuse to route where a lost executor could make the answer wrong."""
    if not has_guards(spark):
        raise ConfigurationError(
            f"Spark {spark.version} has no guards against retried tasks, which could lose or double rows",
            hint="take the default grouping, or another one that is a plan",
        )
    for guard in _GUARDS:
        if not _is_on(spark, guard):
            raise ConfigurationError(
                f"{guard} is off: a retried task could lose or double rows",
                hint="set it to true, or take the default grouping",
            )


def micro_batch() -> int | None:
    """Return the number of the micro-batch that the current task belongs to, None in a batch job."""
    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return None if batch is None else int(batch)


@dataclass(frozen=True, kw_only=True)
class Routing:
    """What sources need to know to route; shipped to the executors.

    Parameters
    ----------
    grouping : Grouping
        Which worker each key goes to.
    ledger : Ledger
        Where sources share what they learned; None in a batch job that nobody observes.
    seed : int
        Seed of the routers.
    keys : tuple of str
        The key columns by the names that the user gave them: part of what a ledger belongs to.
    """

    grouping: Grouping
    ledger: Ledger | None
    seed: int
    keys: tuple[str, ...]

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What a ledger belongs to."""
        parameters = {name: value for name, value in asdict(self.grouping).items() if name != "workers"}
        return {
            "grouping": self.grouping.name,
            "parameters": parameters,
            "workers": self.grouping.n_workers,
            "keys": list(self.keys),
            "seed": self.seed,
        }

    def claim(self, batch: int | None) -> None:
        """Claim the ledger for this query if nobody has."""
        if self.ledger is None:
            return
        try:
            self.ledger.claim(self.fingerprint)
        except StorageError as error:
            if not batch:  # later on, a ledger that is out of reach costs balance only
                raise
            _log.warning("%s", error)
