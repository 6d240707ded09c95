"""skewless on Spark: the only package that imports PySpark.

Names are loaded when they are asked for, so that the ledger and its observers do without PySpark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from skewless.spark.diagnosis import diagnose
    from skewless.spark.grouped import Grouped, group
    from skewless.spark.ledger import Ledger
    from skewless.spark.plan import explain
    from skewless.spark.session import ship
    from skewless.spark.work import Cost

_HOMES: Final = {
    "Cost": "work",
    "Grouped": "grouped",
    "Ledger": "ledger",
    "diagnose": "diagnosis",
    "explain": "plan",
    "group": "grouped",
    "ship": "session",
}

__all__ = ["Cost", "Grouped", "Ledger", "diagnose", "explain", "group", "ship"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
