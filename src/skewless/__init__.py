"""skewless: skew-proof keyed processing for PySpark.

>>> from skewless import simulate, Simulation, PartialKey, CountrySkew
>>> result = simulate(Simulation(PartialKey(n_workers=10), CountrySkew(percent=80)), tuples=100_000)
>>> round(result.dist_cost, 1)
1.6
"""

from skewless.errors import SkewlessError
from skewless.groupings import (
    GROUPINGS,
    Auto,
    Consistent,
    DChoices,
    DistributionAware,
    DynamicKey,
    Even,
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
    Universal,
    WChoices,
    make_grouping,
)
from skewless.hashing import hash_keys
from skewless.simulate import Result, Simulation, simulate
from skewless.streams import STREAMS, CountryHalfSkew, CountrySkew, Drift, KeyFile, Stream, Zipf, make_stream

__version__ = "0.1.0"

__all__ = [
    "GROUPINGS",
    "STREAMS",
    "Auto",
    "Consistent",
    "CountryHalfSkew",
    "CountrySkew",
    "DChoices",
    "DistributionAware",
    "Drift",
    "DynamicKey",
    "Even",
    "FullKnowledge",
    "Grouping",
    "Key",
    "KeyFile",
    "KeyIsolator",
    "Modulo",
    "PartialKey",
    "PopularityAware",
    "Result",
    "Router",
    "Shuffle",
    "Simulation",
    "SingleInstance",
    "SkewlessError",
    "State",
    "Stream",
    "Universal",
    "WChoices",
    "Zipf",
    "__version__",
    "hash_keys",
    "make_grouping",
    "make_stream",
    "simulate",
]
