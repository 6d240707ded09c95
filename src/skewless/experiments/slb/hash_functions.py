"""The variance of loads with one of many hash functions of substreams, drawn at random (UHLB), and PKG in front of it.

A function that is drawn once makes one of many possible tables, and the paper reports one. So many are drawn, and the
range is shown that its numbers should lie in. Of PKG the paper says (section 1.1) that it maps each key to two
substreams and forwards each tuple to the less loaded of them; whatever workers own these, the substreams are even. Here
one of those functions decides that as well.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.groupings import PartialKey
from skewless.groupings.universal_rebalancing import evenest_function
from skewless.hashing import hash_keys
from skewless.processors.substreams import representatives, substreams_of
from skewless.seeding import make_salt
from skewless.simulation.keyed_state import SUBSTREAMS
from skewless.streams import Topics

UHLB: Final = "UHLB, many functions"
PKG: Final = "PKG to substreams, many functions"
_WORKERS: Final = 10
_WINDOW_S: Final = 60.0


def variances_of_functions(stream: Topics, *, windows: int, functions: int, levelled: bool) -> NDArray[np.float64]:
    """Return the variance of loads for each function and window; `levelled` if PKG chooses the substreams."""
    histograms = _histograms(stream, windows, levelled=levelled)
    hashes, alike = representatives(SUBSTREAMS), np.ones(SUBSTREAMS, dtype=np.int64)
    found = np.empty((functions, windows))
    for number in range(functions):
        table = evenest_function(alike, hashes, make_salt(0), number, 1, _WORKERS)
        of_worker = np.eye(_WORKERS)[table]
        found[number] = (histograms @ of_worker).var(axis=1)
    return found


def _histograms(stream: Topics, windows: int, *, levelled: bool) -> NDArray[np.int64]:
    """Return the tuples of each substream in each window."""
    ends = np.ceil(stream.arrivals.counts(np.arange(windows + 1, dtype=np.float64) * _WINDOW_S)).astype(np.int64)
    hashes = hash_keys(stream.slice(0, int(ends[-1]), tuples=stream.default_tuples, seed=0))
    if levelled:
        substreams = PartialKey(workers=SUBSTREAMS).start(0, 0).route(hashes, 0)
    else:
        substreams = substreams_of(hashes, SUBSTREAMS)
    return np.array([np.bincount(part, minlength=SUBSTREAMS) for part in np.split(substreams, ends[1:-1])])
