"""Figures 2, 6 and 7: the highest throughput over the number of workers and over the skew, on Zipf's law."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from operator import itemgetter
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, Proof, close, ordered, within
from skewless.experiments.dstream.capacity import STATE, THROUGHPUT, capacity, sizes
from skewless.experiments.dstream.closed_loop import DSTREAM, GROUPINGS, SERVED, VARIANTS
from skewless.experiments.rows import Row, Rows
from skewless.streams.zipf_exponent import harmonic

_OVER_DSTREAM: Final = {"partial_key": 1.21, "distribution_aware": 1.32}
"""The paper's throughput of DStream over that of others, with 128 workers."""
_RIVALS: Final = ("key", "partial_key", "distribution_aware")
_OVER: Final = "throughput over {} with 128 workers"
_KEPT: Final = 0.85
"""What “does not decrease significantly” means at least, in Figure 7."""
_ALONE: Final = ("shuffle", "key", "even")
_STOPS: Final = "throughput of shuffle, 128 workers over 80: it stops rising"
_LEVEL: Final = "throughput of DStream, lowest over highest"
_RISES: Final = "throughput of key grouping keeps rising with the workers"
_MACHINES: Final = 32
_MACHINE_BYTES: Final = 64 * 2**30
"""The supervisors of the paper's cluster, and the memory of each (section VI.A)."""
_KEYS: Final = 10**7
"""Keys of the synthetic data sets (Table II)."""
_HALF: Final = 0.5
"""Less than half of the throughput would be a significant decrease in anyone's words."""


def over_workers(preset: Preset) -> Iterator[Point]:
    """Return the points of Figure 6."""
    levels = (8, 16, 32, 64, 80, 96, 128) if preset == "full" else (8, 80, 128)
    for workers in levels:
        for name in GROUPINGS:
            yield {"workers": workers, "grouping": name, "exponent": 1.0, "keys": _n_keys(preset), **sizes(preset)}


def over_skew(preset: Preset) -> Iterator[Point]:
    """Return the points of Figure 7."""
    exponents = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0) if preset == "full" else (0.5, 1.0, 2.0)
    for exponent in exponents:
        for name in GROUPINGS:
            yield {"workers": 64, "grouping": name, "exponent": exponent, "keys": _n_keys(preset), **sizes(preset)}


def over_both(preset: Preset) -> Iterator[Point]:
    """Return the points of Figure 2."""
    found: list[Point] = []
    for point in chain(over_workers(preset), over_skew(preset)):
        if point["grouping"] in _ALONE and point not in found:  # 64 workers and exponent 1.0 are in both
            found.append(point)
    yield from sorted(found, key=itemgetter("exponent", "workers"))


def _n_keys(preset: Preset) -> int:
    return 10**7 if preset == "full" else 10**5


def run(*, exponent: float, keys: int, grouping: str, workers: int, **how_long: int) -> Iterator[Row]:
    """Return the capacity on a stream of Zipf's law."""
    row = capacity(stream=f"zipf-{exponent}-{keys}", grouping=grouping, workers=workers, **how_long)
    yield {"exponent": exponent, **row}


def _growth(line: Mapping[int, float]) -> float:
    """Return the throughput of 128 workers over that of 80."""
    return line[128] / line[80]


def _kept(rows: Rows, grouping: str) -> float:
    """Return the throughput at exponent 2.0 over that at 0.5."""
    line = rows.by("exponent", "throughput", grouping=grouping)
    return float(line[2.0] / line[0.5])


def _expect_both(rows: Rows) -> Iterator[Check]:
    lines = {name: rows.by("workers", "throughput", exponent=1.0, grouping=name) for name in _ALONE}
    yield ordered(_RISES, lines["key"])
    yield within(_STOPS, _growth(lines["shuffle"]), most=1.1)
    cost = rows.by("workers", "dist_cost", exponent=1.0, grouping="shuffle")
    yield ordered("state of shuffle per key rises with the workers", cost)
    yield within("state of key grouping per key", max(rows.where(grouping="key").column("dist_cost")), most=1.0)
    skewed = rows.where(workers=64)
    yield within("throughput of key grouping falls greatly from exponent 0.5 to 2.0", _kept(skewed, "key"), most=0.5)
    stable = _kept(skewed, "shuffle")
    yield within("throughput of shuffle at exponent 2.0 over 0.5: stable", stable, least=0.9, most=1.1)


