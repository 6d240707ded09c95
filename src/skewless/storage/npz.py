"""Arrays as bytes, in the format of `np.savez`, but under any name, never pickled, and the same bytes every time."""

from __future__ import annotations

import struct
import zlib
from ast import literal_eval
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, Literal
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

_LOCAL: Final = b"PK\x03\x04"
_END: Final = b"PK\x05\x06"
_LISTED: Final = b"PK\x01\x02"
_HEADER: Final = struct.Struct("<HxxxxIIIHH")
_NPY: Final = b"\x93NUMPY\x01\x00"


def pack(arrays: Mapping[str, Any]) -> bytes:
    """Write arrays; refuse those that would need pickling.

    >>> {name: array.tolist() for name, array in unpack(pack({"loads": [3, 4]})).items()}
    {'loads': [3, 4]}
    """
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            member = BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy"), member.getvalue())
    return content.getvalue()


def unpack(content: bytes) -> dict[str, NDArray[Any]]:
    """Read what `pack` wrote, or `np.savez`. Broken content can raise anything."""
    try:
        members = _members(content)
    except (ValueError, struct.error):  # of another writer, or broken
        with ZipFile(BytesIO(content)) as archive:  # reading a whole member verifies its checksum before NumPy sees it
            members = {name: archive.read(name) for name in archive.namelist()}
    return {name.removesuffix(".npy"): _array(member) for name, member in members.items()}


def _members(content: bytes) -> dict[str, bytes]:
    """Return the files in an archive, each with its checksum verified and its name as in the directory at the end.

    By hand what `ZipFile` would take ten times as long for: an observer reads hundreds of such archives per second.
    """
    at = 0
    entries: list[tuple[bytes, int, bytes]] = []
    while content.startswith(_LOCAL, at):
        method, checksum, packed, size, name_length, more = _HEADER.unpack_from(content, at + 8)
        start = at + 30 + name_length + more
        name, member = content[at + 30 : at + 30 + name_length], content[start : start + size]
        if method or packed != size or zlib.crc32(member) != checksum:
            raise ValueError(f"entry {len(entries)} is broken")
        entries.append((name, checksum, member))
        at = start + size
    for name, checksum, member in entries:
        in_directory = _HEADER.unpack_from(content, at + 10)
        listed = content.startswith(_LISTED, at) and content[at + 46 : at + 46 + len(name)] == name
        if not listed or in_directory[:5] != (0, checksum, len(member), len(member), len(name)):
            raise ValueError("the directory does not fit")
        at += 46 + len(name)
    if not content.startswith(_END, at) or len(content) != at + 22:
        raise ValueError("the end is missing")
    return {name.decode(): member for name, _, member in entries}


def _array(member: bytes) -> NDArray[Any]:
    if member[:8] != _NPY:
        return np.asarray(np.load(BytesIO(member), allow_pickle=False))
    end = 10 + int.from_bytes(member[8:10], "little")
    dtype, shape, order = _layout(member[10:end])
    if dtype.hasobject:
        raise ValueError("arrays of objects cannot be loaded when allow_pickle=False")
    return np.frombuffer(member, dtype, offset=end).reshape(shape, order=order).copy()


@lru_cache(maxsize=4096)
def _layout(header: bytes) -> tuple[np.dtype[Any], tuple[int, ...], Literal["C", "F"]]:
    """Return what the header of an array says; the same few headers come again and again."""
    found = literal_eval(header.decode("latin1"))
    dtype = np.dtype(found["descr"])
    return dtype, tuple(found["shape"]), "F" if found["fortran_order"] else "C"
