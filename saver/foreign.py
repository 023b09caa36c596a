"""
What other savers on Redis store, as rows of ours.

Values are carried as bytes, or named by the class they are of: no class of the application is needed or run. Text that
is not what such a saver writes raises Unreadable.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, cast

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import LC_REVIVER, JsonPlusSerializer

from saver.errors import TierError
from saver.rows import BlobRow, CheckpointRow
from saver.storable import is_inline, metadata_json, to_json

# How the serializer of LangGraph marks objects in msgpack (langgraph-checkpoint 4.3, serde/jsonplus.py).
_SINGLE_ARGUMENT, _POSITIONAL, _BY_NAME, _DELTA_SNAPSHOT = 0, 1, 2, 7
_CARRIED = ("null", "bytes", "bytearray", "json", "msgpack")
_EXT_CODE_AT = {**dict.fromkeys(range(0xD4, 0xD9), 1), 0xC7: 2, 0xC8: 3, 0xC9: 5}
_STRINGS = {0xD9: 1, 0xDA: 2, 0xDB: 4}  # bytes that tell the length
_ARRAY_OF_3 = 0x93

_serde = JsonPlusSerializer(allowed_msgpack_modules=None)


class Unreadable(TierError):  # noqa: N818 - reads as the fact it reports
    """A thread of another saver that cannot be carried over. Nothing of it was written."""


# ---- checkpoints


def checkpoint_row(
    namespace: str, checkpoint: Mapping[str, Any], inline: Mapping[str, Any], parent_id: str | None, metadata: Any
) -> CheckpointRow:
    """The row of a checkpoint; its values are those that stand in the row. Raises Unreadable, InvalidThread."""
    try:
        document = {
            **{name: value for name, value in checkpoint.items() if name not in ("pending_sends", "type")},
            "channel_versions": _as_text(checkpoint["channel_versions"]),
            "versions_seen": {node: _as_text(seen) for node, seen in checkpoint["versions_seen"].items()},
            "channel_values": dict(inline),
        }
        id_ = str(checkpoint["id"])
    except (KeyError, TypeError, AttributeError) as error:
        raise Unreadable("a checkpoint there is not of a format that this release knows") from error
    return CheckpointRow(
        namespace, id_, parent_id or None, to_json("the checkpoint", document), metadata_json("the metadata", metadata)
    )


def version_text(version: Any) -> str:
    """
    A version of a channel as we write them.

    They are text with us, and LangGraph compares old ones with new ones: a number becomes the text that is as great.
    Raises Unreadable.
    """
    if isinstance(version, str):
        return version
    if version != int(version):  # cut off, two of them could be one
        raise Unreadable("a version of a channel there is neither text nor a whole number")
    return f"{int(version):032}.{0:016}"


def _as_text(versions: Mapping[str, Any]) -> dict[str, str]:
    return {channel: version_text(version) for channel, version in versions.items()}


# ---- values that are bytes there


def payload(type_: str, data: bytes) -> Any:
    """What a saver keeps of its own, built of plain types only. Raises Unreadable."""
    check_carried(type_)
    try:
        return _serde.loads_typed((type_, data))
    except (ValueError, TypeError, NotImplementedError) as error:
        raise Unreadable("what is stored there is damaged") from error


def check_carried(type_: str) -> None:
    """Raises Unreadable for bytes that our serializer could not read back."""
    if "+" in type_:
        raise Unreadable(
            "it is encrypted, and this command has no key; copy it in a program that has, from one saver to the other"
        )
    if type_ not in _CARRIED:
        raise Unreadable(
            f"it has values of type {type_!r}, which LangGraph does not read by default; "
            "let its agents store them otherwise there first"
        )


def last_of_three(data: bytes) -> bytes:
    """The last item of a msgpack array of two texts and a value, as it stands. Raises Unreadable."""
    if data[:1] != bytes([_ARRAY_OF_3]):
        raise Unreadable("a write there is not of a format that this release knows")
    return data[_after_text(data, _after_text(data, 1)) :]


def _after_text(data: bytes, at: int) -> int:
    kind = data[at] if at < len(data) else 0
    if 0xA0 <= kind <= 0xBF:
        return at + 1 + (kind & 0x1F)
    if kind not in _STRINGS:
        raise Unreadable("a write there is not of a format that this release knows")
    width = _STRINGS[kind]
    return at + 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "big")


def is_snapshot(type_: str, data: bytes) -> bool:
    """Whether these bytes are the snapshot of a delta channel."""
    at = _EXT_CODE_AT.get(data[0]) if type_ == "msgpack" and data else None
    return at is not None and data[at : at + 1] == bytes([_DELTA_SNAPSHOT])


# ---- values that are JSON there (JsonPlusRedisSerializer of langgraph-checkpoint-redis)


def values_of_json(
    namespace: str, values: Mapping[str, Any], versions: Mapping[str, Any]
) -> tuple[dict[str, Any], list[BlobRow]]:
    """Channel values as JSON has them: those that stand in the checkpoint row, and blobs. Raises Unreadable."""
    inline: dict[str, Any] = {}
    blobs: list[BlobRow] = []
    for channel, document in values.items():
        if is_inline(document):
            inline[channel] = document
        elif channel in versions:
            type_, data = value_of_json(document)
            if is_snapshot(type_, data):
                inline[channel] = True
            blobs.append(BlobRow(namespace, channel, version_text(versions[channel]), type_, data))
    return inline, blobs


def value_of_json(document: Any) -> tuple[str, bytes]:
    """A value as our serializer would have written it. Raises Unreadable."""
    try:
        return _serde.dumps_typed(_revived(document))
    except (ValueError, TypeError, KeyError, NotImplementedError, ImportError) as error:
        raise Unreadable("a value there is of a class that LangChain does not load here") from error


def _revived(document: Any) -> Any:
    if isinstance(document, list):
        return [_revived(item) for item in document]
    if not isinstance(document, dict):
        return document
    parts = {name: _revived(item) for name, item in document.items()}
    match parts:
        case {"lc": 1, "type": "constructor", "id": _}:
            return LC_REVIVER(document)  # a message and the like: LangChain is here wherever LangGraph is
        case {"lc": 2, "type": "constructor", "id": [*module, str() as name]}:
            return _object(".".join(module), name, parts)
        case {"__interrupt__": True, "value": _}:
            fields = {name: item for name, item in parts.items() if name != "__interrupt__"}
            return _marked(_BY_NAME, "langgraph.types", "Interrupt", fields)
        case {"__send__": True, "node": node, "arg": argument, **rest} if not rest:
            return _marked(_POSITIONAL, "langgraph.types", "Send", [node, argument])
        case {"__delta_snapshot__": True, "value": value, **rest} if not rest:
            return ormsgpack.Ext(_DELTA_SNAPSHOT, _packed(value))
        case {"__bytes__": str() as text, **rest} if not rest:
            return b64decode(text)
    return parts


def _object(module: str, name: str, parts: dict[str, Any]) -> ormsgpack.Ext:
    arguments, by_name = parts.get("args") or [], parts.get("kwargs") or {}
    if (module, name) == ("builtins", "set"):
        return _marked(_SINGLE_ARGUMENT, module, name, arguments[0] if arguments else by_name["__set_items__"])
    if arguments and by_name:
        raise Unreadable(f"a value there is a {name} made of both kinds of arguments, which msgpack cannot tell")
    kind, given = (_POSITIONAL, arguments) if arguments else (_BY_NAME, by_name)
    return _marked(kind, module, name, given)


def _marked(kind: int, module: str, name: str, given: Any) -> ormsgpack.Ext:
    """An object by the name of its class, as the serializer of LangGraph marks it."""
    return ormsgpack.Ext(kind, _packed([module, name, given]))


def _packed(value: Any) -> bytes:
    _, data = _serde.dumps_typed([value])
    return data[1:]  # without the mark of an array of one: alone, some values are not msgpack


def object_of(text: str | bytes) -> dict[str, Any]:
    """A JSON object that another saver wrote. Raises Unreadable."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Unreadable("what is stored there is damaged") from error
    if not isinstance(found, dict):
        raise Unreadable("what is stored there is damaged")
    return cast(dict[str, Any], found)
