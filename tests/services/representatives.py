"""The groupings that tests on Spark use: one of each kind (loads, loads and time, a plan, all of these), or all of them
in `make test-all`.

The contract of every grouping is tested without Spark, and what the operator does with the number of a worker does not
depend on which grouping chose it.
"""

from __future__ import annotations

from services.long import LONG
from skewless.groupings import GROUPINGS, Foresighted, Local

ON_SPARK = (
    [name for name, grouping in GROUPINGS.items() if not issubclass(grouping, Foresighted | Local)]
    if LONG
    else ["partial_key", "dynamic_key", "distribution_aware", "even"]
)

FEW = ON_SPARK if LONG else ["partial_key", "even"]
"""For tests of where the operator runs, which need no grouping in particular: one that plans, one that does not."""
