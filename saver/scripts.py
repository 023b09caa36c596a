"""The Lua scripts: loaded from `lua/`, each header checked against its body."""

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent / "lua"
_SHARED = "state"


class Script(NamedTuple):
    """One script as Redis knows it."""

    name: str
    source: bytes
    sha: bytes


def _declared(header: str, word: str) -> int:
    """The highest number a section of the header declares; a trailing `...` leaves it open."""
    section = re.search(rf"^{word} +(.*?)(?=^\w+ {{2,}}|\Z)", header, re.MULTILINE | re.DOTALL)
    if section is None:
        raise ValueError(f"no section {word}")
    numbers = [int(number) for number in re.findall(r"(?:^|\s{2,})(\d+)(?=\s|\.\.\.)", section.group(1))]
    if re.search(r"\d\.\.\.", section.group(1)):
        return 1_000_000
    return max(numbers)


def check_header(name: str, text: str) -> None:
    """
    Hold a script to its contract: it names its KEYS, ARGV and RETURN and uses none beyond.

    Raises ValueError naming the script and the fault.
    """
    header, closing, body = text.removeprefix("--[[").partition("]]\n")
    if not text.startswith("--[[") or not closing or not re.search(r"^RETURN  \S", header, re.MULTILINE):
        raise ValueError(f"{name}.lua must begin with a header that says KEYS, ARGV and RETURN")
    for word in ("KEYS", "ARGV"):
        used = max((int(number) for number in re.findall(rf"\b{word}\[(\d+)\]", body)), default=0)
        if used > _declared(header, word):
            raise ValueError(f"{name}.lua uses {word}[{used}], which its header does not declare")
    if "'KEYS'" in body or ".call('SCAN'" in body:
        raise ValueError(f"{name}.lua searches the key space")


@cache
def script(name: str) -> Script:
    """The script of a name, preceded by the shared state functions."""
    shared = (_FOLDER / f"{_SHARED}.lua").read_text()
    text = (_FOLDER / f"{name}.lua").read_text()
    check_header(_SHARED, shared)
    check_header(name, text)
    source = f"{shared}\n{text}".encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


def all_scripts() -> list[Script]:
    return [script(path.stem) for path in sorted(_FOLDER.glob("*.lua")) if path.stem != _SHARED]
