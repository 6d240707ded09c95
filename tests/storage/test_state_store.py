"""The store of states: what was written is found again, whoever owns it now; what does not belong is refused."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless import Key, SkewlessError
from skewless.errors import StorageError
from skewless.processors import KeyState, Processing, Processor, Row
from skewless.processors.processing import EXPIRES, HASH
from skewless.processors.substreams import representatives
from skewless.spark import stateful
from skewless.spark.stateful import ARRIVAL, CLOCK, StatefulWork, _MicroBatch
from skewless.storage import batch_directory, state_store
from skewless.storage.file_system import LocalFiles
from skewless.storage.state_store import Before, Manifest, Place, StateStore

WORKERS: Final = 3
SUBSTREAMS: Final = 8
SCHEMA: Final = pa.schema([(HASH, pa.uint64()), ("key:k", pa.int64()), (EXPIRES, pa.int64())])


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(uri=str(tmp_path / "state"), schema=SCHEMA)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_directory, "_PAUSES_S", (0.0,))


def states(*keys: int, expires: Sequence[int | None] | None = None) -> pa.Table:
    columns = [pa.array(keys, pa.uint64()), pa.array(keys, pa.int64())]
    return pa.table([*columns, pa.array(expires or [None] * len(keys), pa.int64())], schema=SCHEMA)


def manifest(places: dict[int, Place], *, query: str = "q", workers: int = 1, latest_ms: int | None = None) -> Manifest:
    return Manifest(query=query, workers=workers, substreams=SUBSTREAMS, latest_ms=latest_ms, places=places)


def before(store: StateStore, batch: int, query: str = "q") -> Before:
    return store.before(batch, query, SUBSTREAMS)


def keys_at(store: StateStore, places: Iterable[Place]) -> list[int]:
    keys: list[int] = store.read(places)["key:k"].to_pylist()
    return keys


PLACE: Final = Place(batch=0, file="f", offset=0, size=1, checksum=7, keys=1, expires_ms=None)


def sealed(place: dict[str, Any]) -> bytes:
    """Return a manifest with a place as someone wrote it who knows of checksums."""
    content = {"query": "q", "workers": 1, "substreams": SUBSTREAMS, "latest_ms": None, "places": {"3": place}}
    return json.dumps({"checksum": zlib.crc32(json.dumps(content).encode()), "manifest": content}).encode()


def test_a_manifest_reads_as_it_was_written() -> None:
    place = replace(PLACE, batch=3, keys=5)
    for latest_ms in (None, 7):
        written = manifest({0: place, 7: replace(place, expires_ms=4)}, latest_ms=latest_ms)
        assert Manifest.of_json(written.as_json()) == written


@given(
    st.builds(
        "".join, st.tuples(st.text(max_size=8), st.sampled_from(["/", "\\", "\0", "\n", "%"]), st.text(max_size=8))
    )
    | st.sampled_from(["..", ".", "", "/etc/hostname", "../x.arrow", "a/../../x.arrow", ".hidden"])
)
def test_no_manifest_leads_out_of_its_directory(name: str) -> None:
    with TemporaryDirectory() as folder:
        store = StateStore(uri=folder, schema=SCHEMA)
        (Path(folder) / "000000000000").mkdir()
        (Path(folder) / "000000000000" / "worker-0.json").write_bytes(sealed(asdict(PLACE) | {"file": name}))
        with pytest.raises(StorageError, match=r"broken.*is not the name of a file"):
            before(store, 1)


@pytest.mark.parametrize(
    "changed",
    [{"batch": -1}, {"batch": 1.5}, {"offset": True}, {"size": -1}, {"checksum": 0.5}, {"keys": None}, {"batch": "0"}],
)
def test_numbers_of_a_manifest_are_numbers(changed: dict[str, Any]) -> None:
    assert Manifest.of_json(sealed(asdict(PLACE))).places[3] == PLACE
    with pytest.raises(ValueError, match="is not a number"):
        Manifest.of_json(sealed(asdict(PLACE) | changed))


@pytest.mark.parametrize("of", ["worker-0.json", ".arrows"])
def test_no_changed_byte_is_taken_for_state(store: StateStore, of: str) -> None:
    """Every byte of a manifest, and of a file of states, in turn."""
    store.commit(0, 0, manifest(store.write(0, 0, {5: states(1, 2, expires=[9, 4]), 2: states(3)}), latest_ms=7))
    places = before(store, 1).places.values()
    (file,) = (path for path in (Path(store.uri) / f"{0:012d}").iterdir() if path.name.endswith(of))
    good = file.read_bytes()
    for position in range(len(good)):
        for bits in (0x01, 0x80):
            file.write_bytes(good[:position] + bytes([good[position] ^ bits]) + good[position + 1 :])
            with pytest.raises(StorageError, match="is broken"):
                before(store, 1) if of.endswith("json") else store.read(places)
    file.write_bytes(good)
    assert keys_at(store, before(store, 1).places.values()) == [1, 2, 3]


def test_states_of_a_short_file_and_of_a_manifest_without_checksum_are_refused(store: StateStore) -> None:
    places = store.write(0, 0, {5: states(1), 2: states(3)})
    store.commit(0, 0, manifest(places))
    folder = Path(store.uri) / f"{0:012d}"
    (file,) = folder.glob("*.arrows")
    good = file.read_bytes()
    for length in (0, 1, places[5].size - 1, places[5].size + 1, len(good) - 1):
        file.write_bytes(good[:length])
        with pytest.raises(StorageError, match=r"is broken: the checksum of \d+ bytes from \d+ on.*new checkpoint"):
            store.read(places.values())
    content = json.loads((folder / "worker-0.json").read_text())["manifest"]
    (folder / "worker-0.json").write_text(json.dumps(content))
    with pytest.raises(StorageError, match=r"it has no checksum, as in skewless 0\.2: start with a new checkpoint"):
        before(store, 1)


def test_states_with_other_columns_are_refused(store: StateStore) -> None:
    places = store.write(0, 0, {5: states(1)})
    other = StateStore(uri=store.uri, schema=pa.schema([(HASH, pa.uint64()), ("key:k", pa.string())]))
    with pytest.raises(StorageError, match=r"has the columns .*key:k int64.*, the processor has .*key:k string"):
        other.read(places.values())


def test_a_state_is_on_the_disk_before_a_manifest_names_it(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(LocalFiles, "sync", lambda _, path: synced.append(Path(path).name))
    places = store.write(0, 0, {5: states(1)})
    assert any(places[5].file in name for name in synced)
    assert synced[-2:] == ["000000000000", "state"]  # the names are, too
    store.commit(0, 0, manifest(places))
    assert any("worker-0.json" in name for name in synced)


@pytest.mark.parametrize(("missed", "is_found"), [(0, True), (1, True), (50, True), (51, False)])
def test_a_batch_that_is_not_listed_yet_is_found_by_its_name(
    store: StateStore, monkeypatch: pytest.MonkeyPatch, missed: int, is_found: bool
) -> None:
    store.commit(7, 0, manifest(store.write(7, 0, {5: states(1)})))
    monkeypatch.setattr(batch_directory.BatchDirectory, "batches", lambda _: [] if missed else [7])
    if is_found:
        assert set(before(store, 7 + max(1, missed)).places) == {5}
    else:
        with pytest.raises(StorageError, match="there is no state"):
            before(store, 7 + missed)


def test_a_query_that_is_not_at_its_start_needs_a_state(store: StateStore) -> None:
    assert not before(store, 0).places
    with pytest.raises(StorageError, match="the query is at batch 1 already"):
        before(store, 1)


def test_what_is_written_is_found_by_the_next_batch(store: StateStore) -> None:
    assert before(store, 0) == Before(places={}, owners={}, latest_ms=None)
    first = store.write(0, 0, {5: states(1, 2, expires=[9, 4]), 2: states(3)})
    second = store.write(0, 1, {7: states(4)})
    assert [(place.keys, place.expires_ms) for place in (*first.values(), *second.values())] == [
        (2, 4),
        (1, None),
        (1, None),
    ]
    store.commit(0, 0, manifest(first, workers=2, latest_ms=5))
    store.commit(0, 1, manifest(second, workers=2))
    found = before(store, 1)
    assert found == Before(places=first | second, owners={5: 0, 2: 0, 7: 1}, latest_ms=5)
    assert keys_at(store, [found.places[7], found.places[5]]) == [4, 1, 2]
    assert keys_at(store, []) == []
    assert store.read(found.places.values()).schema == SCHEMA


def test_the_latest_event_time_is_that_of_any_worker(store: StateStore) -> None:
    for worker, latest_ms in enumerate((5, 9, None)):
        store.commit(0, worker, manifest({}, workers=3, latest_ms=latest_ms))
    assert before(store, 1).latest_ms == 9


def test_fifty_batches_are_kept_before_the_one_that_is_read(store: StateStore) -> None:
    for batch in (6, 7, 57):
        store.commit(batch, 1, manifest({}))
    store.commit(58, 0, manifest({}))
    assert store.directory.batches() == [7, 57, 58]


def test_a_batch_without_the_manifest_of_worker_0_is_incomplete(store: StateStore) -> None:
    store.commit(0, 1, manifest({}))
    with pytest.raises(StorageError, match="batch 0 has 0 manifests"):
        before(store, 1)


def test_nothing_is_written_for_nothing(store: StateStore) -> None:
    assert store.write(0, 0, {}) == {}
    assert not Path(store.uri).exists()


def test_a_place_is_due_when_its_time_has_come() -> None:
    place = replace(PLACE, expires_ms=5)
    assert [place.is_due(now_ms) for now_ms in (None, 4, 5, 6)] == [False, False, True, True]
    assert not replace(place, expires_ms=None).is_due(6)


def test_a_repeated_batch_counts_as_its_last_attempt(store: StateStore) -> None:
    for key in (1, 2):
        store.commit(0, 0, manifest(store.write(0, 0, {5: states(key)})))
    abandoned = store.write(0, 0, {5: states(3)})
    assert keys_at(store, before(store, 1).places.values()) == [2]
    assert keys_at(store, abandoned.values()) == [3]  # nothing is written over
    assert before(store, 0).places == {}  # and the batch itself can begin again


def test_a_batch_that_left_nothing_is_passed_over(store: StateStore) -> None:
    store.commit(0, 0, manifest(store.write(0, 0, {5: states(1)})))
    assert keys_at(store, before(store, 9).places.values()) == [1]


def test_what_does_not_belong_is_refused(store: StateStore) -> None:
    with pytest.raises(SkewlessError, match=r"there is no state in .*, but the query is at batch 3 already"):
        before(store, 3)
    store.commit(4, 0, manifest(store.write(4, 0, {5: states(1)}), workers=2))
    with pytest.raises(SkewlessError, match=r"is incomplete: batch 4 has 1 manifests"):
        before(store, 5)
    store.commit(4, 1, manifest({}, workers=2))
    assert before(store, 5).places
    with pytest.raises(SkewlessError, match="belongs to another query"):
        before(store, 5, "another")
    with pytest.raises(SkewlessError, match=r"is in 8 substreams, the grouping has 9"):
        store.before(5, "q", 9)
    with pytest.raises(SkewlessError, match=r"is of batch 4, the query at batch 3: its checkpoint is older"):
        before(store, 3)


def test_what_cannot_be_read_fails(store: StateStore) -> None:
    places = store.write(0, 0, {5: states(1)})
    (file,) = (Path(store.uri) / f"{0:012d}").iterdir()
    file.unlink()
    with pytest.raises(FileNotFoundError):
        store.read(places.values())


class Counting(Processor):
    """Counts the rows of a key."""

    state = "n bigint"
    output = "n bigint"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        state["n"] = state.get("n", 0) + len(rows)
        return [dict(state)]


@dataclass(frozen=True, kw_only=True)
class Owned(StatefulWork):
    """Work whose substreams have owners that the test chooses."""

    table: tuple[int, ...]

    def owned_by(self, worker: int, batch: int) -> NDArray[np.int64]:  # noqa: ARG002
        return np.flatnonzero(np.array(self.table) == worker)


COUNTING: Final = Processing(
    processor=Counting(),
    keys=("k",),
    row_schema=pa.schema([("k", pa.int64())]),
    state_columns=pa.schema([("n", pa.int64())]),
    output_columns=pa.schema([("n", pa.int64())]),
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A batch: how many were passed over before it, its keys, its owners, and who was done when it was broken off."""

    gap: int
    keys: list[int]
    table: tuple[int, ...]
    order: list[int]
    broken_off: int
    table_then: tuple[int, ...]


