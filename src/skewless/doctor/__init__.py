"""The doctor: stages that waited for one task, and why, from the event logs that Spark writes. No PySpark is needed."""

from skewless.doctor.diagnosis import Examination, Finding, examine

__all__ = ["Examination", "Finding", "examine"]
