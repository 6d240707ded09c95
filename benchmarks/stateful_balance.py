"""Stateful load balancing: the tables and the speed-up of Guo & Zhou's paper, in virtual time.

    python benchmarks/stateful_balance.py table1  [--faster 1] [--seed 0] [--json]
    python benchmarks/stateful_balance.py table2  [--handoff pause] [--json]
    python benchmarks/stateful_balance.py speedup [--instances 1 5 10 15] [--json]

`table1` balances the first two hours of the topics stream at its own rate, 100 tuples per second: 10 workers, 100
substreams, 120 windows of a minute. It gives the variance of the load vector and the state that moves. With `--faster`
so many times as many tuples come in the same time, and chance matters less. `table2` counts the words of the tweets,
ten of each, at a rate that grows from 1,000 to 16,000 per second, on workers that can do 1,000 each, and gives
latencies. `speedup` gives workers as much as all of them can do, and compares their throughput with that of one.

What the paper has: variance UHLB < PKG < ELB < CLB (2.9, 3.1, 5.1 and 6.1 · 10^4); moved by an adaptation: ELB 14.5 %,
PKG 21.2 %, UHLB 24.2 %; by CLB 1.6 % per window; mean latency ELB 0.73 ms, CLB 0.76, PKG 0.92, UHLB 1.01; the speed-up
of ELB and CLB close to the ideal.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from skewless import (
    Correlation,
    Eager,
    Even,
    Flux,
    Grouping,
    Key,
    Simulation,
    TwoChoices,
    UniversalRebalancing,
    simulate,
)
from skewless.arrivals import Arrivals, Ramp, Steady
from skewless.keyed_state import HANDOFFS, KeyedState
from skewless.simulate import Result
from skewless.streams import Stream, Topics

_WORKERS: Final = 10
_WINDOWS: Final = 120
_WINDOW_MS: Final = 60_000
_WARM: Final = 10  # windows after which no grouping is still leaving its first table
_SHORT_MS: Final = 10_000  # a window of table2 and of the speed-up
_WORDS: Final = 10  # of a tweet
_LENGTH: Final = 10_200_000  # words of table2: 20 minutes at 8,500 per second
_MOST: Final = 20  # workers of table2: 80 % busy at the end


@dataclass(frozen=True)
class Case:
    """One line of a table."""

    label: str
    grouping: Grouping


def balancers(n_workers: int) -> list[Case]:
    return [
        Case("eager (ELB)", Eager(n_workers=n_workers)),
        Case("correlation (CLB)", Correlation(n_workers=n_workers, n_windows=24)),
        Case("two_choices (PKG-like)", TwoChoices(n_workers=n_workers)),
        Case("universal_rebalancing (UHLB)", UniversalRebalancing(n_workers=n_workers)),
        Case("flux", Flux(n_workers=n_workers)),
        Case("even, single owner", Even(n_workers=n_workers, single_owner=True)),
        Case("key", Key(n_workers=n_workers)),
    ]


def run(
    grouping: Grouping, stream: Stream, arrivals: Arrivals, *, tuples: int, window_ms: int, handoff: str, seed: int
) -> Result:
    state = KeyedState(handoff=handoff)
    simulation = Simulation(grouping, stream, arrivals=arrivals, batch_ms=window_ms, seed=seed, state=state)
    return simulate(simulation, tuples=tuples)


def table1(arguments: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Variance and movement on two hours of topics."""
    stream = Topics(default_tuples=Topics.default_tuples * arguments.faster)
    arrivals = stream.arrivals
    tuples = int(arrivals.counts(np.array([_WINDOWS * _WINDOW_MS / 1000]))[0]) + 1
    rows = []
    for case in track(balancers(_WORKERS), "table1", console=console):
        result = run(
            case.grouping, stream, arrivals, tuples=tuples, window_ms=_WINDOW_MS, handoff=arguments.handoff,
            seed=arguments.seed,
        )  # fmt: skip
        state = result.state
        assert state is not None
        rows.append(
            {
                "balancer": case.label,
                "variance": state.variance_mean,
                "deviation": state.variance_std,
                "variance, warm": float(np.mean(state.window_variances[_WARM:])),
                "λ % per window": state.imbalance_mean,
                "λ % of all": result.imbalance,
                "adaptations": state.adaptations,
                "moved %": state.moved_percent,
                "moved % per window": state.amortised_percent,
                "the same, warm": float(np.mean(state.window_moved_percents[_WARM:])),
                "pause ms": state.pause_ms,
            }
        )
    title = f"topics: {tuples:,} tuples in {_WINDOWS} windows of a minute, {_WORKERS} workers, 100 substreams"
    show(title, rows, console)
    return rows


