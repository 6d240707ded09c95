"""Auto: plain hashing while there is no skew worth handling, `even` while there is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from skewless.errors import ConfigurationError, require_at_least
from skewless.groupings.even import Even, EvenState
from skewless.salting.forecast import Policy


@dataclass(frozen=True, kw_only=True)
class Auto(Even):
    """Choose between key grouping and `even` by what key grouping would cost, at every barrier.

    The counts that `even` collects anyway show how much plain hashing would overload the busiest worker. Above
    `worthwhile`, and by more than chance explains, `even` takes over; after `patience` barriers below half of it, all
    keys return to where their hash puts them. Before the first barrier every key is spread, as with `even`. `remark`
    reports the choice and the reason.

    Parameters
    ----------
    worthwhile : float
        Overload of the busiest worker under plain hashing, as a fraction of its fair load, that is worth handling.
    patience : int
        Barriers without skew after which plain hashing is chosen again.

    The others are those of `Even`.

    >>> Auto(workers=8).remark(Auto(workers=8).first_state(0, 0))
    'every key is spread: nothing is known of the stream yet'

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

    @property
    def policy(self) -> Policy:
        return replace(super().policy, worthwhile=self.worthwhile, patience=self.patience)

    def remark(self, state: EvenState, /) -> str:
        verdict = state.forecast.verdict
        if verdict.overload < 0:
            return (
                super().remark(state) if state.forecast.spread else "key grouping: nothing is known of the stream yet"
            )
        why = f"plain hashing would give the busiest worker {1 + verdict.overload:.2f} times its share"
        if not verdict.balancing:
            return f"key grouping: {why}, which is not worth handling"
        return f"even: {why}; the hottest key has {verdict.hottest:.1%}; {super().remark(state)}"
