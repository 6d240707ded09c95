"""Processing: whatever the batches, the result of taking one row after the other."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from naive.processing import NaiveProcessing, name_of
from skewless import SkewlessError
from skewless.processors import KeyState, OnError, Processed, Processing, Processor, Row
from skewless.processors.processing import END, EXPIRES, HASH

ROWS: Final = pa.schema([("k", pa.float64()), ("g", pa.string()), ("op", pa.string()), ("v", pa.int64())])
FLAT: Final = pa.schema([("n", pa.int64())])
NESTED: Final = pa.schema(
    [
        ("n", pa.int64()),
        ("notes", pa.list_(pa.struct([("op", pa.string())]))),
        ("tally", pa.map_(pa.string(), pa.int64())),
    ]
)
OUTPUT: Final = pa.schema([("n", pa.int64()), ("now", pa.int64())])

KEYS: Final = st.sampled_from([1.0, 1.0, -0.0, 0.0, float("nan"), None])
OPS: Final = st.sampled_from(
    [*["add"] * 4, "silent", "expire", "never", "forget", "raise", "bad output", "bad state", "bad expiry"]
)
BATCHES: Final = st.lists(
    st.lists(st.tuples(KEYS, st.sampled_from(["a", "", None]), OPS, st.integers(-5, 9)), max_size=12), max_size=5
)


class Teller(Processor):
    """Adds up what rows say, and does what else they say: also what no processor should."""

    state = "n bigint"
    output = "n bigint, now bigint"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        for row in rows:
            op = row.pop("op")  # it may do so with rows
            state["n"] = state.get("n", 0) + row["v"]
            self.note(op, state)
            if state.expires_ms is not None:
                state.expires_ms += 0
            if op == "raise":
                raise ArithmeticError("no")
            if op == "forget":
                state.clear()
            if op == "expire":
                state.expires_ms = state.now_ms + 10 * row["v"]
            if op == "never":
                state.expires_ms = None
            if op == "bad state":
                state["n"] = "much"
            if op == "bad expiry":
                state.expires_ms = "soon"  # type: ignore[assignment] # what a user's code may do
            if op != "silent":
                yield {"n": "much" if op == "bad output" else state.get("n"), "now": state.now_ms}

    def note(self, op: str, state: KeyState) -> None:
        """Keep more than a number."""


class Noting(Teller):
    """Has a nested state, and something to say when a key expires."""

    state = "n bigint, notes array<struct<op string>>, tally map<string, bigint>"

    def note(self, op: str, state: KeyState) -> None:
        state.setdefault("notes", []).append({"op": op})
        tally = state.setdefault("tally", {})
        tally[op] = tally.get(op, 0) + 1

    def expire(self, key: tuple[Any, ...], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        state["notes"].append({"op": "expired"})
        case = state["n"] % 6
        if case == 0:
            raise ArithmeticError("not yet")
        if case == 1:
            state.clear()
        if case == 2:
            state.expires_ms = state.now_ms + 15
        if case == 3:
            state.expires_ms = state.now_ms - 1
        yield {"n": "much" if case == 4 else -1, "now": state.now_ms}


def fits(output: list[Row], state: KeyState) -> bool:
    numbers = [value for row in output for value in row.values()] + [state.get("n"), state.expires_ms]
    return all(value is None or isinstance(value, int) for value in numbers)


def make(processor: Processor, *, on_error: OnError = "reject", keys: tuple[str, ...] = ("k", "g")) -> Processing:
    state = NESTED if isinstance(processor, Noting) else FLAT
    return Processing(
        processor=processor, keys=keys, row_schema=ROWS, state_columns=state, output_columns=OUTPUT, on_error=on_error
    )


def table(rows: Sequence[Row], *, collide: bool = False, keys: tuple[str, ...] = ("k", "g")) -> pa.Table:
    """Make a table of rows; if they are to collide, all keys have the same hash."""
    names = [name_of([row[key] for key in keys]) for row in rows]
    hashes = [7 if collide else zlib.crc32(name.encode()) for name in names]
    return pa.Table.from_pylist(list(rows), ROWS).append_column(HASH, pa.array(hashes, pa.uint64()))


def as_rows(drawn: Sequence[tuple[Any, ...]]) -> list[Row]:
    return [dict(zip(ROWS.names, row, strict=True)) for row in drawn]


def by_key(rows: pa.Table, prefix: str = "") -> dict[str, list[Row]]:
    """Give the rows of each key, without its columns."""
    found: dict[str, list[Row]] = {}
    for row in rows.to_pylist(maps_as_pydicts="strict"):
        key = [row.pop(f"{prefix}k"), row.pop(f"{prefix}g")]
        found.setdefault(name_of(key), []).append(row)
    return found


@pytest.mark.parametrize("processor", [Teller(), Noting()], ids=["flat", "nested"])
@given(batches=BATCHES, collide=st.booleans(), step_ms=st.integers(0, 40))
@example(batches=[[(1.0, "a", "expire", 0), (1.0, "a", "forget", 0), (1.0, "a", "add", 1)]], collide=False, step_ms=0)
def test_equals_row_by_row(processor: Processor, batches: list[list[Any]], collide: bool, step_ms: int) -> None:
    processing = make(processor)
    twin = NaiveProcessing(processor=processor, keys=processing.keys, fits=fits)
    states = processing.state_schema.empty_table()
    output: dict[str, list[Row]] = {}
    rejects: dict[str, list[tuple[Row | None, str]]] = {}
    for number, batch in enumerate(batches):
        rows = as_rows(batch)
        done = processing.run(table(rows, collide=collide), states, number * step_ms)
        twin.take(rows, number * step_ms)
        states = done.states
        assert states.schema == processing.state_schema
        assert done.output.schema == processing.output_schema
        for name, found in by_key(done.output).items():
            output.setdefault(name, []).extend(found)
        for reject in done.rejects:
            rejects.setdefault(name_of(reject.key), []).append((reject.row, reject.error))
    assert output == {name: rows for name, rows in twin.output.items() if rows}
    assert repr(sorted(without_text(rejects))) == repr(sorted(without_text(twin.rejects)))
    found_states = by_key(states, "key:")
    assert found_states.keys() == twin.states.keys()
    for name, (row,) in found_states.items():
        assert row.pop(HASH) == (7 if collide else zlib.crc32(name.encode()))
        assert row.pop(EXPIRES) == twin.states[name].expires_ms
        assert {column.removeprefix("state:"): value for column, value in row.items()} == twin.states[name]


def without_text(rejects: dict[str, list[tuple[Row | None, str]]]) -> list[tuple[str, str]]:
    """Give what was set aside in its order, with the error if it is the processor's own."""
    return [
        (name, repr([(row, error if error.startswith("Arith") else "") for row, error in found]))
        for name, found in rejects.items()
    ]


