"""Metrics, one definition each."""

from skewless.metrics.cost import KeySpread
from skewless.metrics.detection import precision, recall, time_to_detect
from skewless.metrics.latency import LatencyHistogram
from skewless.metrics.load import imbalance, sigma, skew_score, stddev, throughput, variance
from skewless.metrics.movement import moved, moved_percent

__all__ = [
    "KeySpread",
    "LatencyHistogram",
    "imbalance",
    "moved",
    "moved_percent",
    "precision",
    "recall",
    "sigma",
    "skew_score",
    "stddev",
    "throughput",
    "time_to_detect",
    "variance",
]
