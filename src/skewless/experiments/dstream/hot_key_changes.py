"""The run of an application whose hot keys change: throughput, latency and imbalance over time.

At the start of each window all keys are permuted, and the degree of skew changes (`drifting_skew`). A window has five
minutes, as in Figures 10, 13 and 16 of the paper. Latency is recorded as in its section VI.A: the mean of 10,000
consecutive tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from skewless.experiments.base import Point, Preset
from skewless.experiments.dstream.closed_loop import DSTREAM, VARIANTS, closed_loop
from skewless.experiments.dstream.drifting_skew import HEADS, WITHOUT_STOP_WORDS
from skewless.experiments.rows import Row, Rows
from skewless.metrics import sigma
from skewless.streams.arrivals import SECOND

GROUPINGS: Final = ("partial_key", "distribution_aware", *VARIANTS, "even")
JUDGED: Final = ("partial_key", "distribution_aware", DSTREAM)
"""Those of the paper; beside its word count they run without stop words as well."""
TOTAL, INTERVAL, SHARE, WINDOW = "total", "interval", "share", "window"
"""Kinds of rows."""
_PERCENTILES: Final = (1, 10, 25, 50, 75, 90, 99)
_N_SHARES: Final = 40


def points(stream: str, preset: Preset) -> Iterator[Point]:
    """Return the points of an application."""
    if preset == "full":
        sizes = {"in_flight": 100, "windows": 5, "window_s": 300, "interval_s": 10, "barrier_s": 5}
    else:
        sizes = {"in_flight": 10, "windows": 3, "window_s": 3, "interval_s": 1, "barrier_s": 1}
    for name in GROUPINGS:
        yield {"stream": stream, "grouping": name, "workers": 128, **sizes}
    if stream == "tweets":
        for name in JUDGED:
            yield {"stream": WITHOUT_STOP_WORDS, "grouping": name, "workers": 128, **sizes}


def run(
    *,
    stream: str,
    grouping: str,
    workers: int,
    in_flight: int,
    windows: int,
    window_s: int,
    interval_s: int,
    barrier_s: int = 1,
) -> Iterator[Row]:
    """Return throughput and imbalance of each interval, and the latencies of the whole run and of each window.

    `sigma` is the standard deviation, over the workers, of the tuples that each receives in a second of an interval.
    """
    seconds = windows * window_s
    n_intervals = seconds // interval_s
    done = np.zeros(n_intervals + 1, dtype=np.int64)  # the last is for all that is later
    received = np.zeros((n_intervals + 1) * workers, dtype=np.int64)
    latencies, window_of = [], []
    for chunk in closed_loop(
        stream=stream,
        grouping=grouping,
        workers=workers,
        in_flight=in_flight,
        seconds=seconds,
        change_s=window_s,
        hottest=HEADS[stream].by_window,
        barrier_s=barrier_s,
    ):
        done_in = np.minimum(chunk.done // (interval_s * SECOND), n_intervals)
        emitted_in = np.minimum(chunk.emitted // (interval_s * SECOND), n_intervals)
        done += np.bincount(done_in, minlength=done.size)
        received += np.bincount(emitted_in * workers + chunk.workers, minlength=received.size)
        latencies.append(float((chunk.done - chunk.emitted).mean()) / 1e6)
        window_of.append(int(chunk.emitted[0]) // (window_s * SECOND))
    about = {"stream": stream, "grouping": grouping}
    deviations = [sigma(loads) / interval_s for loads in received.reshape(n_intervals + 1, workers)[:n_intervals]]
    yield {
        **about,
        "kind": TOTAL,
        "throughput": float(done[:n_intervals].sum() / seconds),
        "latency_ms": float(np.mean(latencies)),
        "sigma": float(np.mean(deviations)),
    }
    for number in range(n_intervals):
        yield {
            **about,
            "kind": INTERVAL,
            "second": (number + 1) * interval_s,
            "throughput": float(done[number] / interval_s),
            "sigma": deviations[number],
        }
    for share in np.linspace(1 / _N_SHARES, 1, _N_SHARES).tolist():
        yield {**about, "kind": SHARE, "share": 100 * share, "latency_ms": float(np.quantile(latencies, share))}
    for window in range(windows):
        own = np.array(latencies)[np.array(window_of) == window]
        for percentile in _PERCENTILES:
            latency = float(np.percentile(own, percentile))
            yield {**about, "kind": WINDOW, "window": window + 1, "percentile": percentile, "latency_ms": latency}


def totals(rows: Rows, metric: str) -> dict[str, float]:
    """Return a metric of the whole run by grouping."""
    return rows.by("grouping", metric, kind=TOTAL)


def share_within(rows: Rows, grouping: str, latency_ms: float) -> float:
    """Return the percentage of chunks that are done within a time."""
    found = [row["share"] for row in rows.where(kind=SHARE, grouping=grouping) if row["latency_ms"] <= latency_ms]
    return float(max(found, default=0.0))


def swing(rows: Rows, grouping: str) -> float:
    """Return the median latency of the slowest window over that of the fastest."""
    medians = rows.by("window", "latency_ms", kind=WINDOW, grouping=grouping, percentile=50).values()
    return float(max(medians) / min(medians))
