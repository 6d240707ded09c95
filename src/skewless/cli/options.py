"""Options that several commands share, and what is made of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from skewless.errors import ConfigurationError, SetupError
from skewless.groupings import Grouping, make_grouping
from skewless.simulation import FIRST_TUPLES, KeyedState, Memory, Simulation
from skewless.streams import KeyFile, Stream, Topics, make_stream
from skewless.streams.arrivals import Arrivals, Ramp, Steady

if TYPE_CHECKING:  # it imports matplotlib
    from skewless.simulation.plots import Loads

INPUT: Final = "Input"
WORK: Final = "Work"
GROUPING: Final = "Grouping"
WHERE: Final = "Where it runs"
OUTPUT: Final = "Output"
OBSERVING: Final = "Observing"
STATE: Final = "State of keys"

StreamName = Annotated[
    str | None,
    typer.Option(
        "--stream",
        "-s",
        rich_help_panel=INPUT,
        help="A generated stream of tuples (records with a key): country-skew-r80, zipf-1.2-100000…; see "
        "`skewless streams`.",
    ),
]
Input = Annotated[
    str | None,
    typer.Option(
        "--input",
        "-i",
        rich_help_panel=INPUT,
        help="A file of keys instead: text, CSV, TSV, JSON lines (also .gz) or Parquet.",
    ),
]
KeyColumn = Annotated[
    str | None,
    typer.Option("--key", "-k", rich_help_panel=INPUT, help="The column of --input that holds the key."),
]
Workers = Annotated[
    int,
    typer.Option("--workers", "-w", rich_help_panel=GROUPING, help="Workers that the keys are spread over."),
]
Sources = Annotated[
    int,
    typer.Option(
        rich_help_panel=GROUPING, help="Sources: tasks that route side by side, each with what it has seen itself."
    ),
]
Tuples = Annotated[
    int | None,
    typer.Option(
        "--tuples", "-n", rich_help_panel=INPUT, help="Tuples to read of --stream; default: as many as it has."
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=INPUT,
        help="Tuples that arrive per second; 1000..16000 grows from the first to the second over the stream, "
        "'own' is the stream's own rate (topics). Default: 90 % of the capacity of all workers.",
    ),
]
Poisson = Annotated[
    bool,
    typer.Option("--poisson", rich_help_panel=INPUT, help="Tuples arrive at random moments (a Poisson process)."),
]
Substreams = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=STATE,
        help="Keys have state, in this many substreams (hash ranges) that move as a whole when their owner changes. "
        "Groupings with one owner per key only.",
    ),
]
StateS = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=STATE, help="Size of a substream's state: the tuples it gets in this many seconds (0.1)."
    ),
]
MoveMs = Annotated[float | None, typer.Option(rich_help_panel=STATE, help="Milliseconds to move a tuple of state (1).")]
Handoff = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=STATE,
        help="How state moves: pause (default; its tuples wait), stop (all tuples wait), or barrier (between "
        "batches; the new owner is busy).",
    ),
]
ServiceMs = Annotated[
    str,
    typer.Option(rich_help_panel=WORK, help="Milliseconds of work per tuple: one number, or one per worker (1,1,2.5)."),
]
Queue = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=WORK,
        help="Tuples that a worker can have at most (1024, say); sources wait while it is full, and emit as fast "
        "as that allows unless --rate is set. Default: no bound, nothing waits.",
    ),
]
WorkerBytes = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=WORK,
        help="Memory of a worker, in bytes; what its keys and its queue take beyond it makes it slower. "
        "Default: enough.",
    ),
]
KeyBytes = Annotated[
    int | None, typer.Option(rich_help_panel=WORK, help="Memory for the state of a key, in bytes. Default: 100.")
]
TupleBytes = Annotated[
    int | None, typer.Option(rich_help_panel=WORK, help="Memory for a tuple in a queue, in bytes. Default: 100.")
]
Slower = Annotated[
    float | None,
    typer.Option(rich_help_panel=WORK, help="How much slower a tuple is whose key is not in memory. Default: 10."),
]
BatchMs = Annotated[int, typer.Option(rich_help_panel=WORK, help="Virtual milliseconds between two barriers.")]
Seed = Annotated[
    int,
    typer.Option(rich_help_panel=GROUPING, help="Seed of the stream and the hashes: same seed, same numbers."),
]
Json = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON instead of a table.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        rich_help_panel=GROUPING,
        help="A parameter of the grouping; see `skewless groupings`. Repeatable.",
    ),
]
Plot = Annotated[
    str | None,
    typer.Option(rich_help_panel=OUTPUT, help="Also draw the load per worker into this file (.png or .svg)."),
]


def choose_stream(name: str | None, path: str | None, column: str | None, default: str) -> Stream:
    """Return the stream that the options name."""
    if path is not None:
        if name is not None:
            raise ConfigurationError(
                "{stream} and {input} exclude each other", subject="input", hint="keep one of them"
            )
        return KeyFile(path=path, column=column)
    if column is not None:
        raise ConfigurationError(
            "{key} names a column of {input}, which is missing", subject="key", hint="set {input} as well"
        )
    return make_stream(default if name is None else name)


def parse_parameters(settings: Sequence[str] | None) -> dict[str, Any]:
    """Return name=value pairs as a dictionary; a value is a Python literal where it is one, otherwise text.

    >>> parse_parameters(["expected_keys=500", "whole_percent=True"])
    {'expected_keys': 500, 'whole_percent': True}
    """
    parameters: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"{{set}} takes name=value; got {setting!r}", subject="set")
        parameter = name.strip().replace("-", "_")
        if parameter in {"workers", "n_workers"}:
            raise ConfigurationError(
                f"{{set}} is for parameters of the grouping; got {setting!r}",
                subject="set",
                hint=f"write {{workers}} {value.strip()}",
            )
        try:
            parameters[parameter] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            parameters[parameter] = value.strip()
    return parameters


def parse_service_ms(text: str) -> float | list[float]:
    """Return one number, or a list of one per worker.

    >>> parse_service_ms("1"), parse_service_ms("1,2.5")
    (1.0, [1.0, 2.5])
    """
    try:
        times = [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(
            f"{{service_ms}} takes numbers, separated by commas; got {text!r}", subject="service_ms"
        ) from None
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
    queue: int | None = None,
    memory: Memory | None = None,
    settings: Sequence[str] | None = None,
) -> Simulation:
    """Return the simulation of the options of `simulate` and `compare`."""
    simulation = Simulation(
        make_owning(grouping, workers, parse_parameters(settings), state),
        stream,
        sources=sources,
        service_ms=parse_service_ms(service_ms),
        batch_ms=batch_ms,
        seed=seed,
        state=state,
        queue=queue,
        memory=memory,
        learn=FIRST_TUPLES,  # as `skewless run` does
    )
    if simulation.saturated and rate is None and not poisson:
        return simulation
    arrivals = simulation.arrival_process if rate is None else parse_rate(rate, stream)
    return replace(simulation, arrivals=replace(arrivals, poisson=poisson))


def make_owning(name: str, workers: int, parameters: dict[str, Any], state: KeyedState | None) -> Grouping:
    """Return a grouping; if keys have state, with their number of substreams and, if it can, one owner per key."""
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
    """Return the state of keys, if any of its options is set."""
    all_of_them: dict[str, Any] = {
        "n_substreams": substreams,
        "state_s": state_s,
        "move_ms": move_ms,
        "handoff": handoff,
    }
    given = {name: value for name, value in all_of_them.items() if value is not None}
    return KeyedState(**given) if given else None


def make_memory(
    worker_bytes: int | None, key_bytes: int | None, tuple_bytes: int | None, slower: float | None
) -> Memory | None:
    """Return the memory of a worker, if it is bounded."""
    sizes: dict[str, Any] = {"key_bytes": key_bytes, "tuple_bytes": tuple_bytes, "slower": slower}
    given = {name: value for name, value in sizes.items() if value is not None}
    if worker_bytes is not None:
        return Memory(worker_bytes=worker_bytes, **given)
    if given:
        name = next(iter(given))
        raise ConfigurationError(
            f"{{{name}}} needs {{worker_bytes}}", subject=name, hint="set the memory of a worker as well"
        )
    return None


def parse_rate(text: str, stream: Stream | None) -> Arrivals:
    """Return a constant or growing rate, or that of the stream itself; a file is no stream.

    >>> from skewless.streams import Zipf
    >>> parse_rate("1000..16000", Zipf())
    Ramp(poisson=False, first=1000, last=16000)
    """
    if text == "own":
        if not isinstance(stream, Topics):
            what = "a file" if stream is None else stream.label
            raise ConfigurationError(f"{{rate}} own: {what} has no rate of its own, only topics has", subject="rate")
        return stream.arrivals
    first, dots, last = text.partition("..")
    try:
        rates = [int(part) for part in ((first, last) if dots else (first,))]
    except ValueError:
        raise ConfigurationError(
            f"{{rate}} takes a whole number, two of them (1000..16000), or own; got {text!r}", subject="rate"
        ) from None
    return Ramp(first=rates[0], last=rates[1]) if dots else Steady(rate=rates[0])


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show progress on standard error if that is a terminal."""
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
    """Refuse a plot that cannot be drawn, before the long run."""
    if not path.lower().endswith((".png", ".svg")):
        raise ConfigurationError(f"{{plot}} takes a file that ends in .png or .svg; got {path!r}", subject="plot")
    if find_spec("matplotlib") is None:
        raise SetupError("{plot} needs matplotlib", subject="plot", hint="install skewless[plots]")


def draw_loads(results: Sequence[Loads], path: str) -> None:
    """Draw the load per worker, and print where."""
    from skewless.simulation.plots import plot_loads  # noqa: PLC0415 - matplotlib is an extra and slow to import

    plot_loads(results, path)
    typer.echo(f"The load per worker is drawn in {path}", err=True)
