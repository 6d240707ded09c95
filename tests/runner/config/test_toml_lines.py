"""Lines of keys: on documents with everything that could mislead a scan, and on random ones beside Python's reader."""

from __future__ import annotations

import json
from typing import Any

import tomllib
from hypothesis import given
from hypothesis import strategies as st

from skewless.runner.config.toml_lines import lines_of

MISLEADING = '''# n = 1
"a b".c = 1 # d = 2
long = """
[no.table]
k = 1 \\"""
"""
raw = \'\'\'
z = "1\'\'\'
list = [ # c = 1
  "a # no = comment",
  { p = 1, q = [2, { r = "}" }] },
]
when = 1979-05-27 07:32:00
x = 1.5e3
[t . "u.v"]
w = {}
[[many]]
k = 2
[last]
"spark.x.y" = "1"'''


def test_what_looks_like_a_key_is_none() -> None:
    tomllib.loads(MISLEADING)
    assert {".".join(path): line for path, line in lines_of(MISLEADING).items()} == {
        "a b": 2, "a b.c": 2, "long": 3, "raw": 7, "list": 9, "list.p": 11, "list.q": 11, "list.q.r": 11, "when": 13,
        "x": 14, "t": 15, "t.u.v": 15, "t.u.v.w": 16, "many": 17, "many.k": 18, "last": 19, "last.spark.x.y": 20,
    }  # fmt: skip


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x7f", min_codepoint=32), max_size=8)
VALUES = st.recursive(
    TEXTS | st.integers(-9, 9) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def written(value: Any) -> str:
    """Write a value as TOML; JSON's texts, numbers and lists are such already."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key, ensure_ascii=False)} = {written(one)}" for key, one in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@given(st.dictionaries(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=4), max_size=3), st.integers(0, 2))
def test_every_key_is_found_where_it_was_written(tables: dict[str, dict[str, Any]], gap: int) -> None:
    lines: list[str] = []
    places: dict[tuple[str, ...], int] = {}
    for table, pairs in tables.items():
        lines += [""] * gap
        lines.append(f"[{json.dumps(table, ensure_ascii=False)}]  # of {json.dumps(table)}")
        places[table,] = len(lines)
        for key, value in pairs.items():
            places[table, key] = len(lines) + 1
            lines += f"{json.dumps(key, ensure_ascii=False)} = {written(value)}".split("\n")
    document = "\n".join(lines)
    assert tomllib.loads(document) == tables
    assert {path: line for path, line in lines_of(document).items() if len(path) < 3} == places
