"""Pickle for plain data: bytes that name anything else are refused, so that they cannot run code.

States of a stream lie in its checkpoint. Whoever could write there could otherwise make executors call any function.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

_PLAIN: Final = {
    "builtins": {
        *("bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"),
    },
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "uuid": {"UUID"},
    "numpy": {"dtype", "ndarray"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.numeric": {"_frombuffer"},
    "_codecs": {"encode"},  # how the scalars of NumPy write their bytes
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in _PLAIN.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} is not plain data")
        return super().find_class(module, name)


def dumps(state: Any) -> bytes:
    """Return plain data as bytes."""
    return pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)


def loads(data: bytes) -> Any:
    """Return the plain data of `dumps`; raise `pickle.UnpicklingError` for anything else.

    >>> from collections import Counter
    >>> loads(dumps([Counter("aab"), {1: (2.5, None)}]))
    [Counter({'a': 2, 'b': 1}), {1: (2.5, None)}]
    >>> loads(dumps(print))
    Traceback (most recent call last):
        ...
    _pickle.UnpicklingError: builtins.print is not plain data
    """
    return _Unpickler(io.BytesIO(data)).load()
