"""Groupings by their names in the figures, and their training: they learn before they are measured."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skewless.groupings import Coordinated, DistributionAware, Grouping, Router, make_grouping

BASELINES: Final = ("full_knowledge", "universal", "modulo", "single_instance")
"""The baselines of the paper: O-apx, Universal, Modulo and SIA."""
OURS: Final = ("even", "even, single owner")

_VARIANTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "even, single owner": ("even", {"single_owner": True}),
    "DKG WOSIM": ("distribution_aware", {"map_sparse": False}),
    "DKG PKG": ("distribution_aware", {"split_heavy": True}),
    "DKG, distinct keys": ("distribution_aware", {"count_distinct": True}),
}
LEARNS: Final = ("distribution_aware", *(name for name in _VARIANTS if name.startswith("DKG")))
"""Those that learn from a training set and then keep to their plan."""
_BATCHES: Final = 10  # of a training set, for groupings that route a batch by what they learned from the one before
TRAINED_MS: Final = 1000 * _BATCHES
"""The time when training ends: a batch is a second."""


def named_grouping(name: str, workers: int, **settings: Any) -> Grouping:
    """Make a grouping, or one of the variants above, by its name.

    >>> named_grouping("DKG PKG", 5, learn_tuples=100).single_owner
    False
    """
    plain, variation = _VARIANTS.get(name, (name, {}))
    return make_grouping(plain, workers=workers, **variation, **settings)


def train(grouping: Grouping, training: NDArray[np.uint64], seed: int) -> Router:
    """Train the router of one source."""
    router = grouping.start(0, seed)
    batches = 1 if isinstance(grouping, DistributionAware) else _BATCHES
    for number, batch in enumerate(np.array_split(training, batches), start=1):
        router.route(batch, 1000 * (number - 1))
        if isinstance(grouping, Coordinated):
            router = grouping.resume(grouping.barrier([router.snapshot()], 1000 * number)[0])
    return router