TABLES: Final = st.tuples(*[st.integers(0, WORKERS - 1)] * SUBSTREAMS)
STEPS: Final = st.builds(
    Step,
    gap=st.sampled_from([0, 0, 0, 0, 1, 9]),
    keys=st.lists(st.integers(0, 2 * SUBSTREAMS - 1), max_size=4),
    table=TABLES,
    order=st.permutations(range(WORKERS)),
    broken_off=st.sampled_from([0, 0, 1, WORKERS]),
    table_then=TABLES,
)


def rows_of(keys: Iterable[int]) -> pa.Table:
    """Make rows as a worker gets them; key k is one of those in substream k mod 8."""
    keys = list(keys)
    hashes = representatives(SUBSTREAMS)[np.array(keys, dtype=np.int64) % SUBSTREAMS]
    columns = {"k": pa.array(keys, pa.int64()), ARRIVAL: pa.array(range(len(keys)), pa.int64())}
    return pa.table({**columns, HASH: pa.array(hashes), CLOCK: pa.array([0] * len(keys), pa.int64())})


@dataclass(frozen=True)
class Run:
    """A query without Spark: workers one after the other."""

    store: StateStore

    def attempt(self, batch: int, keys: Sequence[int], table: tuple[int, ...], workers: Iterable[int]) -> None:
        work = Owned(
            processing=COUNTING,
            grouping=Key(workers=WORKERS),
            n_substreams=SUBSTREAMS,
            seed=0,
            store=self.store,
            table=table,
        )
        for worker in workers:
            own = rows_of(key for key in keys if table[key % SUBSTREAMS] == worker)
            _MicroBatch(work=work, store=self.store, worker=worker, batch=batch, query="q").run(own)

    def held_before(self, batch: int) -> Counter[int]:
        """Read all that a batch begins with."""
        found = self.store.read(before(self.store, batch).places.values())
        return Counter(dict(zip(found["key:k"].to_pylist(), found["state:n"].to_pylist(), strict=True)))


