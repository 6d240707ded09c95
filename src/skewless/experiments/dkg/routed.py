"""What the experiments of this paper share: one grouping on one stream, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from skewless.experiments.base import Row
from skewless.groupings import make_grouping
from skewless.simulate import Simulation, simulate
from skewless.streams import make_stream

GROUPINGS: Final = ("shuffle", "key", "partial_key", "dynamic_key", "d_choices", "w_choices", "even")
"""Those of the paper (SG, KG, PKG, DKG), those published after it, and ours."""


def routed(
    *, stream: str, grouping: str, workers: int = 10, sources: int = 5, tuples: int, seed: int = 0
) -> Iterator[Row]:
    """Route a stream that arrives as fast as all workers together can serve it, a millisecond per tuple."""
    chosen = make_grouping(grouping, n_workers=workers)
    result = simulate(
        Simulation(chosen, make_stream(stream), n_sources=sources, rate=1_000 * workers, seed=seed), tuples=tuples
    )
    metrics: dict[str, Any] = {
        name: getattr(result, name) for name in ("stddev", "imbalance", "dist_cost", "throughput")
    }
    yield {
        "stream": stream,
        "grouping": grouping,
        "workers": workers,
        "sources": sources,
        "seed": seed,
        "tuples": result.tuples,
        **metrics,
        "latency_ms": result.latency_ms["mean"],
    }