def _compare_both(rows: Rows) -> Iterator[Number]:
    for name, paper in (("shuffle", "about 1"), ("key", "above 1")):
        ours, even = (_growth(rows.by("workers", "throughput", exponent=1.0, grouping=one)) for one in (name, "even"))
        yield Number(f"{name}: throughput of 128 workers over 80", paper, ours, even)
    skewed = rows.where(workers=64)
    for name, paper in (("shuffle", "stable"), ("key", "great fall")):
        yield Number(f"{name}: throughput at exponent 2.0 over 0.5", paper, _kept(skewed, name), _kept(skewed, "even"))
    state = rows.by("grouping", "dist_cost", exponent=1.0, workers=128)
    yield Number(f"shuffle: {STATE}, 128 workers", "up to all", state["shuffle"], state["even"])


def _expect_workers(rows: Rows) -> Iterator[Check]:
    lines = {name: rows.by("workers", "throughput", grouping=name) for name in GROUPINGS}
    dstream = lines[DSTREAM]
    for name, label in ((DSTREAM, "DStream"), ("partial_key", "PKG"), ("distribution_aware", "DKG")):
        yield ordered(f"throughput of {label} keeps rising with the workers", lines[name])
    yield within(_STOPS, _growth(lines["shuffle"]), most=1.1)
    order = ("distribution_aware", "partial_key", DSTREAM)
    yield ordered("throughput with 128 workers: DKG < PKG < DStream", {name: lines[name][128] for name in order})
    for name, paper in _OVER_DSTREAM.items():
        check = close(_OVER.format(name), dstream[128] / lines[name][128], paper, tolerance=0.1)
        yield check.against(_one_worker()) if name == "distribution_aware" else check


def _one_worker() -> Proof:
    """Return the proof that DStream does far more than DKG: a key that is never cut holds that one at few workers."""
    hottest = 1 / harmonic(_KEYS, 1.0)
    return Proof(
        f"by Zipf's law the hottest of 10 million keys has {100 * hottest:.1f} % of the tuples (section VI.A); DKG, "
        f"which never cuts a key, does the work of {1 / hottest:.1f} workers at most. DStream does that of nearly all "
        f"of 64 at exponent 0.5, where the hottest key has {100 / harmonic(_KEYS, 0.5):.2f} %, and at 1.0 not "
        f"significantly less (Figure 7), say no less than {_HALF:.0%} of it; with 128 it does more (Figure 6)",
        claimed=_OVER_DSTREAM["distribution_aware"],
        bound=_HALF * 64 * hottest,
        at_least=True,
    )


def _enough_memory(rows: Rows) -> str:
    """Return what the state of a key would have to take to fill the memory of the paper's cluster."""
    per_key = rows.one("dist_cost", exponent=1.0, grouping="shuffle", workers=80)
    line = rows.by("workers", "throughput", exponent=1.0, grouping="shuffle")
    memory = _MACHINES * _MACHINE_BYTES
    return (
        f"It is {_growth(line):.2f}, as workers in virtual time have all the memory they need. The paper's {_MACHINES} "
        f"machines of 64 GB hold the state of all 10 million keys on each of 80 workers if a key takes no more than "
        f"{memory / (80 * _KEYS):,.0f} bytes, far more than a word and its count; in this time a key is on "
        f"{per_key:.1f} of them. What a worker was given of that memory, the paper does not say, so there is no wall "
        "to set up here."
    )


def _dips(rows: Rows) -> str:
    """Return why the throughput of key grouping may fall from one number of workers to the next."""
    line = rows.by("workers", "throughput", exponent=1.0, grouping="key")
    before, after = next((fewer, more) for fewer, more in pairwise(line) if line[more] < line[fewer])
    return (
        f"From {before} to {after} workers it falls by {1 - line[after] / line[before]:.1%}: which keys share the "
        f"worker of the hottest one is a matter of the hash; from {min(line)} to {max(line)} it rises "
        f"{line[max(line)] / line[min(line)]:.1f}-fold."
    )


def _forgets(rows: Rows) -> str:
    """Return the exponent at which the authors' filter does worst, beside other variants."""
    lines = {name: rows.by("exponent", "throughput", grouping=name) for name in VARIANTS}
    lowest = min(lines[DSTREAM], key=lines[DSTREAM].__getitem__)
    works = ", ".join(f"{name} {line[lowest] / SERVED:.0f}" for name, line in lines.items())
    return (
        f"It is lowest at exponent {lowest}, where many keys are hot enough to fill the filter of 16 counters and none "
        f"comes often enough to be put back at once; in workers of 64: {works}."
    )


