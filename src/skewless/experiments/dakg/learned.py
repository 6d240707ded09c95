"""What all experiments of this paper share: groupings by their names here, which learn before they are judged."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skewless.groupings import DistributionAware, Grouping, Router, make_grouping

PLAIN: Final = ("full_knowledge", "universal", "modulo", "single_instance")
"""The yardsticks of the paper: O-apx, Universal, Modulo and SIA."""
OURS: Final = ("even", "even, single owner")

_VARIANTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "even, single owner": ("even", {"single_owner": True}),
    "DKG WOSIM": ("distribution_aware", {"map_sparse": False}),
    "DKG PKG": ("distribution_aware", {"split_heavy": True}),
}
_BATCHES: Final = 10  # that a training set comes in, where what is learned of one changes how the next is routed
DEPLOYED_MS: Final = 1000 * _BATCHES
"""When all is learned: a batch is a second."""


def named_grouping(name: str, workers: int, **settings: Any) -> Grouping:
    """Make a grouping, or the variant that a name here stands for.

    >>> named_grouping("DKG PKG", 5, learn_tuples=100).single_owner
    False
    """
    known, own = _VARIANTS.get(name, (name, {}))
    return make_grouping(known, workers=workers, **own, **settings)


def deployed(grouping: Grouping, training: NDArray[np.uint64], seed: int) -> Router:
    """Let one source learn from a training set, and give its router as it is then."""
    router = grouping.start(0, 1, seed)
    batches = 1 if isinstance(grouping, DistributionAware) else _BATCHES
    for number, batch in enumerate(np.array_split(training, batches), start=1):
        router.route(batch, 1000 * (number - 1))
        router = grouping.resume(grouping.barrier([router.snapshot()], 1000 * number)[0])
    return router
