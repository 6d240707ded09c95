"""Errors as data: what is wrong, with which parameter, what came, what was expected, and what to do about it.

The library names parameters as Python does. Whoever shows an error renders them in its own terms: the command line as
flags, a pipeline file as keys with their lines.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from skewless.masking import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_NOTHING: Final = object()
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


class SkewlessError(ValueError):
    """The base of every error that skewless raises on purpose: something that the user can fix.

    Parameters
    ----------
    problem : str
        What is wrong, in a sentence without a full stop. `{name}` stands for the parameter `name`, as the reader knows
        it. Left out where `subject`, `expected` and `value` say it all.
    subject : str
        The parameter that the error is about, by its name in Python; empty if there is none.
    value : object
        What came.
    expected : str
        What should have come: "a whole number of at least 1".
    hint : str
        What to do, as an imperative; may name parameters like `problem`.

    >>> error = ConfigurationError(subject="workers", expected="a whole number of at least 1", value=0)
    >>> str(error)
    'workers must be a whole number of at least 1; got 0'
    >>> error.render(lambda parameter: f"--{parameter}")
    '--workers must be a whole number of at least 1; got 0'
    >>> str(SkewlessError("{trigger} has no effect without {follow}", subject="trigger", hint="set {follow} as well"))
    'trigger has no effect without follow. Set follow as well'
    """

    def __init__(
        self, problem: str = "", *, subject: str = "", value: object = _NOTHING, expected: str = "", hint: str = ""
    ) -> None:
        super().__init__()
        self.problem = problem
        self.subject = subject
        self.value = value
        self.expected = expected
        self.hint = hint

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[object, ...]:  # tasks send their errors to the driver pickled
        return _restore, (type(self), self.__dict__)

    @property
    def each(self) -> Sequence[SkewlessError]:
        """The errors that this one consists of: itself, unless it is a group."""
        return [self]

    @property
    def names_subject(self) -> bool:
        """Whether the sentence itself names the subject, so that nobody has to put it in front."""
        return not self.problem or f"{{{self.subject}}}" in self.problem + self.hint

    def render(self, name: Callable[[str], str] = str, *, bare: bool = False) -> str:
        """Write the error in one line, without the secrets of addresses in it.

        Parameters
        ----------
        name : callable
            What the reader calls a parameter.
        bare : bool
            Leave out the subject where it begins the sentence, for a reader who is told it already.
        """
        sentence = self.problem.removeprefix(f"{{{self.subject}}} ") if bare else self.problem
        if not sentence:
            subject = f"{{{self.subject}}}" if self.subject.isidentifier() else self.subject  # or a description
            sentence = f"must be {self.expected}" if bare else f"{subject} must be {self.expected}"
            sentence += "" if self.value is _NOTHING else f"; got {self.value!r}"
        if self.hint:
            sentence += f". {self.hint[0].upper()}{self.hint[1:]}"
        return without_secrets(_PARAMETER.sub(lambda match: name(match[1]), sentence))


def _restore(kind: type[SkewlessError], fields: dict[str, object]) -> SkewlessError:
    error = kind.__new__(kind)
    error.__dict__.update(fields)
    return error


class ConfigurationError(SkewlessError):
    """A parameter has a value that it cannot have, or that contradicts another."""


class UnknownNameError(ConfigurationError):
    """A name is not known; says which one was probably meant.

    >>> print(UnknownNameError("grouping", "partial_kye", ["key", "partial_key"]))
    unknown grouping 'partial_kye': did you mean 'partial_key'? Known: key, partial_key
    >>> print(UnknownNameError("column", "price", ["amount", "day"], where="in s=Sum('price')"))
    unknown column 'price' in s=Sum('price'). Known: amount, day
    """

    def __init__(
        self,
        what: str,
        name: str,
        known: Iterable[str],
        aliases: Iterable[str] = (),
        *,
        where: str = "",
        subject: str = "",
    ) -> None:
        names = sorted(known)
        by_folded = {candidate.lower(): candidate for candidate in (*names, *aliases)}
        close = get_close_matches(name.lower(), by_folded, n=1, cutoff=0.5)
        suggestion = f": did you mean {by_folded[close[0]]!r}?" if close else "."
        place = f" {where}" if where else ""
        super().__init__(
            f"unknown {what} {name!r}{place}{suggestion} Known: {', '.join(names) or 'none'}",
            subject=subject,
            value=name,
        )


class ColumnError(SkewlessError):
    """A column is missing, or is of a type that cannot serve."""


class InputError(SkewlessError):
    """A file, a topic, a table or a line of one cannot be read."""


class StorageError(SkewlessError):
    """A ledger, a state store, a checkpoint or another directory cannot be used."""


class SetupError(SkewlessError):
    """Something is missing on this machine or on the executors: a package, Java, a version, a server."""


class QueryError(SkewlessError):
    """A Spark query failed."""


class CombinedError(SkewlessError):
    """Several errors at once, so that all can be fixed before the next attempt.

    >>> [str(error) for error in CombinedError([SkewlessError("no key"), SkewlessError("no time")]).each]
    ['no key', 'no time']
    """

    def __init__(self, errors: Sequence[SkewlessError]) -> None:
        super().__init__()
        self.errors = tuple(errors)

    @property
    def each(self) -> Sequence[SkewlessError]:
        """The errors that this one consists of."""
        return self.errors

    def render(self, name: Callable[[str], str] = str, *, bare: bool = False) -> str:
        """Write the errors, one a line."""
        return "\n".join(error.render(name, bare=bare) for error in self.errors)


def errors_of(check: Callable[[], object]) -> Sequence[SkewlessError]:
    """Return what a check raises instead of raising it.

    >>> [str(error) for error in errors_of(lambda: require_at_least("seed", -1, 0))]
    ['seed must be a whole number of at least 0; got -1']
    """
    try:
        check()
    except SkewlessError as error:
        return error.each
    return []


def raise_all(errors: Sequence[SkewlessError]) -> None:
    """Raise all errors at once, if there are any."""
    if errors:
        raise CombinedError(errors)


def require_at_least(parameter: str, value: int, least: int) -> None:
    """Refuse a whole number below its bound.

    >>> require_at_least("workers", 0, 1)
    Traceback (most recent call last):
        ...
    skewless.errors.ConfigurationError: workers must be a whole number of at least 1; got 0
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(subject=parameter, expected=f"a whole number of at least {least}", value=value)
