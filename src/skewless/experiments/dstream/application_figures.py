"""Figures 8 to 16: three applications whose hot keys change.

Each has a figure of throughput over time (8, 11, 14), one of latency (9, 12, 15) and one of latency by window (10, 13,
16).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel
from skewless.experiments.checks import Check, close, ordered, within
from skewless.experiments.dstream.closed_loop import RELEASED
from skewless.experiments.dstream.hot_key_changes import (
    INTERVAL,
    SHARE,
    WINDOW,
    points,
    run,
    share_within,
    swing,
    totals,
)
from skewless.experiments.rows import Rows

_RIVALS: Final = {"partial_key": "PKG", "distribution_aware": "DKG"}
_LEAST_THROUGHPUT_FIRST: Final = ("distribution_aware", "partial_key", "popularity_aware")
_LATENCY: Final = "latency, ms"

_DONE_WITHIN: Final = {"distribution_aware": 45, "partial_key": 63, "popularity_aware": 90}
"""Tuples that the paper has done within `_LONG` mean latencies of DStream, in percent: word count only."""
_LONG: Final = 330 / 114


@dataclass(frozen=True, kw_only=True)
class Application:
    """An application, and what the paper prints of it.

    Parameters
    ----------
    stream : str
        The stand-in for its data set.
    label : str
        Its name in titles.
    latency_claim, stability_claim : str
        What the paper says about its latency, and how steady that is.
    throughput, latency : mapping
        The mean of DStream over that of each rival, in the paper.
    throughput_as_released, latency_as_released : mapping
        The same here, with the settings of the authors' code: part of the reasons for deviations.
    hottest : float
        Percentage of the tuples that have the hottest key.
    """

    stream: str
    label: str
    latency_claim: str
    stability_claim: str
    throughput: Mapping[str, float]
    latency: Mapping[str, float]
    throughput_as_released: Mapping[str, float]
    latency_as_released: Mapping[str, float]
    hottest: float


def _ratios(pkg: float, dkg: float) -> dict[str, float]:
    return {"partial_key": pkg, "distribution_aware": dkg}


_WORD_COUNT: Final = Application(
    stream="tweets",
    label="word count (TW)",
    latency_claim="The mean latency of DStream is 114 ms, that of PKG 322 ms and of DKG (distribution-aware) 336 ms: "
    "64 % and 66 % less. DStream has done 90 % of the tuples within 330 ms, PKG 63 % and DKG 45 %.",
    stability_claim="DStream has the lowest latency at every percentile, and the steadiest: between the fifth and the "
    "twentieth minute the distributions of PKG and DKG (distribution-aware) change greatly, as the frequencies of hot "
    "keys change.",
    throughput=_ratios(2.3, 3.6),
    latency=_ratios(0.36, 0.34),
    throughput_as_released=_ratios(2.28, 4.1),
    latency_as_released=_ratios(0.43, 0.24),
    hottest=6.9,
)
_VWAP: Final = Application(
    stream="trades",
    label="VWAP (ST)",
    latency_claim="The mean latency of DStream is 174 ms, 31 % less than that of PKG and 50 % less than that of DKG "
    "(distribution-aware).",
    stability_claim="Trades change so much that the latencies of PKG and DKG (distribution-aware) vary significantly; "
    "those of DStream are very stable. PKG and DKG go by what has accumulated, which does not tell what is hot now.",
    throughput=_ratios(2.0, 2.4),
    latency=_ratios(0.69, 0.5),
    throughput_as_released=_ratios(4.5, 7.6),
    latency_as_released=_ratios(0.22, 0.13),
    hottest=14.5,
)
_HASHTAGS: Final = Application(
    stream="hashtags",
    label="hashtags (HA)",
    latency_claim="The mean latency of DStream is 148 ms, that of PKG 210 ms and of DKG (distribution-aware) 280 ms: "
    "30 % and 48 % less.",
    stability_claim="The processing time with DStream is very low and stable.",
    throughput=_ratios(1.9, 2.3),
    latency=_ratios(0.70, 0.52),
    throughput_as_released=_ratios(1.89, 3.5),
    latency_as_released=_ratios(0.53, 0.28),
    hottest=5.6,
)


def throughput_over_time(application: Application) -> Experiment:
    """Return the experiment of Figures 8, 11 and 14."""
    pkg, dkg = application.throughput.values()
    pkg_released, dkg_released = application.throughput_as_released.values()
    hottest = application.hottest
    code = "with the numbers of its authors' code DStream has {} times as much."
    return Experiment(
        title=f"Throughput over time, {application.label}",
        claim=f"The mean throughput of DStream is {pkg} times that of PKG and {dkg} times that of DKG "
        "(distribution-aware).",
        points=partial(points, application.stream),
        run=run,
        expect=partial(_expect_throughput, application.throughput),
        compare=partial(_compare_means, "throughput", "mean throughput", application.throughput),
        panels=(Panel(x="second", y="throughput", title="throughput, tuples per second", where={"kind": INTERVAL}),),
        source="section VI.B, Figures 8, 11 and 14",
        deviates={
            "mean throughput over PKG": f"The hottest key has {hottest} % of the tuples, so its two workers hold PKG "
            f"at the throughput of {200 / hottest:.0f}; {code.format(pkg_released)}",
            "mean throughput over DKG": f"DKG never cuts a key, so the worker of the hottest holds it at the "
            f"throughput of {100 / hottest:.0f}; {code.format(dkg_released)}",
        },
        full_only=frozenset({"mean throughput over PKG: far more"} if application is _WORD_COUNT else ()),
    )


def _expect_throughput(printed: Mapping[str, float], rows: Rows) -> Iterator[Check]:
    found = totals(rows, "throughput")
    yield ordered("mean throughput: DKG < PKG < DStream", {name: found[name] for name in _LEAST_THROUGHPUT_FIRST})
    for name, paper in printed.items():
        ratio = found["popularity_aware"] / found[name]
        yield within(f"mean throughput over {_RIVALS[name]}: far more", ratio, least=(1 + paper) / 2)
        yield close(f"mean throughput over {_RIVALS[name]}", ratio, paper, tolerance=0.15)


def _compare_means(metric: str, what: str, printed: Mapping[str, float], rows: Rows) -> Iterator[Number]:
    found = totals(rows, metric)
    for name, paper in printed.items():
        for label in ("popularity_aware", RELEASED):
            ratio, even = found[label] / found[name], found["even"] / found[name]
            yield Number(f"{label}: {what} over that of {name}", paper, ratio, even)


def latency(application: Application) -> Experiment:
    """Return the experiment of Figures 9, 12 and 15."""
    return Experiment(
        title=f"Latency, {application.label}",
        claim=application.latency_claim,
        points=partial(points, application.stream),
        run=run,
        expect=partial(_expect_latency, application),
        source="section VI.B, Figures 9, 12 and 15",
        compare=partial(_compare_latency, application),
        panels=(
            Panel(
                x="latency_ms",
                y="share",
                x_label=_LATENCY,
                title="done within, % of groups of 10,000 tuples",
                log_x=True,
                where={"kind": SHARE},
            ),
        ),
        deviates={
            f"mean latency over that of {_RIVALS[name]}": "As many tuples are in flight with any grouping, so "
            "latencies are in inverse proportion to throughputs; with the numbers of its authors' code DStream has "
            f"{ratio} of it."
            for name, ratio in application.latency_as_released.items()
        },
    )


def _expect_latency(application: Application, rows: Rows) -> Iterator[Check]:
    found = totals(rows, "latency_ms")
    order = tuple(reversed(_LEAST_THROUGHPUT_FIRST))
    yield ordered("mean latency: DStream < PKG < DKG", {name: found[name] for name in order})
    for name, paper in application.latency.items():
        ratio = found["popularity_aware"] / found[name]
        yield within(f"mean latency over that of {_RIVALS[name]}: far less", ratio, most=(1 + paper) / 2)
        yield close(f"mean latency over that of {_RIVALS[name]}", ratio, paper, tolerance=0.15)
    if application is _WORD_COUNT:
        long_ms = _LONG * found["popularity_aware"]
        shares = {name: share_within(rows, name, long_ms) for name in _DONE_WITHIN}
        yield within("DStream: done within 2.9 times its mean, %", shares["popularity_aware"], least=85)
        yield ordered("done within that time: DKG < PKG < DStream", shares)


def _compare_latency(application: Application, rows: Rows) -> Iterator[Number]:
    yield from _compare_means("latency_ms", "mean latency", application.latency, rows)
    if application is _WORD_COUNT:
        long_ms = _LONG * totals(rows, "latency_ms")["popularity_aware"]
        for name, paper in _DONE_WITHIN.items():
            done, even = (share_within(rows, label, long_ms) for label in (name, "even"))
            yield Number(f"{name}: done within 2.9 times the mean of DStream, %", paper, done, even)


def latency_by_window(application: Application) -> Experiment:
    """Return the experiment of Figures 10, 13 and 16."""
    return Experiment(
        title=f"Latency window by window, {application.label}",
        claim=application.stability_claim,
        points=partial(points, application.stream),
        run=run,
        expect=_expect_stable,
        source="section VI.B, Figures 10, 13 and 16",
        compare=_compare_swings,
        panels=tuple(
            Panel(
                x="window",
                y="latency_ms",
                y_label=_LATENCY,
                title=f"{percentile}th percentile",
                log_y=True,
                where={"kind": WINDOW, "percentile": percentile},
            )
            for percentile in (10, 50, 99)
        ),
        deviates={
            f"latency of {label} over DStream, least of all percentiles and windows": "Only the first per cent or so: "
            "right after a change the tuples in flight wait at the workers that were hot before, and new ones find "
            "empty queues."
            for label in _RIVALS.values()
        }
        | {
            f"median latency of {label}, highest window over lowest: changes greatly": "In the stand-in other keys are "
            "hot in each window, but as hot as those before: what changes is the beginning of a window, not its median."
            for label in _RIVALS.values()
        },
        full_only=frozenset(  # windows of a second or two are too short
            f"median latency, highest window over lowest: DStream < {label}" for label in _RIVALS.values()
        ),
    )


def _expect_stable(rows: Rows) -> Iterator[Check]:
    """Expect DStream to have the lowest latency at every percentile of every window, and the steadiest."""
    dstream = _by_window(rows, "popularity_aware")
    for name, label in _RIVALS.items():
        other = _by_window(rows, name)
        least = min(other[place] / dstream[place] for place in dstream)
        yield within(f"latency of {label} over DStream, least of all percentiles and windows", least, least=1.0)
    for name, label in _RIVALS.items():
        what = f"median latency of {label}, highest window over lowest: changes greatly"
        yield within(what, swing(rows, name), least=1.25)
        swings = {grouping: swing(rows, grouping) for grouping in ("popularity_aware", name)}
        yield ordered(f"median latency, highest window over lowest: DStream < {label}", swings)


def _by_window(rows: Rows, grouping: str) -> dict[tuple[int, int], float]:
    found = rows.where(kind=WINDOW, grouping=grouping)
    return {(row["window"], row["percentile"]): row["latency_ms"] for row in found}


def _compare_swings(rows: Rows) -> Iterator[Number]:
    for name in ("popularity_aware", RELEASED, *_RIVALS):
        paper = "changes greatly" if name in _RIVALS else "stable"
        what = f"{name}: median latency, highest window over lowest"
        yield Number(what, paper, swing(rows, name), swing(rows, "even"))


EXPERIMENTS: Final = {
    "dstream-figure-8": throughput_over_time(_WORD_COUNT),
    "dstream-figure-9": latency(_WORD_COUNT),
    "dstream-figure-10": latency_by_window(_WORD_COUNT),
    "dstream-figure-11": throughput_over_time(_VWAP),
    "dstream-figure-12": latency(_VWAP),
    "dstream-figure-13": latency_by_window(_VWAP),
    "dstream-figure-14": throughput_over_time(_HASHTAGS),
    "dstream-figure-15": latency(_HASHTAGS),
    "dstream-figure-16": latency_by_window(_HASHTAGS),
}
