"""Names that others chose (keys, columns, files, applications) are data wherever they are written: in HTML, code, SQL.

Line protocol and labels are in `observing/`.
"""

from __future__ import annotations

import ast
from collections import Counter
from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st

from skewless import notebook
from skewless.doctor.advice import advice_for
from skewless.doctor.causes import HOT_KEY, NULL_KEY
from skewless.doctor.diagnosis import Examination, Finding
from skewless.doctor.page import render_page
from skewless.doctor.plan import Operator
from skewless.spark.merge import quoted

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
