"""Whether skew is the problem, and what would help: predictions for keys that have been counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from skewless import notebook
from skewless.combiners import Combiner
from skewless.diagnosis.key_distribution import Drawn, KeyDistribution, draw
from skewless.diagnosis.map_side import aggregate_name, combined_on_the_map_side
from skewless.errors import ConfigurationError, SkewlessError, require_at_least
from skewless.groupings import GROUPINGS, Grouping, Key, Shuffle, make_grouping
from skewless.simulation import Result, Simulation, simulate
from skewless.wording import many

NO_SKEW: Final = "no skew worth handling"
COMBINED: Final = "combined on the map side"
NO_HELP: Final = "none of these groupings helps"

_DEFAULT: Final = (
    "key", "partial_key", "dynamic_key", "d_choices", "w_choices", "key_isolator", "distribution_aware", "even",
    "shuffle",
)  # fmt: skip
_WORTH: Final = 1.5
_ALIKE: Final = 1.1
_MOST_WORKERS: Final = 2_000  # with more, the noise of the few tuples per worker would look like skew
_LEAST_TUPLES: Final = 300_000
_MOST_TUPLES: Final = 1_000_000
_TUPLES_PER_WORKER: Final = 10_000
_MOST_BITS: Final = 1 << 30  # the simulator keeps one per key and worker
_MINUTES: Final = 10  # of virtual time, enough for the warm-up of the published groupings
_BATCH_MS: Final = 10_000
_FOR_EVER_MS: Final = 1 << 40


@dataclass(frozen=True, kw_only=True)
class HotKey:
    """A key, its rows, and their share of all rows."""

    name: str
    rows: int
    share: float


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a grouping would do with the keys.

    Parameters
    ----------
    grouping : str
        Name of the grouping.
    stage_time : float
        Load of the most loaded worker relative to a perfectly even split: how much longer the stage takes if the work
        is per row.
    speed_up : float
        Relative to plain key grouping.
    imbalance : float
        λ: by how many percent the largest load exceeds the mean.
    stddev : float
        Standard deviation of the workers' load in percent.
    dist_cost : float
        Workers per key, on average.
    """

    grouping: str
    stage_time: float
    speed_up: float
    imbalance: float
    stddev: float
    dist_cost: float


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What was found, what is predicted, and what follows; `str()` returns all of it as text.

    Parameters
    ----------
    label : str
        Name of the data.
    rows, distinct : int
        Number of rows, and of keys.
    workers : int
        Number of workers that the predictions are for.
    workers_from : str
        Where that number comes from; empty if it was a parameter.
    hottest : tuple of HotKey
        The keys with the most rows.
    predictions : tuple of Prediction
        One for each grouping.
    use : str or None
        The grouping to use; None if plain Spark does as well.
    verdict : str
        The same, or why there is none: "no skew worth handling", "combined on the map side" or, if the groupings were
        chosen by hand, "none of these groupings helps".
    reason : str
        The verdict in a sentence.
    streaming : bool
        Whether the predictions are for a stream.
    sources : int
        Number of sources that route in parallel.
    tuples : int
        Tuples that were routed for each prediction.
    seed : int
        Of the predictions.
    """

    label: str
    rows: int
    distinct: int
    workers: int
    workers_from: str
    hottest: tuple[HotKey, ...]
    predictions: tuple[Prediction, ...]
    use: str | None
    verdict: str
    reason: str
    streaming: bool
    sources: int
    tuples: int
    seed: int

    @property
    def heading(self) -> str:
        """The data in one line."""
        origin = f" ({self.workers_from})" if self.workers_from else ""
        return (
            f"{self.label}: {many(self.rows, 'row')}, {many(self.distinct, 'key')}, "
            f"{many(self.workers, 'worker')}{origin}"
        )

    @property
    def basis(self) -> str:
        """What the predictions are based on, in one line."""
        job = "a stream" if self.streaming else "a batch job"
        return f"Predicted by routing {self.tuples:,} tuples of these keys as {job} with {self.sources} sources would."

    @property
    def windows(self) -> str:
        """What window functions over the keys are up to, in one line; empty where no key exceeds a worker's share."""
        hottest = self.hottest[0]
        if self.streaming or hottest.share * self.workers <= 1:
            return ""
        return (
            f"Window functions over this key would sort {_percent(hottest.share)} of the rows in one task; "
            f"over(…) cuts them by order, {_percent(1 / self.workers)} each."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        width = max(len(hot.name) for hot in self.hottest)
        keys = [f"  {hot.name:<{min(width, 40)}}  {100 * hot.share:6.2f} %  {hot.rows:,}" for hot in self.hottest]
        heads = ("stage time", "speed-up", "λ %", "stddev", "dist_cost")
        table = [f"  {'grouping':<20}" + "".join(f"{head:>12}" for head in heads)]
        for one in self.predictions:
            mark = "*" if one.grouping == self.use else " "
            table.append(
                f"{mark} {one.grouping:<20}{one.stage_time:>12.2f}{one.speed_up:>12.2f}{one.imbalance:>12.1f}"
                f"{one.stddev:>12.3f}{one.dist_cost:>12.2f}"
            )
        lines = [self.heading, *keys, "", *table, "", self.basis, *filter(None, [self.windows])]
        return "\n".join([*lines, f"Verdict: {self.verdict}", self.reason])

    def _repr_html_(self) -> str:
        keys = [[hot.name, f"{100 * hot.share:.2f} %", f"{hot.rows:,}"] for hot in self.hottest]
        heads = ("grouping", "stage time", "speed-up", "λ %", "dist_cost")
        ways = [
            [
                one.grouping,
                f"{one.stage_time:.2f}",
                f"{one.speed_up:.2f}",
                f"{one.imbalance:.1f}",
                f"{one.dist_cost:.2f}",
            ]
            for one in self.predictions
        ]
        return "".join(
            [
                notebook.paragraph(self.heading),
                notebook.table(["hottest keys", "share", "rows"], keys, [hot.share for hot in self.hottest]),
                notebook.table(heads, ways, [one.stage_time for one in self.predictions]),
                *(notebook.paragraph(line) for line in (self.basis, self.windows) if line),
                notebook.paragraph(f"Verdict: {self.verdict}. {self.reason}"),
            ]
        )


def diagnose(
    distribution: KeyDistribution,
    *,
    workers: int,
    groupings: Sequence[str] | None = None,
    aggregates: Sequence[str | Combiner] = (),
    streaming: bool = False,
    sources: int = 5,
    top: int = 10,
    seed: int = 0,
    workers_from: str = "",
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Predict what each grouping does with these keys, and recommend one if it helps.

    Every prediction comes from the grouping itself, run in the simulator on tuples drawn from the distribution in
    random order. Data in another order, such as sorted files and hot keys that change, behaves differently.

    The rule: the time of a job is that of its most loaded worker plus that of merging, where a partial result is
    assumed to cost as much as a row. Of all groupings within 10 % of the shortest time, the one with the fewest partial
    results is recommended. If plain key grouping takes less than one and a half times as long as the most even split,
    or Spark combines all `aggregates` on the map side, skew is not the problem and none is.

    Parameters
    ----------
    distribution : KeyDistribution
        The keys and their counts.
    workers : int
        Number of workers.
    groupings : sequence of str, optional
        Names of groupings; by default those that suit any job.
    aggregates : sequence of str or Combiner
        What is computed per key, as names of Spark's functions or combiners; empty is work on every row.
    streaming : bool
        Whether to predict for a stream, in which time passes and sources share what they learned every ten seconds; in
        a batch job each learns alone, and no time passes.
    sources : int
        Number of map tasks that route in parallel.
    top : int
        Number of the hottest keys to name.
    seed : int
        Determines the order of the tuples and the hashes of the groupings.
    workers_from : str
        Where the number of workers comes from, for the report.
    progress : callable, optional
        Called with the name of each grouping before it runs.

    >>> import pyarrow as pa
    >>> counts = np.array([80_000] + 100 * [200])
    >>> skewed = KeyDistribution.of_counts("clicks", pa.array(range(101)), counts)
    >>> diagnosis = diagnose(skewed, workers=10, groupings=["key", "partial_key", "shuffle"])
    >>> diagnosis.use, diagnosis.hottest[0]
    ('shuffle', HotKey(name='0', rows=80000, share=0.8))
    >>> print(diagnosis.reason)  # doctest: +NORMALIZE_WHITESPACE
    one key, '0', has 80.0 % of the rows: with 10 workers plain grouping takes 8.3 times as long as an even split; use
    grouping='shuffle' (1.00 times, 10.0 partial results per key)
    >>> diagnose(skewed, workers=10, groupings=["key"], aggregates=["sum", "count"]).verdict
    'combined on the map side'
    """
    chosen = check_request(workers, groupings, aggregates, sources, top, seed)
    tuples = min(max(_LEAST_TUPLES, _TUPLES_PER_WORKER * workers), _MOST_TUPLES, _MOST_BITS // workers)
    predictor = _Predictor(distribution, tuples, streaming, sources, seed)
    results = []
    for grouping in chosen:
        if progress is not None:
            progress(grouping.name)
        results.append(predictor.predict(grouping))
    plain = next((result for result in results if result.grouping == Key.name), None)
    if plain is None:
        plain = predictor.predict(Key(workers=workers))
    predictions = [_compared(result, plain) for result in results]
    best = _recommended(predictions, distribution)
    plain_time = _stage_time(plain)
    if combined_on_the_map_side(aggregates):
        verdict = COMBINED
    elif plain_time < _WORTH * _most_even(distribution.rows, workers):
        verdict = NO_SKEW
    else:
        verdict = best.grouping if plain_time >= _ALIKE * best.stage_time else NO_HELP
    return Diagnosis(
        label=distribution.label,
        rows=distribution.rows,
        distinct=distribution.distinct,
        workers=workers,
        workers_from=workers_from,
        hottest=tuple(
            HotKey(name=name, rows=int(rows), share=float(share))
            for name, rows, share in zip(
                distribution.names[:top], distribution.counts[:top], distribution.shares[:top], strict=True
            )
        ),
        predictions=tuple(predictions),
        use=best.grouping if verdict == best.grouping else None,
        verdict=verdict,
        reason=_reason(verdict, distribution, workers, plain_time, best, aggregates),
        streaming=streaming,
        sources=sources,
        tuples=predictor.tuples,
        seed=seed,
    )


def check_request(
    workers: int,
    names: Sequence[str] | None,
    aggregates: Sequence[str | Combiner],
    sources: int,
    top: int,
    seed: int,
) -> list[Grouping]:
    """Refuse what `diagnose` would refuse, before the data is read; return the groupings."""
    for what, value, least in (
        ("workers", workers, 1),
        ("sources", sources, 1),
        ("top", top, 1),
        ("seed", seed, 0),
    ):
        require_at_least(what, value, least)
    if workers > _MOST_WORKERS:
        raise ConfigurationError(subject="workers", expected=f"at most {_MOST_WORKERS:,} to diagnose", value=workers)
    combined_on_the_map_side(aggregates)
    if names is not None:
        if not names:
            raise ConfigurationError(subject="groupings", expected="at least one name", value=names)
        return [make_grouping(name, workers=workers) for name in names]
    chosen = []
    for name in _DEFAULT:
        if name in GROUPINGS:
            with suppress(SkewlessError):  # not every grouping supports this many workers
                chosen.append(make_grouping(name, workers=workers))
    return chosen


class _Predictor:
    """Draws tuples once and routes them with each grouping."""

    def __init__(self, distribution: KeyDistribution, tuples: int, streaming: bool, sources: int, seed: int) -> None:
        self._distribution = distribution
        self._streaming = streaming
        self._n_sources = sources
        self._seed = seed
        self._rows = draw(distribution, tuples, seed=seed, fewer="rows")
        self.tuples = self._rows.default_tuples
        self._keys = draw(distribution, tuples, seed=seed, fewer="keys") if self.tuples < distribution.rows else None

    def predict(self, grouping: Grouping) -> Result:
        """Route the tuples. If not all are drawn, the balance is that of fewer rows, the cost that of fewer keys."""
        result = self._simulate(grouping, self._rows)
        if self._keys is None:
            return result
        if isinstance(grouping, Shuffle):  # ignores keys: one with enough rows is on all workers
            return replace(result, dist_cost=_spread_at_random(self._distribution, grouping.n_workers))
        return replace(result, dist_cost=self._simulate(grouping, self._keys).dist_cost)

    def _simulate(self, grouping: Grouping, stream: Drawn) -> Result:
        rate = max(1, self.tuples // (60 * _MINUTES))
        simulation = Simulation(
            grouping,
            stream,
            sources=self._n_sources,
            rate=rate if self._streaming else None,
            batch_ms=_BATCH_MS if self._streaming else _FOR_EVER_MS,
            seed=self._seed,
            learn=0 if self._streaming else self.tuples,  # a batch job plans from a sample of its own rows
        )
        return simulate(simulation)


def _spread_at_random(distribution: KeyDistribution, workers: int) -> float:
    """Return the number of workers of a key, on average, if every row goes to a random one."""
    there = distribution.tail_keys > 0
    keys = np.concatenate([np.ones(distribution.counts.size), distribution.tail_keys[there]])
    rows = np.concatenate([distribution.counts, distribution.tail_rows[there]])
    met = workers * (1 - (1 - 1 / workers) ** (rows / keys))
    return float((keys * met).sum() / keys.sum())


def _stage_time(result: Result) -> float:
    return 1 + result.imbalance / 100


def _compared(result: Result, plain: Result) -> Prediction:
    return Prediction(
        grouping=result.grouping,
        stage_time=_stage_time(result),
        speed_up=_stage_time(plain) / _stage_time(result),
        imbalance=result.imbalance,
        stddev=result.stddev,
        dist_cost=result.dist_cost,
    )


def _recommended(predictions: Sequence[Prediction], distribution: KeyDistribution) -> Prediction:
    """Return the grouping to use by the rule in `diagnose`; of equals, the first."""
    keys_per_row = distribution.distinct / distribution.rows
    times = [one.stage_time + one.dist_cost * keys_per_row for one in predictions]
    good = [one for one, time in zip(predictions, times, strict=True) if time <= _ALIKE * min(times)]
    return min(good, key=lambda one: one.dist_cost)


def _most_even(rows: int, workers: int) -> float:
    """Return the stage time of the most even split possible: the rows may not be a multiple of the workers.

    >>> _most_even(1, 10), _most_even(1_000, 10)
    (10.0, 1.0)
    """
    return -(-rows // workers) * workers / rows


def _reason(
    verdict: str,
    distribution: KeyDistribution,
    workers: int,
    plain_time: float,
    best: Prediction,
    aggregates: Sequence[str | Combiner],
) -> str:
    """Return in one sentence what is wrong and what helps, or that nothing is wrong."""
    hottest, share, fair = _quoted(distribution.names[0]), _percent(distribution.shares[0]), _percent(1 / workers)
    plain = f"plain grouping takes {plain_time:.{1 if plain_time >= 2 else 2}f} times as long as an even split"
    if verdict == COMBINED:
        names = ", ".join(dict.fromkeys(map(aggregate_name, aggregates)))
        return (
            f"skew is not your problem here: Spark combines {names} on the map side, so that the hottest key, "
            f"{hottest} with {share} of the rows, is one row per map task behind the exchange"
        )
    if verdict == NO_SKEW:
        return (
            f"skew is not your problem here: the hottest key, {hottest}, has {share} of the rows, a worker's fair "
            f"share is {fair}, and {plain}"
        )
    n_hot = int((distribution.shares > 1 / workers).sum())
    if n_hot == 0:
        cause = (
            f"no key exceeds a worker's fair share of {fair}, but {many(distribution.distinct, 'key')} fall "
            f"unevenly on {workers} workers: "
        )
    elif n_hot == 1:
        cause = f"one key, {hottest}, has {share} of the rows: with {workers} workers "
    else:
        cause = (
            f"{n_hot:,} keys, above all {hottest} with {share} of the rows, exceed a worker's fair share of {fair}: "
            f"with {workers} workers "
        )
    advice = f"use grouping={best.grouping!r} ({best.stage_time:.2f} times, {_partials(best.dist_cost)})"
    return f"{cause}{plain}; {verdict if verdict == NO_HELP else advice}"


def _partials(dist_cost: float) -> str:
    """Return what a dist_cost means, in words.

    >>> _partials(1.004), _partials(1.04), _partials(3.25)
    ('hardly more partial results', '4 % more partial results', '3.2 partial results per key')
    """
    if dist_cost >= 2:
        return f"{dist_cost:.1f} partial results per key"
    return (
        f"{100 * (dist_cost - 1):.0f} % more partial results" if dist_cost >= 1.005 else "hardly more partial results"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.{1 if share >= 0.001 else 4}f} %"


def _quoted(name: str) -> str:
    return repr(name if len(name) <= 40 else name[:39] + "…")
