"""Dynamic key grouping (DKG): as many workers for a key as its load requires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, sqrt
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, UnknownNameError, require_at_least
from skewless.groupings.base import Grouping, Router, State, mean_loads
from skewless.hashing import mix, upper_choice
from skewless.seeding import make_salt
from skewless.sketches.key_space import BABY, OLD, Items, KeySpace, merge_items
from skewless.sketches.key_table import FULL, find_or_add

_FEWEST: Final = 2  # workers of a key that was never scaled out
_HUGE: Final = np.iinfo(np.int64).max
_MOST_WORKERS: Final = 2**15  # a width is a 16-bit integer


class Table(NamedTuple):
    """The items of a key space, with the index of their keys."""

    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    seen_s: NDArray[np.int32]
    checked_s: NDArray[np.int32]
    widths: NDArray[np.int16]
    spaces: NDArray[np.int8]


class Rules(NamedTuple):
    """When a key's width is checked and what makes it grow and shrink, see `DynamicKey`."""

    check_interval_s: int
    scale_out_load: float
    scale_down_load: float
    whole_percent: bool


class Variant(NamedTuple):
    """Where the paper, the README of its authors' code and that code itself differ."""

    check_interval_s: int
    whole_percent: bool
    late_scale_down: bool
    """A worker counts for shrinking below ideal - sqrt(ideal) only, not below the load to scale out at."""
    swap_ties: bool
    """Keys of equal counts change places between two spaces."""
    first_cycle: int
    """When the key space is promoted for the first time, in cycles."""


VARIANTS: Final = {
    "paper": Variant(60, whole_percent=False, late_scale_down=False, swap_ties=True, first_cycle=1),
    "readme": Variant(60, whole_percent=True, late_scale_down=True, swap_ties=True, first_cycle=1),
    "released": Variant(60, whole_percent=True, late_scale_down=False, swap_ties=False, first_cycle=0),
}
"""The variants by name, see `DynamicKey`."""


class Progress(NamedTuple):
    """How far a source has come: position in the batch, items in use, tuples so far."""

    position: int
    n_items: int
    total: int


