"""Figures 8 to 16: three applications whose hot keys change.

Each has a figure of throughput over time (8, 11, 14), one of latency (9, 12, 15) and one of latency by window (10, 13,
16).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel
from skewless.experiments.checks import Check, close, ordered, within
from skewless.experiments.dstream.closed_loop import DSTREAM, SERVED, VARIANTS
from skewless.experiments.dstream.drifting_skew import HEADS, WITHOUT_STOP_WORDS
from skewless.experiments.dstream.hot_key_changes import (
    INTERVAL,
    JUDGED,
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
_LEAST_THROUGHPUT_FIRST: Final = ("distribution_aware", "partial_key", DSTREAM)
_WORKERS_OF_A_KEY: Final = {"partial_key": 2, "distribution_aware": 1}
_LATENCY: Final = "latency, ms"
_MOST_LAST: Final = "mean throughput: DKG < PKG < DStream"
_LEAST_FIRST: Final = "mean latency: DStream < PKG < DKG"

_DONE_WITHIN: Final = {"distribution_aware": 45, "partial_key": 63, DSTREAM: 90}
"""Tuples that the paper has done within `_LONG` mean latencies of DStream, in percent: word count only."""
_LONG: Final = 330 / 114
_STABLE: Final = "median latency of DStream, highest window over lowest: stable"
_CHANGES: Final = (
    "median latency of {}, highest window over lowest: changes greatly",
    "median latency, highest window over lowest: DStream < {}",
)
_MEDIAN: Final = "median latency of {} over DStream, least of all windows"
_EVERYWHERE: Final = "latency of {} over DStream, least of all percentiles and windows"
_LOW: Final = "median latency, mean of all windows: DStream < {}"
_GREATLY: Final = 1.25
"""The median of one window over that of another from which on a latency changes greatly; below, it is stable."""


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
    missed_throughput, missed_latency : tuple
        The checks of ratios of means that do not hold.
    behind : bool
        Whether PKG is ahead of DStream by the authors' code, so that the checks of the order do not hold either.
    missed_windows : tuple
        The checks of windows that do not hold.
    """

    stream: str
    label: str
    latency_claim: str
    stability_claim: str
    throughput: Mapping[str, float]
    latency: Mapping[str, float]
    missed_throughput: tuple[str, ...]
    missed_latency: tuple[str, ...]
    missed_windows: tuple[str, ...]
    behind: bool = False


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
    missed_throughput=("PKG: far more", "PKG", "DKG: far more", "DKG"),
    missed_latency=("PKG: far less", "PKG", "DKG"),
    missed_windows=(_MEDIAN.format("PKG"), _EVERYWHERE.format("PKG")),
    behind=True,
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
    missed_throughput=("PKG: far more", "PKG"),
    missed_latency=("DKG",),
    missed_windows=(_STABLE,),
)
_HASHTAGS: Final = Application(
    stream="hashtags",
    label="hashtags (HA)",
    latency_claim="The mean latency of DStream is 148 ms, that of PKG 210 ms and of DKG (distribution-aware) 280 ms: "
    "30 % and 48 % less.",
    stability_claim="The processing time with DStream is very low and stable.",
    throughput=_ratios(1.9, 2.3),
    latency=_ratios(0.70, 0.52),
    missed_throughput=("DKG",),
    missed_latency=("PKG", "DKG"),
    missed_windows=(_STABLE,),
)


def throughput_over_time(application: Application) -> Experiment:
    """Return the experiment of Figures 8, 11 and 14."""
    pkg, dkg = application.throughput.values()
    return Experiment(
        title=f"Throughput over time, {application.label}",
        claim=f"The mean throughput of DStream is {pkg} times that of PKG and {dkg} times that of DKG "
        "(distribution-aware)." + _words(application),
        points=partial(points, application.stream),
        run=run,
        expect=partial(_expect_throughput, application),
        compare=partial(_compare_means, "throughput", "mean throughput", application, application.throughput),
        panels=(
            Panel(
                x="second",
                y="throughput",
                title="throughput, tuples per second",
                where={"kind": INTERVAL, "stream": application.stream},
            ),
        ),
        source="section VI.B, Figures 8, 11 and 14",
        deviates={
            f"mean throughput over {missed}": partial(_held_back, application, _rival(missed))
            for missed in application.missed_throughput
        }
        | ({_MOST_LAST: partial(_held_back, application, "partial_key")} if application.behind else {}),
        full_only=frozenset(  # windows of a few seconds are too short for them
            what
            for label in _RIVALS.values()
            for what in (f"mean throughput over {label}", f"mean throughput over {label}: far more")
        ),
    )


def _words(application: Application) -> str:
    """Return which words are counted, if words are."""
    if application is not _WORD_COUNT:
        return ""
    return (
        " (Words are counted with stop words, which the paper leaves out in Figure 3a only; without them is shown "
        "beside it.)"
    )


