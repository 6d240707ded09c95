"""Arrays as bytes, in the format of `np.savez`, but under any name, never pickled, and the same bytes every time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray


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
    """Read what `pack` wrote. Broken content can raise anything."""
    return dict(_members(content))


def _members(content: bytes) -> Iterator[tuple[str, NDArray[Any]]]:
    with ZipFile(BytesIO(content)) as archive:
        for name in archive.namelist():  # reading a whole member verifies its checksum before NumPy sees it
            yield name.removesuffix(".npy"), np.load(BytesIO(archive.read(name)), allow_pickle=False)
