"""Plain data as bytes, and back: a tree in JSON, of which nothing but plain data can be read.

States of a stream are in its checkpoint. Whoever can write there must not be able to run code where they are read, as
with pickle: its bytes name functions to call, and those of NumPy trust what they are told about memory.
"""

from __future__ import annotations

import io
import json
import math
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any, Final
from uuid import UUID

import numpy as np

_FACTORIES: Final[dict[str, Callable[[], Any]]] = {
    kind.__name__: kind for kind in (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple, Counter)
}


def dumps(value: Any) -> bytes:
    """Return plain data as bytes; raise `TypeError` for anything else."""
    return json.dumps(_tree(value), separators=(",", ":"), allow_nan=False).encode()


def loads(data: bytes) -> Any:
    """Return the plain data of `dumps`; raise `ValueError` for anything else.

    >>> loads(dumps([Counter("aab"), {1: (2.5, None)}]))
    [Counter({'a': 2, 'b': 1}), {1: (2.5, None)}]
    >>> loads(b'["print","hello"]')
    Traceback (most recent call last):
        ...
    ValueError: these bytes are no plain data: KeyError('print')
    """
    try:
        return _value(json.loads(data))
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, MemoryError) as error:
        raise ValueError(f"these bytes are no plain data: {error!r}") from error


def _tree(value: Any) -> Any:
    """Return a value as JSON knows it: scalars as they are, all else as a list of its kind and its parts."""
    kind = type(value)
    if value is None or kind in {bool, str} or (kind is float and math.isfinite(value)):
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else ["int", hex(value)]
    if isinstance(value, np.generic):
        return ["scalar", *_of_array(np.asarray(value))]
    if kind not in _WRITTEN:
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not plain data")
    return [kind.__name__, *_WRITTEN[kind](value)]


def _value(tree: Any) -> Any:
    return _READ[tree[0]](*tree[1:]) if isinstance(tree, list) else tree


def _trees(values: Iterable[Any]) -> list[Any]:
    return [_tree(value) for value in values]


def _pairs(items: Mapping[Any, Any]) -> list[Any]:
    return _trees(chain.from_iterable(items.items()))


def _mapping(parts: tuple[Any, ...]) -> dict[Any, Any]:
    values = [_value(part) for part in parts]
    return dict(zip(values[::2], values[1::2], strict=True))


def _of_array(array: np.ndarray[Any, Any]) -> list[str]:
    if array.dtype.hasobject:
        raise TypeError("a NumPy array of objects is not plain data")
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return _of_bytes(content.getvalue())


def _array(text: str) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = np.lib.format.read_array(
        io.BytesIO(b64decode(text, validate=True)), allow_pickle=False
    )
    return array


def _of_bytes(data: bytes | bytearray) -> list[str]:
    return [b64encode(data).decode()]


def _of_zone(zone: Any) -> Any:
    if zone is not None and type(zone) is not timezone:
        raise TypeError(f"the time zone {zone} is not plain data: use one of datetime.timezone")
    return None if zone is None else _tree(zone)


def _of_time(at: time | datetime) -> list[Any]:
    return [at.replace(tzinfo=None).isoformat(), at.fold, _of_zone(at.tzinfo)]


def _of_factory(factory: Any) -> str | None:
    if factory is None or factory in _FACTORIES.values():
        return None if factory is None else str(factory.__name__)
    raise TypeError(f"a defaultdict of {factory} is not plain data")


_WRITTEN: Final[dict[type, Callable[[Any], list[Any]]]] = {
    float: lambda value: [repr(value)],  # nan and infinities
    complex: lambda value: [*map(_tree, (value.real, value.imag))],
    bytes: _of_bytes,
    bytearray: _of_bytes,
    list: _trees,
    tuple: _trees,
    set: _trees,
    frozenset: _trees,
    dict: _pairs,
    Counter: _pairs,
    OrderedDict: _pairs,
    defaultdict: lambda value: [_of_factory(value.default_factory), *_pairs(value)],
    deque: lambda value: [value.maxlen, *_trees(value)],
    date: lambda value: [value.isoformat()],
    datetime: _of_time,
    time: _of_time,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    timezone: lambda value: [_tree(value.utcoffset(None)), value.tzname(None)],
    Decimal: lambda value: [str(value)],
    Fraction: lambda value: [*map(_tree, (value.numerator, value.denominator))],
    UUID: lambda value: [value.hex],
    np.ndarray: _of_array,
}

_READ: Final[dict[str, Callable[..., Any]]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "complex": lambda real, imag: complex(_value(real), _value(imag)),
    "bytes": lambda text: b64decode(text, validate=True),
    "bytearray": lambda text: bytearray(b64decode(text, validate=True)),
    "list": lambda *parts: [_value(part) for part in parts],
    "tuple": lambda *parts: tuple(map(_value, parts)),
    "set": lambda *parts: set(map(_value, parts)),
    "frozenset": lambda *parts: frozenset(map(_value, parts)),
    "dict": lambda *parts: _mapping(parts),
    "Counter": lambda *parts: Counter(_mapping(parts)),
    "OrderedDict": lambda *parts: OrderedDict(_mapping(parts)),
    "defaultdict": lambda kind, *parts: defaultdict(None if kind is None else _FACTORIES[kind], _mapping(parts)),
    "deque": lambda longest, *parts: deque(map(_value, parts), longest),
    "date": date.fromisoformat,
    "datetime": lambda text, fold, zone: datetime.fromisoformat(text).replace(fold=fold, tzinfo=_value(zone)),
    "time": lambda text, fold, zone: time.fromisoformat(text).replace(fold=fold, tzinfo=_value(zone)),
    "timedelta": timedelta,
    "timezone": lambda offset, name: timezone(_value(offset), name),
    "Decimal": Decimal,
    "Fraction": lambda over, under: Fraction(_value(over), _value(under)),
    "UUID": lambda text: UUID(hex=text),
    "ndarray": _array,
    "scalar": lambda text: _array(text)[()],
}
