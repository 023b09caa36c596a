"""
Fork: a put of a delta channel on a parent below the floor, where hot cannot tell whether the parent is still there.

Cold is asked, and the answer holds for the incarnation in which the question came up: whoever removes checkpoints
evicts the thread first. Other checkpoints carry all their values and need no parent.
"""

from saver.codec import NO_BLOB, Address, EncodedCheckpoint
from saver.cold import rows_from
from saver.connect import Tiers
from saver.errors import StaleRun
from saver.hot import Stored
from saver.pack import blob_name, long_version, pack_blob
from saver.rows import Rows
from saver.steps import Slow, Steps


def confirm_parent(encoded: EncodedCheckpoint, reply: Stored) -> Steps[str]:
    """
    The incarnation in which the parent was found. The snapshots that the checkpoint shares with it are filled in.

    Raises StaleRun when the parent is in neither tier.
    """
    missing = [name for name, blob in encoded.blobs.items() if blob == NO_BLOB]
    rows: Rows = yield Slow(_read_parent, (encoded.address, encoded.parent_id, missing))
    if not (rows.checkpoints or reply.has_parent):
        raise stale()
    for blob in rows.blobs:
        encoded.blobs[blob_name(blob.channel, blob.version)] = pack_blob(blob.type, blob.data)
    return str(reply.incarnation)


async def _read_parent(tiers: Tiers, address: Address, parent_id: str, names: list[str]) -> Rows:
    pairs = [name.split("\0") for name in names]
    parameters = {
        "thread_id": address.thread_id,
        "namespace": address.namespace,
        "checkpoint_id": parent_id,
        "channels": [channel for channel, _ in pairs],
        "versions": [long_version(version) for _, version in pairs],
    }
    return rows_from(await tiers.cold.fetch("read_parent", parameters))


def stale() -> StaleRun:
    return StaleRun(
        "the thread changed under this run: its parent checkpoint was retained, or Redis lost its history; "
        "nothing was written, read the thread again and repeat the run"
    )
