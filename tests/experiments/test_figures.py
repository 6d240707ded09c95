"""Figures show what is in the rows."""

from __future__ import annotations

from skewless.experiments import load_experiment
from skewless.experiments.figures import draw
from skewless.experiments.rows import Rows


def test_numbers_to_read_are_not_rounded_and_coordinates_are() -> None:
    rows = Rows({"p": f"p = {p}", "tuples": n, "keys": n / 3} for p in (0.005, 0.0025) for n in range(1, 4))
    svg = draw(load_experiment("dstream-figure-21"), rows)
    assert "p = 0.005<" in svg
    assert "p = 0.0025<" in svg
    assert not any(len(word.partition(".")[2]) > 2 for word in svg.split('d="M ')[1].split('"')[0].split())
