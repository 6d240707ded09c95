"""skewless: skew-proof keyed processing for PySpark.

    from skewless import Count, Sum, group

    group(df, "customer", workers=32).agg(n=Count(), spent=Sum("amount"))

Names that need PySpark are loaded on first use; `import skewless` does without it.

>>> from skewless import simulate, Simulation, PartialKey, CountrySkew
>>> result = simulate(Simulation(PartialKey(workers=10), CountrySkew(percent=80)), tuples=100_000)
>>> round(result.dist_cost, 1)
1.6
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from skewless.errors import SkewlessError
from skewless.groupings import (
    GROUPINGS,
    Auto,
    Consistent,
    Correlation,
    DChoices,
    DistributionAware,
    DynamicKey,
    Eager,
    Even,
    Flux,
    FullKnowledge,
    Grouping,
    Key,
    KeyIsolator,
    Local,
    Modulo,
    PartialKey,
    PopularityAware,
    Router,
    Shuffle,
    SingleInstance,
    State,
    SubstreamGrouping,
    TwoChoices,
    Universal,
    UniversalRebalancing,
    WChoices,
    make_grouping,
)
from skewless.hashing import hash_keys
from skewless.simulation import KeyedState, Result, Simulation, StateResult, simulate
from skewless.streams import (
    STREAMS,
    CountryHalfSkew,
    CountrySkew,
    Drift,
    Gaussian,
    KeyFile,
    Stream,
    Topics,
    Zipf,
    make_stream,
)
from skewless.streams.arrivals import Daily, Ramp, Steady

if TYPE_CHECKING:
    from skewless.combiners import (
        COMBINERS,
        Accumulator,
        ApproxDistinct,
        ApproxQuantile,
        ApproxTopK,
        Combiner,
        Count,
        Custom,
        Max,
        Mean,
        Min,
        Sum,
        Variance,
        Vwap,
    )
    from skewless.observing import InfluxSink, LogSink, Observer, PrometheusSink, Sink
    from skewless.processors import KeyState, Processor
    from skewless.salting.plan import Plan
    from skewless.spark import Grouped, Windowed, diagnose, explain, group, plan_keys, repartition, ship
    from skewless.storage.ledger import Ledger

__version__ = "0.2.0"

_HOMES: Final = {
    "Accumulator": "skewless.combiners",
    "ApproxDistinct": "skewless.combiners",
    "ApproxQuantile": "skewless.combiners",
    "ApproxTopK": "skewless.combiners",
    "COMBINERS": "skewless.combiners",
    "Combiner": "skewless.combiners",
    "Count": "skewless.combiners",
    "Custom": "skewless.combiners",
    "Grouped": "skewless.spark",
    "InfluxSink": "skewless.observing",
    "KeyState": "skewless.processors",
    "Ledger": "skewless.storage.ledger",
    "LogSink": "skewless.observing",
    "Max": "skewless.combiners",
    "Mean": "skewless.combiners",
    "Min": "skewless.combiners",
    "Observer": "skewless.observing",
    "Plan": "skewless.salting.plan",
    "Processor": "skewless.processors",
    "PrometheusSink": "skewless.observing",
    "Sink": "skewless.observing",
    "Sum": "skewless.combiners",
    "Variance": "skewless.combiners",
    "Vwap": "skewless.combiners",
    "Windowed": "skewless.spark",
    "diagnose": "skewless.spark",
    "explain": "skewless.spark",
    "group": "skewless.spark",
    "plan_keys": "skewless.spark",
    "repartition": "skewless.spark",
    "ship": "skewless.spark",
}

__all__ = [
    "COMBINERS",
    "GROUPINGS",
    "STREAMS",
    "Accumulator",
    "ApproxDistinct",
    "ApproxQuantile",
    "ApproxTopK",
    "Auto",
    "Combiner",
    "Consistent",
    "Correlation",
    "Count",
    "CountryHalfSkew",
    "CountrySkew",
    "Custom",
    "DChoices",
    "Daily",
    "DistributionAware",
    "Drift",
    "DynamicKey",
    "Eager",
    "Even",
    "Flux",
    "FullKnowledge",
    "Gaussian",
    "Grouped",
    "Grouping",
    "InfluxSink",
    "Key",
    "KeyFile",
    "KeyIsolator",
    "KeyState",
    "KeyedState",
    "Ledger",
    "Local",
    "LogSink",
    "Max",
    "Mean",
    "Min",
    "Modulo",
    "Observer",
    "PartialKey",
    "Plan",
    "PopularityAware",
    "Processor",
    "PrometheusSink",
    "Ramp",
    "Result",
    "Router",
    "Shuffle",
    "Simulation",
    "SingleInstance",
    "Sink",
    "SkewlessError",
    "State",
    "StateResult",
    "Steady",
    "Stream",
    "SubstreamGrouping",
    "Sum",
    "Topics",
    "TwoChoices",
    "Universal",
    "UniversalRebalancing",
    "Variance",
    "Vwap",
    "WChoices",
    "Windowed",
    "Zipf",
    "__version__",
    "diagnose",
    "explain",
    "group",
    "hash_keys",
    "make_grouping",
    "make_stream",
    "plan_keys",
    "repartition",
    "ship",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
