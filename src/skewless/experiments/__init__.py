"""The papers' experiments, each a small file: `dkg/figure_10.py` is the experiment `dkg-figure-10`."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from re import findall
from typing import Final

from skewless.errors import SkewlessError, raise_all
from skewless.experiments.base import Experiment

PAPERS: Final = {
    "dkg": "Dynamic Key Grouping (Dalabasmaz & Can)",
    "dstream": "Popularity-aware Differentiated Distributed Stream Processing (Chen, Zhang & Jin)",
    "dakg": "Efficient Key Grouping for Near-Optimal Load Balancing (Rivetti et al.)",
    "slb": "Stateful Load Balancing for Parallel Stream Processing (Guo & Zhou)",
}
"""The papers, and what each stands for in the names of experiments."""


@cache
def experiment_names() -> tuple[str, ...]:
    """Name all experiments, paper by paper, tables first."""
    names = []
    for paper in PAPERS:
        package = import_module(f"{__name__}.{paper}")
        modules = [module.name for module in iter_modules(package.__path__)]
        own = [module for module in modules if module.startswith(("table_", "figure_"))]
        names += [f"{paper}-{module}".replace("_", "-") for module in sorted(own, key=_place)]
    return tuple(names)


def _place(module: str) -> tuple[bool, int, str]:
    return module.startswith("figure"), int(findall(r"\d+", module)[0]), module


def load_experiment(name: str) -> Experiment:
    """Import an experiment by its name."""
    if name not in experiment_names():
        near = get_close_matches(name, experiment_names(), n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "`skewless experiment list` names them"
        raise SkewlessError(f"there is no experiment {name!r}: {hint}")
    paper, _, module = name.partition("-")
    experiment: Experiment = import_module(f"{__name__}.{paper}.{module.replace('-', '_')}").EXPERIMENT
    return experiment


def choose_experiments(names: Iterable[str]) -> list[str]:
    """Resolve names: `all`, a paper (`dkg`), or single experiments; every bad one is named."""
    chosen: list[str] = []
    errors: list[SkewlessError] = []
    for name in names:
        if name == "all" or name in PAPERS:
            chosen += [known for known in experiment_names() if name == "all" or known.startswith(f"{name}-")]
            continue
        try:
            load_experiment(name)
            chosen.append(name)
        except SkewlessError as error:
            errors.append(error)
    raise_all(errors)
    return list(dict.fromkeys(chosen))
