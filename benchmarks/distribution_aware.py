"""The evaluation of the paper behind `distribution_aware`: imbalance by number of workers, and how fast it learns.

Streams as in its section 5.1: 100,000 tuples of 10,000 keys under Zipf's law, the keys spread at random over a universe
a hundred times larger, another way in each run; 80,000 tuples to learn from, 20,000 to validate on. A hot key has a
share of at least Θ = 0.1, the sketch an error of ε = 0.05, and there are μ = 2 buckets per worker.

    python benchmarks/distribution_aware.py [--runs N] [--json]
"""

from __future__ import annotations

import argparse
import json
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from skewless import DistributionAware, FullKnowledge, Grouping, Router, SingleInstance, Universal, Zipf
from skewless.metrics.load import imbalance, sigma

_TUPLES: Final = 100_000
_TRAINING: Final = 80_000
_KEYS: Final = 10_000
_UNIVERSE: Final = 100 * _KEYS
_WORKERS: Final = range(1, 11)
_LENGTHS: Final = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 80_000)
_TOLERANCE: Final = 0.05  # of the final standard deviation: no more than so much above it, learning has converged

# Table 1: the line a * k + b through the imbalances on Zipf-2.
_TABLE_1: Final = {
    "O-apx": (60.7, -100.0),
    "Universal mean": (60.7, -60.7),
    "Universal worst": (87.3, -73.0),
    "DKG mean": (60.7, -100.0),
    "DKG worst": (62.0, -100.0),
    "SIA": (100.0, -100.0),
}
# Section 5.2 on Figure 9: with fewer tuples than this, learning has converged.
_CONVERGED: Final = {3.0: 100, 2.0: 1_000, 1.0: 10_000}


def draw_stream(exponent: float, seed: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """Draw the training set, and the validation set as distinct keys with their counts."""
    ranks = Zipf(exponent=exponent, n_keys=_KEYS).slice(0, _TUPLES, tuples=_TUPLES, seed=seed).to_numpy()
    names = np.random.default_rng(seed).choice(_UNIVERSE, size=_KEYS, replace=False).astype(np.uint64)
    keys = names[ranks - 1]
    return keys[:_TRAINING], *np.unique(keys[_TRAINING:], return_counts=True)


def loads_on(router: Router, keys: NDArray[np.uint64], counts: NDArray[np.int64], n_workers: int) -> Any:
    """Give the load of each worker: every key has one owner, so each is routed once and counts for all its tuples."""
    return np.bincount(router.route(keys, 0), weights=counts, minlength=n_workers)


def deployed(grouping: DistributionAware, training: NDArray[np.uint64], seed: int) -> Router:
    """Learn from one source, and make the plan."""
    router = grouping.start(0, 1, seed)
    router.route(training, 0)
    return grouping.resume(grouping.barrier([router.snapshot()], 0)[0])


def imbalances(runs: int, exponent: float = 2.0) -> dict[str, list[float]]:
    """Give λ for each number of workers: the mean and the worst of all runs (Figure 2)."""
    found: dict[str, list[list[float]]] = {
        name: [[] for _ in _WORKERS] for name in ("O-apx", "Universal", "DKG", "SIA")
    }
    for seed in range(runs):
        training, keys, counts = draw_stream(exponent, seed)
        for at, n in enumerate(_WORKERS):
            plain: dict[str, Grouping] = {
                "O-apx": FullKnowledge(n_workers=n, keys=keys, counts=counts),
                "Universal": Universal(n_workers=n),
                "SIA": SingleInstance(n_workers=n),
            }
            routers = {name: grouping.start(0, 1, seed) for name, grouping in plain.items()}
            routers["DKG"] = deployed(DistributionAware(n_workers=n, learn_tuples=_TRAINING), training, seed)
            for name, router in routers.items():
                found[name][at].append(imbalance(loads_on(router, keys, counts, n)))
    curves = {}
    for name, by_workers in found.items():
        spread = name in {"Universal", "DKG"}
        curves[f"{name} mean" if spread else name] = [float(np.mean(values)) for values in by_workers]
        if spread:
            curves[f"{name} worst"] = [max(values) for values in by_workers]
    return curves


def regression(curve: list[float]) -> tuple[float, float]:
    """Fit λ = a * k + b. One worker is always balanced, so the line is that of two and more."""
    slope, offset = np.polyfit(list(_WORKERS)[1:], curve[1:], 1)
    return float(slope), float(offset)


def learning_curve(exponent: float, runs: int) -> dict[int, float]:
    """Give sigma after learning from so many tuples, the mean of all runs, on two workers (Figure 9)."""
    sums = dict.fromkeys(_LENGTHS, 0.0)
    for seed in range(runs):
        training, keys, counts = draw_stream(exponent, seed)
        for length in _LENGTHS:
            router = deployed(DistributionAware(n_workers=2, learn_tuples=length), training[:length], seed)
            sums[length] += sigma(loads_on(router, keys, counts, 2))
    return {length: total / runs for length, total in sums.items()}


def converged_at(curve: dict[int, float]) -> int:
    """Give the least number of tuples from which on sigma stays at its final value or below.

    It may be below on the way: on Zipf-1 the most frequent key has a share of 0.102, next to nothing above Θ, and
    whether it counts as hot is a matter of chance in short samples.
    """
    final = curve[_LENGTHS[-1]]
    return next(
        length
        for length in _LENGTHS
        if all(value <= (1 + _TOLERANCE) * final for later, value in curve.items() if later >= length)
    )


def run(runs: int) -> dict[str, Any]:
    curves = imbalances(runs)
    learning = {exponent: learning_curve(exponent, runs) for exponent in _CONVERGED}
    return {
        "runs": runs,
        "imbalance_by_workers": curves,
        "table_1": {name: {"paper": _TABLE_1[name], "ours": regression(curves[name])} for name in _TABLE_1},
        "learning": {
            f"zipf-{exponent:g}": {
                "paper_below": below,
                "ours": converged_at(learning[exponent]),
                "sigma": learning[exponent],
            }
            for exponent, below in _CONVERGED.items()
        },
    }


def show(report: dict[str, Any]) -> None:
    console = Console(width=120)
    table = Table(title=f"Table 1: λ = a·k + b on Zipf-2, k = 2 … 10, {report['runs']} runs", title_justify="left")
    table.add_column("grouping")
    for heading in ("paper a", "ours a", "paper b", "ours b"):
        table.add_column(heading, justify="right")
    for name, row in report["table_1"].items():
        pairs = zip(row["paper"], row["ours"], strict=True)
        table.add_row(name, *(f"{value:.1f}" for pair in pairs for value in pair))
    console.print(table)
    table = Table(title="Figure 9: tuples to learn from until sigma is at its final value, k = 2", title_justify="left")
    for heading in ("stream", "paper", "ours", *(f"after {length:,}" for length in (100, 1_000, 10_000, 80_000))):
        table.add_column(heading, justify="left" if heading == "stream" else "right")
    for name, row in report["learning"].items():
        values = (f"{row['sigma'][length]:,.0f}" for length in (100, 1_000, 10_000, 80_000))
        table.add_row(name, f"< {row['paper_below']:,}", f"{row['ours']:,}", *values)
    console.print(table)
    note = (
        f"Converged: from there on at most {_TOLERANCE:.0%} above sigma after 80,000 tuples. The paper has 10,000 runs."
    )
    console.print(note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="streams per setting (default 200; the paper has 10,000)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()
    report = run(arguments.runs)
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)


if __name__ == "__main__":
    main()
