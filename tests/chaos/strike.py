"""Strikes: what a Python worker does to itself, or to what it works with, at a point that was chosen before.

A strike is armed with tickets, files in a directory that all workers know. Whoever passes the point takes one, and
whoever takes one of the last strikes. So a strike needs no clock, and nobody has to find a process in time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

PLACE: Final = "SKEWLESS_STRIKES"
"""The environment variable with the directory of tickets."""
_SPECIFICATION: Final = "strike.json"
_STRUCK: Final = "struck"
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Strike:
    """What is done, where and when.

    Parameters
    ----------
    point : str
        The place in the code, such as `"route"`: see `chaos.points`.
    deed : str
        The name of one of `DEEDS`.
    after : int
        How often the point is passed before.
    times : int
        How often it is done.
    target : str
        The directory, or the process, that it is done to.
    pattern : str
        The files in that directory.
    seconds : float
        How long it takes.
    seed : int
        What else is left to chance.
    """

    point: str
    deed: str
    after: int = 0
    times: int = 1
    target: str = ""
    pattern: str = ""
    seconds: float = 0.0
    seed: int = 0


def arm(place: Path, strike: Strike) -> None:
    """Put the tickets of a strike into an empty directory."""
    disarm(place)
    (place / _SPECIFICATION).write_text(json.dumps(asdict(strike)))
    for number in range(strike.after + strike.times):
        (place / f"{strike.point}-{number:04d}").touch()


def disarm(place: Path) -> None:
    """Take all tickets away."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)


def has_struck(place: Path) -> int:
    """Return how often the strike was done."""
    return len(list(place.glob(f"{_STRUCK}-*")))


def pass_point(point: str) -> None:
    """Take a ticket of this point, if there is one, and strike if it is one of the last."""
    folder = os.environ.get(PLACE)
    if not folder:
        return
    place = Path(folder)
    number = _take_ticket(place, point)
    if number is None:
        return
    with suppress(FileNotFoundError):  # the strike was called off
        strike = Strike(**json.loads((place / _SPECIFICATION).read_text()))
        if number < strike.times:
            (place / f"{_STRUCK}-{number}").touch()
            DEEDS[strike.deed](strike)


def _take_ticket(place: Path, point: str) -> int | None:
    while tickets := sorted(place.glob(f"{point}-[0-9][0-9][0-9][0-9]")):
        try:
            tickets[-1].unlink()
        except FileNotFoundError:  # somebody else was faster
            continue
        return int(tickets[-1].name.rpartition("-")[2])
    return None


def passing(point: str, items: Iterable[_T]) -> Iterator[_T]:
    """Yield items, and pass a point before each of them and after the last."""
    for item in items:
        pass_point(point)
        yield item
    pass_point(point)


def striking(point: str, function: Callable[..., Iterable[Any]], position: int) -> Callable[..., Iterator[Any]]:
    """Return a function from batches to batches that passes a point with each batch that comes or goes.

    Parameters
    ----------
    point : str
        The point.
    function : callable
        What is wrapped.
    position : int
        Which of its arguments are the batches.
    """

    @wraps(function)
    def wrapped(*arguments: Any) -> Iterator[Any]:
        given = [*arguments]
        given[position] = passing(point, given[position])
        yield from passing(point, function(*given))

    return wrapped


def _kill_worker(_: Strike) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_java(_: Strike) -> None:
    """Kill the process that has started the daemon of this worker: an executor, or the driver where it is local."""
    daemon = os.getppid()
    java = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    name = Path(f"/proc/{java}/cmdline").read_bytes().split(b"\0")[0]
    assert name.endswith(b"java"), f"process {java} is {name!r}"
    os.kill(java, signal.SIGKILL)
    time.sleep(60)  # the daemon ends this worker


def _kill_process(strike: Strike) -> None:
    with suppress(ProcessLookupError):
        os.kill(int(strike.target), signal.SIGKILL)


def _sleep(strike: Strike) -> None:
    time.sleep(strike.seconds)


def _delete(strike: Strike) -> None:
    for file in sorted(Path(strike.target).glob(strike.pattern)):
        with suppress(FileNotFoundError):  # somebody else removes what is old
            shutil.rmtree(file) if file.is_dir() else file.unlink()


def _corrupt(strike: Strike) -> None:
    chance = Random(strike.seed)
    for file in sorted(Path(strike.target).glob(strike.pattern)):
        with suppress(FileNotFoundError):
            file.write_bytes(_damaged(file.read_bytes(), chance))


def _damaged(content: bytes, chance: Random) -> bytes:
    """Return a content that is cut off, emptied, overwritten in places, or all noise."""
    size = len(content)
    match chance.randrange(4):
        case 0:
            return content[: chance.randrange(size + 1)]
        case 1:
            return b""
        case 2:
            changed = bytearray(content)
            for _ in range(min(size, 8)):
                changed[chance.randrange(size)] = chance.randrange(256)
            return bytes(changed)
        case _:
            return chance.randbytes(size)


def fill(folder: Path) -> None:
    """Take all space that is left where a directory is."""
    with suppress(OSError), (folder / "ballast").open("ab", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))


def _fill(strike: Strike) -> None:
    fill(Path(strike.target))


DEEDS: Final[dict[str, Callable[[Strike], None]]] = {
    "kill worker": _kill_worker,
    "kill java": _kill_java,
    "kill process": _kill_process,
    "sleep": _sleep,
    "delete": _delete,
    "corrupt": _corrupt,
    "fill": _fill,
}
