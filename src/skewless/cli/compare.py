"""`skewless compare`: several groupings side by side."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from skewless.cli import options
from skewless.groupings import GROUPINGS
from skewless.simulation import KeyedState, Result, Simulation, simulate


def _as_time(milliseconds: float) -> str:
    """Return a time in a suitable unit.

    >>> _as_time(1.5), _as_time(250), _as_time(90_000), _as_time(7_200_000)
    ('1.5 ms', '250 ms', '90.0 s', '120 min')
    """
    if milliseconds < 999.5:
        return f"{milliseconds:.{0 if milliseconds >= 99.95 else 1}f} ms"
    seconds = milliseconds / 1_000
    return f"{seconds:.{0 if seconds >= 99.95 else 1}f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _as_count(number: float) -> str:
    """Return a count in at most five characters.

    >>> _as_count(240), _as_count(12_345), _as_count(999_960), _as_count(1_234_567), _as_count(12_345_678)
    ('240', '12.3k', '1.00M', '1.23M', '12.3M')
    """
    if number < 10_000:
        return f"{number:.0f}"
    if number < 999_500:
        return f"{number / 1_000:.3g}k"
    return f"{number / 1e6:.2f}M" if number < 9_995_000 else f"{number / 1e6:.3g}M"


# Per column: heading, value, format, whether more is better.
_Columns = tuple[tuple[str, Callable[[Result], float], Callable[[float], str], bool], ...]
_COLUMNS: Final[_Columns] = (
    ("stddev", lambda result: result.stddev, "{:.3f}".format, False),
    ("λ %", lambda result: result.imbalance, "{:.1f}".format, False),
    ("dist_cost", lambda result: result.dist_cost, "{:.2f}".format, False),
    ("states", lambda result: result.states, _as_count, False),
    ("tuples/s", lambda result: result.throughput, "{:,.0f}".format, True),
    ("p50", lambda result: result.latency_ms["p50"], _as_time, False),
    ("p99", lambda result: result.latency_ms["p99"], _as_time, False),
    ("M/s", lambda result: result.routing_mtps, "{:,.0f}".format, True),
)
_CAPTION: Final = (
    "* best of its column. stddev: of the workers' loads, in percentage points. λ: by how much the largest load "
    "exceeds the mean. dist_cost: workers per key, on average. states: (key, worker) pairs. tuples: records of the "
    "stream. p50, p99: latency. M/s: routing speed in millions of tuples per second."
)


def _of_state(name: str) -> Callable[[Result], float]:
    return lambda result: float(getattr(result.state, name))


_STATE_COLUMNS: Final[_Columns] = (
    ("variance", _of_state("variance_mean"), _as_count, False),
    ("moved %", _of_state("moved_percent"), "{:.1f}".format, False),
    ("amort.", _of_state("amortised_percent"), "{:.2f}".format, False),
    ("pause", _of_state("pause_ms"), _as_time, False),
    ("mean", lambda result: result.latency_ms["mean"], _as_time, False),
    ("p95", lambda result: result.latency_ms["p95"], _as_time, False),
    ("max", lambda result: result.latency_ms["max"], _as_time, False),
)
_STATE_CAPTION: Final = (
    "* best of its column. variance: of the workers' loads, mean over windows. moved %: of all state, per adaptation; "
    "amort.: per window. pause: time to move it, summed. mean, p95, max: latency."
)


def _all_groupings(state: KeyedState | None) -> list[str]:
    """Return all groupings but the baselines; if keys have state, those that support it."""
    names = [name for name, kind in GROUPINGS.items() if not kind.baseline]
    return names if state is None else [name for name in names if options.make_owning(name, 2, {}, state).single_owner]


def compare_command(
    groupings: Annotated[
        list[str] | None,
        typer.Option(
            "--grouping",
            "-g",
            help="A grouping to compare; repeatable. Default: all but the baselines.",
        ),
    ] = None,
    stream: options.StreamName = None,
    input_file: options.Input = None,
    key: options.KeyColumn = None,
    workers: options.Workers = 10,
    sources: options.Sources = 5,
    tuples: options.Tuples = None,
    rate: options.Rate = None,
    poisson: options.Poisson = False,
    service_ms: options.ServiceMs = "1",
    batch_ms: options.BatchMs = 1000,
    queue: options.Queue = None,
    worker_bytes: options.WorkerBytes = None,
    key_bytes: options.KeyBytes = None,
    tuple_bytes: options.TupleBytes = None,
    slower: options.Slower = None,
    seed: options.Seed = 0,
    substreams: options.Substreams = None,
    state_s: options.StateS = None,
    move_ms: options.MoveMs = None,
    handoff: options.Handoff = None,
    plot: options.Plot = None,
    as_json: options.Json = False,
) -> None:
    """Route the same stream with several groupings and show them side by side, the best of each column marked.

    Example: skewless compare --stream country-skew-r80 -g key -g partial_key -g even --plot load.png
    """
    chosen = options.choose_stream(stream, input_file, key, default="country-skew-r80")
    state = options.make_state(substreams, state_s, move_ms, handoff)
    simulations = [
        options.make_simulation(
            name,
            chosen,
            workers=workers,
            sources=sources,
            rate=rate,
            poisson=poisson,
            service_ms=service_ms,
            batch_ms=batch_ms,
            seed=seed,
            state=state,
            queue=queue,
            memory=options.make_memory(worker_bytes, key_bytes, tuple_bytes, slower),
        )
        for name in (groupings or _all_groupings(state))
    ]
    if plot is not None:
        options.check_plot(plot)
    results: list[Result] = []
    with options.progress_bar() as progress, _without_warnings_of(() if groupings else simulations):
        total = chosen.length(tuples)
        task = progress.add_task("", total=total)
        for simulation in simulations:
            progress.reset(task, description=simulation.grouping.name, total=total)
            results.append(
                simulate(simulation, tuples=tuples, progress=lambda done: progress.update(task, completed=done))
            )
    if as_json:
        typer.echo(json.dumps([result.as_dict() for result in results]))
    else:
        _print(results)
    if plot is not None:
        options.draw_loads(results, plot)


@contextmanager
def _without_warnings_of(simulations: Sequence[Simulation]) -> Iterator[None]:
    """Silence the log of groupings that the user has not named: their advice is not about a choice of the user's."""
    loggers = [logging.getLogger(type(simulation.grouping).__module__) for simulation in simulations]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _print(results: Sequence[Result]) -> None:
    first = results[0]
    title = f"{first.stream}: {first.tuples:,} tuples, {first.workers} workers, {first.sources} sources"
    table = Table(
        title=title,
        title_justify="left",
        caption=_CAPTION if first.state is None else _STATE_CAPTION,
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=0,  # with all groupings it fits 80 columns
    )
    table.add_column("grouping", no_wrap=True)
    columns = _COLUMNS if first.state is None else _STATE_COLUMNS
    for heading, *_ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    best = [(max if more else min)(map(value, results)) for _, value, _, more in columns]
    for result in results:
        cells = []
        for (_, value, write, _), wanted in zip(columns, best, strict=True):
            text = write(value(result))
            cells.append(f"[bold green]{text}*[/]" if value(result) == wanted else text)
        table.add_row(result.grouping, *cells)
    Console().print(table)
