"""A worker's memory, one worker at a time."""

from __future__ import annotations

from fractions import Fraction

from skewless.simulation import Memory


def slowed_service(memory: Memory, service: int, keys: int, queued: int) -> Fraction:
    """Return the exact service time: tuples of keys that fit take theirs, the others that of the factor."""
    used = keys * memory.key_bytes + queued * memory.tuple_bytes
    if used <= memory.worker_bytes:
        return Fraction(service)
    fits = Fraction(memory.worker_bytes, used)
    return service * (fits + (1 - fits) * Fraction(memory.slower))