def _rival(check: str) -> str:
    """Return the grouping that a check is about, by what the paper calls it."""
    return next(name for name, label in _RIVALS.items() if check.startswith(label))


def _held_back(application: Application, rival: str, rows: Rows) -> str:
    """Return the work that each does, what the paper's ratio needs, and what other variants of DStream have."""
    found, shares = totals(rows.where(stream=application.stream), "throughput"), HEADS[application.stream].by_window
    needed = _WORKERS_OF_A_KEY[rival] * application.throughput[rival] / 128
    ratios = {label: found[label] / found[rival] for label in VARIANTS if label != DSTREAM}
    others = ", ".join(f"{label} {ratio:.2f}" for label, ratio in ratios.items())
    return (
        f"Real data of this kind have a hottest key of {min(shares):.1%} to {max(shares):.1%} in a window; its workers "
        f"hold {_RIVALS[rival]} at the work of {found[rival] / SERVED:.0f} of 128. That of the paper's "
        f"data is not printed; by its ratio it is about {needed:.1%}, if no worker has more than its part of that key "
        f"and DStream is even. DStream, whose filter of 16 counters loses hot keys for a while, does that of "
        f"{found[DSTREAM] / SERVED:.0f}. Other variants have, times {_RIVALS[rival]}: {others}."
    )


def _expect_throughput(application: Application, rows: Rows) -> Iterator[Check]:
    found = totals(rows.where(stream=application.stream), "throughput")
    yield ordered(_MOST_LAST, {name: found[name] for name in _LEAST_THROUGHPUT_FIRST})
    for name, paper in application.throughput.items():
        ratio = found[DSTREAM] / found[name]
        yield within(f"mean throughput over {_RIVALS[name]}: far more", ratio, least=(1 + paper) / 2)
        yield close(f"mean throughput over {_RIVALS[name]}", ratio, paper, tolerance=0.15)


def _compare_means(
    metric: str, what: str, application: Application, printed: Mapping[str, float], rows: Rows
) -> Iterator[Number]:
    found = totals(rows.where(stream=application.stream), metric)
    without = totals(rows.where(stream=WITHOUT_STOP_WORDS), metric)
    for name, paper in printed.items():
        for label in VARIANTS:
            ratio, even = found[label] / found[name], found["even"] / found[name]
            yield Number(f"{label}: {what} over that of {name}", paper, ratio, even)
        if without:
            ratio = without[DSTREAM] / without[name]
            yield Number(f"{DSTREAM}, without stop words: {what} over that of {name}", paper, ratio)


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
                where={"kind": SHARE, "stream": application.stream},
            ),
        ),
        deviates={
            f"mean latency over that of {missed}": partial(_by_littles_law, application, _rival(missed))
            for missed in application.missed_latency
        }
        | ({_LEAST_FIRST: partial(_by_littles_law, application, "partial_key")} if application.behind else {}),
        full_only=frozenset(f"mean latency over that of {label}" for label in _RIVALS.values()),
    )


def _by_littles_law(application: Application, rival: str, rows: Rows) -> str:
    throughput = totals(rows.where(stream=application.stream), "throughput")
    in_flight = application.throughput[rival] * application.latency[rival]
    return (
        "As many tuples are in flight with any grouping, so latencies are in inverse proportion to throughputs, "
        f"{throughput[rival] / throughput[DSTREAM]:.2f} here. In the paper, by its ratios of throughput and latency, "
        f"DStream has {in_flight:.2f} times as many in flight as {_RIVALS[rival]}; it does not say why, nor how many."
    )


def _expect_latency(application: Application, rows: Rows) -> Iterator[Check]:
    own = rows.where(stream=application.stream)
    found = totals(own, "latency_ms")
    order = tuple(reversed(_LEAST_THROUGHPUT_FIRST))
    yield ordered(_LEAST_FIRST, {name: found[name] for name in order})
    for name, paper in application.latency.items():
        ratio = found[DSTREAM] / found[name]
        yield within(f"mean latency over that of {_RIVALS[name]}: far less", ratio, most=(1 + paper) / 2)
        yield close(f"mean latency over that of {_RIVALS[name]}", ratio, paper, tolerance=0.15)
    if application is _WORD_COUNT:
        long_ms = _LONG * found[DSTREAM]
        shares = {name: share_within(own, name, long_ms) for name in _DONE_WITHIN}
        yield within("DStream: done within 2.9 times its mean, %", shares[DSTREAM], least=85)
        yield ordered("done within that time: DKG < PKG < DStream", shares)


