"""Numbers spelled as names: words of syllables, tickers of letters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def spell(numbers: NDArray[np.int64], letters: Sequence[str], least: int) -> pa.Array:
    """Spell numbers from 0 with letters as digits, the most significant first.

    Names are unique if no name can be read in two ways: letters of one length, or syllables that each end in their only
    vowel.

    Parameters
    ----------
    numbers : array of int64
        What to spell.
    letters : sequence of str
        The digits, from 0.
    least : int
        Digits that a name has at least.

    >>> spell(np.array([0, 1, 27, 26**3]), "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 3).to_pylist()
    ['AAA', 'AAB', 'ABB', 'BAAA']
    """
    base = len(letters)
    names = pa.array(list(letters), pa.string())
    largest = int(numbers.max()) if numbers.size else 0
    digits: list[pa.Array] = []
    while len(digits) < least or base ** len(digits) <= largest:
        power = base ** len(digits)
        absent = (numbers < power) & (len(digits) >= least)
        digits.append(names.take(pa.array(numbers // power % base, mask=absent)))
    return pc.binary_join_element_wise(*reversed(digits), "", null_handling="skip")
