"""Popularity-aware grouping, one tuple at a time: every source has a predictor of its own until the next barrier."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

from naive.coin_flip import NaiveCoinFlip, flip
from naive.counting_bloom import NaiveCountingBloom
from naive.groupings import home
from skewless import PopularityAware
from skewless.seeding import make_salt


@dataclass
class Source:
    """What one source knows and has noted since the last barrier."""

    predictor: NaiveCoinFlip
    bloom: NaiveCountingBloom
    coin: int
    turn: int
    tuples: int = 0
    notes: list[tuple[int, int, int]] = field(default_factory=list)  # at which tuple, key, bit


class NaivePopularityAware:
    """All sources together, as their number changes only at barriers."""

    def __init__(self, grouping: PopularityAware, n_sources: int, seed: int) -> None:
        self.grouping, self.seed, self.rules = grouping, seed, grouping.rules
        self.agreed = NaiveCoinFlip(
            self.rules.threshold,
            self.rules.length,
            grouping.min_bits,
            grouping.decline_rate,
            seed,
            capacity=grouping.make_predictor(seed).synopsis.keys.size,
            repeats=self.rules.repeats,
        )
        shape = grouping.make_filter(seed)
        kind = self.rules.kind
        self.agreed_bloom = NaiveCountingBloom(
            shape.n_hashes, shape.counters.size, int(make_salt(seed)), kind.top, kind.hashes_coincide
        )
        self.barriers = 0
        n = grouping.n_workers
        places = [i * (5**0.5 - 1) / 2 % 1 for i in range(n)]
        self.sources = [self.begin(i, (sorted(places).index(places[i % n]) + seed) % n) for i in range(n_sources)]

    def begin(self, source: int, turn: int) -> Source:
        coin = int(make_salt(int(make_salt(self.agreed.coin, use=source)), use=self.barriers))
        return Source(deepcopy(self.agreed), deepcopy(self.agreed_bloom), coin, turn)

    def route(self, source: int, keys: Iterable[int]) -> list[int]:
        return [self.route_one(self.sources[source], key) for key in keys]

    def route_one(self, source: Source, key: int) -> int:
        worker = home(key, int(make_salt(self.seed)), self.grouping.n_workers)
        if source.bloom.contains(key):
            worker = source.turn
            source.turn = (source.turn + 1) % self.grouping.n_workers
        threshold = self.rules.threshold
        heads = flip(source.coin, source.tuples, threshold + self.rules.length)
        if heads > threshold:
            bit = self.rules.offset + heads - threshold - 1
            source.notes.append((source.tuples, key, bit))
            self.learn(source.predictor, source.bloom, key, bit)
        source.tuples += 1
        return worker

    def learn(self, predictor: NaiveCoinFlip, bloom: NaiveCountingBloom, key: int, bit: int) -> None:
        predictor.events = []
        predictor.note(key, bit)
        for _, changed, appended in predictor.events:
            if not appended and self.rules.deletes:
                bloom.remove([changed])
                continue
            added = changed if appended else key
            if not (self.rules.repeats and bloom.contains(added)):
                bloom.update([added])

    def barrier(self, n_sources: int) -> None:
        """Let all go on as `n_sources` sources."""
        notes = [
            (at, number, key, bit)
            for number, source in enumerate(self.sources)
            for at, key, bit in source.notes[-self.grouping.n_notes :]
        ]
        for _, _, key, bit in sorted(notes):
            self.learn(self.agreed, self.agreed_bloom, key, bit)
        self.barriers += 1
        turns = [source.turn for source in self.sources]
        late = sum(turns) % self.grouping.n_workers
        self.sources = [
            self.begin(i, turns[i]) if i < len(turns) else self.begin(len(turns), late) for i in range(n_sources)
        ]
