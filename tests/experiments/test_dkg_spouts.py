"""Spouts in front of routers, against what they do tuple by tuple."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from skewless.experiments.dkg.spouts import FromSpouts, dealt
from skewless.streams import Zipf


def naive_queues(n: int, spouts: int, routers: int) -> list[list[int]]:
    """Let each spout take a tuple in turn and give it to its next router; return what each router receives."""
    queues: list[list[int]] = [[] for _ in range(routers)]
    following = list(range(spouts))
    for number in range(n):
        spout = number % spouts
        queues[following[spout] % routers].append(number)
        following[spout] += 1
    return queues


def queues_of(order: Sequence[int], routers: int) -> list[list[int]]:
    return [list(order[router::routers]) for router in range(routers)]


@given(rounds=st.integers(0, 5), spouts=st.integers(1, 7), routers=st.integers(1, 6))
def test_routers_receive_what_spouts_deal(rounds: int, spouts: int, routers: int) -> None:
    n = rounds * spouts * routers
    found = queues_of(dealt(n, spouts, routers).tolist(), routers)
    assert [set(queue) for queue in found] == [set(queue) for queue in naive_queues(n, spouts, routers)]
    each = spouts * routers  # within a round all spouts deal at once, in whatever order
    assert [[number // each for number in queue] for queue in found] == [sorted(number // each for number in queue)
                                                                         for queue in found]  # fmt: skip


def test_all_tuples_arrive_whatever_the_chunks() -> None:
    stream = Zipf(exponent=1.0, n_keys=50, default_tuples=1_003)
    found = list(FromSpouts(stream=stream, spouts=5, routers=10).generate())
    whole = pa.concat_arrays(list(stream.generate())).to_numpy()
    assert len(found[-1]) == 1_003 % 50
    assert np.array_equal(pa.concat_arrays(found).to_numpy()[:1_000], whole[dealt(1_000, 5, 10)])
    assert sorted(pa.concat_arrays(found).to_pylist()) == sorted(whole.tolist())


def test_one_spout_leaves_the_stream_as_it_is() -> None:
    stream = Zipf(exponent=1.0, n_keys=50, default_tuples=1_003)
    found = pa.concat_arrays(list(FromSpouts(stream=stream, spouts=1, routers=10).generate()))
    assert found.equals(pa.concat_arrays(list(stream.generate())))
