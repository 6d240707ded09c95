"""The schedule of a producer, under a clock that only moves when somebody sleeps or a target takes its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import SkewlessError
from skewless.producing import Feed, Produced, Progress, Target, make_feed, produce
from skewless.streams.arrivals import SECOND, Arrivals, Ramp, Steady

TICK = 2_000_000  # ns that a row may wait for the next ones, to go with them


class Clock:
    """A time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 7 * SECOND

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += max(1, round(seconds * SECOND))


class Recorder(Target):
    """Notes when it got which keys; takes at most `room` of them at once, and so long as `cost` says for it."""

    def __init__(self, clock: Clock, cost: Callable[[int], int] = lambda _: 0, room: int = 1 << 30) -> None:
        self._clock, self._cost, self._room = clock, cost, room
        self.keys: list[Any] = []
        self.times: list[int] = []
        self.sizes: list[int] = []
        self.closed: list[str] = []

    @property
    def label(self) -> str:
        return "recorder"

    def send(self, rows: pa.RecordBatch) -> int:
        taken: int = min(self._room, rows.num_rows)
        self.keys += rows.column(0).to_pylist()[:taken]
        self.times += [self._clock.now - 7 * SECOND] * taken
        self.sizes.append(taken)
        self._clock.now += self._cost(len(self.keys))
        return taken

    def close(self) -> None:
        self.closed.append("closed")

    def interrupt(self) -> None:
        self.closed.append("interrupted")


def feed_of(n: int, size: int = 1_000, tuples: int | None = None) -> Feed:
    batches = (pa.RecordBatch.from_pydict({"key": list(range(at, min(at + size, n)))}) for at in range(0, n, size))
    return Feed(label="numbers", part="keys", columns=("key",), rows=batches, tuples=tuples)


def run(feed: Feed, target: Recorder, clock: Clock, arrivals: Arrivals | None = None, **others: Any) -> Produced:
    return produce(feed, target, arrivals=arrivals, clock=clock, sleep=clock.sleep, **others)


@given(
    rate=st.integers(10, 300_000),
    n=st.integers(1, 400),
    size=st.integers(1, 400),
    poisson=st.booleans(),
    room=st.integers(5, 400),
)
def test_every_row_goes_when_it_is_due(rate: int, n: int, size: int, poisson: bool, room: int) -> None:
    clock = Clock()
    target = Recorder(clock, room=room)
    arrivals = Steady(rate=rate, poisson=poisson)
    report = run(feed_of(n, size), target, clock, arrivals, seed=3)
    due = arrivals.start(seed=3).take(n).tolist()
    assert target.keys == list(range(n))
    assert all(0 <= sent - when <= TICK for sent, when in zip(target.times, due, strict=True))
    if not poisson:
        assert max(target.sizes) <= rate * TICK // SECOND + 1
    assert (report.tuples, report.messages, report.ended, target.closed) == (n, n, "complete", ["closed"])
    assert report.behind_s == pytest.approx(TICK / SECOND)
    assert report.seconds == pytest.approx(target.times[-1] / SECOND)


def test_no_drift_however_long_it_takes() -> None:
    clock = Clock()
    report = run(feed_of(300_000, 10_000), Recorder(clock), clock, Steady(rate=9_000))
    assert report.rate == pytest.approx(9_000, rel=1e-3)
    assert report.asked == pytest.approx(9_000)


