"""Options that several commands share, and what they build."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from skewless.errors import SkewlessError
from skewless.groupings import Grouping, make_grouping
from skewless.simulation.keyed_state import KeyedState
from skewless.simulation.simulator import Simulation
from skewless.streams import KeyFile, Stream, Topics, make_stream
from skewless.streams.arrivals import Arrivals, Ramp, Steady

if TYPE_CHECKING:  # it imports matplotlib
    from skewless.simulation.plots import Loads

StreamName = Annotated[
    str | None,
    typer.Option("--stream", "-s", help="A named stream: country-skew-r80, zipf-1.2-100000… (see `skewless streams`)."),
]
Input = Annotated[
    str | None,
    typer.Option("--input", "-i", help="A file of keys instead: text, CSV, TSV, JSON lines (also .gz) or Parquet."),
]
KeyColumn = Annotated[str | None, typer.Option("--key", "-k", help="The column of --input that holds the key.")]
Workers = Annotated[int, typer.Option("--workers", "-w", help="Workers that the tuples are spread over.")]
Sources = Annotated[int, typer.Option(help="Sources that route side by side, each on its own knowledge.")]
Tuples = Annotated[
    int | None, typer.Option("--tuples", "-n", help="How many tuples; default: as many as the stream has.")
]
Rate = Annotated[
    str | None,
    typer.Option(
        help="Tuples that arrive per second; 1000..16000 grows from the first to the second over the stream, "
        "'own' is the stream's own rate (topics). Default: 90 % of what all workers can serve."
    ),
]
Poisson = Annotated[bool, typer.Option("--poisson", help="Tuples arrive at random moments (a Poisson process).")]
Substreams = Annotated[
    int | None,
    typer.Option(
        help="Keys have state, in so many substreams of keys, and it moves when their owner changes. "
        "Groupings with one owner per key only."
    ),
]
StateS = Annotated[
    float | None, typer.Option(help="State of a substream: the tuples that it gets in so many seconds; default 0.1.")
]
MoveMs = Annotated[float | None, typer.Option(help="Milliseconds to move a tuple of state; default 1.")]
Handoff = Annotated[
    str | None,
    typer.Option(
        help="How state moves: pause (default; its tuples wait), or barrier (between batches; the new owner is busy)."
    ),
]
ServiceMs = Annotated[
    str, typer.Option(help="Milliseconds of work per tuple: one number, or one per worker (1,1,2.5).")
]
BatchMs = Annotated[int, typer.Option(help="Virtual milliseconds between two barriers.")]
Seed = Annotated[int, typer.Option(help="Fixes the stream and the hashes: same seed, same numbers.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", help="A parameter of the grouping, as name=value; see `skewless groupings`. Repeatable."),
]

Plot = Annotated[str | None, typer.Option(help="Also draw the load per worker into this file (.png or .svg).")]


def choose_stream(name: str | None, path: str | None, column: str | None, default: str) -> Stream:
    """Make the stream that the options name."""
    if path is not None:
        if name is not None:
            raise SkewlessError("--stream and --input exclude each other: give one of them")
        return KeyFile(path=path, column=column)
    if column is not None:
        raise SkewlessError("--key names a column of --input: give the file as well")
    return make_stream(default if name is None else name)


def parse_parameters(settings: Sequence[str] | None) -> dict[str, Any]:
    """Read name=value pairs; a value is a Python literal where it is one, otherwise text.

    >>> parse_parameters(["expected_keys=500", "whole_percent=True"])
    {'expected_keys': 500, 'whole_percent': True}
    """
    parameters: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise SkewlessError(f"--set takes name=value; got {setting!r}")
        try:
            parameters[name.strip().replace("-", "_")] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            parameters[name.strip().replace("-", "_")] = value.strip()
    return parameters


def parse_service_ms(text: str) -> float | list[float]:
    """Read one number, or one per worker.

    >>> parse_service_ms("1"), parse_service_ms("1,2.5")
    (1.0, [1.0, 2.5])
    """
    try:
        times = [float(part) for part in text.split(",")]
    except ValueError:
        raise SkewlessError(f"--service-ms takes numbers, separated by commas; got {text!r}") from None
    return times[0] if len(times) == 1 else times


def make_simulation(
    grouping: str,
    stream: Stream,
    *,
    workers: int,
    sources: int,
    rate: str | None,
    poisson: bool,
    service_ms: str,
    batch_ms: int,
    seed: int,
    state: KeyedState | None,
    settings: Sequence[str] | None = None,
) -> Simulation:
    """Make a simulation of the options of `simulate` and `compare`."""
    simulation = Simulation(
        make_owning(grouping, workers, parse_parameters(settings), state),
        stream,
        sources=sources,
        service_ms=parse_service_ms(service_ms),
        batch_ms=batch_ms,
        seed=seed,
        state=state,
    )
    arrivals = simulation.arrival_process if rate is None else parse_rate(rate, stream)
    return replace(simulation, arrivals=replace(arrivals, poisson=poisson))


def make_owning(name: str, workers: int, parameters: dict[str, Any], state: KeyedState | None) -> Grouping:
    """Make a grouping; where keys have state, one with as many substreams and, if it can be told, one owner per key."""
    grouping = make_grouping(name, workers=workers, **parameters)
    if state is None:
        return grouping
    wanted: dict[str, Any] = {"single_owner": True}
    if state.n_substreams is not None:
        wanted["n_substreams"] = state.n_substreams
    known = {field.name for field in fields(grouping)}
    return replace(
        grouping, **{name: value for name, value in wanted.items() if name in known and name not in parameters}
    )


def make_state(
    substreams: int | None, state_s: float | None, move_ms: float | None, handoff: str | None
) -> KeyedState | None:
    """Make the state of keys of the options, if there is any of them."""
    all_of_them: dict[str, Any] = {
        "n_substreams": substreams,
        "state_s": state_s,
        "move_ms": move_ms,
        "handoff": handoff,
    }
    given = {name: value for name, value in all_of_them.items() if value is not None}
    return KeyedState(**given) if given else None


def parse_rate(text: str, stream: Stream | None) -> Arrivals:
    """Read a rate, or one that grows, or take that of the stream, if it is one and not just a file.

    >>> from skewless.streams import Zipf
    >>> parse_rate("1000..16000", Zipf())
    Ramp(poisson=False, first=1000, last=16000)
    """
    if text == "own":
        if not isinstance(stream, Topics):
            what = "a file" if stream is None else stream.label
            raise SkewlessError(f"--rate own: {what} has no rate of its own, only topics has")
        return stream.arrivals
    first, dots, last = text.partition("..")
    try:
        rates = [int(part) for part in ((first, last) if dots else (first,))]
    except ValueError:
        raise SkewlessError(f"--rate takes a whole number, two of them (1000..16000), or own; got {text!r}") from None
    return Ramp(first=rates[0], last=rates[1]) if dots else Steady(rate=rates[0])


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show progress on standard error if that is a terminal; standard output stays clean."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tuples"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress


def check_plot(path: str) -> None:
    """Refuse a plot that cannot be drawn before the long run, not after it."""
    if not path.lower().endswith((".png", ".svg")):
        raise SkewlessError(f"--plot takes a file that ends in .png or .svg; got {path!r}")
    if find_spec("matplotlib") is None:
        raise SkewlessError("--plot needs matplotlib: install skewless[plots]")


def draw_loads(results: Sequence[Loads], path: str) -> None:
    """Draw the load per worker and say where."""
    from skewless.simulation.plots import plot_loads  # noqa: PLC0415 - matplotlib is an extra and slow to import

    plot_loads(results, path)
    typer.echo(f"The load per worker is drawn in {path}", err=True)