def table2(arguments: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Latencies while the rate grows sixteenfold."""
    stream, arrivals = (
        Topics(default_tuples=_WORDS * Topics.default_tuples),
        Ramp(first=1_000, last=16_000, poisson=True),
    )
    middle = 0.8 * _SHORT_MS  # of what a worker can do in a window
    elastic = Eager(n_workers=_MOST, upper=1.2 * middle, lower=0.8 * middle, start_workers=2)
    cases = [Case("eager, 2 to 20 workers", elastic), *balancers(_MOST)]
    rows = []
    for case in track(cases, "table2", console=console):
        result = run(
            case.grouping, stream, arrivals, tuples=_LENGTH, window_ms=_SHORT_MS,
            handoff=arguments.handoff, seed=arguments.seed,
        )  # fmt: skip
        state = result.state
        assert state is not None
        rows.append(
            {
                "balancer": case.label,
                **{f"{name} ms": result.latency_ms[name] for name in ("max", "mean", "p50", "p95", "p99")},
                "λ % per window": state.imbalance_mean,
                "moved % per window": state.amortised_percent,
                "held": state.held,
                "workers": state.owners,
            }
        )
    title = f"topics: {_LENGTH:,} words, 1,000 to 16,000 per second, 1,000 per worker; {arguments.handoff}"
    show(title, rows, console)
    return rows


def speedup(arguments: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Throughput of more and more workers, all of them as busy as they can be, over that of one."""
    stream, tuples_each = Topics(default_tuples=_WORDS * Topics.default_tuples), 400_000
    rows: list[dict[str, Any]] = [{"balancer": case.label} for case in balancers(1)]
    for n_workers in track(arguments.instances, "speedup", console=console):
        for row, case in zip(rows, balancers(n_workers), strict=True):
            result = run(
                case.grouping, stream, Steady(rate=1_000 * n_workers), tuples=tuples_each * n_workers,
                window_ms=_SHORT_MS, handoff=arguments.handoff, seed=arguments.seed,
            )  # fmt: skip
            state = result.state
            assert state is not None
            row[f"{n_workers}"] = result.throughput / 1_000
            row[f"{n_workers}, by the window"] = n_workers / (1 + state.imbalance_mean / 100)
    title = "speed-up over one worker; by the window: if all wait for the last one in every window"
    show(title, rows, console)
    return rows


def show(title: str, rows: Sequence[dict[str, Any]], console: Console) -> None:
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "balancer" else "right")
    for row in rows:
        table.add_row(*(f"{cell:,.4g}" if isinstance(cell, float) else str(cell) for cell in row.values()))
    console.print(table)


def main() -> None:
    logging.disable(logging.WARNING)  # that a topic makes a large substream is what this is about
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {"table1": table1, "table2": table2, "speedup": speedup}
    parser.add_argument("command", choices=commands)
    parser.add_argument("--faster", type=int, default=1)
    parser.add_argument("--handoff", choices=HANDOFFS, default=HANDOFFS[0])
    parser.add_argument("--instances", type=int, nargs="+", default=[1, 5, 10, 15])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = commands[arguments.command](arguments, Console(stderr=arguments.json, width=200))
    if arguments.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