@contextmanager
def keeping(batches: int) -> Iterator[None]:
    with patch.object(state_store, "KEEP", batches), patch.object(stateful, "KEEP", batches):
        yield


@settings(max_examples=20)
@given(steps=st.lists(STEPS, min_size=1, max_size=10), keep=st.integers(0, 3))
def test_state_survives_moves_repetitions_and_the_removal_of_old_batches(steps: list[Step], keep: int) -> None:
    with TemporaryDirectory() as folder, keeping(keep):
        run = Run(StateStore(uri=folder, schema=COUNTING.state_schema))
        batch, begins_with = -1, Counter[int]()
        for step in steps:
            batch += 1 + (step.gap if begins_with else 0)
            run.attempt(batch, step.keys, step.table_then, step.order[: step.broken_off])
            run.attempt(batch, step.keys, step.table, step.order)
            assert run.held_before(batch) == begins_with  # still there, for another repetition
            begins_with += Counter(step.keys)
            assert run.held_before(batch + 1) == begins_with


def test_old_batches_go_and_idle_state_is_copied_on(tmp_path: Path) -> None:
    with keeping(4):
        run = Run(StateStore(uri=str(tmp_path), schema=COUNTING.state_schema))
        for batch in range(20):
            table = tuple((substream + batch) % WORKERS for substream in range(SUBSTREAMS))
            run.attempt(batch, [1] if batch else [1, 2], table, range(WORKERS))
        folders = sorted(int(folder.name) for folder in tmp_path.iterdir())
        assert folders == list(range(20 - 2 - 4, 20))
        assert run.held_before(20) == Counter({1: 20, 2: 1})
        idle = before(run.store, 20).places[2]
        assert 15 <= idle.batch < 20


