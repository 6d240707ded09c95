"""The exponent of Zipf's law, from the share of the most frequent keys."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from skewless.errors import ConfigurationError, require_at_least

_EXACT: Final = 256
"""Terms that are added one by one; the others are integrated, with about 12 correct digits."""


def harmonic(n: int, exponent: float) -> float:
    """Return the sum of k ** -exponent over k = 1 … n without adding millions of terms.

    >>> round(harmonic(4, 1.0), 6), round(harmonic(5_700_000, 1.0), 6)
    (2.083333, 16.133192)
    """
    m = min(n, _EXACT)
    total = float((np.arange(1, m + 1, dtype=np.float64) ** -exponent).sum())
    if n == m:
        return total
    power = 1 - exponent
    area = np.log(n / m) if power == 0 else (n**power - m**power) / power
    ends = (n**-exponent - m**-exponent) / 2
    slopes = exponent * (m ** (-exponent - 1) - n ** (-exponent - 1)) / 12
    return total + float(area + ends + slopes)


@cache
def exponent_of_share(n_keys: int, n_hot: int, share: float) -> float:
    """Return the exponent at which the `n_hot` most frequent of `n_keys` keys have a share of all tuples.

    If they have more than the share in a uniform distribution, the exponent is 0.

    >>> round(exponent_of_share(6_649, 532, 0.8), 4)
    1.0806
    """
    require_at_least("n_hot", n_hot, 1)
    require_at_least("n_keys", n_keys, n_hot)
    if not 0 < share < 1:
        raise ConfigurationError(subject="share", expected="between 0 and 1", value=share)
    if n_hot / n_keys >= share:
        return 0.0
    low, high = 0.0, 1.0
    while _share(n_keys, n_hot, high) < share:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _share(n_keys, n_hot, middle) < share else (low, middle)
    return high


def _share(n_keys: int, n_hot: int, exponent: float) -> float:
    return harmonic(n_hot, exponent) / harmonic(n_keys, exponent)