def test_a_slow_target_is_waited_for_and_nothing_piles_up() -> None:
    clock, made = Clock(), 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal made
        for at in range(0, 20_000, 100):
            assert at - len(target.keys) < 100  # the rows before were taken
            made += 1
            yield pa.RecordBatch.from_pydict({"key": list(range(at, at + 100))})

    target = Recorder(clock, cost=lambda _: SECOND // 100, room=10)  # 1,000 rows a second
    feed = Feed(label="numbers", part="keys", columns=("key",), rows=batches(), tuples=20_000)
    report = run(feed, target, clock, Steady(rate=4_000))
    assert (made, report.tuples, report.ended) == (200, 20_000, "complete")
    assert report.rate == pytest.approx(1_000, rel=0.01)
    assert report.asked == pytest.approx(4_000)
    assert report.behind_s == report.behind_end_s == pytest.approx(15, rel=0.01)


def test_what_a_target_has_held_up_is_made_good() -> None:
    clock = Clock()
    target = Recorder(clock, cost=lambda keys: 3 * SECOND if 900 <= keys < 950 else 0)
    report = run(feed_of(9_000), target, clock, Steady(rate=1_000))
    assert report.behind_s == pytest.approx(3, rel=0.9)
    assert report.behind_s is not None
    assert report.behind_s > 2.9
    assert report.behind_end_s == pytest.approx(TICK / SECOND)
    assert report.seconds == pytest.approx(9, rel=1e-3)
    assert target.times[-1] == 8_999 * SECOND // 1_000 + TICK
    assert max(target.sizes) <= 2_048  # also when it makes good it can be stopped


def test_without_a_rate_it_is_as_fast_as_the_target() -> None:
    clock = Clock()
    target = Recorder(clock, cost=lambda _: 1_000_000)
    report = run(feed_of(10_000), target, clock)
    assert target.keys == list(range(10_000))
    assert report.seconds == pytest.approx(len(target.sizes) / 1_000)
    assert (report.asked, report.behind_s, report.behind_end_s) == (None, None, None)


def test_a_rate_can_grow() -> None:
    clock = Clock()
    target = Recorder(clock)
    report = run(feed_of(8_500, tuples=8_500), target, clock, Ramp(first=1_000, last=16_000))
    assert sum(time < SECOND // 2 + TICK for time in target.times) == pytest.approx(2_375, abs=20)
    assert report.seconds == pytest.approx(1, rel=0.01)
    with pytest.raises(SkewlessError, match="needs to know its length"):
        run(feed_of(10), target, clock, Ramp(first=1, last=2))


def test_a_record_of_several_tuples_takes_their_time() -> None:
    clock = Clock()
    target = Recorder(clock)
    report = run(make_feed(stream="debs2013", part="records", tuples=4_001), target, clock, Steady(rate=1_000))
    assert (report.tuples, report.messages) == (4_001, 1_001)
    assert report.seconds == pytest.approx(4, rel=1e-3)
    assert report.asked == pytest.approx(1_000)


def test_it_stops_between_two_sends_and_delivers_what_was_sent() -> None:
    clock = Clock()
    target = Recorder(clock)
    report = run(feed_of(100_000), target, clock, Steady(rate=1_000), stop=lambda: clock.now > 9 * SECOND)
    assert (report.ended, report.tuples, target.closed) == ("interrupted", len(target.keys), ["interrupted"])
    assert target.keys == list(range(1_999))
    idle = run(feed_of(5), Recorder(clock), clock, Steady(rate=1), stop=lambda: True)
    assert (idle.ended, idle.tuples, idle.asked) == ("interrupted", 0, None)


def test_a_stop_does_not_wait_for_the_next_row() -> None:
    clock = Clock()
    report = run(feed_of(9), Recorder(clock), clock, Steady(rate=1), stop=lambda: clock.now > 7.5 * SECOND)
    assert report.seconds < 0.7


def test_a_reader_that_has_gone_is_an_end() -> None:
    clock = Clock()

    def cost(keys: int) -> int:
        if keys > 100:
            raise BrokenPipeError
        return 0

    target = Recorder(clock, cost=cost, room=10)
    report = run(feed_of(1_000), target, clock)
    assert (report.ended, report.tuples, target.closed) == ("closed", 100, ["closed"])


def test_any_other_failure_closes_the_target_as_well() -> None:
    clock = Clock()

    def cost(_: int) -> int:
        raise SkewlessError("no")

    target = Recorder(clock, cost=cost)
    with pytest.raises(SkewlessError):
        run(feed_of(10), target, clock)
    assert target.closed == ["closed"]


def test_progress_is_told_now_and_then() -> None:
    clock = Clock()
    told: list[Progress] = []
    run(feed_of(10_000), Recorder(clock), clock, Steady(rate=1_000), progress=told.append)
    assert 35 <= len(told) <= 40
    assert [one.tuples for one in told] == sorted(one.tuples for one in told)
    assert all(one.rate == pytest.approx(1_000, rel=0.02) for one in told[1:])
    assert all(one.behind_s == pytest.approx(TICK / SECOND) for one in told)
