"""Whether skew is the problem: key distributions, what Spark combines by itself, and what each grouping would do."""

from skewless.diagnosis.diagnosis import Diagnosis, HotKey, Prediction, check_request, diagnose
from skewless.diagnosis.key_distribution import KeyDistribution
from skewless.diagnosis.map_side import combined_on_the_map_side
from skewless.diagnosis.parquet_folder import ParquetFolder

__all__ = [
    "Diagnosis",
    "HotKey",
    "KeyDistribution",
    "ParquetFolder",
    "Prediction",
    "check_request",
    "combined_on_the_map_side",
    "diagnose",
]
