"""Names that others chose (keys, columns, files, applications) are data wherever they go: HTML, code, SQL, paths.

Line protocol and labels are in `observing/`.
"""

from __future__ import annotations

import ast
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skewless import notebook
from skewless.doctor.advice import advice_for
from skewless.doctor.causes import HOT_KEY, NULL_KEY
from skewless.doctor.diagnosis import Examination, Finding
from skewless.doctor.page import render_page
from skewless.doctor.plan import Operator
from skewless.processors.processing import EXPIRES
from skewless.spark.merge import quoted
from skewless.storage import Ledger, WorkerReport
from skewless.storage.state_store import Manifest, StateStore

NAMES = st.text(max_size=30) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "'--",
        "&lt;",
        "]]>",
        "</style>",
        "a`b",
        '"); x("',
        "\\",
        "../../etc/x",
        "/etc/x",
        "a/b",
        "..",
        "\0",
    ]
)


class Elements(HTMLParser):
    """Counts elements and attributes, and collects text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[" ".join([tag, *(name for name, _ in attrs)])] += 1

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_about(name: str) -> str:
    finding = Finding(
        stage=1,
        stages=1,
        name=name,
        operator=name,
        node=name,
        keys=[name],
        cause=name,
        evidence=name,
        advice=name,
        tasks=2,
        longest_s=2.0,
        median_s=1.0,
        longest_rows=1,
        median_rows=1,
        longest_bytes=1,
        median_bytes=1,
        spilled=0,
        lost=0.5,
        lost_s=1.0,
        idle_core_hours=0.1,
    )
    about = Examination(
        log=name,
        application=name,
        name=name,
        version=name,
        seconds=4.0,
        finished=True,
        stages=1,
        tasks=2,
        cores=2,
        findings=[finding],
        remarks=[name],
    )
    return render_page([about])


PLAIN_PAGE = Elements(page_about("plain"))
PLAIN_TABLE = Elements(notebook.table(["plain", "plain"], [["plain", "plain"]], [1.0]))


@given(NAMES.filter(bool))
def test_a_report_has_the_same_elements_whatever_a_log_contains(name: str) -> None:
    assert Elements(page_about(name)).found == PLAIN_PAGE.found


@given(NAMES)
def test_a_table_in_a_notebook_has_the_same_elements_whatever_keys_are_called(name: str) -> None:
    table = Elements(notebook.table([name, name], [[name, name]], [1.0]))
    assert table.found == PLAIN_TABLE.found
    shown = name.replace("\r\n", "\n").replace("\r", "\n")
    assert "".join(table.texts).replace("\r\n", "\n").replace("\r", "\n") == 4 * shown


@given(names=st.lists(NAMES, min_size=1, max_size=3), cause=st.sampled_from([HOT_KEY, NULL_KEY]))
@example(names=['k").select(__import__("os").system("x"))#'], cause=HOT_KEY)
def test_advice_names_columns_as_text(names: list[str], cause: str) -> None:
    operator = Operator(kind="join", name="inner join", keys=tuple(names))
    code = advice_for(operator, cause, 4)
    call = code[code.index("skewless.join") :].removesuffix(": rows without a key are spread")
    parsed = ast.parse(call, mode="eval").body
    assert isinstance(parsed, ast.Call)
    found = ast.literal_eval(parsed.args[2])
    assert (found if isinstance(found, list) else [found]) == names


@given(NAMES)
def test_a_quoted_name_is_one_name(name: str) -> None:
    text = quoted(name)
    assert text[0] == text[-1] == "`"
    inside = text[1:-1]
    assert "`" not in inside.replace("``", "")
    assert inside.replace("``", "`") == name


@settings(max_examples=20)  # each waits for the disk
@given(NAMES)
def test_files_have_names_by_number_whatever_keys_are_called(name: str) -> None:
    hashes = np.zeros(1, dtype=np.uint64)
    report = WorkerReport(
        worker=1, tuples=3, keys=1, busy_s=1.0, finished_ms=5, hashes=hashes, top_keys=[name], top_counts=[3]
    )
    schema = pa.schema([("key:k", pa.string()), (EXPIRES, pa.int64())])
    with TemporaryDirectory() as folder:
        ledger, store = Ledger(uri=f"{folder}/ledger"), StateStore(uri=f"{folder}/state", schema=schema)
        ledger.claim({"keys": name})
        ledger.write_worker(0, report)
        places = store.write(0, 1, {5: pa.table([[name], pa.array([None], pa.int64())], schema=schema)})
        store.commit(0, 1, Manifest(query=name, workers=2, substreams=8, places=places))
        assert store.read(places.values())["key:k"].to_pylist() == [name]
        found = sorted(file.relative_to(folder).as_posix() for file in Path(folder).rglob("*") if file.is_file())
    batch = f"{0:012d}"
    assert found == [
        f"ledger/{batch}/worker-1.npz",
        "ledger/ledger.json",
        f"state/{batch}/{places[5].file}",
        f"state/{batch}/worker-1.json",
    ]
    assert set(places[5].file) <= set("worker-.arrows0123456789abcdef")
