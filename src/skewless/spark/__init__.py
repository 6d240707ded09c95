"""skewless on Spark: the only package that imports PySpark.

Names are loaded when they are asked for, so that the ledger and its observers do without PySpark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from skewless.spark.deploy.session import ship
    from skewless.spark.explanation import explain
    from skewless.spark.grouped import Grouped, group
    from skewless.spark.key_counts import diagnose
    from skewless.spark.work import Cost
    from skewless.storage.ledger import Ledger

_HOMES: Final = {
    "Cost": "skewless.spark.work",
    "Grouped": "skewless.spark.grouped",
    "Ledger": "skewless.storage.ledger",
    "diagnose": "skewless.spark.key_counts",
    "explain": "skewless.spark.explanation",
    "group": "skewless.spark.grouped",
    "ship": "skewless.spark.deploy.session",
}

__all__ = ["Cost", "Grouped", "Ledger", "diagnose", "explain", "group", "ship"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
