"""The observer, against a plain Python count of the same assignments."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import SkewlessError
from skewless.groupings import State
from skewless.hashing import hash_keys
from skewless.observing import BatchMetrics, HotKey, Metrics, Observer
from skewless.observing.key_sample import KeySample, dist_cost
from skewless.storage.ledger import Ledger
from skewless.storage.worker_report import SAMPLE, TOP, WorkerReport, sample_hashes

Pairs = Sequence[tuple[str, int]]


@dataclass
class Batch:
    """What really happened: the worker of each tuple, and when each worker was done."""

    pairs: Pairs
    began_ms: int
    took_ms: dict[int, int]


def write(ledger: Ledger, number: int, batch: Batch, *, workers: Sequence[int] | None = None) -> None:
    ledger.write_source(number, 0, State(), batch.began_ms)
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for key, worker in batch.pairs:
        counts[worker][key] += 1
    for worker in counts if workers is None else workers:
        top = counts[worker].most_common(TOP)
        ledger.write_worker(
            number,
            WorkerReport(
                worker=worker,
                tuples=counts[worker].total(),
                keys=len(counts[worker]),
                busy_s=0.25,
                finished_ms=batch.began_ms + batch.took_ms.get(worker, 0),
                hashes=sample_hashes(hash_keys(pa.array([*counts[worker]], pa.string()))),
                top_keys=[key for key, _ in top],
                top_counts=[count for _, count in top],
                state_keys=10 * len(counts[worker]),
                moved_keys=len(counts[worker]) // 2,
                rejected=worker,
            ),
        )


def quantile(times: list[int], share: float) -> float:
    return float(sorted(times)[max(1, math.ceil(share * len(times))) - 1]) if times else 0.0


def assert_metrics(metrics: Metrics, batches: Sequence[Batch], n_workers: int) -> None:
    """The twin: one tuple after the other, as the definitions say."""
    pairs = [pair for batch in batches for pair in batch.pairs]
    loads = [sum(worker == w for _, worker in pairs) for w in range(n_workers)]
    percents = [100 * load / max(1, len(pairs)) for load in loads]
    mean = sum(percents) / n_workers
    assert metrics.tuples == len(pairs)
    assert metrics.workers == n_workers
    assert metrics.loads == loads
    assert metrics.stddev == pytest.approx(math.sqrt(sum((p - mean) ** 2 for p in percents) / n_workers), abs=1e-9)
    assert metrics.imbalance == pytest.approx((max(loads) * n_workers / len(pairs) - 1) * 100 if pairs else 0, abs=1e-9)
    keys = {key for key, _ in pairs}
    assert metrics.dist_cost == (len(set(pairs)) / len(keys) if keys else 1.0)
    elapsed = sum(max((batch.took_ms[worker] for _, worker in batch.pairs), default=0) for batch in batches)
    assert metrics.throughput == pytest.approx(len(pairs) / elapsed * 1_000 if elapsed else 0)
    assert metrics.elapsed_ms == elapsed
    times = [batch.took_ms[worker] for batch in batches for _, worker in batch.pairs]
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert metrics.latency_ms[name] == pytest.approx(quantile(times, share), rel=1 / 250)
    active = [sum(w in {worker for _, worker in batch.pairs} for batch in batches) for w in range(n_workers)]
    assert metrics.busy_s == pytest.approx([0.25 * n for n in active])
    assert metrics.variance == pytest.approx(sum((load - sum(loads) / n_workers) ** 2 for load in loads) / n_workers)
    held = [Counter(worker for _, worker in set(batch.pairs)) for batch in batches]  # keys by worker
    moved = sum(n // 2 for keys in held for n in keys.values())
    assert metrics.state_keys == 10 * held[-1].total()
    assert metrics.moved_keys == moved
    assert metrics.moved == pytest.approx(100 * moved / max(1, sum(10 * keys.total() for keys in held)))
    assert metrics.rejected == sum(worker for keys in held for worker in keys)


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[Batch]]:
    n_workers = draw(st.integers(1, 6))
    pair = st.tuples(st.sampled_from("abcdefgh"), st.integers(0, n_workers - 1))
    times = st.fixed_dictionaries({worker: st.integers(1, 100_000) for worker in range(n_workers)})
    batch = st.builds(Batch, pairs=st.lists(pair, max_size=40), began_ms=st.integers(0, 2**41), took_ms=times)
    return n_workers, draw(st.lists(batch, min_size=1, max_size=5))


@given(history=histories(), together=st.booleans())
def test_metrics_are_those_of_a_plain_count(history: tuple[int, list[Batch]], together: bool) -> None:
    n_workers, batches = history
    with TemporaryDirectory() as directory:
        ledger = Ledger(uri=directory)
        ledger.claim({"workers": n_workers})
        observer = Observer(ledger)
        found: list[BatchMetrics] = []
        for number, batch in enumerate(batches):
            write(ledger, number, batch)
            if not together:
                found += observer.poll(now_s=number)
        ledger.write_source(len(batches), 0, State(), 0)  # a later batch: all before it are complete
        found += observer.poll(now_s=100)
        assert observer.poll(now_s=101) == []
    assert [metrics.batch for metrics in found] == [*range(len(batches))]
    for number, metrics in enumerate(found):
        assert_metrics(metrics, [batches[number]], n_workers)
        assert_metrics(metrics.total, batches[: number + 1], n_workers)
        assert metrics.began_ms == batches[number].began_ms
        counts = Counter(key for key, _ in batches[number].pairs)
        assert [hot.key for hot in metrics.hottest] == sorted(counts, key=lambda key: (-counts[key], key))
        for hot in metrics.hottest:
            assert hot.tuples == counts[hot.key]
            assert hot.share == pytest.approx(counts[hot.key] / len(batches[number].pairs))
            assert hot.workers == len({worker for key, worker in batches[number].pairs if key == hot.key})
        assert json.loads(json.dumps(metrics.as_dict())) == metrics.as_dict()


def sampled(keys: np.ndarray[Any, np.dtype[np.uint64]]) -> KeySample:
    distinct = np.unique(keys)
    return KeySample.of(
        WorkerReport(
            worker=0,
            tuples=keys.size,
            keys=distinct.size,
            busy_s=0.0,
            finished_ms=0,
            hashes=sample_hashes(distinct),
            top_keys=[],
            top_counts=[],
        )
    )


@pytest.mark.parametrize("n_keys", [1_000, 30_000, 300_000])
@pytest.mark.parametrize("seed", range(3))
def test_dist_cost_of_many_keys_is_close(n_keys: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    hashes = random.integers(0, 2**64 - 1, n_keys, dtype=np.uint64, endpoint=True)
    # Worker w holds a share of the keys of its own, so samples reach to different hashes; the first has very few.
    held = [np.unique(random.choice(hashes, size)) for size in (5, n_keys // 10, n_keys // 2, n_keys)]
    exact = sum(keys.size for keys in held) / np.unique(np.concatenate(held)).size
    estimate = dist_cost([sampled(keys) for keys in held])
    assert estimate == pytest.approx(exact, rel=1e-12 if n_keys <= SAMPLE else 0.04)


@pytest.mark.parametrize("seed", range(3))
def test_dist_cost_since_the_start_is_close(seed: int) -> None:
    """Batches of few keys, all of them sampled, may together have more keys than one sample holds."""
    random = np.random.default_rng(seed)
    hashes = random.integers(0, 2**64 - 1, 100_000, dtype=np.uint64, endpoint=True)
    seen: list[list[Any]] = [[], [], []]
    samples = [KeySample()] * 3
    for _ in range(12):
        for worker, size in enumerate((100, 3_000, 20_000)):
            keys = random.choice(hashes, size)
            seen[worker].append(keys)
            samples[worker] = samples[worker].merge(sampled(keys))
            assert samples[worker].hashes.size <= SAMPLE
    held = [np.unique(np.concatenate(keys)) for keys in seen]
    for sample, keys in zip(samples, held, strict=True):
        np.testing.assert_array_equal(sample.hashes, keys[keys <= sample.limit])  # all up to the limit, none left out
    exact = sum(keys.size for keys in held) / np.unique(np.concatenate(held)).size
    assert dist_cost(samples) == pytest.approx(exact, rel=0.04)


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=20), min_size=3, max_size=3))
def test_samples_merge_in_any_order(keys: list[list[int]]) -> None:
    a, b, c = (sampled(np.array(some, dtype=np.uint64)) for some in keys)
    left, right = a.merge(b).merge(c), c.merge(b.merge(a))
    assert (left.hashes.tolist(), left.limit) == (right.hashes.tolist(), right.limit)


# ---- when a batch is complete ----------------------------------------------------------------------------------

BATCH = Batch(pairs=[("a", 0), ("a", 1), ("b", 1)], began_ms=1_000, took_ms={0: 500, 1: 1_000})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(uri=str(tmp_path))
    ledger.claim({"workers": 2})
    return ledger


def numbers(batches: Sequence[BatchMetrics]) -> list[int]:
    return [metrics.batch for metrics in batches]


def test_a_batch_is_complete_when_all_workers_have_reported(ledger: Ledger) -> None:
    observer = Observer(ledger)
    assert observer.poll(now_s=0) == []
    write(ledger, 0, BATCH, workers=[0])
    assert observer.poll(now_s=1) == []
    write(ledger, 0, BATCH, workers=[1])
    (metrics,) = observer.poll(now_s=2)
    assert (metrics.loads, metrics.throughput, metrics.dist_cost) == ([1, 2], 3.0, 1.5)
    assert metrics.hottest[0] == HotKey(key="a", tuples=2, share=2 / 3, workers=2)


def test_a_batch_is_complete_when_a_later_one_exists(ledger: Ledger) -> None:
    observer = Observer(ledger)
    write(ledger, 7, BATCH, workers=[0])
    assert observer.poll(now_s=0) == []
    ledger.write_source(9, 0, State(), 0)
    assert numbers(observer.poll(now_s=0)) == [7]


def test_a_batch_is_complete_when_nothing_more_comes(ledger: Ledger) -> None:
    observer = Observer(ledger, workers=3)
    write(ledger, 0, BATCH, workers=[])
    assert observer.poll(now_s=0, settle_s=5) == []
    assert observer.poll(now_s=1_000, settle_s=5) == []  # not one report: it still runs
    write(ledger, 0, BATCH, workers=[0])
    assert observer.poll(now_s=1_001, settle_s=5) == []
    write(ledger, 0, BATCH, workers=[1])
    assert observer.poll(now_s=1_005, settle_s=5) == []
    assert observer.poll(now_s=1_009.9, settle_s=5) == []
    assert numbers(observer.poll(now_s=1_010, settle_s=5)) == [0]
    assert observer.poll(now_s=2_000, settle_s=5) == []


def test_what_is_there_can_be_read_at_once(ledger: Ledger) -> None:
    write(ledger, 0, BATCH)
    write(ledger, 1, BATCH, workers=[0])
    assert numbers(Observer(ledger).poll(now_s=0, settle_s=0)) == [0, 1]


def test_a_ledger_that_begins_anew_is_followed(ledger: Ledger) -> None:
    observer = Observer(ledger)
    for batch in range(3):
        write(ledger, batch, BATCH)
    assert observer.poll(now_s=0)[-1].total.tuples == 9
    for batch in range(3):
        (Path(ledger.uri) / f"{batch:012d}").rename(Path(ledger.uri) / f"old-{batch}")
    assert observer.poll(now_s=1) == []
    write(ledger, 0, BATCH)
    (metrics,) = observer.poll(now_s=2)
    assert (metrics.batch, metrics.total.tuples) == (0, 3)


# ---- what can be wrong -----------------------------------------------------------------------------------------


def test_without_a_clock_there_are_no_times(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    write(ledger, 0, BATCH)
    (Path(ledger.uri) / f"{0:012d}" / "source-0.npz").write_bytes(b"")
    write(ledger, 1, BATCH)
    first, second = Observer(ledger).poll(now_s=0)
    assert "no clock in 000000000000/source-0.npz" in caplog.text
    assert (first.tuples, first.throughput, first.latency_ms["p99"]) == (3, 0.0, 0.0)
    assert (first.began_ms, second.began_ms) == (None, 1_000)
    assert (second.total.tuples, second.total.throughput) == (6, 3.0)


def test_clocks_that_differ_give_no_negative_times(ledger: Ledger) -> None:
    write(ledger, 0, Batch(pairs=BATCH.pairs, began_ms=5_000, took_ms={0: -100, 1: -3}))
    write(ledger, 1, Batch(pairs=BATCH.pairs, began_ms=0, took_ms={0: 2**62, 1: 0}))
    first, second = Observer(ledger).poll(now_s=0)
    assert (first.throughput, first.latency_ms["p50"]) == (0.0, 0.0)
    assert second.latency_ms["p99"] > 1e9


def test_a_batch_without_tuples_has_metrics(ledger: Ledger) -> None:
    write(ledger, 0, Batch(pairs=[], began_ms=0, took_ms={}), workers=[0, 1])
    (metrics,) = Observer(ledger).poll(now_s=0)
    assert (metrics.tuples, metrics.stddev, metrics.imbalance, metrics.dist_cost) == (0, 0.0, 0.0, 1.0)


def test_an_empty_folder_is_passed_over(ledger: Ledger) -> None:
    (Path(ledger.uri) / f"{0:012d}").mkdir()
    write(ledger, 1, BATCH)
    assert numbers(Observer(ledger).poll(now_s=0)) == [1]


def test_workers_beyond_the_last_are_left_out(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    write(ledger, 0, BATCH)
    (metrics,) = Observer(ledger, workers=1).poll(now_s=0)
    assert metrics.loads == [1]
    assert "of more than 1 workers" in caplog.text


@pytest.mark.parametrize("owner", [{}, {"workers": "ten"}, {"workers": 0}, {"workers": True}])
def test_a_ledger_must_say_how_many_workers(tmp_path: Path, owner: dict[str, Any]) -> None:
    ledger = Ledger(uri=str(tmp_path))
    with pytest.raises(SkewlessError, match="no ledger at"):
        Observer(ledger)
    ledger.claim(owner)
    with pytest.raises(SkewlessError, match="does not say how many workers"):
        Observer(ledger)
    with pytest.raises(SkewlessError, match="workers must be"):
        Observer(ledger, workers=0)
    assert Observer(ledger, workers=2).poll(now_s=0) == []
