"""The groupings that tests on Spark use: one of each kind (loads, loads and time, a plan, all of these), or all of them
in `make test-all`.

The contract of every grouping is tested without Spark, and what the operator does with the number of a worker does not
depend on which grouping chose it.
"""

from __future__ import annotations

from services.long import LONG
from services.spark_version import SPARK
from skewless.groupings import GROUPINGS, Foresighted, Local
from skewless.groupings.planned import Planned
from skewless.spark.versions import GUARDS_SINCE

ON_SPARK = [
    name
    for name in (GROUPINGS if LONG else ("partial_key", "dynamic_key", "distribution_aware", "even"))
    if not issubclass(GROUPINGS[name], Foresighted | Local)
    and (SPARK >= GUARDS_SINCE or issubclass(GROUPINGS[name], Planned))
]

FEW = ON_SPARK if LONG else [name for name in ("partial_key", "even") if name in ON_SPARK]
"""For tests of where the operator runs, which need no grouping in particular: one that plans, one that does not."""
