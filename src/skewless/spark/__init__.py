"""skewless on Spark: the operators. Only this package and `skewless.runner` import PySpark.

Names are loaded on first use: the Python workers of Spark import single modules, and need no more than those.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from skewless.spark.versions import require_pyspark

if TYPE_CHECKING:
    from skewless.spark.deploy.session import ship
    from skewless.spark.diagnose_joins import diagnose_join
    from skewless.spark.explanation import Explanation, explain
    from skewless.spark.grouped import Grouped, Windowed, group
    from skewless.spark.join_counting import plan_join
    from skewless.spark.joining import join
    from skewless.spark.key_counts import diagnose
    from skewless.spark.ordered import Over, over
    from skewless.spark.planning import plan_keys, repartition
    from skewless.storage.ledger import Ledger

_HOMES: Final = {
    "Explanation": "skewless.spark.explanation",
    "Grouped": "skewless.spark.grouped",
    "Ledger": "skewless.storage.ledger",
    "Over": "skewless.spark.ordered",
    "Windowed": "skewless.spark.grouped",
    "diagnose": "skewless.spark.key_counts",
    "diagnose_join": "skewless.spark.diagnose_joins",
    "explain": "skewless.spark.explanation",
    "group": "skewless.spark.grouped",
    "join": "skewless.spark.joining",
    "over": "skewless.spark.ordered",
    "plan_join": "skewless.spark.join_counting",
    "plan_keys": "skewless.spark.planning",
    "repartition": "skewless.spark.planning",
    "ship": "skewless.spark.deploy.session",
}

__all__ = [
    "Explanation",
    "Grouped",
    "Ledger",
    "Over",
    "Windowed",
    "diagnose",
    "diagnose_join",
    "explain",
    "group",
    "join",
    "over",
    "plan_join",
    "plan_keys",
    "repartition",
    "ship",
]


require_pyspark()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
