"""Figure 21: how many keys are in the synopsis, for several decline rates; r only sets how soon (here 6)."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, Proof, within
from skewless.experiments.dstream.closed_loop import hashes_of
from skewless.experiments.rows import Row, Rows
from skewless.sketches.coin_flip import CoinFlip


def points(preset: Preset) -> Iterator[Point]:
    tuples = 20_000_000 if preset == "full" else 1_000_000
    yield from ({"decline": decline, "tuples": tuples} for decline in (0.02, 0.01, 0.005, 0.0025))


def run(*, decline: float, tuples: int) -> Iterator[Row]:
    predictor = CoinFlip(threshold=6, decline=decline)
    step = tuples // 100
    for start in range(0, tuples, step):
        predictor.update(hashes_of("tweets", start, start + step))
        yield {"decline": decline, "p": f"p = {decline}", "tuples": start + step, "keys": predictor.n}


def _settled(rows: Rows) -> dict[float, list[int]]:
    """Return the keys in the synopsis from a fifth of the run on."""
    return {decline: own.column("keys")[20:] for decline, own in rows.split("decline").items()}


def expect(rows: Rows) -> Iterator[Check]:
    settled = _settled(rows)
    products = [decline * fmean(keys) for decline, keys in settled.items()]
    yield within("keys times p, highest over lowest p: inversely proportional", max(products) / min(products), most=1.5)
    drift = max(max(halves) / min(halves) for halves in map(_halves, settled.values()))
    yield within("keys, mean of one half of the time over that of the other: stable", drift, most=1.15)
    most = max(decline * max(keys) for decline, keys in settled.items())
    stays = sum((bit + 1) / 2 ** (bit + 1) for bit in range(64))
    little = Proof(
        "a vector whose bit j is set, with a probability of 1 / 2 ** (j + 1), stays for j + 1 shifts of 1 / p updates "
        f"each (section IV.B), {stays:.0f} of them in the mean; where each update brings a new key, {stays:.0f} / p of "
        "them are there at a time, by Little's law",
        claimed=1.0,
        bound=stays,
        at_least=True,
    )
    yield within("keys times p, at most: below 1 (Theorem 3)", most, most=1.0).against(little)


def _halves(keys: list[int]) -> tuple[float, float]:
    return fmean(keys[: len(keys) // 2]), fmean(keys[len(keys) // 2 :])


def compare(rows: Rows) -> Iterator[Number]:
    for decline, keys in _settled(rows).items():
        yield Number(f"p = {decline}: keys in the synopsis, mean", f"below {1 / decline:.0f}", fmean(keys))


EXPERIMENTS: Final = {
    "dstream-figure-21": Experiment(
        title="Size of the synopsis for several decline rates",
        claim="The number of keys in the synopsis is stable after a short time, and inversely proportional to the "
        "decline rate p; by Theorem 3 it stays below 1 / p.",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="section VI.B, Figure 21; Theorem 3",
        panels=(Panel(x="tuples", y="keys", series="p", title="keys in the synopsis", log_y=True),),
    )
}