def run(
    processing: Processing, rows: Sequence[tuple[Any, ...]], states: pa.Table | None = None, now_ms: int = 0
) -> Processed:
    before = processing.state_schema.empty_table() if states is None else states
    return processing.run(table(as_rows(rows), keys=processing.keys), before, now_ms)


def test_keys_are_equal_as_in_a_group_by() -> None:
    rows = [(value, "a", "add", 1) for value in (0.0, -0.0, float("nan"), float("nan"), None, None)]
    done = run(make(Teller()), rows)
    assert {name: len(found) for name, found in by_key(done.output).items()} == {
        "(0.0, 'a')": 2,
        "(nan, 'a')": 2,
        "(None, 'a')": 2,
    }
    again = run(make(Teller()), rows, done.states)
    assert again.states["state:n"].to_pylist() == [4, 4, 4]


def test_one_key_column_of_several() -> None:
    done = run(make(Teller(), keys=("g",)), [(1.0, "a", "add", 1), (2.0, "a", "add", 1), (1.0, "b", "add", 1)])
    assert done.states.select(["key:g", "state:n"]).to_pylist() == [
        {"key:g": "a", "state:n": 2},
        {"key:g": "b", "state:n": 1},
    ]


def test_states_that_have_nothing_to_do_stay_as_they_are() -> None:
    processing = make(Teller())
    before = run(processing, [(float(key), "a", "expire", key) for key in range(1, 5)], now_ms=0).states
    after = run(processing, [(3.0, "a", "add", 1)], before, now_ms=25)
    assert sorted(after.states["key:k"].to_pylist()) == [3.0, 4.0]  # 10 and 20 have passed, 30 and 40 not
    others = before.filter(pa.array([False, False, False, True]))
    assert after.states.slice(0, 1).equals(others)


class Wrong(Processor):
    """Gives columns that it did not name."""

    state = "n bigint"
    output = "n bigint, now bigint"

    def __init__(self, what: str) -> None:
        self.what = what

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        state["n"] = 1
        if self.what == "state":
            state["m"] = 1
        return [{"m": 1}] if self.what == "output" else []


@pytest.mark.parametrize("what", ["state", "output"])
@pytest.mark.parametrize("on_error", ["reject", "fail"])
def test_an_unknown_column_always_fails(what: str, on_error: OnError) -> None:
    with pytest.raises(SkewlessError, match=f"Wrong gave its {what} a column 'm', which is not in"):
        run(make(Wrong(what), on_error=on_error), [(1.0, "a", "add", 1)])


@pytest.mark.parametrize(
    ("op", "error"),
    [
        ("raise", "ArithmeticError: no"),
        ("bad output", "Could not convert 'much'"),
        ("bad state", "Could not convert 'much'"),
        ("bad expiry", "Could not convert 'soon'|str"),
    ],
)
def test_errors_fail_if_they_are_to_and_name_the_key(op: str, error: str) -> None:
    with pytest.raises(SkewlessError, match=rf"Teller failed on key \(2.0, 'b'\): .*({error})"):
        run(make(Teller(), on_error="fail"), [(1.0, "a", "add", 1), (2.0, "b", op, 1), (3.0, "a", "add", 1)])


