"""The `skewless` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

import skewless
from skewless.cli import (
    compare,
    demo,
    diagnose,
    experiment,
    groupings,
    init,
    pack,
    produce,
    run,
    simulate,
    streams,
    watch,
)
from skewless.errors import SkewlessError

_BAD_INPUT: Final = 2
_INTERRUPTED: Final = 130
# Typer brings its own click or uses the installed one, as its version has it: this finds the right class in both.
_UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]

app: Final = typer.Typer(
    name="skewless",
    help="Skew-proof keyed processing: spread hot keys over all workers, with the answer of a plain groupBy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("simulate")(simulate.simulate_command)
app.command("compare")(compare.compare_command)
app.command("diagnose")(diagnose.diagnose_command)
app.command("init")(init.init_command)
app.command("run")(run.run_command)
app.command("pack")(pack.pack_command)
app.command("produce")(produce.produce_command)
app.command("demo")(demo.demo_command)
app.command("groupings")(groupings.groupings_command)
app.command("streams")(streams.streams_command)
app.command("watch")(watch.watch_command)
app.add_typer(experiment.app, name="experiment")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"skewless {skewless.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. Bad input ends in one line on standard error and exit code 2, Ctrl-C in code 130."""
    try:
        code = app(arguments, standalone_mode=False)
    except (SkewlessError, _UsageError) as error:
        # A usage error knows how to say which option it is about; ours already do.
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        each = [str(one) for one in error.each] if isinstance(error, SkewlessError) else [message]
        sys.exit(_fail(each, _BAD_INPUT))
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        sys.exit(_fail(["interrupted"], _INTERRUPTED))
    sys.exit(code if isinstance(code, int) else 0)


def _fail(messages: Sequence[str], code: int) -> int:
    for message in messages:
        typer.echo(f"skewless: {' '.join(message.split())}", err=True)
    return code
