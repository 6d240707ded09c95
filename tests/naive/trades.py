"""Trades, drawn and read one at a time."""

from __future__ import annotations

import math

from naive.groupings import mix

MASK = 2**64 - 1


def random_word(salt: int, position: int) -> int:
    return mix((salt + (position + 1) * 0x9E3779B97F4A7C15) & MASK)


def draw_trade(salt: int, position: int, rank: int) -> tuple[int, int]:
    """Return cents and volume."""
    usual = 100 + (random_word(salt ^ MASK, rank) >> 32) * 49_900 // 2**32
    word = random_word(salt, position)
    return usual * (980 + (word >> 32) * 41 // 2**32) // 1000, 1 + (word & (2**32 - 1)) * 1_000 // 2**32


def read_number(text: str) -> float:
    """Read what people write for a number; NaN is what is none."""
    try:
        return math.nan if set(text) - set("0123456789+-.eE") else float(text)
    except ValueError:
        return math.nan


def read_trade(symbol: str | None, price: str | None, volume: str | None) -> tuple[str, float, float] | str:
    """Return symbol, price and volume, or the reason why not."""
    blanks = " \t\n\r\f\v"
    if not (symbol or "").strip(blanks):
        return "no symbol"
    numbers = []
    for what, text in (("price", price), ("volume", volume)):
        stripped = (text or "").strip(blanks)
        if not stripped:
            return f"no {what}"
        number = read_number(stripped)
        if number <= 0:
            return f"the {what} is not above zero"
        if not math.isfinite(number):
            return f"the {what} is not a number"
        numbers.append(number)
    return str(symbol).strip(blanks), numbers[0], numbers[1]
