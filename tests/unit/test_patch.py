"""An older value comes back from its patch, byte by byte, and a patch is made only where it saves much."""

import os
import random

from hypothesis import given
from hypothesis import strategies as st

from saver.pack import unpack_blobs
from saver.patch import ANCHOR_BYTES, patch_of, patched
from saver.recent import MOST_PATCHES, Recent

PIECES = st.lists(st.sampled_from([os.urandom(size) for size in (1, 7, 40, 300, 2000)]), max_size=12).map(b"".join)
PLACE = ("thread", "", "messages")


def names(count: int) -> list[str]:
    return [f"messages\0{number}" for number in range(count)]


def stored(recent: Recent, values: list[bytes]) -> dict[str, bytes]:
    """What Redis holds after each value was put, as `supersede` in lua/state.lua does it."""
    hot: dict[str, bytes] = {}
    for name, data in zip(names(len(values)), values, strict=True):
        hot[name], order = recent.pack(PLACE, name, "msgpack", data)
        if order:
            older = names(len(hot))[-2]
            assert hot[older][:9] == order[:9]
            hot[older] = order[9 + 1 + len(older) :]
    return hot


@given(PIECES, PIECES)
def test_patch_gives_the_older_value_back(old: bytes, new: bytes) -> None:
    patch = patch_of(old, new)

    assert patch is None or patched(new, patch) == old


def test_list_that_grows_needs_nothing_of_its_own() -> None:
    old = os.urandom(5000)

    patch = patch_of(b"\x9a" + old, b"\x9b" + old + os.urandom(400))

    assert patch is not None
    assert len(patch.own) < 32


def test_list_that_lost_its_oldest_keeps_only_that() -> None:
    first, rest = os.urandom(400), os.urandom(5000)

    patch = patch_of(b"[" + first + rest, b"[" + rest + os.urandom(ANCHOR_BYTES * 2))

    assert patch is not None
    assert len(first) <= len(patch.own) < len(first) + 50


def test_values_without_much_in_common_stay_whole() -> None:
    assert patch_of(os.urandom(5000), os.urandom(5000)) is None


def test_many_values_in_a_row_come_back_within_few_steps() -> None:
    values = [random.Random(1).randbytes(600 + 50 * number) for number in range(2 * MOST_PATCHES)]

    hot = stored(Recent(), values)

    whole = [name for name in names(len(values)) if hot[name][:1] == b"n"]
    assert len(whole) == 2
    blobs = unpack_blobs("", hot)
    assert [blobs[name].data for name in names(len(values))] == values


def test_what_is_remembered_is_bounded() -> None:
    recent = Recent(most_bytes=10_000)

    for number in range(20):
        recent.pack((str(number),), "x\0001", "msgpack", os.urandom(1000))

    orders = [recent.pack((str(number),), "x\0002", "msgpack", os.urandom(1000))[1] for number in range(20)]
    assert orders == [b""] * 20
    assert recent._size_bytes <= 10_000


def test_cipher_text_and_small_values_are_left_alone() -> None:
    recent = Recent()

    for type_, data in (("msgpack+aes", os.urandom(5000)), ("msgpack", b"small")):
        values = [recent.pack(PLACE, name, type_, data) for name in names(3)]
        assert [(packed[:1], order) for packed, order in values] == [(b"r", b"")] * 3
