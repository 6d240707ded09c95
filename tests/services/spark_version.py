"""Which Spark the tests run on: `make test-versions` runs those of batch jobs and of Connect on every version."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Final

import pytest

from skewless.errors import SkewlessError
from skewless.spark.versions import GUARDS_SINCE, STREAMS_SINCE, version_of

SPARK: Final = version_of(version("pyspark"))
LOCKED: Final = (4, 3)
"""The version of `requirements.lock`, which jars and archives of classes are for."""
GUARDS: Final = [
    f"spark_sql_shuffle_orderIndependentChecksum_{name}" for name in ("enabled", "enableFullRetryOnMismatch")
]

STREAMS_REFUSED: Final = "needs PySpark 4.2 or later"
GUARDS_REFUSED: Final = "has no guards against retried tasks"


def refusal(error: BaseException) -> str:
    """Return the version that something needs which skewless has refused on this one; empty for any other error.

    That it is refused is tested in `test_versions`; a test that meets it has nothing to test here.
    """
    text = str(error) if isinstance(error, SkewlessError) else ""
    for start, needed in ((STREAMS_REFUSED, STREAMS_SINCE), (GUARDS_REFUSED, GUARDS_SINCE)):
        if needed > SPARK and start in text:
            return ".".join(map(str, needed))
    return ""


def collated(text: str) -> str:
    """Return SQL as it is, or without collations where Spark has none yet.

    >>> collated("k COLLATE UTF8_LCASE") in {"k", "k COLLATE UTF8_LCASE"}
    True
    """
    return text if SPARK >= (4, 0) else re.sub(r"(?i)\s+collate\s+[\w{}]+", "", text)


def since(*oldest: int) -> pytest.MarkDecorator:
    """Skip a test on versions of Spark that do not have what it is about."""
    return pytest.mark.skipif(oldest > SPARK, reason=f"needs Spark {'.'.join(map(str, oldest))}")
