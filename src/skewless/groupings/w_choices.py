"""W-Choices: two workers for most keys, all of them for the most frequent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skewless.groupings.d_choices import NEVER, HeadAndTail


@dataclass(frozen=True, kw_only=True)
class WChoices(HeadAndTail):
    """Send a tuple to the less loaded of two workers of its key; one of a frequent key to the least loaded of all.

    Frequencies and loads are the source's own counts. The load is as even as the infrequent keys allow, and every
    worker soon holds a part of every frequent key: with `DChoices` fewer do.

    Parameters
    ----------
    head_share : float, optional
        Relative frequency from which a key is frequent (theta in the paper). Default: 1 / (5 n_workers); the paper
        recommends values from there up to 2 / n_workers.

    >>> import numpy as np
    >>> router = WChoices(workers=50).start(source=0, seed=0)
    >>> len(set(router.route(np.full(100, 7, dtype=np.uint64), 0).tolist()))
    50

    Reference
    ---------
    Nasir, De Francisci Morales, Kourtellis & Serafini, *When Two Choices Are not Enough: Balancing at Scale in
    Distributed Stream Processing* (2016), section III.

    Deviations: none in the rule. What the paper leaves open: the sketch has 2 / theta counters; of several least loaded
    workers the next in turn takes the tuple.
    """

    name: ClassVar[str] = "w_choices"
    aliases: ClassVar[tuple[str, ...]] = ("W-CHOICES", "WC")
    first_decision: ClassVar[int] = NEVER
