"""Even grouping: router, plan, levelling and statistics."""

from skewless.groupings.even.grouping import Even

__all__ = ["Even"]
