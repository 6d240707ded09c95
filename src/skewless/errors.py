"""Errors that a user can mend: one line that says what, where, what was expected and what came."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class SkewlessError(ValueError):
    """The base of every error that skewless raises on purpose."""

    @property
    def each(self) -> Sequence[str]:
        """What is wrong, one line each."""
        return [str(self)]


class GatheredError(SkewlessError):
    """Several errors at once, so that all can be mended before the next try.

    >>> GatheredError(["no key", "no time"]).each
    ['no key', 'no time']
    """

    def __init__(self, each: Sequence[str]) -> None:
        super().__init__("\n".join(each))
        self._each = each

    @property
    def each(self) -> Sequence[str]:
        """What is wrong, one line each."""
        return self._each


def errors_of(check: Callable[[], object]) -> Sequence[str]:
    """Give what a check finds wrong, instead of raising it.

    >>> errors_of(lambda: require_at_least("seed", -1, 0))
    ['seed must be a whole number of at least 0; got -1']
    """
    try:
        check()
    except SkewlessError as error:
        return error.each
    return []


def raise_all(errors: Sequence[str]) -> None:
    """Raise all errors at once, if there are any."""
    if errors:
        raise GatheredError(errors)


def require_at_least(what: str, value: int, least: int) -> None:
    """Refuse a whole number below its bound.

    >>> require_at_least("n_workers", 0, 1)
    Traceback (most recent call last):
        ...
    skewless.errors.SkewlessError: n_workers must be a whole number of at least 1; got 0
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SkewlessError(f"{what} must be a whole number of at least {least}; got {value!r}")


def unknown_name(what: str, name: str, known: Iterable[str], aliases: Iterable[str] = ()) -> SkewlessError:
    """Say that a name is not known, and which one was probably meant.

    >>> unknown_name("grouping", "partial_kye", ["key", "partial_key"]).args[0]
    "unknown grouping 'partial_kye': did you mean 'partial_key'? Known: key, partial_key"
    """
    names = sorted(known)
    by_folded = {candidate.lower(): candidate for candidate in (*names, *aliases)}
    close = get_close_matches(name.lower(), by_folded, n=1, cutoff=0.5)
    hint = f"did you mean {by_folded[close[0]]!r}? " if close else ""
    return SkewlessError(f"unknown {what} {name!r}: {hint}Known: {', '.join(names)}")
