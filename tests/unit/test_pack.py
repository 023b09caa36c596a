"""What is packed for Redis unpacks to the same rows."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zstandard import ZstdCompressor

from saver.dictionary import FIRST
from saver.errors import TierError
from saver.pack import (
    COMPRESS_FROM_BYTES,
    blob_name,
    long_version,
    pack_blob,
    pack_checkpoint,
    pack_writes,
    short_version,
    unpack_blobs,
    unpack_checkpoint,
    unpack_writes,
)
from saver.rows import CheckpointRow, WriteRow

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VERSIONS = TEXT | st.from_regex(r"[0-9]{32}\.[0-9.]{0,20}", fullmatch=True) | st.from_regex(r"[~=]?[0-9.]{0,40}")


@given(VERSIONS)
def test_version_comes_back_from_its_short_form(version: str) -> None:
    assert long_version(short_version(version)) == version


@given(VERSIONS, VERSIONS)
def test_two_versions_never_share_a_short_form(one: str, other: str) -> None:
    assert (short_version(one) == short_version(other)) == (one == other)


def test_stock_version_loses_its_zeros() -> None:
    assert short_version(f"{12:032}.0.5") == "~12.0.5"


@given(TEXT, VERSIONS, TEXT, st.none() | st.binary(max_size=2 * COMPRESS_FROM_BYTES))
def test_blob_comes_back(channel: str, version: str, type_: str, data: bytes | None) -> None:
    name = blob_name(channel, version)

    row = unpack_blobs("ns", {name: pack_blob(type_, data)})[name]

    assert row == ("ns", channel, version, type_, data)


@given(st.lists(TEXT, max_size=40), st.none() | TEXT, TEXT, TEXT)
def test_checkpoint_comes_back_with_its_references(
    references: list[str], parent: str | None, checkpoint: str, metadata: str
) -> None:
    row = CheckpointRow("ns", "id", parent, checkpoint, metadata)

    assert unpack_checkpoint("ns", "id", pack_checkpoint(row, references)) == (references, row)


@pytest.mark.parametrize("count", [0, 15, 16, 70_000])
@pytest.mark.parametrize("length", [0, 31, 32, 255, 256, 70_000])
def test_references_of_any_number_and_length_come_back(count: int, length: int) -> None:
    references = ["x" * length] * (count if length < 1000 else min(count, 2))
    row = CheckpointRow("ns", "id", None, "{}", "{}")

    assert unpack_checkpoint("ns", "id", pack_checkpoint(row, references)).references == references


@given(st.lists(st.tuples(TEXT, st.integers(-4, 1000), TEXT, TEXT, TEXT, st.binary(max_size=300)), max_size=5))
def test_writes_come_back(fields: list[tuple[str, int, str, str, str, bytes]]) -> None:
    rows = [WriteRow("ns", "id", *one) for one in fields]

    assert unpack_writes("ns", "id", pack_writes([row[2:] for row in rows])) == rows


def test_what_compresses_is_compressed_and_cipher_text_is_not() -> None:
    data = b"a" * 10_000

    assert len(pack_blob("msgpack", data)) < 100
    assert len(pack_blob("msgpack+aes", data)) > 10_000


def test_unknown_packing_is_refused_rather_than_guessed() -> None:
    with pytest.raises(TierError, match="newer version"):
        unpack_blobs("ns", {blob_name("x", "1"): b"?data"})


def test_dictionary_never_changes() -> None:
    assert sha256(FIRST).hexdigest() == "3896ca695debc83f0998da6fd488fac8ebb0bffff7a5e00b223ceaf687d05139"


def test_value_packed_without_a_dictionary_is_read() -> None:
    value = b"z" + ZstdCompressor().compress(b"msgpack\0+" + b"x" * 1000)

    assert unpack_blobs("ns", {"channel\0001": value})["channel\0001"].data == b"x" * 1000
