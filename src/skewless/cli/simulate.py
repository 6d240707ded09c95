"""`skewless simulate`: one grouping on one stream."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from skewless.cli import options
from skewless.simulation import Result, StateResult, simulate


def simulate_command(
    grouping: Annotated[
        str,
        typer.Option(
            "--grouping", "-g", help="By name or alias: even, auto, partial_key (PKG)…; see `skewless groupings`."
        ),
    ] = "auto",
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
    settings: options.Parameters = None,
    as_json: options.Json = False,
) -> None:
    """Route a stream with one grouping, in virtual time: loads, balance, cost, throughput, latency.

    Example: skewless simulate --grouping dynamic_key --stream country-skew-r80 --workers 10
    """
    chosen = options.choose_stream(stream, input_file, key, default="country-skew-r80")
    simulation = options.make_simulation(
        grouping,
        chosen,
        workers=workers,
        sources=sources,
        rate=rate,
        poisson=poisson,
        service_ms=service_ms,
        batch_ms=batch_ms,
        seed=seed,
        state=options.make_state(substreams, state_s, move_ms, handoff),
        queue=queue,
        memory=options.make_memory(worker_bytes, key_bytes, tuple_bytes, slower),
        settings=settings,
    )
    with options.progress_bar() as progress:
        task = progress.add_task(simulation.grouping.name, total=chosen.length(tuples))
        result = simulate(simulation, tuples=tuples, progress=lambda done: progress.update(task, completed=done))
    if as_json:
        typer.echo(json.dumps(result.as_dict()))
    else:
        _print(result)


def _state_rows(state: StateResult) -> dict[str, str]:
    return {
        "substreams / windows": f"{state.substreams} / {state.windows}",
        "variance per window": f"{state.variance_mean:,.1f} ± {state.variance_std:,.1f}",
        "imbalance λ per window": f"{state.imbalance_mean:.2f} %",
        "state moved": f"{state.moved_percent:.2f} % by each of {state.adaptations} adaptations, "
        f"{state.amortised_percent:.2f} % per window, {state.moved_tuples:,.0f} tuples in all",
        "time to move it": f"{state.pause_ms:,.1f} ms in all ({state.handoff}); {state.held:,} tuples waited",
        "workers with substreams": f"{state.owners:.1f}",
    }


def _waiting(result: Result) -> str:
    waited_s = result.waited_s or [0.0]
    mean, longest = sum(waited_s) / len(waited_s), max(waited_s)
    percent = 100 * mean * result.throughput / result.tuples
    return f"{mean:,.1f} s each, {longest:,.1f} s at most: {percent:.1f} % of the time"


def _print(result: Result) -> None:
    table = Table(title=f"{result.grouping} on {result.stream}", show_header=False, title_justify="left")
    rows = {
        "tuples": f"{result.tuples:,}",
        "workers / sources": f"{result.workers} / {result.sources}",
        "stddev of the load": f"{result.stddev:.4f} percentage points",
        "imbalance λ": f"{result.imbalance:.2f} %",
        "sigma": f"{result.sigma:,.1f} tuples",
        "dist_cost": f"{result.dist_cost:.3f} workers per key",
        "states": f"{result.states:,} (key, worker) pairs",
        "throughput": f"{result.throughput:,.0f} tuples/s",
        f"latency {' / '.join(result.latency_ms)}": " / ".join(f"{time:,.1f}" for time in result.latency_ms.values())
        + " ms",
        **({} if result.waited_s is None else {"sources wait": _waiting(result)}),
        **({} if result.state is None else _state_rows(result.state)),
        "routing speed": f"{result.routing_mtps:,.0f} M tuples/s",
        **({"remark": result.remark} if result.remark else {}),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console = Console()
    console.print(table)
    most = max(result.load)
    for worker, load in enumerate(result.load):
        bar = "█" * round(40 * load / most) if most else ""
        console.print(f"worker {worker:>3} {100 * load / result.tuples:6.2f} % {bar}", highlight=False)