def _compare_workers(rows: Rows) -> Iterator[Number]:
    found = rows.by("grouping", "throughput", workers=128)
    for name, paper in _OVER_DSTREAM.items():
        for label in VARIANTS:
            ratio, even = found[label] / found[name], found["even"] / found[name]
            yield Number(f"{label}: throughput over {name}, 128 workers", paper, ratio, even)
    even = _growth(rows.by("workers", "throughput", grouping="even"))
    for name, rises in (("shuffle", "about 1"), ("partial_key", "above 1"), ("distribution_aware", "above 1")):
        ratio = _growth(rows.by("workers", "throughput", grouping=name))
        yield Number(f"{name}: throughput of 128 workers over 80", rises, ratio, even)


def _expect_skew(rows: Rows) -> Iterator[Check]:
    for name in _RIVALS:
        yield within(f"throughput of {name} falls sharply from 0.5 to 2.0", _kept(rows, name), most=0.5)
    dstream = rows.by("exponent", "throughput", grouping=DSTREAM)
    yield within("throughput of DStream at 2.0 over 0.5: no great loss", _kept(rows, DSTREAM), least=_KEPT)
    yield within(_LEVEL, min(dstream.values()) / max(dstream.values()), least=0.8)
    found = rows.by("grouping", "throughput", exponent=2.0)
    best = max(found[name] for name in _RIVALS)
    yield ordered("throughput at 2.0: the others < DStream", {"best of them": best, "DStream": dstream[2.0]})


def _compare_skew(rows: Rows) -> Iterator[Number]:
    for name in (*_RIVALS, *VARIANTS):
        paper = "sharp fall" if name in _RIVALS else "no significant fall"
        yield Number(f"{name}: throughput at exponent 2.0 over 0.5", paper, _kept(rows, name), _kept(rows, "even"))


EXPERIMENTS: Final = {
    "dstream-figure-2": Experiment(
        title="Shuffle and key grouping over the number of workers, and over the skew",
        claim="Shuffle grouping needs memory for every key on every worker, so that its throughput stops rising when "
        "workers are added; that of key grouping keeps rising. With 64 workers key grouping loses much throughput from "
        "exponent 0.5 to 2.0, shuffle grouping does not.",
        points=over_both,
        run=run,
        expect=_expect_both,
        compare=_compare_both,
        source="section I, Figure 2",
        panels=(
            Panel(x="workers", y="throughput", title=f"(a) {THROUGHPUT}", where={"exponent": 1.0}),
            Panel(x="exponent", y="throughput", title=f"(b) {THROUGHPUT}", where={"workers": 64}),
            Panel(x="workers", y="dist_cost", title=STATE, where={"exponent": 1.0}),
        ),
        deviates={_STOPS: _enough_memory, _RISES: _dips},
    ),
    "dstream-figure-6": Experiment(
        title="Throughput over the number of workers",
        claim="With shuffle grouping the throughput stops rising at 80 workers, for want of memory. With the others it "
        "keeps rising; with 128 workers DStream has 21 % more than PKG and 32 % more than DKG (distribution-aware).",
        points=over_workers,
        run=run,
        expect=_expect_workers,
        compare=_compare_workers,
        source="section VI.B, Figure 6",
        panels=(
            Panel(x="workers", y="throughput", title=THROUGHPUT),
            Panel(x="workers", y="dist_cost", title=STATE),
        ),
        deviates={_STOPS: _enough_memory},
        full_only=frozenset({"throughput of PKG keeps rising with the workers", _OVER.format("partial_key")}),
    ),
    "dstream-figure-7": Experiment(
        title="Throughput over the skew, 64 workers",
        claim="With key grouping, PKG and DKG (distribution-aware) the throughput falls sharply when the exponent of "
        "Zipf's law rises from 0.5 to 2.0; with DStream it does not fall significantly.",
        points=over_skew,
        run=run,
        expect=_expect_skew,
        compare=_compare_skew,
        source="section VI.B, Figure 7",
        panels=(
            Panel(x="exponent", y="throughput", x_label="exponent of Zipf's law", title=THROUGHPUT),
            Panel(x="exponent", y="dist_cost", x_label="exponent of Zipf's law", title=STATE),
        ),
        deviates={_LEVEL: _forgets},
        full_only=frozenset({"throughput of DStream at 2.0 over 0.5: no great loss"}),
    ),
}
