"""The policies that stand in Postgres: wishes for one thread, or for all whose metadata contains something."""

from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from saver.cold import Transaction
from saver.connect import Tiers


class NamedPolicy(NamedTuple):
    """Wishes under a name: either for one thread or for what the metadata of threads contains."""

    name: str
    thread_id: str | None
    metadata: dict[str, Any] | None
    wishes: dict[str, Any]


async def list_policies(tiers: Tiers) -> list[NamedPolicy]:
    """All of them by name. Raises ColdTierError."""
    return [NamedPolicy(*record) for record in await tiers.cold.fetch("policies", {})]


async def set_policy(tiers: Tiers, policy: NamedPolicy) -> None:
    """Put a policy in the place of the one of that name. In force once this returns. Raises ColdTierError."""
    parameters = {
        **policy._asdict(),
        "metadata": None if policy.metadata is None else Jsonb(policy.metadata),
        "wishes": Jsonb(policy.wishes),
    }
    await _change(tiers, "set_policy", parameters)


async def remove_policy(tiers: Tiers, name: str) -> bool:
    """False if there was none of that name. Raises ColdTierError."""
    return await _change(tiers, "remove_policy", {"name": name})


async def _change(tiers: Tiers, statement: str, parameters: dict[str, Any]) -> bool:
    async def work(transaction: Transaction) -> bool:
        return bool(await transaction.fetch(statement, parameters))

    return await tiers.cold.transact(work)
