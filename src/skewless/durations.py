"""Durations, as people write them and as Spark does."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from skewless.errors import ConfigurationError

_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


def parse_duration(text: str) -> str:
    """Return a duration in the words of Spark.

    >>> parse_duration("15s"), parse_duration("1m"), parse_duration("1 minute")
    ('15 seconds', '1 minutes', '1 minute')
    """
    number, unit = _parts(text)
    return f"{number} {unit}"


def as_timedelta(text: str) -> timedelta:
    """Return a duration as a timedelta.

    >>> as_timedelta("15s")
    datetime.timedelta(seconds=15)
    """
    number, unit = _parts(text)
    try:
        return timedelta(**{unit.removesuffix("s") + "s": int(number)})
    except OverflowError:
        raise ConfigurationError(f"a duration of {text} is too long", value=text) from None


def _parts(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"\s*(0*[1-9]\d*)\s*([a-z]+)\s*", text.lower())
    unit = _UNITS.get(found[2], found[2]) if found else ""
    if found is None or unit.removesuffix("s") + "s" not in _UNITS.values():
        raise ConfigurationError(f"expected a length of time such as 15s or '1 minute'; got {text!r}", value=text)
    return found[1], unit
