"""Planned salting: which keys are cut or moved, and the slots that make Spark's own hash exchange do it. No Spark here.

NumPy and PyArrow are all that this package needs: a plan is made by one small task of the query that uses it, on
executors that may have nothing else.
"""

from skewless.salting.planner import KeyLoads, Pieces, level

__all__ = ["KeyLoads", "Pieces", "level"]
