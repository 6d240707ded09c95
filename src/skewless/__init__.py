"""skewless: skew-proof keyed processing for PySpark.

>>> from skewless import simulate, Simulation, PartialKey, CountrySkew
>>> result = simulate(Simulation(PartialKey(workers=10), CountrySkew(percent=80)), tuples=100_000)
>>> round(result.dist_cost, 1)
1.6
"""

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
from skewless.simulation.keyed_state import KeyedState, StateResult
from skewless.simulation.simulator import Result, Simulation, simulate
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

__all__ = [
    "GROUPINGS",
    "STREAMS",
    "Auto",
    "Consistent",
    "Correlation",
    "CountryHalfSkew",
    "CountrySkew",
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
    "Grouping",
    "Key",
    "KeyFile",
    "KeyIsolator",
    "KeyedState",
    "Modulo",
    "PartialKey",
    "PopularityAware",
    "Ramp",
    "Result",
    "Router",
    "Shuffle",
    "Simulation",
    "SingleInstance",
    "SkewlessError",
    "State",
    "StateResult",
    "Steady",
    "Stream",
    "SubstreamGrouping",
    "Topics",
    "TwoChoices",
    "Universal",
    "UniversalRebalancing",
    "WChoices",
    "Zipf",
    "__version__",
    "hash_keys",
    "make_grouping",
    "make_stream",
    "simulate",
]
