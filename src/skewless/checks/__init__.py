"""The conformance suite: what holds for every grouping, combiner and sketch, yours included.

    check_grouping(MyGrouping(workers=10))
    check_combiner(MyCombiner("price"), [pa.float64()])
    check_sketch(MySketch, {"width": 100})

There is one entry for each family. It runs all checks of the family, which draw what they need from the seed alone, and
raises AssertionError with the seed in its message: calling it again with the same seed repeats the failure. The tests
run everything in the registries through the same checks.
"""

from skewless.checks.combiners import check_combiner
from skewless.checks.groupings import check_grouping
from skewless.checks.sketches import check_sketch

__all__ = ["check_combiner", "check_grouping", "check_sketch"]
