"""How well and how soon hot keys are detected."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping


def precision(found: Iterable[Hashable], hot: Iterable[Hashable]) -> float:
    """Return the share of the found keys that are hot; 1 if none was found.

    >>> precision(["a", "b"], ["a", "c"])
    0.5
    """
    found_keys = set(found)
    return len(found_keys & set(hot)) / len(found_keys) if found_keys else 1.0


def recall(found: Iterable[Hashable], hot: Iterable[Hashable]) -> float:
    """Return the share of the hot keys that were found; 1 if none is hot.

    >>> recall(["a", "b"], ["a", "c", "d", "e"])
    0.25
    """
    hot_keys = set(hot)
    return len(hot_keys & set(found)) / len(hot_keys) if hot_keys else 1.0


def time_to_detect(hot_since: Mapping[Hashable, float], found_at: Mapping[Hashable, float]) -> float | None:
    """Return the mean time from when a key becomes hot until it is found, over found keys; None if there are none.

    A key found before it became hot counts as found at once.

    >>> time_to_detect({"a": 10.0, "b": 20.0}, {"a": 14.0, "x": 1.0})
    4.0
    """
    delays = [max(0.0, found_at[key] - since) for key, since in hot_since.items() if key in found_at]
    return sum(delays) / len(delays) if delays else None
