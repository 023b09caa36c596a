"""A script is held to the contract in its header."""

import pytest

from saver.scripts import all_scripts, check_header, script

GOOD = """--[[
Do a thing.

KEYS    1 thread   2 log
ARGV    1 thread id   2... names and values
RETURN  1 done
]]
return redis.call('HSET', KEYS[2], ARGV[9], ARGV[1])
"""


def test_script_that_keeps_its_contract_is_taken() -> None:
    check_header("good", GOOD)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (GOOD.removeprefix("--[["), "begin with a header"),
        (GOOD.replace("RETURN  1 done\n", ""), "begin with a header"),
        (GOOD.replace("KEYS[2]", "KEYS[3]"), r"uses KEYS\[3\]"),
        (GOOD.replace("   2... names and values", ""), r"uses ARGV\[9\]"),
        (GOOD.replace("'HSET', KEYS[2]", "'KEYS'"), "searches the key space"),
        (GOOD.replace("'HSET'", "'SCAN'"), "searches the key space"),
    ],
)
def test_script_that_breaks_its_contract_is_named(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=f"bad.lua.*{fault}"):
        check_header("bad", text)


def test_every_script_of_ours_keeps_its_contract() -> None:
    names = {one.name for one in all_scripts()}

    assert {"put", "put_writes", "read", "list", "history", "load", "hydrate", "evict", "trim"} <= names
    assert "state" not in names


def test_script_is_known_to_redis_by_the_hash_of_its_whole_source() -> None:
    one = script("evict")

    assert one.source.startswith(b"--[[\nShared")
    assert len(one.sha) == 40
    assert one is script("evict")