def _compare_latency(application: Application, rows: Rows) -> Iterator[Number]:
    yield from _compare_means("latency_ms", "mean latency", application, application.latency, rows)
    if application is _WORD_COUNT:
        own = rows.where(stream=application.stream)
        long_ms = _LONG * totals(own, "latency_ms")[DSTREAM]
        for name, paper in _DONE_WITHIN.items():
            done, even = (share_within(own, label, long_ms) for label in (name, "even"))
            yield Number(f"{name}: done within 2.9 times the mean of DStream, %", paper, done, even)


def latency_by_window(application: Application) -> Experiment:
    """Return the experiment of Figures 10, 13 and 16."""
    return Experiment(
        title=f"Latency window by window, {application.label}",
        claim=application.stability_claim,
        points=partial(points, application.stream),
        run=run,
        expect=partial(_expect_stable, application),
        source="section VI.B, Figures 10, 13 and 16",
        compare=partial(_compare_swings, application),
        panels=tuple(
            Panel(
                x="window",
                y="latency_ms",
                y_label=_LATENCY,
                title=f"{percentile}th percentile",
                log_y=True,
                where={"kind": WINDOW, "percentile": percentile, "stream": application.stream},
            )
            for percentile in (10, 50, 99)
        ),
        deviates=dict.fromkeys(application.missed_windows, partial(_by_variant, application)),
        full_only=frozenset(  # windows of a second or two are too short
            what.format(label) for what in (_MEDIAN, _LOW) for label in _RIVALS.values()
        ),
    )


def _expect_stable(application: Application, rows: Rows) -> Iterator[Check]:
    """Expect what the paper says of each figure, and no more.

    Figure 10: DStream has the lowest latency at every percentile and is steadier than the others, which change greatly.
    Figure 13: it is very stable, the others vary significantly. Figure 16: its latency is very low and stable; of the
    others the paper says nothing.
    """
    own = rows.where(stream=application.stream)
    if application is not _WORD_COUNT:
        yield within(_STABLE, swing(own, DSTREAM), most=_GREATLY)
    for name, label in _RIVALS.items():
        if application is _WORD_COUNT:
            yield within(_MEDIAN.format(label), _least(own, name, percentiles=(50,)), least=1.0)
            yield within(_EVERYWHERE.format(label), _least(own, name), least=1.0)
        if application is _HASHTAGS:
            yield ordered(_LOW.format(label), {one: _mean_median(own, one) for one in (DSTREAM, name)})
        else:
            changes, steadier = (what.format(label) for what in _CHANGES)
            yield within(changes, swing(own, name), least=_GREATLY)
            yield ordered(steadier, {grouping: swing(own, grouping) for grouping in (DSTREAM, name)})


def _mean_median(rows: Rows, grouping: str) -> float:
    """Return the mean, over the windows, of the median latency."""
    return fmean(latency for (_, percentile), latency in _by_window(rows, grouping).items() if percentile == 50)


def _least(rows: Rows, rival: str, dstream: str = DSTREAM, percentiles: Sequence[int] = ()) -> float:
    """Return the latency of a rival over that of DStream, the least of all windows and percentiles, or of some."""
    ours, other = _by_window(rows, dstream), _by_window(rows, rival)
    return min(other[place] / ours[place] for place in ours if not percentiles or place[1] in percentiles)


def _by_variant(application: Application, rows: Rows) -> str:
    """Return what the variants of DStream have: the authors' filter forgets hot keys."""
    own = rows.where(stream=application.stream)
    swings = ", ".join(f"{name} {swing(own, name):.2f}" for name in (*VARIANTS, *_RIVALS))
    least, medians = (
        ", ".join(f"{name} {min(_least(own, rival, name, some) for rival in _RIVALS):.2f}" for name in VARIANTS)
        for some in ((), (50,))
    )
    return (
        "In each window of the stand-in other keys are hot, and as hot as in real data of its kind. Which of them the "
        "authors' filter of 16 counters loses, with every key that leaves the synopsis, is a matter of hashes: so "
        f"DStream changes. Median latency, highest window over lowest: {swings}. The least latency of a rival over "
        f"that of DStream, of the medians: {medians}; of all percentiles: {least}."
    )


def _by_window(rows: Rows, grouping: str) -> dict[tuple[int, int], float]:
    found = rows.where(kind=WINDOW, grouping=grouping)
    return {(row["window"], row["percentile"]): row["latency_ms"] for row in found}


def _compare_swings(application: Application, rows: Rows) -> Iterator[Number]:
    own, without = rows.where(stream=application.stream), rows.where(stream=WITHOUT_STOP_WORDS)
    what = "median latency, highest window over lowest"
    for name in (*VARIANTS, *_RIVALS):
        rival = None if application is _HASHTAGS else "changes greatly"
        yield Number(f"{name}: {what}", rival if name in _RIVALS else "stable", swing(own, name), swing(own, "even"))
    if without:
        yield from (Number(f"{name}, without stop words: {what}", None, swing(without, name)) for name in JUDGED)


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
