"""The balancers of this paper, and their simulation: substreams with state, window by window, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from skewless.experiments.rows import Row
from skewless.groupings import Grouping, make_grouping
from skewless.simulation import KeyedState, Result, Simulation, StateResult, simulate
from skewless.streams import Stream, Topics
from skewless.streams.arrivals import Arrivals

EVEN: Final = "even, single owner"
CLB: Final = "correlation, printed"
REDRAWN: Final = "universal_rebalancing, redrawn"
ON_CHANGE: Final = ("eager, on change", "correlation, on change")
"""ELB and our CLB with new tables when the stream changes, which section 6 leaves to future work."""
SLACKS: Final = {f"eager, slack {slack:g}": slack for slack in (0.05, 0.1, 0.5, 1.0)}
"""ELB with other bounds u and v, of which the paper says nothing: so far from the mean load, as a part of it."""
_PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    EVEN: {"single_owner": True},
    CLB: {"variant": "printed"},
    REDRAWN: {"variant": "redrawn"},
    **{label: {"change": 3.0} for label in ON_CHANGE},
    **{label: {"slack": slack} for label, slack in SLACKS.items()},
}
"""Settings of variants; the grouping is what precedes the comma."""
MEASURED: Final = (
    "eager",
    CLB,
    "correlation",
    "two_choices",
    "universal_rebalancing",
    REDRAWN,
    "flux",
    "key",
    EVEN,
)
"""Those of the paper (ELB, CLB as printed, PKG, UHLB), our CLB, UHLB redrawn, those it mentions, and ours."""
LETTERS: Final = {
    "eager": "ELB",
    CLB: "CLB",
    "two_choices": "PKG",
    "universal_rebalancing": "UHLB",
}
"""What the paper calls them; where a key must have one owner, its PKG can only choose by substream."""


LEVELLED: Final = "correlation"
"""Our CLB, which is shown beside the printed one."""
SCALED_OUT: Final = {"eager": "ELB", CLB: "CLB", "two_choices": "PKG", REDRAWN: "UHLB"}
"""The same where workers are added: UHLB has to draw another function for that."""
TWO_SETS: Final = (
    "By line 11 of Algorithm 2 those substreams leave whose covariance with the heaviest one is at most θ. That makes "
    "it no lighter, so every run chooses it again, and once some have left there are no more of them: here two "
    "workers at most have substreams, one as long as all loads grow with the rate. (Section 4 also says the opposite "
    "of line 11, that those leave which co-vary; ours does that, and levels mean loads.)"
)
"""Why CLB as printed cannot be scaled out."""


def words() -> Topics:
    """Return the words of the tweets, ten of each."""
    return Topics(default_tuples=10 * Topics.default_tuples)


def balancer(label: str, workers: int, **parameters: Any) -> Grouping:
    """Make one of the measured groupings.

    >>> balancer(CLB, 10).variant
    'printed'
    """
    return make_grouping(label.partition(",")[0], workers=workers, **_PARAMETERS.get(label, {}), **parameters)


def simulate_windows(
    grouping: Grouping,
    stream: Stream,
    arrivals: Arrivals,
    *,
    tuples: int,
    window_ms: int,
    service_ms: float = 1.0,
    handoff: str = "stop",
    seed: int = 0,
) -> tuple[Result, StateResult]:
    """Simulate keys with state, and a barrier after each window; state is what a substream gets in 0.1 s (figure 1)."""
    simulation = Simulation(
        grouping,
        stream,
        service_ms=service_ms,
        arrivals=arrivals,
        batch_ms=window_ms,
        seed=seed,
        state=KeyedState(handoff=handoff),
    )
    with without_warnings():
        result = simulate(simulation, tuples=tuples)
    assert result.state is not None  # noqa: S101 - since the simulation has state
    return result, result.state


def balance_rows(states: Sequence[StateResult], *, windows: bool = True, **labels: Any) -> Iterator[Row]:
    """Return a row with the means over some runs (`span` is "run"), and one for each window of the first of them."""
    yield {
        **labels,
        "span": "run",
        "variance": _mean([state.variance_mean for state in states]),
        "deviation": _mean([state.variance_std for state in states]),
        "least": _mean([min(state.window_variances) for state in states]),
        "most": _mean([max(state.window_variances) for state in states]),
        "imbalance": _mean([state.imbalance_mean for state in states]),
        "adaptations": _mean([state.adaptations for state in states]),
        "moved_percent": _mean([state.moved_percent for state in states]),
        "amortised_percent": _mean([state.amortised_percent for state in states]),
    }
    if windows:
        each = zip(states[0].window_variances, states[0].window_moved_percents, strict=True)
        for number, (variance, moved_percent) in enumerate(each, 1):
            yield {**labels, "span": "window", "window": number, "variance": variance, "moved_percent": moved_percent}


def steps_deviation(curve: Sequence[float]) -> float:
    """Return how unsteady a curve is: the standard deviation of the steps from one value to the next.

    >>> steps_deviation([1.0, 2.0, 3.0]), steps_deviation([1.0, 1.0, 3.0])
    (0.0, 1.0)
    """
    return float(np.std(np.diff(curve)))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence the warnings of `eager` about large substreams, which are the point here."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
