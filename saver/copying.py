"""
Copy a thread: archive the source until its log was empty once, then copy its cold rows to the target under both locks.

The copy has the whole chain of checkpoints, so delta channels are rebuilt from it alone.
"""

from saver.cold import Transaction
from saver.connect import Tiers
from saver.destroy import change_cold, drain


async def copy(tiers: Tiers, source: str, target: str) -> None:
    """Copy what was acknowledged before the call; what else the target has stays. Raises a TierError."""
    if source == target:
        return
    await drain(tiers, source)
    await tiers.pause("copy: archived")

    async def change(transaction: Transaction) -> None:
        both = {"source": source, "target": target}
        names = ("copy_thread_blobs", "copy_thread_writes", "copy_thread_checkpoints", "copy_thread_tier_row")
        await transaction.fetch_many([*((name, both) for name in names), ("label", {"thread_ids": [target]})])

    await change_cold(tiers, target, change, removes=False, locked=(source,))