def test_what_does_not_fit_is_set_aside_and_the_others_go_on() -> None:
    rows = [(1.0, "a", op, 1) for op in ("add", "bad output", "add", "raise", "bad state", "bad expiry", "add")]
    done = run(make(Teller()), [*rows, (2.0, "a", "add", 1)])
    assert [row["n"] for row in done.output.to_pylist()] == [1, 2, 3, 1]
    set_aside = [reject.row for reject in done.rejects]
    assert set_aside == [row for row in as_rows(rows) if row["op"] != "add"]  # as they came, whatever was done to them
    assert {reject.key for reject in done.rejects} == {(1.0, "a")}


def test_expiry_forgets_unless_it_is_overridden() -> None:
    for processor, kept, told in ((Teller(), [], []), (Noting(), [5], [-1])):
        before = run(make(processor), [(1.0, "a", "expire", 5)]).states  # in case 5 it keeps its state
        early = run(make(processor), [], before, now_ms=49)
        assert early.states.equals(before)
        assert early.output.num_rows == 0
        done = run(make(processor), [], before, now_ms=50)
        assert done.states["state:n"].to_pylist() == kept
        assert done.states[EXPIRES].to_pylist() == [None for _ in kept]
        assert done.output["n"].to_pylist() == told


class Ticking(Processor):
    """Asks for another call an hour after each."""

    state = "n bigint"
    output = "n bigint, now bigint"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:
        state["n"] = len(rows)
        return self.expire(key, state)

    def expire(self, key: tuple[Any, ...], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        state.expires_ms = state.now_ms + 3_600_000
        return [{"n": state["n"], "now": state.now_ms}]


def test_an_expiry_can_be_set_again_but_not_beyond_the_end() -> None:
    processing = make(Ticking())
    states = run(processing, [(1.0, "a", "add", 1)]).states
    for hour in (1, 2):
        done = run(processing, [], states, now_ms=hour * 3_600_000)
        assert done.output["now"].to_pylist() == [hour * 3_600_000]
        states = done.states
        assert states[EXPIRES].to_pylist() == [(hour + 1) * 3_600_000]
    done = run(processing, [], states, now_ms=END)
    assert (done.output.num_rows, done.states[EXPIRES].to_pylist(), done.rejects) == (1, [None], [])


class Remembering(Processor):
    """Keeps the row itself, as it came."""

    state = "seen array<string>, at timestamp"
    output = "n bigint, now bigint"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        state["seen"] = [*state.get("seen", []), *(row["op"] for row in rows)]
        state["at"] = datetime(2024, 3, 1, tzinfo=timezone.utc)
        return []


def test_nested_values_and_times_come_back_as_they_were() -> None:
    columns = pa.schema([("seen", pa.list_(pa.string())), ("at", pa.timestamp("us", "UTC"))])
    processing = Processing(
        processor=Remembering(), keys=("k", "g"), row_schema=ROWS, state_columns=columns, output_columns=OUTPUT
    )
    states = run(processing, [(1.0, "a", "x", 1)]).states
    states = run(processing, [(1.0, "a", "y", 1), (1.0, "a", "z", 1)], states).states
    assert states["state:seen"].to_pylist() == [["x", "y", "z"]]
    assert states["state:at"].to_pylist() == [datetime(2024, 3, 1, tzinfo=timezone.utc)]


def test_bad_configurations_are_refused() -> None:
    with pytest.raises(SkewlessError, match="on_error must be 'reject' or 'fail'; got 'ignore'"):
        make(Teller(), on_error="ignore")  # type: ignore[arg-type]
    twice = pa.schema([("n", pa.int64()), ("n", pa.int64())])
    both = pa.schema([("g", pa.string())])
    for state, output, message in (
        (twice, OUTPUT, "the state of Teller names a column twice: n, n"),
        (FLAT, twice, "the output of Teller names a column twice"),
        (FLAT, both, "gets the key columns in any case: leave g out of it"),
    ):
        with pytest.raises(SkewlessError, match=message):
            Processing(processor=Teller(), keys=("k", "g"), row_schema=ROWS, state_columns=state, output_columns=output)


def test_a_null_where_there_must_be_a_value_is_set_aside() -> None:
    output = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("now", pa.int64())])
    processing = Processing(
        processor=Teller(), keys=("k", "g"), row_schema=ROWS, state_columns=output, output_columns=output
    )
    done = run(processing, [(1.0, "a", "add", 1), (1.0, "a", "forget", 1), (1.0, "a", "add", 1)])
    assert [row["n"] for row in done.output.to_pylist()] == [1, 2]
    assert [reject.error for reject in done.rejects] == ["ValueError: column 'n' must not be null"]
