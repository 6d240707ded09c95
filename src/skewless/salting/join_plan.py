"""The plan of a join at hand: what was counted on both sides and decided, to be printed, saved, loaded and used."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from skewless.errors import InputError
from skewless.salting.join_planner import Cuts, Grid, JoinCounts, JoinType, cost, cuts_of, made, plan_grids
from skewless.salting.plan import shortened
from skewless.salting.salts import Salts
from skewless.salting.saved import read_plan, require_types, write_plan
from skewless.salting.slots import landings_of_salts, steer
from skewless.wording import many

LEAST_ROWS: Final = 2_000_000
"""Rows, read and made, that a cut must take from the busiest worker, such as a million with one partner each: Spark
joins about as many in the time that a salted join takes beyond its own (`python benchmarks/joins.py few`)."""

NULL_HASH: Final = 42
"""Spark's `hash` of a null."""

WORTHWHILE: Final = 0.4
"""Overload of the busiest worker by plain hashing below which salting costs more than it gains."""

_FORMAT: Final = 1
_SHOWN: Final = 12
_UNBOUNDED: Final = 1e9  # copies of all rows for as many workers as nobody has


def is_even(costs: NDArray[np.float64]) -> bool:
    """Whether Spark's own join is even enough, by what each worker gets of it.

    >>> is_even(np.array([9.0, 10.0, 13.0])), is_even(np.array([9.0, 10.0, 19.0]))
    (True, False)
    """
    return bool(costs.max() <= (1 + WORTHWHILE) * costs.mean())


def makespan(costs: NDArray[np.float64], cores: int | None = None) -> float:
    """Return what the busiest worker gets, or what each core has to do anyway, if that is more.

    >>> costs = np.array([1.0, 5.0, 6.0])
    >>> makespan(costs), makespan(costs, cores=1)
    (6.0, 12.0)
    """
    return float(max(costs.max(), costs.sum() / (cores or costs.size)))


@dataclass(frozen=True, kw_only=True)
class JoinKey:
    """One of the keys that cost most.

    Parameters
    ----------
    key : str
        Its values as text.
    hash : int
        Spark's `xxhash64` of it, by which rows look it up.
    key_hash : int
        Spark's `hash` of it, by which it is steered.
    left, right : float
        Its rows on both sides.
    left_shares, right_shares : tuple of float
        Share of these rows that each piece gets; a key that is whole has one piece on each side.
    salts : tuple of int
        The salt of each cell of the grid of pieces, piece by piece of the left side.
    """

    key: str
    hash: int
    key_hash: int
    left: float
    right: float
    left_shares: tuple[float, ...] = (1.0,)
    right_shares: tuple[float, ...] = (1.0,)
    salts: tuple[int, ...] = (0,)

    @property
    def is_at_home(self) -> bool:
        """Whether it is where its hash puts it, and whole."""
        return self.salts == (0,)

    @property
    def copies(self) -> float:
        """Rows that are sent beyond the first copy of each."""
        return self.left * (len(self.right_shares) - 1) + self.right * (len(self.left_shares) - 1)

    def grid(self, workers: int) -> Grid:
        """Return the cells of the key, and the workers that get them."""
        landed = landings_of_salts(np.array(self.salts), np.array([self.key_hash]), workers)
        return Grid(left_shares=self.left_shares, right_shares=self.right_shares, workers=tuple(landed.tolist()))


