"""The experiments of four papers: each table and figure, by a name such as `dkg-figure-10`.

A module below a paper's package holds one sweep, and in `EXPERIMENTS` the tables and figures that show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from skewless.errors import ConfigurationError, SkewlessError, raise_all
from skewless.experiments.base import Experiment

PAPERS: Final = {
    "dkg": "Dynamic Key Grouping (Dalabasmaz & Can)",
    "dstream": "Popularity-aware Differentiated Distributed Stream Processing (Chen, Zhang & Jin)",
    "dakg": "Efficient Key Grouping for Near-Optimal Load Balancing (Rivetti et al.)",
    "slb": "Stateful Load Balancing for Parallel Stream Processing (Guo & Zhou)",
}
"""The papers, by the prefix of their experiments' names."""


@cache
def _experiments() -> Mapping[str, Experiment]:
    """Import all experiments, in the order of the papers, tables first."""
    found: dict[str, Experiment] = {}
    for paper in PAPERS:
        package = import_module(f"{__name__}.{paper}")
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            found |= getattr(import_module(module.name), "EXPERIMENTS", {})
    return {name: found[name] for name in sorted(found, key=_order)}


def _order(name: str) -> tuple[int, bool, int]:
    paper, kind, number = name.split("-")
    return list(PAPERS).index(paper), kind == "figure", int(number)


def experiment_names() -> tuple[str, ...]:
    """Return the names of all experiments, paper by paper, tables first."""
    return tuple(_experiments())


def load_experiment(name: str) -> Experiment:
    """Return an experiment by its name."""
    try:
        return _experiments()[name]
    except KeyError:
        near = get_close_matches(name, experiment_names(), n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "`skewless experiment list` shows all"
        raise ConfigurationError(f"unknown experiment {name!r}", subject="names", value=name, hint=hint) from None


def choose_experiments(names: Iterable[str]) -> list[str]:
    """Resolve names: `all`, a paper (`dkg`), or single experiments. Every unknown name is reported."""
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
