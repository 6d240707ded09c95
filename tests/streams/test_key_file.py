"""Keys from files: every format, and every way in which a file can be bad."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import SkewlessError
from skewless.hashing import hash_keys
from skewless.streams import KeyFile

DATA = Path(__file__).parents[3] / "shared" / "data"
MEGABYTE = 2**20


def keys_in(path: Path, column: str | None = None, tuples: int | None = None) -> list[Any]:
    return [
        key for chunk in KeyFile(path=str(path), column=column).generate(tuples=tuples) for key in chunk.to_pylist()
    ]


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix.lower() == ".gz" else data)
    return path


def check_refused(path: Path, column: str | None, reason: str) -> None:
    with pytest.raises(SkewlessError, match=reason) as caught:
        keys_in(path, column)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("keys.txt", "a\nb\n\nb\n"),
        ("keys.txt", "a\nb\n\nb"),
        ("keys.txt", "a\r\nb\r\n\r\nb\r\n"),
        ("keys.txt", "a\r\nb\r\n\r\nb\r"),
        ("keys", "a\nb\n\nb\n"),
        ("keys.log", "a\nb\n\nb\n"),
        ("keys.txt.gz", "a\nb\n\nb\n"),
        ("keys.gz", "a\r\nb\r\n\r\nb"),
        ("KEYS.TXT.GZ", "a\nb\n\nb\n"),
    ],
)
def test_text_has_a_key_a_line(tmp_path: Path, name: str, content: str) -> None:
    assert keys_in(write(tmp_path / name, content)) == [b"a", b"b", b"", b"b"]


@given(lines=st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line and b"\r" not in line), min_size=1))
def test_text_keeps_any_bytes(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert keys_in(write(Path(folder) / "keys.txt", b"\n".join([*lines, b""]))) == lines


# The same five rows in each format: plain, null, empty, with quotes and delimiters, repeated.
VALUES = ["a", None, "", 'x, "y"\tz', "a"]
CSV = 'n,key\n1,a\n2,\n3,""\n4,"x, ""y""\tz"\n5,a\n'
TSV = 'n\tkey\n1\ta\n2\t\n3\t""\n4\t"x, ""y""\tz"\n5\ta\n'
JSON = "".join(json.dumps({"n": i, "key": value}) + "\n" for i, value in enumerate(VALUES))


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("keys.csv", CSV),
        ("keys.csv", CSV.rstrip("\n")),
        ("keys.csv", CSV.replace("\n", "\r\n")),
        ("keys.csv", "\ufeff" + CSV),
        ("keys.tsv", TSV),
        ("keys.json", JSON),
        ("keys.jsonl", JSON),
        ("keys.jsonl", JSON.rstrip("\n")),
        ("keys.jsonl", JSON.replace("\n", "\r\n")),
        ("keys.ndjson", JSON),
    ],
)
def test_columns_tell_null_from_the_empty_string(tmp_path: Path, name: str, content: str, packed: str) -> None:
    assert keys_in(write(tmp_path / (name + packed), content), "key") == VALUES


def test_capital_endings(tmp_path: Path) -> None:
    assert keys_in(write(tmp_path / "KEYS.CSV", CSV), "key") == VALUES


@pytest.mark.parametrize(("name", "content"), [("KEYS.CSV.GZ", CSV), ("KEYS.JSONL.GZ", JSON)])
def test_capital_endings_of_packed_files(tmp_path: Path, name: str, content: str) -> None:
    assert keys_in(write(tmp_path / name, content), "key") == VALUES


def test_keys_of_a_csv_are_strings_as_they_stand(tmp_path: Path) -> None:
    values = ["1", "01", "1.0", "true", "NA", "null", "NaN", "2020-01-01", " x "]
    path = write(tmp_path / "keys.csv", "\n".join(["key,other", *(f"{value},1" for value in values)]))
    assert keys_in(path, "key") == values


def test_a_csv_field_may_hold_a_line_break(tmp_path: Path) -> None:
    assert keys_in(write(tmp_path / "keys.csv", 'key,n\n"a\nb",1\nc,2\n'), "key") == ["a\nb", "c"]


@pytest.mark.parametrize("values", [[3, None, -3], [0.5, None, 2.0], [True, None, False], [None, None]])
def test_json_keys_are_what_they_are(tmp_path: Path, values: list[Any]) -> None:
    content = "".join(json.dumps({"key": value}) + "\n" for value in values)
    assert keys_in(write(tmp_path / "keys.jsonl", content), "key") == values


def test_json_strings_that_look_like_dates_stay_strings(tmp_path: Path) -> None:
    content = '{"key": "2015-09-12"}\n{"key": "2015-09-12 00:46:58"}\n'
    assert keys_in(write(tmp_path / "keys.jsonl", content), "key") == ["2015-09-12", "2015-09-12 00:46:58"]


def test_a_json_row_without_the_key_is_null(tmp_path: Path) -> None:
    path = write(tmp_path / "keys.jsonl", '{"key": "a", "n": 1}\n{"n": 2}\n{"new": [1], "key": "b"}\n')
    assert keys_in(path, "key") == ["a", None, "b"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(VALUES),
        pa.array(VALUES).dictionary_encode(),
        pa.array([3, None, -3], pa.int32()),
        pa.array([b"\xff", None, b""]),
    ],
    ids=lambda column: str(column.type),
)
def test_parquet_keeps_types_and_knows_its_length(tmp_path: Path, column: pa.Array) -> None:
    path = tmp_path / "keys.parquet"
    pa_parquet.write_table(pa.table({"other": range(len(column)), "key": column}), path)
    stream = KeyFile(path=str(path), column="key")
    keys = pa.concat_arrays(list(stream.generate()))
    assert keys.to_pylist() == column.to_pylist()
    assert np.array_equal(hash_keys(keys), hash_keys(column))
    assert (stream.length(), stream.length(2), stream.length(99)) == (len(column), 2, len(column))


def test_only_parquet_knows_its_length(tmp_path: Path) -> None:
    assert KeyFile(path=str(write(tmp_path / "keys.txt", "a\n"))).length(1) is None


def big_text(path: Path, key: str) -> None:
    write(path, f"a\n{key}\nb\n")


def big_csv(path: Path, key: str) -> None:
    write(path, f"key,n\na,1\n{key},2\nb,3\n")


def big_json(path: Path, key: str) -> None:
    write(path, "".join(json.dumps({"key": each}) + "\n" for each in ("a", key, "b")))


def big_parquet(path: Path, key: str) -> None:
    pa_parquet.write_table(pa.table({"key": ["a", key, "b"]}), path)


@pytest.mark.parametrize(
    ("name", "write_big"),
    [
        ("keys.txt", big_text),
        ("keys.txt.gz", big_text),
        ("keys.csv", big_csv),
        ("keys.csv.gz", big_csv),
        ("keys.jsonl", big_json),
        ("keys.jsonl.gz", big_json),
        ("keys.parquet", big_parquet),
    ],
)
def test_a_key_of_a_megabyte(tmp_path: Path, name: str, write_big: Callable[[Path, str], None]) -> None:
    key = "0123456789abcdef" * (MEGABYTE // 16)
    write_big(tmp_path / name, key)
    keys = keys_in(tmp_path / name, None if "txt" in name else "key")
    assert [key.decode() if isinstance(key, bytes) else key for key in keys] == ["a", key, "b"]


def test_text_is_read_in_blocks_that_cut_lines_anywhere(tmp_path: Path) -> None:
    lines = [b"%d" % i * (i % 9) for i in range(1_500_000)]  # more than two blocks of 16 MB
    stream = KeyFile(path=str(write(tmp_path / "keys.txt", b"\r\n".join(lines))))
    chunks = list(stream.generate())
    assert len(chunks) > 2
    assert pa.concat_arrays(chunks).equals(pa.array(lines, pa.large_binary()))
    in_the_second = len(chunks[0]) + 5
    limited = list(stream.generate(tuples=in_the_second))
    assert [len(chunk) for chunk in limited] == [len(chunks[0]), 5]


def test_csv_is_read_in_blocks_that_do_not_cut_values(tmp_path: Path) -> None:
    keys = [f"{i}\n" * 200 for i in range(20_000)]  # more than one block of 16 MB, and line breaks all over
    path = write(tmp_path / "keys.csv", "n,key\n" + "".join(f'{i},"{key}"\n' for i, key in enumerate(keys)))
    assert path.stat().st_size > 17 * MEGABYTE
    assert keys_in(path, "key") == keys


@pytest.mark.parametrize(("name", "column"), [("keys.txt", None), ("keys.csv", "key"), ("keys.parquet", "key")])
@pytest.mark.parametrize("tuples", [0, 1, 3, 4, 5, 99])
def test_tuples_limits_the_keys(tmp_path: Path, name: str, column: str | None, tuples: int) -> None:
    path = tmp_path / name
    if column is None:
        write(path, "a\nb\nc\nd\n")
    elif name.endswith("csv"):
        write(path, "key\na\nb\nc\nd\n")
    else:
        pa_parquet.write_table(pa.table({"key": list("abcd")}), path, row_group_size=3)
    keys = keys_in(path, column, tuples)
    assert [key.decode() if isinstance(key, bytes) else key for key in keys] == list("abcd")[:tuples]


def test_generating_again_starts_again_whatever_the_seed(tmp_path: Path) -> None:
    stream = KeyFile(path=str(write(tmp_path / "keys.txt", "a\nb\n")))
    next(stream.generate())
    assert [key for seed in (0, 1) for chunk in stream.generate(seed=seed) for key in chunk.to_pylist()] == [
        b"a",
        b"b",
    ] * 2


def test_labels_name_the_file_and_the_column(tmp_path: Path) -> None:
    assert KeyFile(path=str(write(tmp_path / "keys.txt", "a\n"))).label == "keys.txt"
    assert KeyFile(path=str(write(tmp_path / "keys.csv.gz", CSV)), column="key").label == "keys.csv.gz:key"


def test_a_missing_file(tmp_path: Path) -> None:
    check_refused(tmp_path / "keys.csv", "key", "no such file: ")


def test_a_folder(tmp_path: Path) -> None:
    check_refused(tmp_path, None, "is a folder. Name a file")


def test_a_name_too_long(tmp_path: Path) -> None:
    check_refused(tmp_path / ("x" * 300), None, "no such file: |cannot read ")


@pytest.mark.parametrize("name", ["keys.txt", "keys.csv", "keys.jsonl", "keys.parquet"])
def test_an_empty_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    check_refused(tmp_path / name, None if name == "keys.txt" else "key", "is empty: there are no keys")


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("keys.txt.gz", "", None),
        ("keys.csv.gz", "", "key"),
        ("keys.jsonl.gz", "", "key"),
        ("keys.csv", "key,n\n", "key"),
        ("keys.csv", "key,n", "key"),
        ("keys.csv", "\n\n", "key"),
        ("keys.csv.gz", "key,n\r\n", "key"),
        ("keys.jsonl", "\n\n", "key"),
    ],
)
def test_a_file_without_rows(tmp_path: Path, name: str, content: str, column: str | None) -> None:
    check_refused(write(tmp_path / name, content), column, "holds no keys: it has no rows|cannot read .*[Ee]mpty")


def test_a_parquet_file_without_rows(tmp_path: Path) -> None:
    pa_parquet.write_table(pa.table({"key": pa.array([], pa.string())}), tmp_path / "keys.parquet")
    check_refused(tmp_path / "keys.parquet", "key", "holds no keys: it has no rows")


@pytest.mark.parametrize(("name", "content"), [("keys.csv", CSV), ("keys.tsv", TSV), ("keys.jsonl", JSON)])
def test_a_missing_column_suggests_the_nearest(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path / name, content)
    check_refused(path, "kye", "unknown column of .* 'kye': did you mean 'key'.* Known: key, n")
    check_refused(path, None, r"has columns. Name the one that holds the key \(n, key\)")


def test_a_missing_column_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "keys.parquet"
    pa_parquet.write_table(pa.table({"hashtag": ["a"], "n": [1]}), path)
    check_refused(path, "hashtags", "unknown column of .* 'hashtags': did you mean 'hashtag'.* Known: hashtag, n")
    check_refused(path, None, r"has columns. Name the one that holds the key \(hashtag, n\)")


def test_text_has_no_columns(tmp_path: Path) -> None:
    check_refused(write(tmp_path / "keys.txt", "a\n"), "key", "is read as text, which has no columns. .*'key'")


@pytest.mark.parametrize("row", ["b", "b,2,3", '"b\nc",2,3'])
def test_a_csv_row_with_another_number_of_columns(tmp_path: Path, row: str) -> None:
    path = write(tmp_path / "keys.csv", f"key,n\na,1\n{row}\nc,3\n")
    check_refused(path, "key", r"cannot read .*Expected 2 columns, got [13]")


@pytest.mark.parametrize(
    ("name", "column", "content"),
    [
        ("keys.csv", "key", b"key,n\nclef,1\ncl\xe9,2\n"),
        pytest.param(
            "keys.csv",
            "n",
            b"cl\xe9,n\na,1\n",
        ),
        ("keys.jsonl", "key", b"garbage\n"),
        ("keys.jsonl", "key", b'{"key": "a"}\n{"key": \n'),
        ("keys.jsonl", "key", b'{"key": "a"}\n{"key": 1}\n'),
        ("keys.jsonl", "key", b'["a"]\n'),
        ("keys.parquet", "key", b"garbage"),
        ("keys.parquet", "key", b"PAR1" + bytes(100) + b"PAR1"),
        ("keys.parquet", "key", b"garbage" * 1000),
    ],
)
def test_garbage(tmp_path: Path, name: str, column: str, content: bytes) -> None:
    check_refused(write(tmp_path / name, content), column, "cannot read ")


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def without_the_last_bytes(data: bytes) -> bytes:
    return data[:-4]


def damaged(data: bytes) -> bytes:
    return data[:10] + b"\xff" * 50 + data[60:]  # behind the header, a block of a type that does not exist


@pytest.mark.parametrize("spoil", [truncated, without_the_last_bytes, damaged])
@pytest.mark.parametrize(
    ("name", "column", "row"),
    [("keys.txt.gz", None, "{}"), ("keys.csv.gz", "key", "{},1"), ("keys.jsonl.gz", "key", '{{"key": "{}"}}')],
)
def test_a_damaged_gzip_file(
    tmp_path: Path, spoil: Callable[[bytes], bytes], name: str, column: str | None, row: str
) -> None:
    keys = np.random.default_rng(0).integers(0, 10**9, 20_000).tolist()
    header = "key,n\n" if "csv" in name else ""
    path = tmp_path / name
    path.write_bytes(spoil(gzip.compress((header + "\n".join(row.format(key) for key in keys)).encode())))
    check_refused(path, column, "cannot read ")


@pytest.mark.parametrize(("name", "column"), [("keys.txt.gz", None), ("keys.csv.gz", "key"), ("keys.jsonl.gz", "key")])
def test_a_file_that_is_not_gzipped_at_all(tmp_path: Path, name: str, column: str | None) -> None:
    (tmp_path / name).write_text("key\na\n")
    check_refused(tmp_path / name, column, "cannot read ")


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [("keys.txt.gz", [b"a\n", b"b\n"], None), ("keys.csv.gz", [b"key\na\n", b"b\n"], "key")],
)
def test_a_gzip_file_of_several_members(tmp_path: Path, name: str, content: list[bytes], column: str | None) -> None:
    path = tmp_path / name
    path.write_bytes(b"".join(gzip.compress(part) for part in content))
    assert len(keys_in(path, column)) == 2


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}")
@pytest.mark.parametrize(
    ("name", "column", "events", "distinct", "top_percent"),
    [
        ("election_hashtags.csv.gz", "hashtag", 1_472_148, 99_409, 2.6),
        ("trades_20131007_11.csv.gz", "symbol", 2_793_812, 4, 67.6),
        ("wikiticker-2015-09-12-sampled.json.gz", "channel", 39_244, 51, 29.4),
        ("wikiticker-2015-09-12-sampled.json.gz", "user", 39_244, 10_531, 8.6),
        ("wikiticker-2015-09-12-sampled.json.gz", "page", 39_244, 35_143, 0.1),
        ("wikispeedia_clicks.csv.gz", "article", 305_210, 4_162, 2.8),
        ("soccer_tromso.csv.gz", "id", 132_000, 12, 9.6),
        ("wordfreq_en_large.csv.gz", "", 321_180, 321_180, 0.0),  # the column of words has no name
    ],
)
def test_real_files(name: str, column: str, events: int, distinct: int, top_percent: float) -> None:
    counts: Counter[int] = Counter()
    for keys in KeyFile(path=str(DATA / name), column=column).generate():
        hashes, times = np.unique(hash_keys(keys), return_counts=True)
        counts.update(dict(zip(hashes.tolist(), times.tolist(), strict=True)))
    assert counts.total() == events
    assert len(counts) == distinct
    assert round(100 * max(counts.values()) / events, 1) == top_percent


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}")
def test_a_real_file_with_stray_text_in_its_header() -> None:
    check_refused(DATA / "debs2013_full_game_head.csv.gz", "sensor_id", "cannot read .*Expected 14 columns, got 13")
