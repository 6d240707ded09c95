"""Figure 2: the variance of loads over time where keys are normally distributed and where they follow Zipf's law."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skewless.experiments.base import Check, Experiment, Number, Panel, Rows, close, ordered, within
from skewless.experiments.slb.balanced import EVEN, PUBLISHED
from skewless.experiments.slb.findings import FIGURE_2
from skewless.experiments.slb.two_streams import CLB, KEYS, points, run

PRINTED: Final = {"S1": (2.08983e10, 6.76016e8), "S2": (2.08325e10, 7.92797e8)}


def of_stream(rows: Rows, grouping: str, metric: str) -> dict[str, float]:
    """Give a metric of each stream, with 10 workers."""
    return rows.by("stream", metric, span="run", grouping=grouping, workers=10, every=(1, 2))


def expect(rows: Rows) -> Iterator[Check]:
    for name, label in zip(CLB, ("CLB", "CLB as published"), strict=True):
        variance, deviation, least, most = (
            of_stream(rows, name, metric) for metric in ("variance", "deviation", "least", "most")
        )
        inside = least["S2"] <= least["S1"] and most["S1"] <= most["S2"]
        found = f"{least['S1']:.3g} … {most['S1']:.3g} and {least['S2']:.3g} … {most['S2']:.3g}"
        yield within(f"{label}: equal means", variance["S1"] / variance["S2"], least=0.9, most=1.1)
        yield ordered(f"{label}: less deviation on S1", {stream: deviation[stream] for stream in PRINTED})
        yield Check(f"{label}: all windows of S1 within the range of S2", inside, found)
        yield from (close(f"{label}: mean on {s}", variance[s], PRINTED[s][0], tolerance=0.1) for s in PRINTED)


def compare(rows: Rows) -> Iterator[Number]:
    for name, label in zip(CLB, ("CLB", "CLB as published"), strict=True):
        for at, metric in enumerate(("variance", "deviation")):
            ours, even = of_stream(rows, name, metric), of_stream(rows, EVEN, metric)
            yield from (Number(f"{metric} on {s}, {label}", PRINTED[s][at], ours[s], even[s]) for s in PRINTED)


EXPERIMENT = Experiment(
    title="Imbalance over time, by the distribution of keys",
    claim="CLB with a new table after every window, 10 workers, 600,000 tuples a window: on S1 (normal) and S2 (Zipf) "
    "the variance of loads has equal means, 2.09 and 2.08 · 10¹⁰, but on S2 deviates more, 7.9 against 6.8 · 10⁸; "
    "all windows of S1 lie within the range of S2. With 5 and 15 workers, and with other balancers, it is alike.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    paper=tuple({"stream": stream, "grouping": PUBLISHED, "span": "run", "workers": 10, "every": 2, "variance": mean}
                for stream, (mean, _) in PRINTED.items()),
    deviates=FIGURE_2,
    full_only=frozenset(f"CLB as published: mean on {stream}" for stream in PRINTED),
    panels=(
        *(Panel(x="window", y="variance", title=f"{stream}, 10 workers", x_label="window of a minute",
                y_label="variance of loads", log_y=True, where={"span": "window", "stream": stream})
          for stream in KEYS),
        Panel(x="stream", y="variance", kind="bar", title="mean variance, 10 workers", log_y=True,
              where={"span": "run", "workers": 10, "every": (1, 2)}),
        *(Panel(x="workers", y="variance", title=f"mean variance on {stream}, by workers", log_y=True,
                where={"span": "run", "stream": stream, "every": 2, "grouping": CLB}) for stream in KEYS),
        Panel(x="every", y="variance", kind="bar", title="on S2, by windows between tables",
              x_label="windows", log_y=True, where={"span": "run", "stream": "S2", "workers": 10, "grouping": CLB}),
    ),
)  # fmt: skip
