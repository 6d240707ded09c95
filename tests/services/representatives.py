"""The groupings that tests on Spark go through: one of each kind (loads, loads and time, a plan, all of it), or all of
them with SKEWLESS_CHAOS=1.

That every grouping holds the contract is tested without Spark, and what the operator does with a worker's number does
not depend on who chose it.
"""

from __future__ import annotations

from services.long import LONG
from skewless import GROUPINGS

ON_SPARK = (
    [name for name, grouping in GROUPINGS.items() if not grouping(workers=2).needs_frequencies]
    if LONG
    else ["partial_key", "dynamic_key", "distribution_aware", "even"]
)
