"""Numbers as a reader wants them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units.

    >>> duration(0.25), duration(75), duration(7_260), duration(200_000)
    ('0.2 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, large, small, below in ((60, "min", "s", 3_600), (3_600, "h", "min", 86_400)):
        if whole < below:
            return f"{whole // unit} {large} {whole % unit * 60 // unit} {small}"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def core_time(hours: float) -> str:
    """Return core-hours, with as many digits as are worth reading.

    >>> core_time(0.0004), core_time(12.345)
    ('0.0004 core-h', '12.3 core-h')
    """
    return f"{hours:,.1f} core-h" if hours >= 10 else f"{hours:.2g} core-h" if hours else "0 core-h"


def size(number: float) -> str:
    """Return bytes in a unit that keeps the number short.

    >>> size(512), size(3_500_000)
    ('512 B', '3.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1_000 or unit == "TB":
            break
        number /= 1_000
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def many(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> many(1, "task"), many(2_000, "task")
    ('1 task', '2,000 tasks')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
