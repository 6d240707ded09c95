"""Processors: work on a key's rows in their order, with a state that the key keeps. No Spark here."""

from __future__ import annotations

from skewless.processors.base import KeyState, Processor, Row
from skewless.processors.processing import OnError, Processed, Processing, Reject

__all__ = ["KeyState", "OnError", "Processed", "Processing", "Processor", "Reject", "Row"]
