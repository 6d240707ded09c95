"""ApproxDistinct, ApproxQuantile and ApproxTopK where they no longer hold everything: within their bounds."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from skewless import SkewlessError
from skewless.combiners import ApproxDistinct, ApproxQuantile, ApproxTopK, Combiner, Count, Partials
from skewless.combiners.sketched import import_datasketches

N_PIECES = 5


def in_pieces(combiner: Combiner, values: pa.Array) -> object:
    """Give the result over all values, which as many accumulators share."""
    merged = Partials(pa.schema([("x", values.type)]), [], {"result": combiner}, compact_rows=2)
    for piece in range(N_PIECES):
        partials = Partials(pa.schema([("x", values.type)]), [], {"result": combiner})
        partials.add_rows(pa.table({"x": values.take(pa.array(np.arange(piece, len(values), N_PIECES)))}))
        merged.add_states(partials.states())
    (result,) = merged.results()["result"].to_pylist()
    return result


@pytest.mark.parametrize("n_distinct", [1_000, 30_000])
def test_distinct_is_within_five_standard_errors(n_distinct: int) -> None:
    values = pa.array(np.tile(np.arange(n_distinct) * 7919, 3))
    assert in_pieces(ApproxDistinct("x"), values) == pytest.approx(n_distinct, rel=5 * 1.04 / np.sqrt(2**12))


@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.99])
def test_the_rank_of_a_quantile_is_within_its_error(fraction: float) -> None:
    values = np.random.default_rng(0).permutation(50_000) + 1.0
    quantile = in_pieces(ApproxQuantile("x", fraction), pa.array(values))
    # 0.072 % holds in 99 of 100 cases, and the sketch's coins are not ours to fix.
    assert quantile == pytest.approx(fraction * values.size, abs=0.0016 * values.size)


def test_a_larger_sketch_is_kept_through_merges() -> None:
    values = np.random.default_rng(0).permutation(20_000) + 1.0
    assert in_pieces(ApproxQuantile("x", 0.5, k=20_000), pa.array(values)) == 10_000.0


@pytest.mark.parametrize("seed", range(5))
def test_the_counts_of_top_k_are_within_their_excess(seed: int) -> None:
    values = np.random.default_rng(seed).zipf(1.3, 20_000) % 5_000
    true = Counter(values.tolist())
    result = in_pieces(ApproxTopK("x", 20, log2_items=6), pa.array(values))
    assert isinstance(result, list)
    counts = {pair["item"]: pair["count"] for pair in result}
    excess = values.size // 2**6
    assert all(true[item] <= count <= true[item] + excess for item, count in counts.items())
    assert len(counts) == 20
    # Whatever beats the twentieth by more than the error may not be missed.
    twentieth = sorted(true.values())[-20]
    assert {item for item, count in true.items() if count > twentieth + excess} <= counts.keys()
    assert [pair["count"] for pair in result] == sorted(counts.values(), reverse=True)


def test_top_k_gives_k_items_even_where_none_is_frequent() -> None:
    result = in_pieces(ApproxTopK("x", 3, log2_items=4), pa.array(np.arange(1_000)))
    assert isinstance(result, list)
    assert len(result) == 3


def test_without_datasketches_only_the_sketches_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    import_datasketches.cache_clear()
    groups, column = np.zeros(1, dtype=np.int64), pa.array([1])
    for combiner in (ApproxDistinct("x"), ApproxQuantile("x", 0.5)):
        with pytest.raises(SkewlessError, match=r"need the package datasketches\. Install skewless\[spark\]"):
            combiner.add(groups, 1, [column])
    assert Count("x").add(groups, 1, [column])[0].to_pylist() == [1]
    assert ApproxTopK("x", 1).add(groups, 1, [column])[1].to_pylist() == [[1]]
