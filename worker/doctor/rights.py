"""The rights that agents and workers need in Redis: the rule that is shipped, and whether this user has them."""

from saver.config import TierConfig
from worker.doctor.redis_client import RedisClient
from worker.doctor.report import Report, listed

# Our scripts and census, then what only arq sends. Redis checks a script's own commands against the user's rights.
_OURS = (
    *("auth", "del", "discard", "evalsha", "exists", "get", "hdel", "hexists", "hget", "hgetall", "hkeys", "hlen"),
    *("hmget", "hset", "hsetnx", "hstrlen", "info", "llen", "lrange", "ltrim", "memory|usage", "multi"),
    *("persist", "pexpireat", "ping", "rpush", "script|load", "select", "set", "time", "unlink", "zadd", "zcard"),
    *("zcount", "zrandmember", "zrange", "zrangebyscore", "zrem", "zrevrange", "zscore"),
)
_ARQ = ("dbsize", "exec", "expire", "incrby", "pexpire", "psetex", "setex", "unwatch", "watch", "zremrangebyscore")
_COMFORT = ("acl|whoami", "client|setinfo")  # nothing fails without them
_CLUSTER = ("asking", "cluster|slots")  # a cluster that refuses them serves nobody, which is told elsewhere
COMMANDS = tuple(sorted({*_OURS, *_ARQ, *_COMFORT, *_CLUSTER}))
# These act at once, also within a transaction, or belong to logging in.
_NOT_ASKED = {"auth", "discard", "exec", "multi", "unwatch", "watch", *_COMFORT, *_CLUSTER}
# What stands behind the name of a command, where that is more than a key.
_ARGUMENTS: dict[str, tuple[str | int, ...]] = {
    "dbsize": (),
    "evalsha": ("0" * 40, 1, "{key}"),
    "expire": ("{key}", 1),
    "hdel": ("{key}", "f"),
    "hexists": ("{key}", "f"),
    "hget": ("{key}", "f"),
    "hmget": ("{key}", "f"),
    "hset": ("{key}", "f", "v"),
    "hsetnx": ("{key}", "f", "v"),
    "hstrlen": ("{key}", "f"),
    "incrby": ("{key}", 1),
    "info": ("replication",),
    "lrange": ("{key}", 0, 0),
    "ltrim": ("{key}", 0, 0),
    "pexpire": ("{key}", 1),
    "pexpireat": ("{key}", 1),
    "ping": (),
    "psetex": ("{key}", 1, "v"),
    "rpush": ("{key}", "v"),
    "script|load": ("return 1",),
    "select": (0,),
    "set": ("{key}", "v"),
    "setex": ("{key}", 1, "v"),
    "time": (),
    "zadd": ("{key}", 1, "m"),
    "zcount": ("{key}", 0, 0),
    "zrange": ("{key}", 0, 0),
    "zrangebyscore": ("{key}", 0, 0),
    "zrem": ("{key}", "m"),
    "zremrangebyscore": ("{key}", 0, 0),
    "zrevrange": ("{key}", 0, 0),
    "zscore": ("{key}", "m"),
}


def acl_rule(prefix: str) -> str:
    """The rights of one user, as a line of an ACL file has them: these keys, these commands, no channel."""
    return f"resetchannels ~{prefix}:* ~arq:* -@all " + " ".join(f"+{name}" for name in COMMANDS)


async def check_rights(config: TierConfig, redis: RedisClient, report: Report) -> None:
    """Try every command on a key of ours and on one of arq, without doing any."""
    user = await redis.ask("ACL", "WHOAMI")
    who = f"the Redis user {user.decode(errors='replace')}" if isinstance(user, bytes) else "the Redis user"
    advice = f"give it the rights of deploy/redis.acl: {acl_rule(config.key_prefix)}"
    key = f"{config.key_prefix}:{{p000}}:thread:doctor"
    calls = [_call(name, key) for name in COMMANDS if name not in _NOT_ASKED]
    refused = await redis.refused([*calls, ("EXISTS", "arq:job:doctor")])
    if refused is None:
        report.find(
            f"{who} may not use transactions (MULTI)",
            "arq cannot queue a job, and which other rights are missing cannot be seen",
            advice,
        )
        return
    if commands := {one.command for one in refused if not one.is_for_key}:
        report.find(f"{who} may not use {listed(commands, 40)}", "what needs it fails with NOPERM", advice)
    if any(one.is_for_key for one in refused):
        report.find(
            f"{who} may not use the keys {config.key_prefix}:* and arq:*",
            "agents and workers reach only a part of their keys and fail with NOPERM",
            advice,
        )
    if not refused:
        report.note(f"{who} has every right that agents and workers need")


def _call(name: str, key: str) -> tuple[str | int, ...]:
    arguments = _ARGUMENTS.get(name, ("{key}",))
    return (*name.upper().split("|"), *(key if part == "{key}" else part for part in arguments))
