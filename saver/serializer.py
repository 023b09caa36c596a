"""The serializer that the configuration asks for: LangGraph's own, strict or not, encrypting or not."""

import logging

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from saver.config import TierConfig
from saver.errors import ConfigError

log = logging.getLogger(__name__)


def serializer_of(config: TierConfig) -> SerializerProtocol:
    """
    Build the serializer. TIER_STRICT_TYPES holds whatever LANGGRAPH_STRICT_MSGPACK says and whoever imported it first.

    Raises ConfigError when TIER_ENCRYPTION_KEY is set and pycryptodome is missing.
    """
    serde = JsonPlusSerializer(allowed_msgpack_modules=None) if config.strict_types else JsonPlusSerializer()
    is_strict = serde._allowed_msgpack_modules is not True
    log.info("serializer chosen", extra={"strict": is_strict, "encrypted": config.encryption_key is not None})
    if config.encryption_key is None:
        return serde
    try:
        return EncryptedSerializer.from_pycryptodome_aes(serde, key=config.aes_key)
    except ImportError as error:
        raise ConfigError("TIER_ENCRYPTION_KEY needs pycryptodome: pip install pycryptodome") from error
