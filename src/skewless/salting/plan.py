"""A plan at hand: what was counted and decided, to be printed, saved, loaded, and used by other queries."""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.errors import InputError
from skewless.salting.planner import KeyLoads, Pieces, level
from skewless.salting.salts import Salts
from skewless.salting.saved import read_plan, require_types, write_plan
from skewless.salting.slots import homes, own_homes
from skewless.salting.table import table_of
from skewless.salting.variety import variety_of
from skewless.wording import many

_FORMAT: Final = 2
_SHOWN: Final = 12
VARIETY: Final = 1_000
"""Different contents per piece of a key that make it even by a hash of them: pieces vary by 3 % then."""


@dataclass(frozen=True, kw_only=True)
class PlannedKey:
    """One of the largest keys.

    Parameters
    ----------
    key : str
        Its values as text.
    hash : int
        Spark's `xxhash64` of it.
    spark_hash : int
        Spark's `hash` of it, by which Spark itself would exchange it.
    rows : float
        Its rows, scaled up from a sample if there was one.
    variety : float
        How many different contents its counted rows have, if all were equally frequent; an estimate.
    workers : tuple of int
        Who gets them: more than one worker if the key is cut.
    shares : tuple of float
        The share of each of these workers.
    """

    key: str
    hash: int
    spark_hash: int
    rows: float
    variety: float
    workers: tuple[int, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which of the largest keys are cut or moved, so that all workers get the same; made by `plan_keys`.

    `print` shows it. A plan can be saved as JSON, loaded on another day and used with `learn_from=plan`: keys that
    it does not know go where their hash puts them, so an old plan costs balance, never correctness.

    Parameters
    ----------
    columns : mapping of str to str
        The key columns and their types.
    workers : int
        The number of workers.
    salt : int, optional
        Of the hash that decides where keys are at home. None: they are where Spark itself sends them.
    content : tuple of str
        The columns whose content the variety of a key is about.
    sampled : float
        Fraction of the rows that were counted.
    distinct : int
        Keys among the counted rows.
    sources : int
        Partitions that the counted rows were read from.
    totals : tuple of float
        Rows that plain hashing would send to each worker.
    keys : tuple of PlannedKey
        The largest keys, cut, moved or at home.
    """

    columns: Mapping[str, str]
    workers: int
    salt: int | None
    content: tuple[str, ...]
    sampled: float
    distinct: int
    sources: int
    totals: tuple[float, ...]
    keys: tuple[PlannedKey, ...]

    def levelled(self, loads: KeyLoads, pieces: Pieces) -> Plan:
        """Return the plan by which the same keys have these pieces."""
        keys = []
        for number, key in enumerate(self.keys):
            own = pieces.keys == number
            amounts = pieces.amounts[own]
            workers = tuple(pieces.workers[own].tolist()) or (int(loads.homes[number]),)
            keys.append(replace(key, workers=workers, shares=tuple((amounts / amounts.sum()).tolist()) or (1.0,)))
        return replace(self, workers=loads.n_workers, totals=tuple(loads.totals.tolist()), keys=tuple(keys))

    @property
    def rows(self) -> float:
        """All rows, scaled up from the sample."""
        return sum(self.totals)

    @property
    def loads(self) -> list[float]:
        """Rows that each worker is going to get."""
        loads = np.array(self.totals)
        for key, home in zip(self.keys, self._homes.tolist(), strict=True):
            loads[home] -= key.rows
            np.add.at(loads, np.array(key.workers), key.rows * np.array(key.shares))
        return [float(load) for load in loads]

    @property
    def has_few_partials(self) -> bool:
        """Whether combining rows in the tasks that read them leaves a tenth of them or less to exchange.

        Where there are fewer of these tasks than workers, they would take longer. A row has a key that the sample
        missed no more often than there are keys per sampled row (Good and Turing), and each of these is a partial.
        """
        partials = self.distinct * (self.sources + 1 / self.sampled)
        return self.sources >= self.workers and 10 * partials <= self.rows

    @property
    def n_cuts(self) -> int:
        """Pieces beyond the first of each key."""
        return sum(len(key.workers) - 1 for key in self.keys)

    @property
    def _homes(self) -> NDArray[np.int64]:
        return self._homes_for(self.workers, self.salt)

    def _homes_for(self, workers: int, salt: int | None) -> NDArray[np.int64]:
        if salt is None:
            return own_homes(np.array([key.spark_hash for key in self.keys], dtype=np.int32), workers)
        return homes(self._hashes, np.uint64(salt), workers)

    @property
    def _hashes(self) -> NDArray[np.uint64]:
        return np.array([key.hash for key in self.keys], dtype=np.int64).view(np.uint64)

    def known(self, workers: int, salt: int | None) -> tuple[NDArray[np.uint64], KeyLoads]:
        """Return the hashes of the largest keys and what is known of them, for any number of workers.

        For another number than that of the plan, all keys that are not among the largest count as evenly spread.
        """
        loads, at = np.array([key.rows for key in self.keys]), self._homes_for(workers, salt)
        totals = np.array(self.totals)
        if (workers, salt) != (self.workers, self.salt):
            totals = np.full(workers, max(0.0, self.rows - loads.sum()) / workers) + np.bincount(at, loads, workers)
        return self._hashes, KeyLoads(loads=loads, homes=at, totals=totals, sampled=self.sampled)

    def for_workers(self, workers: int, salt: int | None, *, may_cut: bool = True) -> Plan:
        """Return the plan for another number of workers, another hash, or whole keys."""
        is_whole = not self.n_cuts
        if (workers, salt) == (self.workers, self.salt) and (may_cut or is_whole):
            return self
        _, known = self.known(workers, salt)
        return replace(self, salt=salt).levelled(known, level(known, may_cut=may_cut))

    @property
    def moved(self) -> tuple[PlannedKey, ...]:
        """The keys that are not simply at home."""
        return tuple(key for key, home in zip(self.keys, self._homes.tolist(), strict=True) if key.workers != (home,))

    @property
    def cut(self) -> tuple[PlannedKey, ...]:
        """The keys of more than one worker."""
        return tuple(key for key in self.keys if len(key.workers) > 1)

    def table(self) -> pa.RecordBatch:
        """Return the keys that are not at home as rows look them up."""
        return table_of(((key.hash, key.workers, key.shares) for key in self.moved), self.workers)

    def salts(self) -> Salts:
        """Return the keys that are not at home as arrays; the plan must be one with the homes that Spark has."""
        keys = ((key.hash, key.spark_hash, key.workers, key.shares) for key in self.moved)
        return Salts.of(keys, self.workers)

    def varies(self, columns: Collection[str]) -> bool:
        """Whether the content of rows with these columns is enough to choose evenly among pieces of a key."""
        is_known = bool(self.content) and set(self.content) <= set(columns)
        return is_known and all(key.variety >= VARIETY * len(key.workers) for key in self.cut)

    def with_varieties(self, hashes: NDArray[np.int64], content: NDArray[Any]) -> Plan:
        """Return the plan with the varieties of its keys as some rows have them.

        Parameters
        ----------
        hashes : array of int
            Spark's `xxhash64` of the key of each row.
        content : array of int
            A hash of its content.
        """
        varieties = [variety_of(content[hashes == key.hash]) for key in self.keys]
        keys = (replace(key, variety=variety) for key, variety in zip(self.keys, varieties, strict=True))
        return replace(self, keys=tuple(keys))

    def to_json(self) -> str:
        """Return the plan as JSON."""
        # not asdict: on executors with an old cloudpickle, classes that came by value do not know their fields
        content = {**vars(self), "columns": dict(self.columns), "keys": [vars(key) for key in self.keys]}
        return json.dumps({"skewless_plan": _FORMAT, **content}, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan that `to_json` wrote."""
        try:
            content: dict[str, Any] = json.loads(text)
            found = content.pop("skewless_plan")
            keys = tuple(
                PlannedKey(**{**key, "workers": tuple(key["workers"]), "shares": tuple(key["shares"])})
                for key in content.pop("keys")
            )
            tuples = {name: tuple(content[name]) for name in ("totals", "content")}
            plan = cls(**{**content, **tuples}, keys=keys)
            require_types(plan)
            is_sound = found == _FORMAT and len(plan.totals) == plan.workers > 0 and 0 < plan.sampled <= 1
            is_sound &= plan.salt is None or 0 <= plan.salt < 1 << 64
            for key in keys:
                is_sound &= len(key.workers) == len(key.shares) > 0 and min(key.shares) >= 0 < sum(key.shares)
                is_sound &= all(0 <= worker < plan.workers for worker in key.workers)
                is_sound &= -(1 << 63) <= key.hash < 1 << 63 and -(1 << 31) <= key.spark_hash < 1 << 31
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if '"skewless_join_plan"' in text:
                raise InputError("this is the plan of a join", hint="use JoinPlan.load") from error
            reason = f"it has no {error}" if isinstance(error, KeyError) else error
            raise InputError(f"this is not a plan: {reason}", hint="make one with plan_keys(…).save(path)") from error
        if not is_sound:
            raise InputError(
                "this plan is broken, or of another version of skewless", hint="make a new one with plan_keys"
            )
        return plan

    def save(self, path: str | Path) -> None:
        """Write the plan to a local file, as JSON."""
        write_plan(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan that `save` wrote."""
        return cls.from_json(read_plan(path))

    def __str__(self) -> str:
        lines = [self._summary()]
        if shown := self._shown():
            width = min(40, max(len("key"), *(len(name) for name, *_ in shown)))
            lines.append(f"  {'key':{width}}  {'share':>7}  workers")
            lines += [f"  {shortened(name, width):{width}}  {share:>7}  {workers}" for name, share, workers in shown]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td style='text-align:right'>{share}</td><td>{workers}</td></tr>"
            for name, share, workers in self._shown()
        )
        header = "<tr><th>key</th><th>share</th><th>workers</th></tr>" if rows else ""
        return f"<p>{html.escape(self._summary())}</p><table>{header}{rows}</table>"

    def _summary(self) -> str:
        how = "all rows counted" if self.sampled == 1 else f"from a sample of {self.sampled:.3g}"
        mean = self.rows / self.workers
        before, after = (
            100 * (max(loads, default=0) / mean - 1) if mean else 0.0 for loads in (self.totals, self.loads)
        )
        moved = sum(
            len(key.workers) == 1 and key.workers != (home,)
            for key, home in zip(self.keys, self._homes.tolist(), strict=True)
        )
        return (
            f"{', '.join(self.columns)}: {self.rows:,.0f} rows, {many(self.distinct, 'key')} ({how}) on "
            f"{many(self.workers, 'worker')}. The busiest worker is {before:.1f} % above the mean with plain hashing, "
            f"{after:.1f} % with this plan: {many(self.n_cuts, 'cut')}, {many(moved, 'key')} moved whole."
        )

    def _shown(self) -> list[tuple[str, str, str]]:
        shown = []
        for key, home in list(zip(self.keys, self._homes.tolist(), strict=True))[:_SHOWN]:
            if len(key.workers) > 1:
                parts = sorted(zip(key.workers, key.shares, strict=True), key=lambda part: -part[1])
                listed = ", ".join(f"{worker} ({share:.0%})" for worker, share in parts[:_SHOWN])
                where = f"cut in {len(parts)}: {listed}{', …' if len(parts) > _SHOWN else ''}"
            else:
                where = str(key.workers[0]) + ("" if key.workers == (home,) else f", moved from {home}")
            shown.append((key.key, f"{key.rows / max(self.rows, 1):.2%}", where))
        return shown


def shortened(name: str, width: int) -> str:
    """Return the name of a key as it fits into a column of text."""
    printable = "".join(character if character.isprintable() else "·" for character in name)
    return printable if len(printable) <= width else printable[: width - 1] + "…"
