"""The rows of a thread that wait for Postgres, as the script that reads a log hands them out."""

from typing import Any, NamedTuple

from saver.pack import unpack_blobs, unpack_checkpoint, unpack_writes
from saver.rows import Rows


class LogBatch(NamedTuple):
    """The oldest rows of a thread that are not in Postgres yet."""

    thread_id: str
    incarnation: int
    is_suspect: bool
    base: int
    position: int  # after the last row read
    is_all: bool
    moment: str
    fields: list[tuple[str, bytes]]
    namespaces: dict[str, str]
    newer: list[tuple[str, str, bytes]]  # blobs that blobs of the log are patches of: namespace number, name, value


def log_batch(thread_id: str, reply: list[Any]) -> LogBatch | None:
    if not reply:
        return None
    incarnation, suspect, base, count, length, moment, spaces, fields, newer = reply
    namespaces = {str(n): ns.decode() for ns, n in zip(spaces[::2], spaces[1::2], strict=True)}
    pairs = [(name.decode(), value) for name, value in zip(fields[::2], fields[1::2], strict=True)]
    others = [
        (n.decode(), name.decode(), value) for n, name, value in zip(newer[::3], newer[1::3], newer[2::3], strict=True)
    ]
    place = thread_id, incarnation, bool(suspect), base, base + count, count == length, moment.decode()
    return LogBatch(*place, pairs, namespaces, others)


def rows_of(batch: LogBatch) -> Rows:
    """The rows of a log, unpacked."""
    rows = Rows()
    blobs: dict[str, dict[str, bytes]] = {number: {} for number in batch.namespaces}
    for number, name, value in batch.newer:
        blobs[number][name] = value
    logged: list[tuple[str, str]] = []
    for field, value in batch.fields:
        number, _, name = field[1:].partition(":")
        namespace = batch.namespaces[number]
        if field[0] == "b":
            blobs[number][name] = value
            logged.append((number, name))
        elif field[0] == "c":
            rows.checkpoints.append(unpack_checkpoint(namespace, name, value).row)
        else:
            rows.writes.extend(unpack_writes(namespace, name.rpartition(":")[0], value))
    found = {number: unpack_blobs(batch.namespaces[number], values) for number, values in blobs.items()}
    rows.blobs += [found[number][name] for number, name in logged]
    return rows
