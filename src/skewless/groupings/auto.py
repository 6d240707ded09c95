"""Auto: plain hashing while there is no skew worth handling, `even` while there is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from skewless.errors import ConfigurationError, require_at_least
from skewless.groupings.even.grouping import Even
from skewless.groupings.even.state import EvenState, Verdict
from skewless.groupings.even.statistics import Statistics


@dataclass(frozen=True, kw_only=True)
class Auto(Even):
    """Choose between key grouping and `even` by what key grouping would cost, at every barrier.

    The statistics that `even` collects anyway show how much plain hashing would overload the busiest worker. Above
    `worthwhile`, and by more than chance explains, `even` takes over; after `patience` barriers below half of it, all
    keys return to where their hash puts them. `remark` reports the choice and the reason.

    Parameters
    ----------
    worthwhile : float
        Overload of the busiest worker under plain hashing, as a fraction of its fair load, that is worth handling.
    patience : int
        Barriers without skew after which plain hashing is chosen again.

    The others are those of `Even`.

    >>> Auto(workers=8).remark(Auto(workers=8).first_state(0, 0))
    'key grouping: nothing is known of the stream yet'

    Reference
    ---------
    Our own. Deviations: none.
    """

    name: ClassVar[str] = "auto"

    worthwhile: float = 0.2
    patience: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("patience", self.patience, 1)
        if not self.worthwhile > 0:
            raise ConfigurationError(subject="worthwhile", expected="above 0", value=self.worthwhile)

    def _revise(self, state: EvenState, statistics: Statistics) -> EvenState:
        hashed = state.plan.hashed_back(state.fair, state.salt)
        loads, targets = hashed.loads(statistics), state.fair * statistics.weight
        overload = float((loads / targets).max()) - 1
        tolerance = np.maximum(self.worthwhile * targets, 4 * np.sqrt(statistics.spread * loads))
        overloaded = bool((loads - targets > tolerance).any())
        calm = state.verdict.calm + 1 if overload < self.worthwhile / 2 else 0
        verdict = Verdict(
            balancing=overloaded or (state.verdict.balancing and calm < self.patience),
            calm=calm,
            overload=overload,
            hottest=float(statistics.keys.max(initial=0.0) / statistics.weight),
        )
        if not verdict.balancing:
            return replace(state, plan=hashed, moved=0.0, verdict=verdict)
        return super()._revise(replace(state, verdict=verdict), statistics)

    def remark(self, state: EvenState, /) -> str:
        verdict = state.verdict
        if verdict.overload < 0:
            return "key grouping: nothing is known of the stream yet"
        why = f"plain hashing would give the busiest worker {1 + verdict.overload:.2f} times its share"
        if not verdict.balancing:
            return f"key grouping: {why}, which is not worth handling"
        return f"even: {why}; the hottest key has {verdict.hottest:.1%}; {super().remark(state)}"
