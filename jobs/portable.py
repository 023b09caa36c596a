"""
The portable file: threads as they stand in Postgres, row by row, for another system of ours or for safekeeping.

One zstd frame for each thread, of JSON lines: a head with the counts and the digest of what follows, then the rows,
values in base64. `zstdcat FILE` shows it. A file that was cut off ends with a part of a frame, and all before is whole.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, cast

import zstandard

from saver.errors import TierError
from saver.rows import BlobRow, CheckpointRow, Rows, WriteRow

FORMAT = 1
_CHUNK_BYTES = 1 << 20


class DamagedFile(TierError):  # noqa: N818 - reads as the fact it reports
    """Not a portable file, of a newer format, or not what was written."""


class PortableThread(NamedTuple):
    """One thread of a file."""

    thread_id: str
    rows: Rows


class Frame(NamedTuple):
    """The lines of one thread, and where the next one begins in the file."""

    text: bytes
    end: int


def packed(thread: PortableThread) -> bytes:
    """A thread as a frame; the same rows give the same lines."""
    rows = thread.rows
    records: list[tuple[Any, ...]] = [
        *(("checkpoint", *row) for row in sorted(rows.checkpoints, key=lambda row: row[:2])),
        *(("blob", *row[:-1], _encoded(row.data)) for row in sorted(rows.blobs, key=lambda row: row[:3])),
        *(("write", *row[:-1], _encoded(row.data)) for row in sorted(rows.writes, key=lambda row: row[:4])),
    ]
    body = b"".join(_line(record) for record in records)
    head = {
        "tier_thread": FORMAT,
        "thread_id": thread.thread_id,
        "rows": len(records),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    return zstandard.ZstdCompressor(level=9).compress(_line(head) + body)


def unpacked(frame: Frame) -> PortableThread:
    """The thread of a frame. Raises DamagedFile unless every byte is as it was written."""
    first, _, body = frame.text.partition(b"\n")
    head = _head(first)
    if hashlib.sha256(body).hexdigest() != head["sha256"]:
        raise DamagedFile("the digest of a thread is wrong: the file was changed or damaged; take another copy of it")
    rows = Rows()
    for line in body.splitlines():
        kind, *values = cast(list[Any], json.loads(line))
        match kind:
            case "checkpoint":
                rows.checkpoints.append(CheckpointRow(*values))
            case "blob":
                namespace, channel, version, type_, data = values
                rows.blobs.append(BlobRow(namespace, channel, version, type_, _decoded(data)))
            case "write":
                *row, data = values
                rows.writes.append(WriteRow._make((*row, _decoded(data) or b"")))
    return PortableThread(head["thread_id"], rows)


def thread_id_of(frame: Frame) -> str:
    """Whose frame it is. Raises DamagedFile."""
    return str(_head(frame.text.partition(b"\n")[0])["thread_id"])


def frames(file: BinaryIO) -> Iterator[Frame]:
    """
    The whole frames from the beginning of a file. A part of one at the end is left out: compare the end with the size.

    Raises DamagedFile for anything else than frames.
    """
    end, rest = 0, b""
    while True:
        decompressor = zstandard.ZstdDecompressor().decompressobj()
        parts, taken = [], 0
        try:
            while not decompressor.eof:
                chunk, rest = rest or file.read(_CHUNK_BYTES), b""
                if not chunk:
                    return
                parts.append(decompressor.decompress(chunk))
                taken += len(chunk)
        except zstandard.ZstdError as error:
            raise DamagedFile("this is not a file of tier export, or it is damaged; take another copy of it") from error
        rest = decompressor.unused_data
        end += taken - len(rest)
        yield Frame(b"".join(parts), end)


def _head(line: bytes) -> dict[str, Any]:
    try:
        head = json.loads(line)
        version = head["tier_thread"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile("this is not a file of tier export") from error
    if version != FORMAT:
        raise DamagedFile(f"the file has format {version} and this release knows {FORMAT}; upgrade")
    return dict(head)


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
