"""Auto: plain hashing while there is no skew worth handling, `even` while there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skewless.errors import SkewlessError, require_at_least
from skewless.groupings.base import State
from skewless.groupings.even.grouping import Even
from skewless.groupings.even.plan import Plan
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

    >>> Auto(workers=8).remark(Auto(workers=8).start(0, 1, 0).snapshot())
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

    def _memory(self) -> State:
        return {"balancing": np.array(False), "calm": np.array(0), "overload": np.array(-1.0), "hottest": np.array(0.0)}

    def _revise(self, plan: Plan, statistics: Statistics, fair: NDArray[np.float64], base: State) -> tuple[Plan, State]:
        hashed = plan.hashed_back(fair, np.uint64(base["salt"]))
        loads, targets = hashed.loads(statistics), fair * statistics.weight
        overload = float((loads / targets).max()) - 1
        clear = bool(
            (loads - targets > np.maximum(self.worthwhile * targets, 4 * np.sqrt(statistics.spread * loads))).any()
        )
        balancing = bool(base["balancing"])
        calm = int(base["calm"]) + 1 if overload < self.worthwhile / 2 else 0
        balancing = clear or (balancing and calm < self.patience)
        notes: State = {
            "balancing": np.array(balancing),
            "calm": np.array(calm),
            "overload": np.array(overload),
            "hottest": np.array(statistics.keys.max(initial=0.0) / statistics.weight),
        }
        if not balancing:
            return hashed, {**notes, "moved": np.array(0.0)}
        plan, more = super()._revise(plan, statistics, fair, base)
        return plan, {**notes, **more}

    def remark(self, state: State) -> str:
        overload = float(state["overload"])
        if overload < 0:
            return "key grouping: nothing is known of the stream yet"
        why = f"plain hashing would give the busiest worker {1 + overload:.2f} times its share"
        if not state["balancing"]:
            return f"key grouping: {why}, which is not worth handling"
        return f"even: {why}; the hottest key has {state['hottest']:.1%}; {super().remark(state)}"
