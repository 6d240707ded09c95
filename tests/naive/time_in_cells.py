"""The third query of DEBS 2013 with plain dictionaries: one reading after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from naive.datasets import read_cells

MINUTES = {"1 minute": 1, "5 minutes": 5, "10 minutes": 10}


def seconds_in_cells(
    lines: Iterable[str], *, gap_us: int, players: Mapping[int, int]
) -> dict[tuple[str, int, str, int | None], tuple[int, int]]:
    """Return the microseconds and readings of each cell, player and window."""
    visits: dict[tuple[str, int], list[int]] = defaultdict(list)
    for line in lines:
        cells = read_cells(line)
        assert isinstance(cells, list), line
        sensor, moment = (int(text) for text in line.split(",")[:2])
        for cell in cells:
            visits[cell, players.get(sensor, sensor)].append(moment // 1_000_000)
    found: dict[tuple[str, int, str, int | None], list[int]] = defaultdict(lambda: [0, 0])
    for (cell, player), moments in visits.items():
        moments.sort()
        for at, now in enumerate(moments):
            before = moments[at - 1] if at and now - moments[at - 1] <= gap_us else now
            found[cell, player, "game", None][0] += now - before
            found[cell, player, "game", None][1] += 1
            for span, minutes in MINUTES.items():
                length = minutes * 60_000_000
                found[cell, player, span, now // length * length][1] += 1
                while before < now:
                    start = before // length * length
                    end = min(now, start + length)
                    found[cell, player, span, start][0] += end - before
                    before = end
                before = moments[at - 1] if at and now - moments[at - 1] <= gap_us else now
    return {key: (us, n) for key, (us, n) in found.items()}
