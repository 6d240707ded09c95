"""Processing by its definition: one row after the other, each by itself, over plain dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from skewless.processors import KeyState, Processor, Row


def normal(value: Any) -> Any:
    """Give the value that stands for all that Spark takes for the same key."""
    if isinstance(value, float):
        return float("nan") if isnan(value) else value + 0.0
    return value


def name_of(key: Sequence[Any]) -> str:
    """Name a key; unlike the key itself, its name equals itself whatever it holds."""
    return repr(tuple(map(normal, key)))


@dataclass
class NaiveProcessing:
    """A processor row by row; `fits` says whether what it gave can be converted to the columns it named."""

    processor: Processor
    keys: Sequence[str]
    fits: Callable[[list[Row], KeyState], bool]
    known: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    states: dict[str, KeyState] = field(default_factory=dict)
    output: dict[str, list[Row]] = field(default_factory=dict)
    rejects: dict[str, list[tuple[Row | None, str]]] = field(default_factory=dict)

    def take(self, rows: Sequence[Row], now_ms: int) -> None:
        """Take the rows of a batch, and then let those expire whose time has come."""
        for row in rows:
            key = tuple(normal(row[name]) for name in self.keys)
            self.known[name_of(key)] = key
            state = self._state(name_of(key), now_ms)
            self._try(key, row, state)
        for name, state in sorted(self.states.items()):
            state.now_ms = now_ms
            if state.expires_ms is not None and state.expires_ms <= now_ms:
                self._try(self.known[name], None, state)

    def _state(self, name: str, now_ms: int) -> KeyState:
        state = self.states.get(name, KeyState())
        state.now_ms = now_ms
        return state

    def _try(self, key: tuple[Any, ...], row: Row | None, state: KeyState) -> None:
        trial, name = deepcopy(state), name_of(key)
        processor = self.processor
        try:
            given = processor.expire(key, trial) if row is None else processor.process(key, [deepcopy(row)], trial)
            output = list(given)
            error = "" if self.fits(output, trial) else "it does not fit"
        except Exception as raised:  # noqa: BLE001 - whatever the processor raises
            output, error = [], f"{type(raised).__name__}: {raised}"
        if error:
            self.rejects.setdefault(name, []).append((row, error))
            trial, output = state, []
        told = row is None and (error or (trial.expires_ms is not None and trial.expires_ms <= trial.now_ms))
        if told:
            trial.expires_ms = None
        self.output.setdefault(name, []).extend(output)
        self.states.pop(name, None)
        if trial:
            self.states[name] = trial
