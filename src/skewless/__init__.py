"""skewless: skew-proof keyed processing for PySpark.

    from skewless import Count, Sum, group

    group(df, "customer", workers=32).agg(n=Count(), spent=Sum("amount"))

Names are loaded on first use; `import skewless` needs no PySpark, and takes no time.

>>> from skewless import simulate, Simulation, PartialKey, CountrySkew
>>> result = simulate(Simulation(PartialKey(workers=10), CountrySkew(percent=80)), tuples=100_000)
>>> round(result.dist_cost, 1)
1.6
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from skewless.errors import SkewlessError

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
    from skewless.observing import InfluxSink, LogSink, Observer, PrometheusSink, Sink
    from skewless.processors import KeyState, Processor
    from skewless.salting.plan import Plan
    from skewless.simulation import KeyedState, Result, Simulation, StateResult, simulate
    from skewless.spark import Grouped, Over, Windowed, diagnose, explain, group, over, plan_keys, repartition, ship
    from skewless.storage.ledger import Ledger
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

__version__ = "0.2.0"

_HOMES: Final = {
    "Accumulator": "skewless.combiners",
    "ApproxDistinct": "skewless.combiners",
    "ApproxQuantile": "skewless.combiners",
    "ApproxTopK": "skewless.combiners",
    "Auto": "skewless.groupings",
    "COMBINERS": "skewless.combiners",
    "Combiner": "skewless.combiners",
    "Consistent": "skewless.groupings",
    "Correlation": "skewless.groupings",
    "Count": "skewless.combiners",
    "CountryHalfSkew": "skewless.streams",
    "CountrySkew": "skewless.streams",
    "Custom": "skewless.combiners",
    "DChoices": "skewless.groupings",
    "Daily": "skewless.streams.arrivals",
    "DistributionAware": "skewless.groupings",
    "Drift": "skewless.streams",
    "DynamicKey": "skewless.groupings",
    "Eager": "skewless.groupings",
    "Even": "skewless.groupings",
    "Flux": "skewless.groupings",
    "FullKnowledge": "skewless.groupings",
    "GROUPINGS": "skewless.groupings",
    "Gaussian": "skewless.streams",
    "Grouped": "skewless.spark",
    "Grouping": "skewless.groupings",
    "InfluxSink": "skewless.observing",
    "Key": "skewless.groupings",
    "KeyFile": "skewless.streams",
    "KeyIsolator": "skewless.groupings",
    "KeyState": "skewless.processors",
    "KeyedState": "skewless.simulation",
    "Ledger": "skewless.storage.ledger",
    "Local": "skewless.groupings",
    "LogSink": "skewless.observing",
    "Max": "skewless.combiners",
    "Mean": "skewless.combiners",
    "Min": "skewless.combiners",
    "Modulo": "skewless.groupings",
    "Observer": "skewless.observing",
    "Over": "skewless.spark",
    "PartialKey": "skewless.groupings",
    "Plan": "skewless.salting.plan",
    "PopularityAware": "skewless.groupings",
    "Processor": "skewless.processors",
    "PrometheusSink": "skewless.observing",
    "Ramp": "skewless.streams.arrivals",
    "Result": "skewless.simulation",
    "Router": "skewless.groupings",
    "STREAMS": "skewless.streams",
    "Shuffle": "skewless.groupings",
    "Simulation": "skewless.simulation",
    "SingleInstance": "skewless.groupings",
    "Sink": "skewless.observing",
    "State": "skewless.groupings",
    "StateResult": "skewless.simulation",
    "Steady": "skewless.streams.arrivals",
    "Stream": "skewless.streams",
    "SubstreamGrouping": "skewless.groupings",
    "Sum": "skewless.combiners",
    "Topics": "skewless.streams",
    "TwoChoices": "skewless.groupings",
    "Universal": "skewless.groupings",
    "UniversalRebalancing": "skewless.groupings",
    "Variance": "skewless.combiners",
    "Vwap": "skewless.combiners",
    "WChoices": "skewless.groupings",
    "Windowed": "skewless.spark",
    "Zipf": "skewless.streams",
    "diagnose": "skewless.spark",
    "explain": "skewless.spark",
    "group": "skewless.spark",
    "hash_keys": "skewless.hashing",
    "make_grouping": "skewless.groupings",
    "make_stream": "skewless.streams",
    "over": "skewless.spark",
    "plan_keys": "skewless.spark",
    "repartition": "skewless.spark",
    "ship": "skewless.spark",
    "simulate": "skewless.simulation",
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
    "Over",
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
    "over",
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
