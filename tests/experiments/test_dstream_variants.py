"""What another variant of DStream would give in place of the one that is judged, on the published rows."""

from __future__ import annotations

import re
from pathlib import Path

from skewless.experiments import choose_experiments, load_experiment
from skewless.experiments.dstream.closed_loop import DSTREAM, VARIANTS
from skewless.experiments.dstream.drifting_skew import WITHOUT_STOP_WORDS
from skewless.experiments.results import read_csv
from skewless.experiments.rows import Row, Rows

DOCS = Path(__file__).parents[2] / "docs"


def checks_that_hold(judged: str) -> tuple[int, int]:
    """Return how many checks hold, and how many there are, if a variant takes the place of the judged one."""
    swapped = {DSTREAM: judged, judged: DSTREAM}
    holds: list[bool] = []
    for name in choose_experiments(["dstream"]):
        rows = read_csv(DOCS / "experiments" / f"{name}.csv")
        if rows.where(grouping=judged):  # those of sketches have the judged one alone
            rows = Rows(_renamed(row, swapped) for row in rows)
        holds += [check.holds for check in load_experiment(name).evaluate(rows).counted]
    return sum(holds), len(holds)


def _renamed(row: Row, names: dict[str, str]) -> Row:
    if row.get("stream") == WITHOUT_STOP_WORDS:  # where the judged one alone runs
        return row
    return {**row, "grouping": names.get(row["grouping"], row["grouping"])}


def words_that_hold(stream: str) -> int:
    """Return how many checks of the word count hold on the rows of a stream."""
    other = {"tweets": WITHOUT_STOP_WORDS, WITHOUT_STOP_WORDS: "tweets"}
    holds: list[bool] = []
    for number in (8, 9, 10):
        rows = read_csv(DOCS / "experiments" / f"dstream-figure-{number}.csv")
        if stream != "tweets":
            rows = Rows({**row, "stream": other[row["stream"]]} for row in rows)
        holds += [check.holds for check in load_experiment(f"dstream-figure-{number}").expect(rows)]
    return sum(holds)


def test_the_authors_code_as_it_is_now_is_judged() -> None:
    assert VARIANTS[DSTREAM] == "released"


def test_the_documents_say_what_the_first_release_would_give() -> None:
    text = " ".join((DOCS / "experiments.md").read_text(encoding="utf-8").split())
    said = re.search(r"judging it instead, (\d+) of (\d+) checks would hold, not (\d+)", text)
    assert said is not None
    instead, now = (checks_that_hold(name) for name in ("popularity_aware, first release", DSTREAM))
    assert tuple(map(int, said.groups())) == (*instead, now[0])
    assert instead[1] == now[1]


def test_the_documents_say_what_a_word_count_without_stop_words_would_give() -> None:
    text = " ".join((DOCS / "experiments.md").read_text(encoding="utf-8").split())
    said = re.search(r"without them (\d+) checks of Figures 8 to 10 would hold, not (\d+)", text)
    assert said is not None
    assert tuple(map(int, said.groups())) == (words_that_hold(WITHOUT_STOP_WORDS), words_that_hold("tweets"))
