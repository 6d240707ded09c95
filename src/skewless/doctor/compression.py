"""The bytes of an event log, whatever it is compressed with: recognised by its first bytes, not by its name.

Spark writes zstd as it is, but lz4 and snappy in the block formats of the Java libraries that it uses, which no other
tool reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

BLOCK: Final = 1 << 14
"""Bytes that are read at once: what comes before the end of a log that is cut off is lost in whole blocks only."""
MOST_BYTES: Final = 1 << 26
"""Largest block that is believed; Spark's have 32 KB."""

_LZ4_BLOCK: Final = b"LZ4Block"
_SNAPPY: Final = b"\x82SNAPPY\x00"
_LZF: Final = b"ZV"
_STREAMS: Final = {b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4", b"\x1f\x8b": "gzip", b"BZh": "bz2"}


class CutOffError(Exception):
    """The rest of a file is missing or broken."""


class ForeignError(Exception):
    """A file is not an event log."""


def read_bytes(system: Any, path: str) -> Iterator[bytes]:
    """Return the content of a file, decompressed, in blocks.

    Raises `CutOffError` where the content ends too early or is broken, after all that could be read.

    Parameters
    ----------
    system : pyarrow.fs.FileSystem
        Where it is.
    path : str
        The file.
    """
    with system.open_input_stream(path, compression=None) as stream:
        start = stream.read(8)
    with system.open_input_stream(path, compression=None, buffer_size=1 << 20) as stream:
        yield from _reader(start)(stream)


def _reader(start: bytes) -> Callable[[Any], Iterator[bytes]]:
    if start.startswith(_LZ4_BLOCK):
        return _lz4_blocks
    if start.startswith(_SNAPPY):
        return _snappy_blocks
    if start.startswith(_LZF):
        raise ForeignError("is compressed with lzf, which is not supported: zstd, lz4, snappy, gzip and bzip2 are")
    for magic, codec in _STREAMS.items():
        if start.startswith(magic):
            return lambda stream: _blocks(pa.CompressedInputStream(stream, codec))
    return _blocks


def _blocks(stream: Any) -> Iterator[bytes]:
    while True:
        try:
            block: bytes = stream.read(BLOCK)
        except (OSError, pa.ArrowException) as error:
            raise CutOffError(str(error)) from error
        if not block:
            return
        yield block


def _lz4_blocks(stream: Any) -> Iterator[bytes]:
    """Return the blocks of LZ4BlockOutputStream: magic, method, two lengths and a checksum, then the data."""
    codec = pa.Codec("lz4_raw")
    while header := stream.read(21):
        if len(header) < 21 or not header.startswith(_LZ4_BLOCK):
            raise CutOffError("a block has no header")
        packed, size = (int.from_bytes(header[at : at + 4], "little") for at in (9, 13))
        data = _exactly(stream, packed, size)
        method = header[8] & 0xF0
        if size:
            yield data if method == 0x10 else _decompressed(codec, data, size)


def _snappy_blocks(stream: Any) -> Iterator[bytes]:
    """Return the blocks of SnappyOutputStream: a header, then length and data of each; the header may be repeated."""
    codec = pa.Codec("snappy")
    while length := stream.read(4):
        if length == _SNAPPY[:4]:
            stream.read(12)
            continue
        data = _exactly(stream, int.from_bytes(length, "big"), 0)
        yield _decompressed(codec, data, _snappy_size(data))


def _exactly(stream: Any, packed: int, size: int) -> bytes:
    if max(packed, size) > MOST_BYTES:
        raise CutOffError("a block is too large")
    data: bytes = stream.read(packed)
    if len(data) < packed:
        raise CutOffError("the last block is incomplete")
    return data


def _decompressed(codec: Any, data: bytes, size: int) -> bytes:
    try:
        return bytes(codec.decompress(data, size, asbytes=True))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CutOffError(str(error)) from error


def _snappy_size(data: bytes) -> int:
    """Return the size before compression, with which a block of snappy begins.

    >>> _snappy_size(b"\\xfe\\xff\\x7f")
    2097150
    """
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if size > MOST_BYTES:
                break
            return size
    raise CutOffError("a block has no length")
