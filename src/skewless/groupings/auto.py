"""Auto: plain hashing while there is no skew worth handling, `even` while there is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from skewless.errors import SkewlessError, require_at_least
from skewless.groupings.even.grouping import Even
from skewless.groupings.even.state import EvenState, Verdict
from skewless.groupings.even.statistics import Statistics


@dataclass(frozen=True, kw_only=True)
class Auto(Even):
    """Choose between key grouping and `even` by what key grouping would cost, at every barrier.

    The statistics that `even` gathers anyway tell what plain hashing would do to the busiest worker. Above
    `worthwhile`, and by more than chance explains, `even` takes over; after `patience` barriers below half of it, all
    keys go back to where their hash puts them. `remark` says what was chosen, and why.

    Parameters
    ----------
    worthwhile: overload of the busiest worker under plain hashing, as a share of its fair load, worth handling.
    patience: barriers without skew after which plain hashing is chosen again.

    All others are those of `Even`.

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
            raise SkewlessError(f"worthwhile must be above 0; got {self.worthwhile}")

    def _revise(self, state: EvenState, statistics: Statistics) -> EvenState:
        hashed = state.plan.hashed_back(state.fair, state.salt)
        loads, targets = hashed.loads(statistics), state.fair * statistics.weight
        overload = float((loads / targets).max()) - 1
        clear = bool(
            (loads - targets > np.maximum(self.worthwhile * targets, 4 * np.sqrt(statistics.spread * loads))).any()
        )
        calm = state.verdict.calm + 1 if overload < self.worthwhile / 2 else 0
        verdict = Verdict(
            balancing=clear or (state.verdict.balancing and calm < self.patience),
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
