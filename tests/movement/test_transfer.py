"""Portable files: a thread comes out and goes in as it is, or not at all."""

import asyncio
from io import BytesIO

import pytest
import zstandard

from jobs.portable import DamagedFile, Frame, PortableThread, frames, packed, thread_id_of, unpacked
from jobs.transfer import Brought, ThreadExists, bring_in, take_out
from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from saver.rows import BlobRow, CheckpointRow, Rows, WriteRow
from tests.builders import Thread
from tests.movement.pauses import stopped
from tests.stock import rows as stock_rows

ROWS = Rows(
    [CheckpointRow("", "1", None, '{"v":4,"x":1.0}', "{}"), CheckpointRow("", "2", "1", '{"a":"ü\\n"}', "{}")],
    [BlobRow("", "x", "1", "msgpack", b"\x00\xff\n"), BlobRow("", "y", "1", "empty", None)],
    [WriteRow("", "2", "t", -1, "", "__error__", "msgpack", b"\n\n"), WriteRow("", "3", "t", 0, "p", "x", "json", b"")],
)


def file_of(*threads: PortableThread) -> bytes:
    return b"".join(map(packed, threads))


async def talk(saver: TieredSaver, name: str, turns: int = 3) -> Thread:
    thread = Thread(saver, name)
    for number in range(turns):
        await thread.put({"x": [number], "big": ["m" * 5000], "nan": float("nan")}, metadata={"user_id": "ann"})
        await thread.write(("x", [number]), ("__interrupt__", "wait"))
    return thread


# ---- the file


def test_threads_come_out_of_a_file_as_they_went_in() -> None:
    text = file_of(PortableThread("a", ROWS), PortableThread("b\n", Rows(blobs=ROWS.blobs)))

    found = list(frames(BytesIO(text)))

    assert [unpacked(frame) for frame in found] == [("a", ROWS), ("b\n", Rows(blobs=ROWS.blobs))]
    assert [thread_id_of(frame) for frame in found] == ["a", "b\n"]
    assert found[-1].end == len(text)


def test_file_is_plain_lines_for_other_tools() -> None:
    text = zstandard.ZstdDecompressor().stream_reader(file_of(PortableThread("a", ROWS))).read()

    assert text.count(b"\n") == 1 + len(ROWS)


@pytest.mark.parametrize("cut", [1, 30])
def test_what_is_before_the_end_of_a_file_that_was_cut_off_is_whole(cut: int) -> None:
    first, second = packed(PortableThread("a", ROWS)), packed(PortableThread("b", ROWS))

    found = list(frames(BytesIO((first + second)[:-cut])))

    assert [(thread_id_of(frame), frame.end) for frame in found] == [("a", len(first))]


@pytest.mark.parametrize("text", [b"something else", b"\x00" * 100])
def test_another_file_is_refused(text: bytes) -> None:
    with pytest.raises(DamagedFile, match="not a file of tier export"):
        list(frames(BytesIO(text)))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (b'"1",null,', b'"1","0",', "digest"),
        (b'"tier_thread":1', b'"tier_thread":2', "format 2"),
        (b"tier_", b"x", "not a"),
    ],
)
def test_thread_that_was_changed_is_refused(old: bytes, new: bytes, fault: str) -> None:
    [frame] = frames(BytesIO(packed(PortableThread("a", ROWS))))

    with pytest.raises(DamagedFile, match=fault):
        unpacked(Frame(frame.text.replace(old, new, 1), frame.end))


# ---- threads


async def test_thread_goes_to_another_system_row_by_row(
    tiers: Tiers, saver: TieredSaver, config: TierConfig, postgres_url: str
) -> None:
    thread = await talk(saver, "t")
    taken = await take_out(tiers, "t")
    assert taken
    before = stock_rows(postgres_url, config.postgres_schema, "t")
    await saver.adelete_thread("t")

    assert await bring_in(tiers, unpacked(next(frames(BytesIO(packed(taken)))))) is Brought.ADDED

    assert stock_rows(postgres_url, config.postgres_schema, "t") == before
    found = await thread.latest()
    assert found
    assert len(found.pending_writes or ()) == 2
    assert [info.thread_id for info in await saver.list_threads({"user_id": "ann"})] == ["t"]
    await thread.put({"x": ["goes on"]})
    assert len(await thread.ids()) == 4


async def test_bringing_a_thread_in_twice_changes_nothing(tiers: Tiers, saver: TieredSaver) -> None:
    thread = await talk(saver, "t")
    taken = await take_out(tiers, "t")
    assert taken
    await thread.put({"x": ["later"]})

    assert await bring_in(tiers, taken) is Brought.THERE
    assert await thread.values() == {"x": ["later"]}


async def test_thread_that_is_here_with_other_content_is_left_as_it_is(tiers: Tiers, saver: TieredSaver) -> None:
    await talk(saver, "t")
    taken = await take_out(tiers, "t")
    await saver.adelete_thread("t")
    other = Thread(saver, "t")
    newest = await other.put({"x": ["other"]})
    assert taken

    with pytest.raises(ThreadExists, match="other content"):
        await bring_in(tiers, taken)
    assert await other.ids() == [newest]

    assert await bring_in(tiers, taken, merge=True) is Brought.ADDED
    assert len(await other.ids()) == 4


async def test_put_while_its_thread_comes_in_is_kept(tiers: Tiers, saver: TieredSaver) -> None:
    await talk(saver, "t")
    taken = await take_out(tiers, "t")
    await saver.adelete_thread("t")
    assert taken

    async with stopped(tiers, "destroy: evicted", bring_in(tiers, taken)):
        put = asyncio.ensure_future(Thread(saver, "t").put({"x": ["meanwhile"]}))
    newest = await put

    assert (await Thread(saver, "t").ids())[0] == newest
    assert len(await Thread(saver, "t").ids()) == 4


async def test_unknown_thread_has_nothing_to_take_out(tiers: Tiers) -> None:
    assert await take_out(tiers, "nobody") is None