def test_a_batch_after_a_long_gap_removes_nothing_that_it_began_with(tmp_path: Path) -> None:
    with keeping(4):
        run = Run(StateStore(uri=str(tmp_path), schema=COUNTING.state_schema))
        for batch in (0, 30, 30, 31):  # the second is repeated
            run.attempt(batch, [1], (0,) * SUBSTREAMS, range(WORKERS))
        assert run.held_before(32) == Counter({1: 3})


def test_a_row_that_belongs_to_another_worker_fails(tmp_path: Path) -> None:
    run = Run(StateStore(uri=str(tmp_path), schema=COUNTING.state_schema))
    work = Owned(
        processing=COUNTING,
        grouping=Key(workers=WORKERS),
        n_substreams=SUBSTREAMS,
        seed=0,
        store=run.store,
        table=(1,) * SUBSTREAMS,
    )
    with pytest.raises(SkewlessError, match="worker 0 got rows of substream 3, which it does not own in batch 0"):
        _MicroBatch(work=work, store=run.store, worker=0, batch=0, query="q").run(rows_of([3]))


def test_a_substream_of_two_owners_is_refused(store: StateStore) -> None:
    places = store.write(0, 0, {5: states(1)})
    for worker in range(2):
        store.commit(0, worker, manifest(places, workers=2))
    with pytest.raises(SkewlessError, match="in batch 0 a substream has two owners"):
        before(store, 1)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"places": {"x": {}}}', b'{"places": {}, "more": 1}', b"\xff"])
def test_a_broken_manifest_is_refused(store: StateStore, text: bytes) -> None:
    store.commit(0, 0, manifest({}))
    store.directory.write(f"{0:012d}/worker-0.json", text)
    with pytest.raises(SkewlessError, match=r"the manifest of worker 0 and batch 0 in .* is broken"):
        before(store, 1)
