"""The live page of a long run, in a real Chromium: first paint, time to the charts, time of an update, cost while idle.

    python benchmarks/live_page.py [--batches 10000] [--workers 100] [--updates 10] [--repeat 3] [--ledger DIR]

Makes a ledger (the newest batches are files of their own, older ones further names of a hundred of them), serves it
with `skewless watch LEDGER --page 0`, opens it, and prints JSON. Wall times suffer from neighbours, so CPU times are
beside them: of the server and of all processes of the browser, in seconds. Needs Chromium and Playwright, as the tests
do.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.request import urlopen

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from skewless.groupings import State
from skewless.storage import Ledger, WorkerReport
from skewless.storage.batch_directory import file_of

OWN_FILES: Final = 700
"""Newest batches whose files are their own: all that the page reads at first, and more."""
SHAPES: Final = 100
"""Different batches among the older ones."""
KEYS: Final = 1_000
"""Keys of a worker in a batch, so a report has some 12 KB."""
IDLE_S: Final = 20.0
SHOWN: Final = 240
BEGAN_MS: Final = 1_700_000_000_000
_TICKS: Final = os.sysconf("SC_CLK_TCK")

# Notes when what is drawn first shows the newest batch, and when all batches that are asked for are there.
WATCHER: Final = """(() => {
  const seen = window.seen = {charts: null, whole: null, batches: {}};
  const look = () => {
    const label = document.querySelector("#balance svg")?.querySelectorAll("text")[3]?.textContent;
    const picked = document.getElementById("picked")?.textContent ?? "";
    const tile = document.getElementById("tiles")?.children[1]?.textContent ?? "";
    if (label) seen.charts ??= performance.now();
    if (label === window.wanted) seen.whole ??= performance.now();
    const batch = picked.match(/^batch (\\d+), the newest$/);
    if (batch && tile.includes(window.reports)) seen.batches[batch[1]] ??= Date.now();
  };
  new MutationObserver(look).observe(document, {subtree: true, childList: true, characterData: true});
})()"""


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("batches", 10_000), ("workers", 100), ("updates", 10), ("repeat", 3)):
        asked.add_argument(f"--{name}", type=int, default=value)
    asked.add_argument("--ledger", help="where to make the ledger, and keep it: the next time, it is there")
    options = asked.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(uri=options.ledger or f"{folder}/ledger", keep=10 * options.batches)
        if not ledger.batches():
            make_ledger(ledger, options.batches, options.workers)
        for _ in range(options.repeat):
            runs.append(measure(ledger, ledger.batches()[-1] + 1, options.workers, options.updates))
            print(json.dumps(runs[-1]), file=sys.stderr)
    size = {"batches": options.batches, "workers": options.workers, "load": os.getloadavg()[0]}
    print(json.dumps({**size, "best": summary(runs), "runs": runs}, indent=1))


def make_ledger(ledger: Ledger, batches: int, workers: int) -> None:
    """Write a long run: one key is hot, and the hottest worker changes."""
    ledger.claim({"grouping": "even", "workers": workers})
    own = min(OWN_FILES, batches)
    for batch in range(batches - own, batches):
        write_batch(ledger, batch, workers)
    root, shapes = Path(ledger.uri), min(SHAPES, own)
    for batch in range(batches - own):
        source = root / file_of(batches - own + batch % shapes, "")
        folder = root / file_of(batch, "")
        folder.mkdir()
        for file in source.iterdir():
            os.link(file, folder / file.name)


def write_batch(ledger: Ledger, batch: int, workers: int) -> float:
    """Write a micro-batch that takes a second; return when its last report was there, in seconds since 1970."""
    random = np.random.default_rng(batch)
    began_ms = BEGAN_MS + 1_000 * batch
    ledger.write_source(batch, 0, State(), began_ms)
    loads = random.poisson(1_000, workers)
    loads[batch // 20 % workers] += 1_500
    for worker, load in enumerate(loads.tolist()):
        report = WorkerReport(
            worker=worker, tuples=load, keys=KEYS, busy_s=load / 1_000, finished_ms=began_ms + load,
            hashes=np.sort(random.integers(1, 2**63, KEYS).astype(np.uint64)),
            top_keys=["DE", *(f"customer {number} of {worker}" for number in range(19))],
            top_counts=[load // 4, *(load // 50 for _ in range(19))],
            large_hashes=random.integers(1, 2**63, 64).astype(np.uint64), large_rows=np.full(64, load // 100),
            units=np.full(workers, load // workers), state_keys=KEYS,
        )  # fmt: skip
        ledger.write_worker(batch, report)
    return time.time()


def measure(ledger: Ledger, first: int, workers: int, updates: int) -> dict[str, Any]:
    """Serve the ledger, open the page, write batches, wait; return what it took."""
    with serving(ledger) as (url, server), opened_browser() as browser:
        found: dict[str, Any] = {"server_mb": {"started": memory_mb(server)}}
        before = cpu_s(server), browser_cpu_s()
        page = browser.new_page()
        page.add_init_script(f"window.wanted = 'batch {first - SHOWN}'; window.reports = '{workers} workers';")
        page.add_init_script(WATCHER)
        page.goto(url)
        wait_until(page, "seen.whole !== null")
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        found["first_paint_ms"] = round(page.evaluate(paint))
        found["newest_charts_ms"] = round(page.evaluate("seen.charts"))
        found["all_charts_ms"] = round(page.evaluate("seen.whole"))
        found["opening_cpu_s"] = spent(before, server)
        found["server_mb"]["opened"] = memory_mb(server)
        found["update_ms"], found["update_cpu_s"] = update(page, ledger, first, workers, updates, server)
        time.sleep(2)
        before = cpu_s(server), browser_cpu_s()
        time.sleep(IDLE_S)
        idle = spent(before, server)
        found["idle_percent_of_a_core"] = {name: round(100 * seconds / IDLE_S, 2) for name, seconds in idle.items()}
        found["server_mb"]["updated"] = memory_mb(server)
        for start in range(0, first, 600):  # every batch that there is
            with urlopen(f"{url}api/batches?from={start}&to={start + 599}&most=600") as answer:  # noqa: S310
                answer.read()
            if start >= 600 * 4:
                break
        found["server_mb"]["read_3000_more"] = memory_mb(server)
        return found


def update(
    page: Page, ledger: Ledger, first: int, workers: int, updates: int, server: int
) -> tuple[list[int], dict[str, float]]:
    """Write batches, one after the other; return from their ends to when the page showed them, and CPU time of each."""
    times = []
    before = cpu_s(server), browser_cpu_s()
    for batch in range(first, first + updates):
        ended = write_batch(ledger, batch, workers)
        wait_until(page, f"seen.batches[{batch}] !== undefined")
        times.append(round(page.evaluate(f"seen.batches[{batch}]") - 1_000 * ended))
    return times, {name: round(seconds / updates, 3) for name, seconds in spent(before, server).items()}


def wait_until(page: Page, condition: str) -> None:
    """Wait for something on the page; its policy forbids what Playwright would do for that."""
    while not page.evaluate(condition):
        time.sleep(0.1)


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the best of the runs, and the middle of all updates: neighbours only ever make it slower."""
    updates = [time for run in runs for time in run["update_ms"]]
    names = ("first_paint_ms", "newest_charts_ms", "all_charts_ms")
    return {name: min(run[name] for run in runs) for name in names} | {
        "update_ms": {"median": median(updates), "most": max(updates)},
        "idle_percent_of_a_core": {
            who: min(run["idle_percent_of_a_core"][who] for run in runs) for who in ("server", "browser")
        },
        "server_mb": max(memory for run in runs for memory in run["server_mb"].values()),
    }


@contextmanager
def serving(ledger: Ledger) -> Iterator[tuple[str, int]]:
    """Start the command as a user does; yield the address, and the process."""
    command = [sys.executable, "-c", "from skewless.cli.main import main; main()", "watch", ledger.uri, "--page", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603 - our own
    try:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        yield found[0], process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Start a Chromium without a window."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        sys.exit("no Chromium: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def spent(before: tuple[float, float], server: int) -> dict[str, float]:
    return {
        "server": round(cpu_s(server) - before[0], 2),
        "browser": round(browser_cpu_s() - before[1], 2),
    }


def cpu_s(process: int) -> float:
    """Return the CPU time of a process so far, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def browser_cpu_s() -> float:
    """Return the CPU time of all processes below this one, except the server, that are a browser's."""
    total = 0.0
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        parents[int(folder.name)], names[int(folder.name)] = int(rest.split()[1]), name
    for process, name in names.items():
        above = process
        while above not in {0, os.getpid()}:
            above = parents.get(above, 0)
        if above and "chrom" in name:
            total += cpu_s(process)
    return total


def memory_mb(process: int) -> int:
    """Return the memory that a process has now, in MB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) // 1_000


if __name__ == "__main__":
    main()
