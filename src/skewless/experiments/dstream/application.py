"""An application whose hot keys change: throughput, latency and evenness over time, in one run.

The stand-ins' popularities do not change by themselves, so all keys change places at the beginning of each window. A
window of half a minute stands for the paper's five minutes. Latency is recorded as in section VI.A of the paper: the
mean of 10,000 tuples emitted in a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from skewless.experiments.base import Check, Number, Panel, Preset, Row, Rows, close, ordered, within
from skewless.experiments.dstream.in_flight import RELEASED, flow
from skewless.metrics import stddev
from skewless.streams.arrivals import SECOND

LINES: Final = ("partial_key", "distribution_aware", "popularity_aware", RELEASED, "w_choices", "even")
_ORDER: Final = ("distribution_aware", "partial_key", "popularity_aware")  # by throughput, as the paper has it
_SHORT: Final = {"partial_key": "PKG", "distribution_aware": "DKG"}
_PERCENTILES: Final = (1, 10, 25, 50, 75, 90, 99)
_N_SHARES: Final = 40
_TOTAL, _INTERVAL, _SHARE, _WINDOW = "total", "interval", "share", "window"  # kinds of rows
_LATENCY: Final = "latency, ms"
OVER_TIME: Final = (
    Panel(x="second", y="throughput", title="throughput, tuples per second", where={"kind": _INTERVAL}),
)  # fmt: skip
SHARES: Final = (
    Panel(x="latency_ms", y="share", x_label=_LATENCY, title="done within, % of groups of 10,000 tuples", log_x=True,
          where={"kind": _SHARE}),
)  # fmt: skip
BY_WINDOW: Final = tuple(
    Panel(x="window", y="latency_ms", y_label=_LATENCY, title=f"{percentile}th percentile", log_y=True,
          where={"kind": _WINDOW, "percentile": percentile})
    for percentile in (10, 50, 99)
)  # fmt: skip

SWINGS: Final = {
    f"latency of {label} over DStream, least of all percentiles and windows": "Only the first per cent or so: right "
    "after a change the tuples in flight wait at the workers that were hot before, and new ones find empty queues."
    for label in _SHORT.values()
} | {
    f"median latency of {label}, highest window over lowest: changes greatly": "In the stand-in other keys are hot in "
    "each window, but as hot as those before: what changes is the beginning of a window, not its median."
    for label in _SHORT.values()
}
"""Why claims about windows do not hold."""
STEADIER: Final = frozenset(
    f"median latency, highest window over lowest: DStream < {label}" for label in _SHORT.values()
)
"""What windows of a second or two are too short for."""


def points(stream: str, preset: Preset) -> Iterator[Mapping[str, Any]]:
    """Give the lines of an application."""
    in_flight, windows, window_s, interval_s = (100, 5, 30, 10) if preset == "full" else (10, 3, 2, 1)
    sizes = {"in_flight": in_flight, "windows": windows, "window_s": window_s, "interval_s": interval_s}
    yield from ({"stream": stream, "grouping": name, "workers": 128, **sizes} for name in LINES)


def run(
    *, stream: str, grouping: str, workers: int, in_flight: int, windows: int, window_s: int, interval_s: int
) -> Iterator[Row]:
    """Give what is done in each interval, how even it lies, and the latencies overall and window by window."""
    seconds = windows * window_s
    n = seconds // interval_s
    done = np.zeros(n + 1, dtype=np.int64)  # the last is for what is beyond the end
    received = np.zeros((n + 1) * workers, dtype=np.int64)
    means, begins = [], []
    for group in flow(
        stream=stream, grouping=grouping, workers=workers, in_flight=in_flight, seconds=seconds, change_s=window_s
    ):
        done_in, emitted_in = (np.minimum(times // (interval_s * SECOND), n) for times in (group.done, group.emitted))
        done += np.bincount(done_in, minlength=done.size)
        received += np.bincount(emitted_in * workers + group.workers, minlength=received.size)
        means.append(float((group.done - group.emitted).mean()) / 1e6)
        begins.append(int(group.emitted[0]) // (window_s * SECOND))
    about = {"stream": stream, "grouping": grouping}
    uneven = [stddev(loads) for loads in received.reshape(n + 1, workers)[:n]]
    yield {**about, "kind": _TOTAL, "throughput": float(done[:n].sum() / seconds), "latency_ms": float(np.mean(means)),
           "stddev": float(np.mean(uneven))}  # fmt: skip
    for number in range(n):
        yield {**about, "kind": _INTERVAL, "second": (number + 1) * interval_s,
               "throughput": float(done[number] / interval_s), "stddev": uneven[number]}  # fmt: skip
    for share in np.linspace(1 / _N_SHARES, 1, _N_SHARES).tolist():
        yield {**about, "kind": _SHARE, "share": 100 * share, "latency_ms": float(np.quantile(means, share))}
    for window in range(windows):
        own = np.array(means)[np.array(begins) == window]
        for percentile in _PERCENTILES:
            latency = float(np.percentile(own, percentile))
            yield {**about, "kind": _WINDOW, "window": window + 1, "percentile": percentile, "latency_ms": latency}


def totals(rows: Rows, metric: str) -> dict[str, float]:
    """Give a metric of the whole run for each line."""
    return rows.by("grouping", metric, kind=_TOTAL)


def expect_throughput(rows: Rows, *, pkg: float, dkg: float) -> Iterator[Check]:
    """Expect DStream to have so many times the throughput of the two others."""
    found = totals(rows, "throughput")
    yield ordered("mean throughput: DKG < PKG < DStream", {name: found[name] for name in _ORDER})
    for name, paper in (("partial_key", pkg), ("distribution_aware", dkg)):
        ratio = found["popularity_aware"] / found[name]
        yield within(f"mean throughput over {_SHORT[name]}: far more", ratio, least=(1 + paper) / 2)
        yield close(f"mean throughput over {_SHORT[name]}", ratio, paper, tolerance=0.15)


def compare_throughput(rows: Rows, *, pkg: float, dkg: float) -> Iterator[Number]:
    """Put the paper's ratios beside those found."""
    yield from _ratios(totals(rows, "throughput"), "mean throughput", {"partial_key": pkg, "distribution_aware": dkg})


