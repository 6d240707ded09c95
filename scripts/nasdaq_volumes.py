"""Collect the shares that were traded of each symbol of NASDAQ, day by day, from the history of a repository.

python scripts/nasdaq_volumes.py CLONE nasdaq_volumes.json

CLONE is a clone of https://github.com/rreichel3/US-Stock-Symbols, whose nasdaq_full_tickers.json is renewed every day.
The result has a date and the volumes by symbol for each day whose volumes are others than those of the day before.
`tests/experiments/test_dstream_drifting_skew.py` measures from it what `drifting_skew` says of trades, if it is in the
directory of SKEWLESS_DATA.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FILE = "nasdaq/nasdaq_full_tickers.json"


def git(clone: str, *arguments: str) -> str:
    command = ["git", "-C", clone, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - git of the user
    return done.stdout


def volumes(text: str) -> dict[str, float]:
    """Return the volumes by symbol; none if the file is torn."""
    try:
        stocks = json.loads(text)
    except ValueError:
        return {}
    return {stock["symbol"]: float(stock["volume"]) for stock in stocks if stock.get("volume")}


def main(clone: str, target: str) -> None:
    commits = git(clone, "log", "--reverse", "--format=%H %ad", "--date=short", "--", FILE).splitlines()
    last_of_day = {date: commit for commit, date in map(str.split, commits)}
    days: list[tuple[str, dict[str, float]]] = []
    for date, commit in sorted(last_of_day.items()):
        found = volumes(git(clone, "show", f"{commit}:{FILE}"))
        if sum(found.values()) > 0 and not (days and found == days[-1][1]):
            days.append((date, found))
    Path(target).write_text(json.dumps(days), encoding="utf-8")
    print(f"{len(days)} days, {days[0][0]} to {days[-1][0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
