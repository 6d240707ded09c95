"""The coin-flip predictor against its twin, and the three theorems of its paper."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.coin_flip import NaiveCoinFlip, flip
from skewless import SkewlessError, Zipf, hash_keys
from skewless.sketches.coin_flip import CREDIT, DRAWS, UNIT, Coin, CoinFlip, bit_of, next_large

SEEDS = st.integers(0, 2**32)
STREAMS = st.lists(st.sampled_from([0, 0, 0, 1, 1, *range(2, 40), 2**63, 2**64 - 1]), max_size=400)


def as_array(keys: list[int]) -> NDArray[np.uint64]:
    return np.array(keys, dtype=np.uint64)


@st.composite
def predictors(draw: st.DrawFn) -> tuple[CoinFlip, NaiveCoinFlip]:
    length = draw(st.integers(1, 20))
    parameters: dict[str, Any] = {
        "threshold": draw(st.integers(0, 4)),
        "length": length,
        "min_bits": draw(st.integers(1, min(4, length))),
        "decline": draw(st.sampled_from([0.001, 0.01, 0.1, 0.5, 0.99])),
        "repeats": draw(st.booleans()),
        "seed": draw(SEEDS),
    }
    predictor = CoinFlip(**parameters)
    return predictor, NaiveCoinFlip(**parameters, capacity=predictor.synopsis.keys.size)


def check_same(predictor: CoinFlip, twin: NaiveCoinFlip) -> None:
    keys, vectors, hot = predictor.items()
    assert keys.tolist() == twin.places
    assert vectors.tolist() == [sum(1 << bit for bit in twin.vectors[key]) for key in twin.places]
    assert hot.tolist() == [key in twin.hot for key in twin.places]
    assert predictor.hot().tolist() == sorted(twin.hot)
    assert predictor.estimate(as_array(list(range(45)))).tolist() == [len(twin.vectors.get(k, ())) for k in range(45)]
    assert predictor.synopsis.marks[[CREDIT, DRAWS]].tolist() == [twin.due, twin.draws]


@given(predictors(), STREAMS)
def test_the_kernel_does_what_its_twin_does(pair: tuple[CoinFlip, NaiveCoinFlip], keys: list[int]) -> None:
    predictor, twin = pair
    for batch in (keys[:150], keys[150:]):
        events = predictor.update(as_array(batch))
        assert list(zip(*(column.tolist() for column in events), strict=True)) == twin.update(batch)
        check_same(predictor, twin)


def test_a_full_synopsis_turns_new_keys_away() -> None:
    predictor = CoinFlip(threshold=0, decline=0.9, seed=1)
    twin = NaiveCoinFlip(0, 16, 2, 0.9, 1, capacity=predictor.synopsis.keys.size)
    predictor.synopsis, twin.decline = predictor.synopsis._replace(decline=1), 1e-12
    keys = list(range(500))
    predictor.update(as_array(keys))
    twin.update(keys)
    assert predictor.n == predictor.synopsis.keys.size == 64
    check_same(predictor, twin)


def test_more_events_than_there_is_room_for_at_once() -> None:
    predictor = CoinFlip(threshold=0, length=4, min_bits=1, decline=0.7, seed=3)
    twin = NaiveCoinFlip(0, 4, 1, 0.7, 3, capacity=predictor.synopsis.keys.size)
    keys = np.random.default_rng(0).integers(0, 2**64, 3_000, dtype=np.uint64)
    events = predictor.update(keys)
    assert events.keys.size > 10 * predictor.synopsis.keys.size
    assert list(zip(*(column.tolist() for column in events), strict=True)) == twin.update(keys.tolist())


@given(SEEDS, st.integers(0, 63), st.data())
def test_heads_are_trailing_zeros(seed: int, threshold: int, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 64 - threshold))
    coin = Coin(np.uint64(seed), threshold, length)
    large = [at for at in range(300) if flip(seed, at, threshold + length) > threshold]
    assert next_large(coin, 0, 300) == (large[0] if large else 300)
    for at in large[:5]:
        assert bit_of(coin, at) == flip(seed, at, threshold + length) - threshold - 1


@given(predictors(), STREAMS, STREAMS)
def test_a_restored_predictor_goes_on_alike(
    pair: tuple[CoinFlip, NaiveCoinFlip], before: list[int], after: list[int]
) -> None:
    predictor, twin = pair
    predictor.update(as_array(before))
    state = predictor.snapshot()
    kept = {name: np.copy(array) for name, array in vars(state).items()}
    restored = CoinFlip(
        threshold=twin.threshold, length=twin.length, min_bits=twin.min_bits, decline=twin.decline, seed=twin.seed
    )
    restored.update(as_array([99] * 50))  # what it knew before is gone
    restored.restore(state)
    for one in (predictor, restored):
        one.update(as_array(after))
    left, right = vars(predictor.snapshot()), vars(restored.snapshot())
    assert all(np.array_equal(left[name], right[name]) for name in left)
    assert all(np.array_equal(getattr(state, name), kept[name]) for name in kept)


def test_a_snapshot_of_another_size_is_refused() -> None:
    predictor = CoinFlip(threshold=0, decline=0.001)
    predictor.update(np.arange(1000, dtype=np.uint64))
    with pytest.raises(SkewlessError, match="room for 64 keys cannot go on from a snapshot of another size"):
        CoinFlip(threshold=0, decline=0.5).restore(predictor.snapshot())


def test_every_append_is_followed_by_its_delete() -> None:
    predictor = CoinFlip(threshold=1, decline=0.2, seed=5)
    rng = np.random.default_rng(5)
    hot: set[int] = set()
    last = -1
    events = predictor.update(rng.integers(0, 30, 20_000).astype(np.uint64))
    assert events.keys.size > 100
    for position, key, appended in zip(*(column.tolist() for column in events), strict=True):
        assert position >= last
        assert (key in hot) != appended
        (hot.add if appended else hot.remove)(key)
        last = position
    assert sorted(hot) == predictor.hot().tolist()


# Theorem 1 and Table I: what becomes hot by chance. No decline, as in the theorem.
TABLE_I = {128: 0.9928, 256: 0.9735, 512: 0.9098, 1024: 0.7353}


def _without_decline(seed: int) -> CoinFlip:
    predictor = CoinFlip(threshold=10, decline=0.0001, seed=seed)
    predictor.synopsis = predictor.synopsis._replace(decline=0)
    return predictor


@pytest.mark.parametrize("n_tuples", TABLE_I)
def test_theorem_1_few_keys_become_hot_by_chance(n_tuples: int) -> None:
    """Many keys with `n_tuples` tuples each. The table has 73.53 where its formula gives 2 / e = 73.58."""
    ratio = n_tuples / 2**10
    bound = (1 + ratio) * exp(-ratio)
    assert bound == pytest.approx(TABLE_I[n_tuples], abs=6e-4)
    n_keys, named = 20_000, []
    for seed in range(3):
        predictor = _without_decline(seed)
        predictor.update(np.tile(np.arange(n_keys, dtype=np.uint64), n_tuples))
        named.append(predictor.hot().size / n_keys)
    assert 0 < np.mean(named) < 1 - bound


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0])
def test_theorem_1_most_hot_keys_have_many_tuples(exponent: float) -> None:
    """The named keys of a stream, over many seeds, weighted by their tuples as in the proof; from 1.5 on also alike."""
    keys = hash_keys(Zipf(exponent=exponent, n_keys=10**5).slice(0, 300_000, tuples=300_000, seed=0))
    names, counts = np.unique(keys, return_counts=True)
    named = []
    for seed in range(100):
        predictor = _without_decline(seed)
        predictor.update(keys)
        named.append(counts[np.searchsorted(names, predictor.hot())])
    tuples = np.concatenate(named)
    assert tuples.size > 100
    for least, share in TABLE_I.items():
        assert tuples[tuples >= least].sum() / tuples.sum() > share
        assert np.mean(tuples >= least) > share or exponent == 1.0


# Theorem 2 in terms of the synopsis alone: every large value is noted, so a threshold of 0 is as good as any.
def _present(share: float, decline: float, seed: int, tuples: int = 30_000) -> tuple[float, float]:
    """Return the fractions of the time in which a key of this share is in the synopsis and hot; others come once."""
    predictor = CoinFlip(threshold=0, decline=decline, seed=seed)
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(tuples) < share, np.uint64(0), np.arange(1, tuples + 1, dtype=np.uint64))
    seen = []
    for batch in np.array_split(keys, 60):
        predictor.update(batch)
        names, _, hot = predictor.items()
        seen.append([np.any(names == 0), np.any(hot[names == 0])])
    present, is_hot = np.mean(seen[10:], axis=0)
    return float(present), float(is_hot)


def test_theorem_2_keys_above_twice_the_decline_stay_and_others_leave() -> None:
    decline = 0.01
    mean = {
        ratio: np.mean([_present(ratio * decline, decline, seed) for seed in range(25)], axis=0)
        for ratio in (0.05, 0.5, 2.0, 4.0, 10.0)
    }
    present = [mean[ratio][0] for ratio in mean]
    assert present == sorted(present)
    assert mean[2.0][0] > 0.9
    assert mean[4.0][0] > 0.97
    assert mean[10.0].min() > 0.99
    assert mean[0.05][0] < 0.15
    assert mean[0.05][1] < 0.05


def test_theorem_2_a_key_that_no_longer_comes_leaves() -> None:
    """After as many shifts as its highest bit is high, at 1 / p updates each: never more than the bits of a vector."""
    decline, left = 0.02, []
    for seed in range(40):
        predictor = CoinFlip(threshold=0, decline=decline, seed=seed)
        predictor.update(np.zeros(2_000, dtype=np.uint64))  # bits up to about log2(0.5 / decline) and a few
        assert predictor.hot().tolist() == [0]
        events = predictor.update(np.arange(1, 40_001, dtype=np.uint64))
        deleted = events.positions[(events.keys == 0) & ~events.appended]
        left.append(deleted[0] / 2 * decline if deleted.size else np.inf)  # in intervals of 1 / p updates
    assert np.mean(left) < 16
    assert max(left) < 16 + 6 * 4  # a sum of 16 waits, with six standard deviations


# Theorem 3: the size of the synopsis.
def _sizes(keys: NDArray[np.uint64], decline: float, seed: int) -> NDArray[np.int64]:
    predictor = CoinFlip(threshold=0, decline=decline, seed=seed)
    sizes = []
    for batch in np.array_split(keys, 50):
        predictor.update(batch)
        sizes.append(predictor.n)
    return np.array(sizes[15:])


@pytest.mark.parametrize("exponent", [1.5, 1.75, 2.0])
@pytest.mark.parametrize("decline", [0.01, 0.03])
def test_theorem_3_the_synopsis_keeps_between_the_hot_keys_and_1_per_decline(exponent: float, decline: float) -> None:
    ranks = np.arange(1, 10_001) ** -exponent
    n_hot = np.count_nonzero(ranks / ranks.sum() > 2 * decline)
    means = []
    for seed in range(20):
        keys = hash_keys(Zipf(exponent=exponent, n_keys=10_000).slice(0, 20_000, tuples=20_000, seed=seed))
        sizes = _sizes(keys, decline, seed)
        means.append(sizes.mean())
        assert sizes.max() < 1 / decline
    assert n_hot < np.mean(means)


@pytest.mark.parametrize("decline", [0.01, 0.05])
def test_theorem_3_without_hot_keys_chance_keeps_twice_as_many(decline: float) -> None:
    """A vector with bit j stays for j + 1 shifts, of 1 / p updates each in the mean: 2 / p in all, not 1 / p."""
    means = [_sizes(np.arange(40_000, dtype=np.uint64), decline, seed).mean() for seed in range(20)]
    assert np.mean(means) == pytest.approx(2 / decline, rel=0.05)


def test_the_released_rule_is_that_of_the_code() -> None:
    """A value is large once in 2 ** 6 tuples; it sets one of the bits 6 to 16, each half as often as the one below."""
    coin = CoinFlip.as_released().coin
    bits = []
    at = next_large(coin, 0, 400_000)
    while at < 400_000:
        bits.append(bit_of(coin, at))
        at = next_large(coin, at + 1, 400_000)
    assert len(bits) == pytest.approx(400_000 / 2**6, rel=0.05)
    assert (min(bits), max(bits)) == (6, 16)
    assert bits.count(6) == pytest.approx(len(bits) / 2, rel=0.05)


def test_presets() -> None:
    paper, code = CoinFlip.as_published(seed=3), CoinFlip.as_released(seed=3)
    assert (paper.coin[1:], code.coin[1:]) == ((10, 16, 0), (5, 11, 6))
    assert paper.synopsis[-3:] == (2, round(0.01 * UNIT), False)
    assert code.synopsis[-3:] == (2, round(0.01 * UNIT), True)
    assert paper.coin.salt == code.coin.salt != CoinFlip().coin.salt
    assert paper.memory < 20_000


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": -1}, "threshold must be a whole number of at least 0; got -1"),
        ({"threshold": 2.5}, "threshold must be a whole number of at least 0; got 2.5"),
        ({"length": 0}, "length must be a whole number of at least 1; got 0"),
        ({"threshold": 60, "length": 5}, "threshold \\+ length must be at most 64, .*; got 60 \\+ 5"),
        ({"min_bits": 0}, "min_bits must be a whole number of at least 1; got 0"),
        ({"length": 4, "min_bits": 5}, r"min_bits must be between 1 and length \(4\); got 5"),
        ({"decline": 0}, "decline must be at least 1e-06 and below 1; got 0"),
        ({"decline": -0.1}, "decline must be at least 1e-06 and below 1; got -0.1"),
        ({"decline": 1.0}, "decline must be at least 1e-06 and below 1; got 1.0"),
        ({"decline": float("nan")}, "decline must be at least 1e-06 and below 1; got nan"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        CoinFlip(**parameters)
