"""The `skewless` command."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

import skewless
from skewless.cli import (
    compare,
    demo,
    diagnose,
    doctor,
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
_CANNOT_WRITE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EPIPE)
# Typer brings its own click or uses the installed one, depending on its version: this is the right class in both.
_UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]
_SYNONYMS: Final = {"path": "input", "column": "key", "n_substreams": "substreams"}
"""Parameters of the library that options call differently."""


class _CommandError(Exception):
    """The errors of a command, written in its options."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(*lines)
        self.lines = lines


class _Command(TyperCommand):
    """A command whose errors name its options, and whose help shows no type behind flags that take no value."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""
        return option

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SkewlessError as error:
            flags = self._flags(ctx.params)
            raise _CommandError([render(one, flags) for one in error.each]) from error

    def _flags(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the option of each parameter: by its name in Python, or as the option itself is called."""
        flags: dict[str, str] = {}
        for parameter in self.params:
            flag = max(parameter.opts, key=len)
            if flag.startswith("--"):
                flags |= {str(parameter.name): flag, flag.removeprefix("--").replace("-", "_"): flag}
        flags |= {name: flags[option] for name, option in _SYNONYMS.items() if option in flags and name not in flags}
        names = (str(setting).partition("=")[0].strip() for setting in values.get("settings") or ())
        return {name.replace("-", "_"): f"--set {name}" for name in names} | flags


def render(error: SkewlessError, flags: Mapping[str, str]) -> str:
    """Write an error in the terms of the command line.

    Parameters
    ----------
    error : SkewlessError
        What the library raised.
    flags : mapping
        The option of each parameter that the command has one for.

    >>> from skewless.errors import ConfigurationError, UnknownNameError
    >>> render(ConfigurationError(subject="workers", expected="at least 1", value=0), {"workers": "--workers"})
    '--workers must be at least 1; got 0'
    >>> render(UnknownNameError("app", "vwpa", ["vwap"], subject="app"), {"app": "--app"})
    "--app: unknown app 'vwpa': did you mean 'vwap'? Known: vwap"
    """
    text = error.render(lambda parameter: flags.get(parameter, parameter))
    return text if error.names_subject or error.subject not in flags else f"{flags[error.subject]}: {text}"


app: Final = typer.Typer(
    name="skewless",
    help="Skew-proof keyed processing: spread hot keys over all workers, with the answer of a plain groupBy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "simulate": simulate.simulate_command,
    "compare": compare.compare_command,
    "diagnose": diagnose.diagnose_command,
    "doctor": doctor.doctor_command,
    "init": init.init_command,
    "run": run.run_command,
    "pack": pack.pack_command,
    "produce": produce.produce_command,
    "demo": demo.demo_command,
    "groupings": groupings.groupings_command,
    "streams": streams.streams_command,
    "watch": watch.watch_command,
}
for _name, _function in _COMMANDS.items():
    app.command(_name, cls=_Command)(_function)
for _command in experiment.app.registered_commands:
    _command.cls = _Command
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
        sys.stdout.flush()
    except _CommandError as error:
        sys.exit(_fail(error.lines, _BAD_INPUT))
    except _UsageError as error:
        message = error.format_message()  # type: ignore[attr-defined] # names the option
        if not message:  # a group of commands without one of them has printed its help
            sys.exit(_BAD_INPUT)
        sys.exit(_fail([message], _BAD_INPUT))
    except OSError as error:
        if error.errno not in _CANNOT_WRITE or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would try again at its end
        sys.exit(_fail([f"cannot write to standard output: {error.strerror}"], _BAD_INPUT))
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        sys.exit(_fail(["interrupted"], _INTERRUPTED))
    sys.exit(code if isinstance(code, int) else 0)


def _fail(messages: Sequence[str], code: int) -> int:
    for message in messages:
        typer.echo(f"skewless: {' '.join(message.split())}", err=True)
    return code
