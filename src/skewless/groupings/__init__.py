"""Groupings: how tuples with a key find their worker. One algorithm, one file, one contract (`base.py`).

Names are loaded on first use: a Python worker of Spark that needs the contract should not wait for all algorithms.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from skewless.errors import ConfigurationError, SkewlessError, UnknownNameError

if TYPE_CHECKING:
    from skewless.groupings.auto import Auto
    from skewless.groupings.base import Coordinated, Foresighted, Grouping, Measuring, Router, State, pass_barrier
    from skewless.groupings.consistent import Consistent
    from skewless.groupings.correlation import Correlation
    from skewless.groupings.d_choices import DChoices
    from skewless.groupings.distribution_aware import DistributionAware
    from skewless.groupings.dynamic_key import DynamicKey
    from skewless.groupings.eager import Eager
    from skewless.groupings.even import Even
    from skewless.groupings.flux import Flux
    from skewless.groupings.full_knowledge import FullKnowledge
    from skewless.groupings.key import Key
    from skewless.groupings.key_isolator import KeyIsolator
    from skewless.groupings.local import Local
    from skewless.groupings.modulo import Modulo
    from skewless.groupings.partial_key import PartialKey
    from skewless.groupings.popularity_aware import PopularityAware
    from skewless.groupings.shuffle import Shuffle
    from skewless.groupings.single_instance import SingleInstance
    from skewless.groupings.substream import SubstreamGrouping
    from skewless.groupings.two_choices import TwoChoices
    from skewless.groupings.universal import Universal
    from skewless.groupings.universal_rebalancing import UniversalRebalancing
    from skewless.groupings.w_choices import WChoices

    GROUPINGS: dict[str, type[Grouping]]
    """Every grouping by its name: the tests run them all through `skewless.checks`, and the CLI offers them."""

_HOMES: Final = {
    "Auto": "skewless.groupings.auto",
    "Consistent": "skewless.groupings.consistent",
    "Coordinated": "skewless.groupings.base",
    "Correlation": "skewless.groupings.correlation",
    "DChoices": "skewless.groupings.d_choices",
    "DistributionAware": "skewless.groupings.distribution_aware",
    "DynamicKey": "skewless.groupings.dynamic_key",
    "Eager": "skewless.groupings.eager",
    "Even": "skewless.groupings.even",
    "Flux": "skewless.groupings.flux",
    "Foresighted": "skewless.groupings.base",
    "FullKnowledge": "skewless.groupings.full_knowledge",
    "Grouping": "skewless.groupings.base",
    "Key": "skewless.groupings.key",
    "KeyIsolator": "skewless.groupings.key_isolator",
    "Local": "skewless.groupings.local",
    "Measuring": "skewless.groupings.base",
    "Modulo": "skewless.groupings.modulo",
    "PartialKey": "skewless.groupings.partial_key",
    "PopularityAware": "skewless.groupings.popularity_aware",
    "Router": "skewless.groupings.base",
    "Shuffle": "skewless.groupings.shuffle",
    "SingleInstance": "skewless.groupings.single_instance",
    "State": "skewless.groupings.base",
    "SubstreamGrouping": "skewless.groupings.substream",
    "TwoChoices": "skewless.groupings.two_choices",
    "Universal": "skewless.groupings.universal",
    "UniversalRebalancing": "skewless.groupings.universal_rebalancing",
    "WChoices": "skewless.groupings.w_choices",
    "pass_barrier": "skewless.groupings.base",
}
_IN_ORDER: Final = (
    "Shuffle",
    "Key",
    "Local",
    "PartialKey",
    "DynamicKey",
    "DChoices",
    "WChoices",
    "DistributionAware",
    "PopularityAware",
    "FullKnowledge",
    "Universal",
    "Modulo",
    "SingleInstance",
    "Consistent",
    "KeyIsolator",
    "Eager",
    "Correlation",
    "UniversalRebalancing",
    "TwoChoices",
    "Flux",
    "Even",
    "Auto",
)


def __getattr__(name: str) -> Any:
    if name == "GROUPINGS":
        return _groupings()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@cache
def _groupings() -> dict[str, type[Grouping]]:
    kinds = (getattr(import_module(_HOMES[name]), name) for name in _IN_ORDER)
    return {kind.name: kind for kind in kinds}


@cache
def _by_alias() -> dict[str, type[Grouping]]:
    return {
        alias.lower().replace("-", "_"): grouping
        for grouping in _groupings().values()
        for alias in (grouping.name, *grouping.aliases)
    }


def find_grouping(name: str) -> type[Grouping]:
    """Return the class of a grouping by its name or its alias in the papers, in upper or lower case.

    >>> find_grouping("pkg").name
    'partial_key'
    """
    grouping = _by_alias().get(name.strip().lower().replace("-", "_"))
    if grouping is None:
        raise UnknownNameError(
            "grouping",
            name,
            _groupings(),
            [alias for kind in _groupings().values() for alias in kind.aliases],
            subject="grouping",
        )
    return grouping


def make_grouping(name: str, *, workers: int | None = None, **parameters: Any) -> Grouping:
    """Return a grouping by its name or its alias in the papers, in upper or lower case.

    >>> make_grouping("PKG", workers=4)
    PartialKey(workers=4)
    """
    grouping = find_grouping(name)
    known = [field.name for field in fields(grouping) if field.name != "workers"]
    for parameter in parameters:
        if parameter not in known:
            if not known:
                problem = f"grouping {grouping.name!r} takes no parameters; got {parameter!r}"
                raise ConfigurationError(problem, subject=parameter)
            raise UnknownNameError(f"parameter of {grouping.name!r}", parameter, known, subject=parameter)
    try:
        return grouping(workers=workers, **parameters)
    except SkewlessError:
        raise
    except (TypeError, ValueError, AttributeError) as error:  # a text instead of a number, a list instead of a value
        values = ", ".join(f"{parameter} = {value!r}" for parameter, value in parameters.items())
        subject = next(iter(parameters)) if len(parameters) == 1 else ""
        raise ConfigurationError(f"{grouping.name} cannot take {values}: wrong type", subject=subject) from error


__all__ = [
    "GROUPINGS",
    "Auto",
    "Consistent",
    "Coordinated",
    "Correlation",
    "DChoices",
    "DistributionAware",
    "DynamicKey",
    "Eager",
    "Even",
    "Flux",
    "Foresighted",
    "FullKnowledge",
    "Grouping",
    "Key",
    "KeyIsolator",
    "Local",
    "Measuring",
    "Modulo",
    "PartialKey",
    "PopularityAware",
    "Router",
    "Shuffle",
    "SingleInstance",
    "State",
    "SubstreamGrouping",
    "TwoChoices",
    "Universal",
    "UniversalRebalancing",
    "WChoices",
    "find_grouping",
    "make_grouping",
    "pass_barrier",
]
