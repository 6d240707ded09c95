"""How close `skewless produce` comes to the requested rate: to a file, a pipe and a Kafka broker.

Each run is a process of its own, as a user starts it; the broker is the one of the tests, on the same machine. The last
line of a target is without a rate: as fast as it takes them.

    python benchmarks/producer.py [--seconds S] [--rates 1000,9000] [--targets file,pipe,kafka] [--stream NAME] [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from services.broker import running_broker

_SKEWLESS: Final = [sys.executable, "-c", "from skewless.cli.main import main; main()", "produce"]
_RATES: Final = "1000,9000,50000,100000"
_PARTITIONS: Final = 5
_FLAT_OUT: Final = 2_000_000  # tuples without a rate


@dataclass(frozen=True)
class Row:
    """One run."""

    target: str
    asked: int | None
    reached: float
    off_percent: float | None
    behind_ms: float | None  # at most


def produce(stream: str, to: str, rate: int | None, tuples: int, *others: str) -> dict[str, Any]:
    """Send tuples in a process of its own; `-` is a pipe with a reader."""
    paced = [] if rate is None else ["--rate", str(rate)]
    command = [*_SKEWLESS, "--stream", stream, "-n", str(tuples), "--to", to, "--json", *paced, *others]
    with ExitStack() as stack:
        sender = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603 - our own command
        )
        assert sender.stdout is not None
        assert sender.stderr is not None
        if to == "-":
            reader = [sys.executable, "-S", "-c", "import os\nwhile os.read(0, 65536): pass"]
            stack.enter_context(subprocess.Popen(reader, stdin=sender.stdout))  # noqa: S603 - as above
            sender.stdout.close()
            report = sender.stderr.read()
        else:
            report = sender.stdout.read()
    result: dict[str, Any] = json.loads(report)
    assert (result["tuples"], result["failed"]) == (tuples, 0), result
    return result


def measure(stream: str, targets: list[str], rates: list[int | None], seconds: int) -> Iterator[Row]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ways: dict[str, tuple[str, ...]] = {"file": (str(folder / "keys.txt"), "--force"), "pipe": ("-",)}
        if "kafka" in targets:
            broker = stack.enter_context(running_broker(folder / "kafka"))
            ways["kafka"] = (f"kafka://{broker.servers}/keys", "--partitions", str(_PARTITIONS))
        for target in targets:
            to, *others = ways[target]
            for rate in rates:
                tuples = _FLAT_OUT if rate is None else rate * seconds
                report = produce(stream, to, rate, tuples, *others)
                off = None if rate is None else 100 * (report["rate"] / rate - 1)
                behind = None if rate is None else 1000 * report["behind_s"]
                yield Row(target, rate, report["rate"], off, behind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rates", default=_RATES)
    parser.add_argument("--targets", default="file,pipe,kafka")
    parser.add_argument("--stream", default="country-skew-r80")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rates = [*map(int, options.rates.split(",")), None]
    rows = measure(options.stream, options.targets.split(","), rates, options.seconds)
    if options.json:
        for row in rows:
            print(json.dumps(asdict(row)), flush=True)
        return
    table = Table(title=f"{options.stream}, {options.seconds} s each", title_justify="left")
    for heading in ("target", "asked", "reached", "off", "behind at most"):
        table.add_column(heading, justify="left" if heading == "target" else "right")
    for row in rows:
        asked = "no rate" if row.asked is None else f"{row.asked:,}/s"
        off = "" if row.off_percent is None else f"{row.off_percent:+.2f} %"
        behind = "" if row.behind_ms is None else f"{row.behind_ms:,.0f} ms"
        table.add_row(row.target, asked, f"{row.reached:,.0f}/s", off, behind)
    Console().print(table)


if __name__ == "__main__":
    main()
