"""The conformance suite: what every grouping and every combiner must hold, in one place.

    for check in GROUPING_CHECKS:
        check(grouping, seed=0)
    for check in COMBINER_CHECKS:
        check(combiner, [pa.float64()], seed=0)

A check takes a grouping, or a combiner and the types of its columns, and a seed; it draws what it needs from that seed
alone, and raises AssertionError with the seed in its message: calling it again with the same seed repeats the failure.
The tests run everything in the registries through all of them; what is your own can go through them the same way.
"""

from skewless.checks.combiners import COMBINER_CHECKS, CombinerCheck
from skewless.checks.groupings import GROUPING_CHECKS, GroupingCheck

__all__ = ["COMBINER_CHECKS", "GROUPING_CHECKS", "CombinerCheck", "GroupingCheck"]
