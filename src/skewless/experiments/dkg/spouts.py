"""Spouts in front of the routers: which tuples of a stream reach which router, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.streams import Stream


@dataclass(frozen=True, kw_only=True)
class FromSpouts(Stream):
    """A stream that some spouts read in turn, each of which deals what it has read to all routers in turn.

    So shuffle grouping does it between spouts and splitters (LoadBalancerTopology.java); the spouts start with one
    router after another. A simulation deals its stream to the routers in turn; so this is the order in which they
    receive tuples.

    Parameters
    ----------
    stream : Stream
        What the spouts read.
    spouts : int
        Number of spouts; with one the stream is as it was.
    routers : int
        Number of routers.
    """

    stream: Stream
    spouts: int
    routers: int

    @property
    def label(self) -> str:
        return self.stream.label

    @property
    def summary(self) -> str:
        return f"{self.stream.summary}, read by {self.spouts} spouts"

    def length(self, tuples: int | None = None) -> int | None:
        return self.stream.length(tuples)

    def generate(self, *, tuples: int | None = None, seed: int = 0) -> Iterator[pa.Array]:
        rest: list[pa.Array] = []
        block = self.spouts * self.routers
        for keys in self.stream.generate(tuples=tuples, seed=seed):
            found = pa.concat_arrays([*rest, keys])
            end = len(found) - len(found) % block
            yield found.slice(0, end).take(pa.array(dealt(end, self.spouts, self.routers)))
            rest = [found.slice(end)]
        yield from (keys for keys in rest if len(keys))


def dealt(n: int, spouts: int, routers: int) -> NDArray[np.int64]:
    """Return the position in the stream of each of n tuples, in the order in which the routers receive them.

    In each round a spout has one tuple for each router; the next spout starts with the next router.

    >>> dealt(6, 1, 3).tolist()
    [0, 1, 2, 3, 4, 5]
    >>> dealt(6, 2, 3).tolist()
    [0, 2, 4, 5, 1, 3]
    """
    block, place = np.divmod(np.arange(n), spouts * routers)
    spout, router = np.divmod(place, routers)
    positions: NDArray[np.int64] = block * spouts * routers + (router - spout) % routers * spouts + spout
    return positions