@njit(inline="always")
def _load(loads: NDArray[np.int64], worker: np.int64, total: int, whole_percent: bool) -> np.int64:
    """Return a worker's load in whole percents, or else as it is: a number of tuples."""
    if whole_percent:
        return np.int64(100 * loads[np.uint64(worker)] // max(total, 1))
    return np.int64(loads[np.uint64(worker)])


@njit(cache=True)
def choose_best(  # noqa: C901, PLR0912, PLR0915 - one loop, so that no tuple pays for a call
    keys: NDArray[np.uint64],
    workers: NDArray[np.int32],
    salt: np.uint64,
    loads: NDArray[np.int64],
    table: Table,
    progress: Progress,
    now_s: int,
    warm: bool,
    rules: Rules,
) -> Progress:
    """Route keys from `progress.position` on (Algorithms 4-6); changes `workers`, `loads` and the table in place.

    Returns the progress made: a position short of the end means that the items need more room.
    """
    index, item_keys, counts, seen_s, checked_s, widths, spaces = table
    start, n_items, total = progress
    check_interval_s, scale_out_load, scale_down_load, whole = rules
    n_workers = loads.size
    for i in range(start, keys.size):
        key = keys[i]
        word = mix(key ^ salt)
        found = find_or_add(index, item_keys, n_items, key, word)
        if found == FULL:
            return Progress(i, n_items, total)
        is_new = found == n_items
        slot = np.uint64(found)  # unsigned: an index that Numba need not check for counting from the end
        if is_new:
            counts[slot] = 0
            checked_s[slot] = now_s - check_interval_s
            widths[slot] = min(_FEWEST, n_workers)
            spaces[slot] = BABY
            n_items += 1
        first = upper_choice(word, n_workers)
        width = int(widths[slot])
        # Loads are compared as counts, so it is the thresholds that follow the total: no division per worker.
        per_percent = 1.0 if whole else total / 100.0
        overload = scale_out_load * per_percent
        underload = scale_down_load * per_percent
        may_scale = check_interval_s == 0
        if not may_scale and not is_new and now_s - checked_s[slot] >= check_interval_s:
            may_scale = True
            checked_s[slot] = now_s
        best = first
        lightest = np.int64(_HUGE)
        n_below = 0
        step = 0
        while step < width:
            worker = first + step
            if worker >= n_workers:
                worker -= n_workers
            load = _load(loads, worker, total, whole)
            if load < underload:
                n_below += 1
                if n_below >= 2 and width > _FEWEST and may_scale:
                    # Scale down. Algorithm 4 starts again with one worker less and may scale down again: where checks
                    # are not rationed it ends at the widest slice that holds fewer than two such workers.
                    if check_interval_s == 0:
                        width = max(step, _FEWEST)
                    else:
                        width -= 1
                        may_scale = False
                    if step >= width:
                        break
            if load < lightest:
                lightest = load
                best = worker
            step += 1
        if may_scale and warm and lightest >= overload and spaces[slot] == OLD:
            worker = (first + width) % n_workers
            if _load(loads, worker, total, whole) < lightest:
                best = worker
                width += 1
        widths[slot] = width
        counts[slot] += 1
        seen_s[slot] = now_s
        loads[np.uint64(best)] += 1
        total += 1
        workers[i] = best
    return Progress(keys.size, n_items, total)


@dataclass(frozen=True, kw_only=True, eq=False)
class DynamicKeyState(State):
    """What a source keeps: its own count of the tuples of each worker, its key space, and when that was promoted."""

    salt: np.uint64
    loads: NDArray[np.int64]
    started_ms: int
    """-1 before the first batch."""
    cycles: int
    items: Items


@dataclass(frozen=True, kw_only=True)
class DynamicKey(Grouping[DynamicKeyState]):
    """Start each key with two neighbouring workers; keys that stay frequent get more while those are overloaded.

    Every key has a home worker by its hash and may use a slice of the ring of workers from there. A tuple goes to the
    least loaded worker of the slice, by the source's own count. The slice grows by one while even that worker carries
    more than the threshold and the key is among the oldest in the key space; it shrinks when at least two of its
    workers are below the threshold again. No key ever uses more than `max_workers_per_key` workers.

    Parameters
    ----------
    expected_keys : int
        Sizes the key space: 10 % old, 40 % teenage, 50 % baby.
    warm_up_s : int
        Seconds without scaling out.
    promote_every_s : int
        Cycle of the key space.
    cycles_to_old : int
        Cycles after which teenage keys may become old.
    variant : {"paper", "readme", "released"}
        Which description is followed where they differ. `paper`: Algorithms 1-6; a worker counts for shrinking below
        the load to scale out at (Algorithm 6), keys of equal counts change places (Algorithm 3). `readme`, that of the
        authors' repository: loads in whole percents, shrinking below ideal - sqrt(ideal). `released`, their code
        (DynamicKeyGrouping.java, KeySpace.java, KeySpaceManager.java): whole percents, shrinking as in the paper,
        strictly greater counts only, and a first cycle at once, so that keys are old after 45 s instead of 60.
    check_interval_s : int, optional
        Seconds between two checks of a key's width, at least; 0 is at every tuple, as Algorithm 4 has it. By default
        60, as in README and code.
    forget_after_s : int
        Seconds after which an unseen key leaves the key space. (In the authors' code this is switched off.)
    scale_down_load : float, optional
        Percent of load below which a worker counts for shrinking, instead of that of the variant.
    whole_percent : bool, optional
        Compare loads as whole percents, rounded down, or not; by default as the variant does.

    >>> DynamicKey(workers=10).max_workers_per_key
    8

    Reference
    ---------
    Dalabasmaz & Can, *Dynamic Key Grouping* (2020), section 4: eq. 3-5, Algorithms 1-6, Table 1.

    Deviations: section 4.1.1 keeps the last time at which scaling out was checked, but names no interval, and Algorithm
    4 asks for none; README and code say 60 s, which in a closed loop comes nearer to the throughput of Table 3
    (`skewless experiment run dkg-table-3` has both). The hash is reduced by multiply-and-shift, not by remainder.
    Cycles run when a batch arrives, not on a thread; after a pause only the last `cycles_to_old` due cycles are run,
    as more would change nothing.
    """

    name: ClassVar[str] = "dynamic_key"
    aliases: ClassVar[tuple[str, ...]] = ("DKG",)
    state_class = DynamicKeyState

    expected_keys: int = 100
    warm_up_s: int = 15
    promote_every_s: int = 15
    cycles_to_old: int = 4
    variant: str = "paper"
    check_interval_s: int | None = None
    forget_after_s: int = 3600
    scale_down_load: float | None = None
    whole_percent: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("expected_keys", "promote_every_s", "cycles_to_old", "forget_after_s"):
            require_at_least(name, getattr(self, name), 1)
        if self.variant not in VARIANTS:
            raise UnknownNameError("variant", self.variant, VARIANTS, subject="variant")
        require_at_least("warm_up_s", self.warm_up_s, 0)
        if self.check_interval_s is not None:
            require_at_least("check_interval_s", self.check_interval_s, 0)
        if self.workers is None:
            return
        if self.scale_down_load is not None and not 0 <= self.scale_down_load <= self.scale_out_load:
            expected = f"between 0 and the load to scale out at ({self.scale_out_load:.2f} percent)"
            raise ConfigurationError(subject="scale_down_load", expected=expected, value=self.scale_down_load)
        if self.workers >= _MOST_WORKERS:
            expected = f"below {_MOST_WORKERS} for {self.name}"
            raise ConfigurationError(subject="workers", expected=expected, value=self.workers)

    @property
    def ideal_load(self) -> float:
        """Percent of the load that each worker would carry in perfect balance (eq. 3)."""
        return 100 / self.n_workers

    @property
    def scale_out_load(self) -> float:
        """Percent of load from which a worker is overloaded (eq. 4)."""
        threshold = self.ideal_load + sqrt(self.ideal_load)
        return floor(threshold) if self._compares_whole_percents else threshold

    @property
    def _compares_whole_percents(self) -> bool:
        return VARIANTS[self.variant].whole_percent if self.whole_percent is None else self.whole_percent

    @property
    def rules(self) -> Rules:
        """What the kernel goes by: the variant, with what was set otherwise."""
        variant, whole, shrink = VARIANTS[self.variant], self._compares_whole_percents, self.scale_down_load
        interval_s = variant.check_interval_s if self.check_interval_s is None else self.check_interval_s
        if shrink is None:
            late = self.ideal_load - sqrt(self.ideal_load)
            shrink = (floor(late) if whole else late) if variant.late_scale_down else self.scale_out_load
        return Rules(interval_s, float(self.scale_out_load), float(shrink), whole)

    @property
    def max_workers_per_key(self) -> int:
        """Upper bound of a key's width: scaling out requires a full load on each worker before (Table 1)."""
        return min(self.n_workers, floor(100 / self.scale_out_load) + 1)

    def first_state(self, _source: int, seed: int, /) -> DynamicKeyState:
        salt = make_salt(seed)
        return DynamicKeyState(
            salt=salt,
            loads=np.zeros(self.n_workers, dtype=np.int64),
            started_ms=-1,
            cycles=0,
            items=KeySpace(self.expected_keys, salt).snapshot(),
        )

    def resume(self, state: DynamicKeyState, /) -> Router[DynamicKeyState]:
        return _DynamicKeyRouter(self, state)

    def merge(self, states: Sequence[DynamicKeyState]) -> DynamicKeyState:
        running = [state for state in states if state.started_ms >= 0] or states
        return DynamicKeyState(
            salt=states[0].salt,
            loads=mean_loads([state.loads for state in running]),
            started_ms=min(state.started_ms for state in running),
            cycles=max(state.cycles for state in running),
            items=merge_items([state.items for state in running], self.expected_keys),
        )


class _DynamicKeyRouter(Router[DynamicKeyState]):
    def __init__(self, grouping: DynamicKey, state: DynamicKeyState) -> None:
        self._grouping = grouping
        self._salt = state.salt
        self._loads = state.loads.copy()
        self._started_ms = state.started_ms
        self._cycles = state.cycles
        self._space = KeySpace(grouping.expected_keys, state.salt)
        self._space.restore(state.items)
        self._rules = grouping.rules

    def route(self, keys: NDArray[np.uint64], now_ms: int, /) -> NDArray[np.int32]:
        if self._started_ms < 0:
            self._started_ms = now_ms
        now_s = (now_ms - self._started_ms) // 1000
        self._run_due_cycles(now_s)
        space, warm = self._space, now_s > self._grouping.warm_up_s
        workers = np.empty(keys.size, dtype=np.int32)
        progress = Progress(0, space.n, int(self._loads.sum()))
        while True:
            table = Table(
                space.index, space.keys, space.counts, space.seen_s, space.checked_s, space.widths, space.spaces
            )
            progress = choose_best(keys, workers, self._salt, self._loads, table, progress, now_s, warm, self._rules)
            space.n = progress.n_items
            if progress.position == keys.size:
                return workers
            space.grow()

    def _run_due_cycles(self, now_s: int) -> None:
        grouping = self._grouping
        variant = VARIANTS[grouping.variant]
        due = now_s // grouping.promote_every_s + 1 - variant.first_cycle
        for cycle in range(max(self._cycles, due - grouping.cycles_to_old) + 1, due + 1):
            to_old = cycle % grouping.cycles_to_old == 0
            self._space.cycle(now_s, grouping.forget_after_s, to_old=to_old, swap_ties=variant.swap_ties)
        self._cycles = max(self._cycles, due)

    def snapshot(self) -> DynamicKeyState:
        return DynamicKeyState(
            salt=self._salt,
            loads=self._loads.copy(),
            started_ms=self._started_ms,
            cycles=self._cycles,
            items=self._space.snapshot(),
        )
