"""
How rows are packed into Redis values: one value per checkpoint, per blob and per call of put_writes.

Values are compressed with zstd and a dictionary of what messages and checkpoints look like, which leaves less than half
of the memory for about 20 microseconds per 4 KB and makes large states faster to send. Archiving unpacks them: Postgres
holds the stock form. An older blob may be a patch of a newer one (`recent.py`); its value names that one.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import ormsgpack
import zstandard

from saver.dictionary import FIRST
from saver.errors import TierError
from saver.patch import Patch, patched
from saver.rows import BlobRow, CheckpointRow, WriteRow

COMPRESS_FROM_BYTES = 64
DICTIONARY_TO_BYTES = 16 * 1024  # larger values teach zstd as much by themselves, in less time
_LEVEL = 1  # with a dictionary as small as 3
# Tables that stay in the first levels of a cache: an agent does other work between two calls, and finds them cold.
_SMALL = zstandard.ZstdCompressionParameters.from_level(
    _LEVEL, source_size=DICTIONARY_TO_BYTES, dict_size=len(FIRST), hash_log=11
)
_LARGE = zstandard.ZstdCompressionParameters.from_level(_LEVEL, hash_log=13)

TAG_BYTES = 8

_RAW, _ZSTD, _FIRST = b"r", b"z", b"d"  # as it is, zstd, zstd with the first dictionary
_TAGGED, _PATCH = b"n", b"p"  # a tag in front of one of those, a patch of another blob
_dictionary = zstandard.ZstdCompressionDict(FIRST, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
_dictionary.precompute_compress(compression_params=_SMALL)
_local = threading.local()


Write = tuple[str, int, str, str, str, bytes]  # a WriteRow without its namespace and checkpoint


class _Tools(NamedTuple):
    """Compressors of one thread: they are not safe to share."""

    compress: zstandard.ZstdCompressor
    compress_plain: zstandard.ZstdCompressor
    decompress: zstandard.ZstdDecompressor
    decompress_plain: zstandard.ZstdDecompressor


class PackedCheckpoint(NamedTuple):
    """A checkpoint value as Redis holds it, with the names of the blobs it refers to in front."""

    references: list[str]
    row: CheckpointRow


def short_version(version: str) -> str:
    """A version string without the 31 leading zeros of the stock format; any other string stays itself."""
    if len(version) > 32 and version[32] == "." and version[:32].isdecimal() and version.isascii():
        return "~" + (version[:32].lstrip("0") or "0") + version[32:]
    return "=" + version if version[:1] in ("~", "=") else version


def long_version(version: str) -> str:
    """The inverse of `short_version`."""
    if version[:1] == "~":
        whole, dot, rest = version[1:].partition(".")
        return whole.zfill(32) + dot + rest
    return version[1:] if version[:1] == "=" else version


def blob_name(channel: str, version: str) -> str:
    """The name of a blob within its namespace; a channel never contains NUL."""
    return f"{channel}\0{short_version(version)}"


def _tools() -> _Tools:
    tools: _Tools | None = getattr(_local, "tools", None)
    if tools is None:
        tools = _local.tools = _Tools(
            zstandard.ZstdCompressor(compression_params=_SMALL, dict_data=_dictionary),
            zstandard.ZstdCompressor(compression_params=_LARGE),
            zstandard.ZstdDecompressor(dict_data=_dictionary),
            zstandard.ZstdDecompressor(),
        )
    return tools


def _close(data: bytes, *, compress: bool = True) -> bytes:
    if compress and len(data) >= COMPRESS_FROM_BYTES:
        tools = _tools()
        is_small = len(data) <= DICTIONARY_TO_BYTES
        packed = (tools.compress if is_small else tools.compress_plain).compress(data)
        if len(packed) < len(data):
            return (_FIRST if is_small else _ZSTD) + packed
    return _RAW + data


def _open(value: bytes) -> bytes:
    mark = value[:1]
    if mark == _FIRST:
        return _tools().decompress.decompress(value[1:])
    if mark == _RAW:
        return value[1:]
    if mark == _ZSTD:
        return _tools().decompress_plain.decompress(value[1:])
    if mark == _TAGGED:
        return _open(value[1 + TAG_BYTES :])
    raise TierError("a value in Redis has an unknown packing: it was written by a newer version; upgrade this process")


def pack_checkpoint(row: CheckpointRow, references: Sequence[str]) -> bytes:
    body = ormsgpack.packb((row.parent_id, row.checkpoint, row.metadata))
    return ormsgpack.packb(list(references)) + _close(body)


def _header_length(value: bytes) -> int:
    """Length of the leading array of strings: msgpack fixarray, array 16 or 32 of fixstr, str 8, 16 or 32."""
    head = value[0]
    if head <= 0x9F:
        count, at = head & 0x0F, 1
    else:
        width = 2 if head == 0xDC else 4
        count, at = int.from_bytes(value[1 : 1 + width]), 1 + width
    for _ in range(count):
        mark = value[at]
        if mark <= 0xBF:
            at += 1 + (mark & 0x1F)
        else:
            width = 1 << (mark - 0xD9)
            at += 1 + width + int.from_bytes(value[at + 1 : at + 1 + width])
    return at


def unpack_checkpoint(namespace: str, checkpoint_id: str, value: bytes) -> PackedCheckpoint:
    at = _header_length(value)
    references: list[str] = ormsgpack.unpackb(value[:at])
    parent_id, checkpoint, metadata = ormsgpack.unpackb(_open(value[at:]))
    return PackedCheckpoint(references, CheckpointRow(namespace, checkpoint_id, parent_id, checkpoint, metadata))


def blob_body(type_: str, data: bytes) -> bytes:
    return type_.encode() + b"\0+" + data


def pack_blob(type_: str, data: bytes | None) -> bytes:
    if data is None:
        return _RAW + type_.encode() + b"\0-"
    # Cipher text does not compress.
    return _close(blob_body(type_, data), compress="+" not in type_)


def pack_body(body: bytes, tag: bytes) -> bytes:
    """A blob that can be told from any other value of its name."""
    return _TAGGED + tag + _close(body)


def pack_patch(name: str, tag: bytes, newer: str, size_bytes: int, patch: Patch) -> bytes:
    """The order to put a patch of the blob `newer` in the place of blob `name`, if that has this tag."""
    told = [newer, *map(str, (size_bytes, patch.head, patch.start, patch.stop))]
    return _TAGGED + tag + ormsgpack.packb(name) + _PATCH + ormsgpack.packb(told) + _close(patch.own)


def unpack_blobs(namespace: str, values: Mapping[str, bytes]) -> dict[str, BlobRow]:
    """The blobs of one namespace by name. Raises TierError for a patch of a blob that is not among them."""
    bodies: dict[str, bytes] = {}
    return {name: _blob_row(namespace, name, _body(name, values, bodies)) for name in values}


def unpack_pairs(namespace: str, pairs: Sequence[bytes | None]) -> dict[str, BlobRow]:
    """The blobs of a reply, names and values in turn; one that is not there has no value."""
    found = zip(pairs[::2], pairs[1::2], strict=True)
    return unpack_blobs(namespace, {name.decode(): value for name, value in found if name and value})


def _body(name: str, values: Mapping[str, bytes], bodies: dict[str, bytes]) -> bytes:
    """One blob, by way of those that it is a patch of."""
    patches: list[tuple[str, Patch]] = []
    while name not in bodies:
        value = values.get(name)
        if value is None:
            raise TierError("a value in Redis is a patch of one that is not there; set the thread aside and report it")
        if value[:1] != _PATCH:
            bodies[name] = _open(value)
            break
        at = 1 + _header_length(value[1:])
        newer, _, *numbers = ormsgpack.unpackb(value[1:at])
        head, start, stop = map(int, numbers)
        patches.append((name, Patch(head, _open(value[at:]), start, stop)))
        name = newer
    body = bodies[name]
    for older, patch in reversed(patches):
        body = bodies[older] = patched(body, patch)
    return body


def _blob_row(namespace: str, name: str, body: bytes) -> BlobRow:
    channel, _, version = name.partition("\0")
    type_, _, data = body.partition(b"\0")
    return BlobRow(namespace, channel, long_version(version), type_.decode(), data[1:] if data[:1] == b"+" else None)


def pack_writes(writes: Sequence[Write]) -> bytes:
    """The writes of one checkpoint. Those of one call share their task; loaded ones may come from many."""
    compress = not any("+" in type_ for _, _, _, _, type_, _ in writes)
    return _close(ormsgpack.packb(writes), compress=compress)


def unpack_writes(namespace: str, checkpoint_id: str, value: bytes) -> list[WriteRow]:
    return [WriteRow(namespace, checkpoint_id, *fields) for fields in ormsgpack.unpackb(_open(value))]
