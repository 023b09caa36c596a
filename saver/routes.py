"""What the address of the hot tier asks for: one Redis, one behind Sentinels, or a cluster."""

from saver.carriers import AsyncHot, BlockingHot
from saver.cluster import BlockingClusterHot, ClusterHot
from saver.config import TierConfig
from saver.sentinel import BlockingSentinelHot, SentinelHot
from saver.urls import is_behind_sentinels, is_cluster

Hot = AsyncHot | ClusterHot
BlockingRoute = BlockingHot | BlockingClusterHot


def hot_for_loop(config: TierConfig) -> Hot:
    """The hot tier of one event loop. Connects when it is used."""
    url = config.redis_url.get_secret_value()
    if is_cluster(url):
        return ClusterHot(config)
    return SentinelHot(config) if is_behind_sentinels(url) else AsyncHot(config)


def hot_for_threads(config: TierConfig) -> BlockingRoute:
    """The hot tier of blocking calls. Connects when it is used."""
    url = config.redis_url.get_secret_value()
    if is_cluster(url):
        return BlockingClusterHot(config)
    return BlockingSentinelHot(config) if is_behind_sentinels(url) else BlockingHot(config)
