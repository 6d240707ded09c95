"""Lines of the real data sets, read and drawn one at a time: what they give, or the reason why not."""

from __future__ import annotations

import re

from naive.trades import MASK, random_word
from naive.tweets import hashtags_of, is_letter, plain
from skewless.streams.elections import ELECTION_STEMS

WHOLE = re.compile("-?[0-9]{1,18}")
GRIDS = [(8, 13), (16, 25), (32, 50), (64, 100)]


def election_tags_of(text: str) -> list[str]:
    return ["election" if any(stem in tag for stem in ELECTION_STEMS) else tag for tag in hashtags_of(text)]


def is_part(character: str) -> bool:
    return is_letter(character) or character in "_$"


def tickers_of(text: str) -> list[str]:
    """Try every $, and behind it the longest ticker first."""
    text = f" {plain(text)} "
    tickers: list[str] = []
    for position, character in enumerate(text):
        if character != "$" or is_part(text[position - 1]):
            continue
        for length in range(min(9, len(text) - position - 2), 0, -1):
            ticker = text[position + 1 : position + 1 + length]
            if re.fullmatch("[a-z]{1,6}([._][a-z]{1,2})?", ticker) and not is_part(text[position + 1 + length]):
                tickers.append(ticker.upper())
                break
    return tickers


def weight_of(text: str, name: str) -> int | str:
    if not WHOLE.fullmatch(text):
        return f"the number of {name} is not whole"
    return int(text) if int(text) > 0 else f"no {name}"


def read_click(line: str) -> tuple[str, int] | str | None:
    """Return article and clicks, a reason, or None for a line that is no row."""
    if line == "prev\tcurr\ttype\tn":
        return None
    fields = line.split("\t")
    if len(fields) != 4:
        return "the line does not have 4 fields"
    if not fields[1]:
        return "no article"
    clicks = weight_of(fields[3], "clicks")
    return clicks if isinstance(clicks, str) else (fields[1], clicks)


def read_view(line: str, *, by_language: bool) -> tuple[str, int] | str:
    fields = line.split(" ")
    if len(fields) != 4:
        return "the line does not have 4 fields"
    domain, page, count, _ = fields
    if domain in {"", '""'} or domain[0] == ".":
        return "no language"
    if not page:
        return "no page"
    views = weight_of(count, "views")
    return views if isinstance(views, str) else (domain.split(".")[0] if by_language else f"{domain} {page}", views)


def cells_at(x: int, y: int) -> list[str]:
    """Find the cell of each grid by walking from edge to edge."""
    if not (0 <= x <= 52_483 and -33_960 <= y <= 33_965):
        return []
    names = []
    for n_columns, n_rows in GRIDS:
        column = max(i for i in range(n_columns) if i * 52_483 <= x * n_columns)
        row = max(i for i in range(n_rows) if i * 67_925 <= (y + 33_960) * n_rows)
        names.append(f"{n_columns}x{n_rows}:{column},{row}")
    return names


def read_cells(line: str) -> list[str] | str:
    """Return the cells of a reading, or a reason."""
    if re.match(r"(sensor_id|sid)\b", line):
        return []
    fields = line.split(",")
    if len(fields) != 13:
        return "the line does not have 13 fields"
    for name, text in zip(("sensor", "time", "x", "y"), fields, strict=False):
        if not WHOLE.fullmatch(text):
            return f"the {name} is not a whole number"
    return cells_at(int(fields[2]), int(fields[3]))


def draw_position(salt: int, number: int) -> tuple[int, int]:
    word = random_word(salt, number)
    upper, lower = word >> 32, word & (2**32 - 1)
    if (random_word(salt ^ MASK, number) >> 32) * 1_000_000 // 2**32 < 798_058:
        return 26_242 + upper * 6_560 // 2**32, -2_610 + lower * 5_225 // 2**32
    return upper * 52_484 // 2**32, -33_960 + lower * 67_926 // 2**32