def expect_latency(rows: Rows, *, pkg: float, dkg: float) -> Iterator[Check]:
    """Expect the mean latency of DStream to be so many times that of the two others."""
    found = totals(rows, "latency_ms")
    yield ordered("mean latency: DStream < PKG < DKG", {name: found[name] for name in reversed(_ORDER)})
    for name, paper in (("partial_key", pkg), ("distribution_aware", dkg)):
        ratio = found["popularity_aware"] / found[name]
        yield within(f"mean latency over that of {_SHORT[name]}: far less", ratio, most=(1 + paper) / 2)
        yield close(f"mean latency over that of {_SHORT[name]}", ratio, paper, tolerance=0.15)


def compare_latency(rows: Rows, *, pkg: float, dkg: float) -> Iterator[Number]:
    """Put the paper's ratios beside those found."""
    yield from _ratios(totals(rows, "latency_ms"), "mean latency", {"partial_key": pkg, "distribution_aware": dkg})


def expect_stable(rows: Rows) -> Iterator[Check]:
    """Expect DStream to have the lowest latency at every percentile of every window, and the steadiest."""
    dstream = _by_window(rows, "popularity_aware")
    for name, label in _SHORT.items():
        other = _by_window(rows, name)
        least = min(other[place] / dstream[place] for place in dstream)
        yield within(f"latency of {label} over DStream, least of all percentiles and windows", least, least=1.0)
    for name, label in _SHORT.items():
        what = f"median latency of {label}, highest window over lowest: changes greatly"
        yield within(what, swing(rows, name), least=1.25)
        swings = {line: swing(rows, line) for line in ("popularity_aware", name)}
        yield ordered(f"median latency, highest window over lowest: DStream < {label}", swings)


def compare_stable(rows: Rows) -> Iterator[Number]:
    """Show how far the latency swings from window to window."""
    for name in ("popularity_aware", RELEASED, *_SHORT):
        paper = "changes greatly" if name in _SHORT else "stable"
        what = f"{name}: median latency, highest window over lowest"
        yield Number(what, paper, swing(rows, name), swing(rows, "even"))


def swing(rows: Rows, grouping: str) -> float:
    """Give the median latency of the slowest window over that of the fastest."""
    medians = rows.by("window", "latency_ms", kind=_WINDOW, grouping=grouping, percentile=50).values()
    return float(max(medians) / min(medians))


def held_back(*, hottest: float, pkg: float, dkg: float) -> dict[str, str]:
    """Say why ratios of throughput are others than the paper's, and what they are with the numbers of its code."""
    code = "with the numbers of its authors' code DStream has {} times as much."
    return {
        "mean throughput over PKG": f"The hottest key has {hottest} % of the tuples, so its two workers hold PKG at "
        f"the throughput of {200 / hottest:.0f}; {code.format(pkg)}",
        "mean throughput over DKG": f"DKG never cuts a key, so the worker of the hottest holds it at the throughput of "
        f"{100 / hottest:.0f}; {code.format(dkg)}",
    }


def in_proportion(*, pkg: float, dkg: float) -> dict[str, str]:
    """Say why ratios of latency are others than the paper's, and what they are with the numbers of its code."""
    why = "As many tuples are in flight with any grouping, so latencies are in inverse proportion to throughputs"
    return {
        f"mean latency over that of {label}": f"{why}; with the numbers of its authors' code DStream has {ratio} of it."
        for label, ratio in (("PKG", pkg), ("DKG", dkg))
    }


def share_within(rows: Rows, grouping: str, latency_ms: float) -> float:
    """Give the percentage of groups of tuples that are done within a time."""
    found = [row["share"] for row in rows.where(kind=_SHARE, grouping=grouping) if row["latency_ms"] <= latency_ms]
    return float(max(found, default=0.0))


def _by_window(rows: Rows, grouping: str) -> dict[tuple[int, int], float]:
    found = rows.where(kind=_WINDOW, grouping=grouping)
    return {(row["window"], row["percentile"]): row["latency_ms"] for row in found}


def _ratios(found: Mapping[str, float], what: str, papers: Mapping[str, float]) -> Iterator[Number]:
    for name, paper in papers.items():
        for label in ("popularity_aware", RELEASED):
            ratio, even = found[label] / found[name], found["even"] / found[name]
            yield Number(f"{label}: {what} over that of {name}", paper, ratio, even)
