"""The conformance suite: what every grouping, combiner and sketch must hold, in one place.

    for check in GROUPING_CHECKS:
        check(grouping, seed=0)
    for check in COMBINER_CHECKS:
        check(combiner, [pa.float64()], seed=0)
    check_sketch(CountMin, {"width": 100, "depth": 3, "share": 0.1}, seed=0)

A check takes a grouping, a combiner and the types of its columns, or a sketch and its arguments; and a seed. It draws
what it needs from that seed alone, and raises AssertionError with the seed in its message: calling it again with the
same seed repeats the failure.
The tests run everything in the registries through all of them; what is your own can go through them the same way.
"""

from skewless.checks.combiners import COMBINER_CHECKS, CombinerCheck
from skewless.checks.groupings import GROUPING_CHECKS, GroupingCheck
from skewless.checks.sketches import SKETCH_CHECKS, SketchCheck, check_sketch

__all__ = [
    "COMBINER_CHECKS",
    "GROUPING_CHECKS",
    "SKETCH_CHECKS",
    "CombinerCheck",
    "GroupingCheck",
    "SketchCheck",
    "check_sketch",
]