@dataclass(frozen=True, kw_only=True)
class JoinPlan:
    """Which keys of a join are cut on which side, and where the pieces meet; made by `plan_join`.

    `print` shows it. It can be saved as JSON, loaded on another day and used with `learn_from=plan`. The result of a
    join is the same whatever its plan says: an old plan costs balance, never correctness.

    Parameters
    ----------
    columns : mapping of str to str
        The key columns, by their names on the left side, and their types.
    how : str
        The type of join that it was made for.
    cuts : str
        Which sides may be cut: left, right or both.
    workers : int
        The number of workers.
    max_copies : float
        Copied rows, as a share of the input, that were allowed.
    sampled : float
        Fraction of the rows from which hot keys were found; where it is too small to tell, these were all counted.
    nulls : float
        Rows of a preserved side without a key: they never match, and are spread over all workers.
    other_left, other_right, other_made : tuple of float
        Rows of all other keys on both sides and pairs that these make, by the worker to which they hash.
    keys : tuple of JoinKey
        The keys that cost most, cut, moved or at home.
    left_content, right_content : tuple of str
        Columns whose content tells the rows of these keys apart, so that it can choose their pieces; empty if there are
        none, or if nobody has looked.
    """

    columns: Mapping[str, str]
    how: JoinType
    cuts: Cuts
    workers: int
    max_copies: float
    sampled: float
    nulls: float
    other_left: tuple[float, ...]
    other_right: tuple[float, ...]
    other_made: tuple[float, ...]
    keys: tuple[JoinKey, ...]
    left_content: tuple[str, ...] = ()
    right_content: tuple[str, ...] = ()

    @cached_property
    def counts(self) -> JoinCounts:
        """What the plan was made from."""
        return JoinCounts(
            left=np.array([key.left for key in self.keys]),
            right=np.array([key.right for key in self.keys]),
            key_hashes=np.array([key.key_hash for key in self.keys], dtype=np.int64),
            other_left=np.array(self.other_left),
            other_right=np.array(self.other_right),
            other_made=np.array(self.other_made),
        )

    def planned(self) -> JoinPlan:
        """Return the plan with cells for its keys as they are counted; without any if plain hashing is even enough."""
        plain = self.plain_costs
        if is_even(plain):
            return self.whole()
        grids = plan_grids(self.counts, self.how, cuts=self.cuts, max_copies=self.max_copies)
        keys = [
            replace(
                key,
                left_shares=grid.left_shares,
                right_shares=grid.right_shares,
                salts=tuple(steer(key.key_hash, grid.workers, self.workers)),
            )
            for key, grid in zip(self.keys, grids, strict=True)
        ]
        planned = replace(self, keys=tuple(keys))
        return planned if planned.costs.max() < plain.max() else self.whole()  # copies can be too few for any gain

    def whole(self) -> JoinPlan:
        """Return the plan that leaves every key at home."""
        shares, salts = (1.0,), (0,)
        keys = (replace(key, left_shares=shares, right_shares=shares, salts=salts) for key in self.keys)
        return replace(self, keys=tuple(keys))

    def for_join(self, how: JoinType, cuts: Cuts, workers: int, max_copies: float) -> JoinPlan:
        """Return the plan for another type of join or another number of workers, of the same rows.

        For another number of workers, all keys that are not named count as evenly spread.
        """
        if (how, cuts, workers, max_copies) == (self.how, self.cuts, self.workers, self.max_copies):
            return self
        others = {
            name: tuple(np.full(workers, sum(rows) / workers).tolist()) if workers != self.workers else rows
            for name, rows in (
                ("other_left", self.other_left),
                ("other_right", self.other_right),
                ("other_made", self.other_made),
            )
        }
        return replace(self, how=how, cuts=cuts, workers=workers, max_copies=max_copies, **others).planned()  # type: ignore[arg-type] # tuples of float

    @property
    def rows(self) -> float:
        """Rows of both sides that have a key."""
        return self.counts.rows

    @property
    def copies(self) -> float:
        """Rows that are sent beyond the first copy of each."""
        return sum(key.copies for key in self.keys)

    @property
    def n_cells(self) -> int:
        """Cells of the keys that are cut."""
        return sum(len(key.salts) for key in self.keys if len(key.salts) > 1)

    @property
    def n_cut(self) -> int:
        """Keys that are cut."""
        return sum(len(key.salts) > 1 for key in self.keys)

    @property
    def costs(self) -> NDArray[np.float64]:
        """What each worker gets: rows of both sides, and the rows that they make."""
        return self.plain_costs if self.is_plain else self._salted_costs

    @cached_property
    def _salted_costs(self) -> NDArray[np.float64]:
        costs = self.counts.others(self.how) + self.nulls / self.workers
        for key in self.keys:
            grid = key.grid(self.workers)
            np.add.at(costs, np.array(grid.workers), grid.costs(key.left, key.right, self.how))
        return costs

    @cached_property
    def plain_costs(self) -> NDArray[np.float64]:
        """What each worker gets from Spark's own exchange; rows without a key all go to one."""
        counts = self.counts
        costs = counts.others(self.how)  # of small keys, which are as even by any hash
        np.add.at(costs, counts.plain_homes, np.asarray(cost(counts.left, counts.right, self.how)))
        costs[NULL_HASH % self.workers] += self.nulls
        return costs

    def spared(self, cores: int | None = None) -> float:
        """Return how many rows, read and made, the plan takes from the busiest worker.

        Parameters
        ----------
        cores : int, optional
            How many workers run at a time: less than each core has to do anyway spares no time. Default: all of them.
        """
        return makespan(self.plain_costs, cores) - makespan(self.costs, cores)

    @property
    def is_empty(self) -> bool:
        """Whether every key is whole, and at home."""
        return all(key.is_at_home for key in self.keys)

    @property
    def spreads_nulls(self) -> bool:
        """Whether rows without a key are so many that they are worth spreading."""
        return self.nulls > WORTHWHILE * float(self._salted_costs.mean())

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to do that Spark's own join does not do."""
        return self.is_empty and not self.spreads_nulls

    def salts(self, *, right: bool) -> Salts:
        """Return the salts of the rows of one side, for the keys that are not at home; none is looked up twice."""
        pieces = {}
        for key in self.keys:
            if key.is_at_home:
                continue
            cells = np.array(key.salts).reshape(len(key.left_shares), len(key.right_shares))
            shares = key.right_shares if right else key.left_shares
            pieces[key.hash] = (key.hash, key.key_hash, cells.T if right else cells, shares)
        return Salts.of_pieces(pieces.values())

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps({"skewless_join_plan": _FORMAT, **asdict(self)}, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> JoinPlan:
        """Return the plan that `to_json` wrote."""
        try:
            content: dict[str, Any] = json.loads(text)
            found = content.pop("skewless_join_plan")
            keys = tuple(JoinKey(**_tuples(key)) for key in content.pop("keys"))
            plan = cls(**_tuples(content), keys=keys)
            require_types(replace(plan, max_copies=min(plan.max_copies, _UNBOUNDED)))  # it may be infinite
            is_sound = found == _FORMAT and plan._is_sound
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if '"skewless_plan"' in text:
                raise InputError("this is a plan of plan_keys, not that of a join", hint="use Plan.load") from error
            reason = f"it has no {error}" if isinstance(error, KeyError) else error
            raise InputError(
                f"this is not the plan of a join: {reason}", hint="make one with plan_join(…).save(path)"
            ) from error
        if not is_sound:
            raise InputError(
                "this plan is broken, or of another version of skewless", hint="make a new one with plan_join"
            )
        return plan

    @property
    def _is_sound(self) -> bool:
        others = (self.other_left, self.other_right, self.other_made)
        return (
            self.how in get_args(JoinType)
            and self.cuts in {cuts_of(self.how, has_condition=condition) for condition in (False, True)}
            and isinstance(self.workers, int)
            and self.max_copies >= 0
            and all(len(rows) == self.workers > 0 for rows in others)
            and len({key.hash for key in self.keys}) == len(self.keys)
            and all(_is_sound_key(key, self.cuts) for key in self.keys)
        )

    def save(self, path: str | Path) -> None:
        """Write the plan to a local file, as JSON."""
        write_plan(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> JoinPlan:
        """Read a plan that `save` wrote."""
        return cls.from_json(read_plan(path))

    @cached_property
    def summary(self) -> str:
        """The plan in a line: keys, cells, copies, balance."""
        before, after = (
            100 * (float(costs.max()) / mean - 1) if (mean := float(costs.mean())) else 0.0
            for costs in (self.plain_costs, self.costs)
        )
        nulls = "rows without a key are spread; " if self.spreads_nulls else ""
        return (
            f"{many(self.n_cut, 'key')} cut into {many(self.n_cells, 'cell')}; {nulls}"
            f"{100 * self.copies / max(self.rows, 1.0):.2g} % of the rows copied; "
            f"busiest worker {before:.1f} % above the mean with plain hashing and {after:.1f} % with this plan"
            f"{'; ' if self.remark else ''}{self.remark}"
        )

    @cached_property
    def remark(self) -> str:
        """Why keys that are too large for a worker are not cut further; empty if there are none."""
        limit = (1 + WORTHWHILE) * float(self.costs.mean())
        cells = (key.grid(self.workers).costs(key.left, key.right, self.how).max() for key in self.keys)
        if not (n_large := sum(bool(cost > limit) for cost in cells)):
            return ""
        reason = (
            f"at most {100 * self.max_copies:.3g} % of the rows may be copied"
            if self.cuts == "both"
            else f"this join can be cut on its {self.cuts} side only"
        )
        return f"{many(n_large, 'key')} too large for a worker, and not cut further: {reason}"

    def __str__(self) -> str:
        lines = [self._heading()]
        if shown := self._shown():
            width = min(40, max(len("key"), *(len(name) for name, *_ in shown)))
            lines.append(f"  {'key':{width}}  {'left':>12}  {'right':>12}  {'makes':>8}  cells")
            lines += [
                f"  {shortened(name, width):{width}}  {left:>12}  {right:>12}  {share:>8}  {cells}"
                for name, left, right, share, cells in shown
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._shown()
        )
        titles = "".join(f"<th>{title}</th>" for title in ("key", "left", "right", "makes", "cells"))
        return f"<p>{html.escape(self._heading())}</p><table>{f'<tr>{titles}</tr>' if rows else ''}{rows}</table>"

    def _heading(self) -> str:
        left = sum(self.other_left) + sum(key.left for key in self.keys)
        right = sum(self.other_right) + sum(key.right for key in self.keys)
        return (
            f"{self.how} join by {', '.join(self.columns)}: about {left:,.0f} and {right:,.0f} rows "
            f"on {self.workers} workers. {self.summary}."
        )

    def _shown(self) -> list[tuple[str, str, str, str, str]]:
        counts = self.counts
        total = max(1.0, float(np.sum(made(counts.left, counts.right, self.how)) + counts.other_made.sum()))
        shown = []
        for key in sorted(self.keys, key=lambda key: -float(cost(key.left, key.right, self.how)))[:_SHOWN]:
            share = float(made(key.left, key.right, self.how)) / total
            shown.append((key.key, f"{key.left:,.0f}", f"{key.right:,.0f}", f"{share:.1%}", self._cells(key)))
        return shown

    def _cells(self, key: JoinKey) -> str:
        workers = key.grid(self.workers).workers
        if key.is_at_home:
            return f"worker {workers[0]}"
        if len(workers) == 1:
            return f"moved to worker {workers[0]}"
        grid = f"{len(key.left_shares)} x {len(key.right_shares)}"
        return f"{grid} on {len({*workers})} workers, {key.copies:,.0f} rows copied"


def _tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}


def _is_sound_key(key: JoinKey, cuts: Cuts) -> bool:
    return (
        len(key.salts) == len({*key.salts}) == len(key.left_shares) * len(key.right_shares) > 0
        and all(isinstance(salt, int) and 0 <= salt < 1 << 31 for salt in key.salts)
        and _is_sound_shares(key.left_shares)
        and _is_sound_shares(key.right_shares)
        and (cuts != "right" or len(key.left_shares) == 1)
        and (cuts != "left" or len(key.right_shares) == 1)
        and min(key.left, key.right) >= 0
        and all(-(1 << 63) <= hashed < 1 << 63 for hashed in (key.hash, key.key_hash))
    )


def _is_sound_shares(shares: Sequence[float]) -> bool:
    return min(shares) >= 0 < sum(shares)
