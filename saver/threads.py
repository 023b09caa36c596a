"""
Thread ids that nobody can guess.
"""

import hmac
from base64 import urlsafe_b64encode
from uuid import UUID

from pydantic import SecretStr

from saver.config import check_thread_secret, thread_secret_from_env
from saver.errors import ConfigError, InvalidThread

_PURPOSE = b"tier thread 1"


def make_thread_id(
    user_id: str | int | UUID, session_id: str | int | UUID, *, secret: str | bytes | SecretStr | None = None
) -> str:
    """
    The id of a user's session: always the same, and not to be guessed without the secret.

    Without an argument the secret is TIER_THREAD_SECRET. A number or a UUID means the same as its text. The id has 44
    letters, digits, `-` and `_`, begins with a letter, and is safe in a URL and on a command line. Another secret gives
    other ids, so a secret that is changed leaves the old threads behind.
    """
    key = _key(secret)
    message = b"".join(map(_part, ("user_id", "session_id"), (user_id, session_id)))
    digest = hmac.digest(key, _PURPOSE + message, "sha256")
    return f"t{urlsafe_b64encode(digest).decode().rstrip('=')}"


def _key(secret: str | bytes | SecretStr | None) -> bytes:
    name = "TIER_THREAD_SECRET" if secret is None else "secret"
    told = thread_secret_from_env() if secret is None else secret
    if told is None:
        raise ConfigError("TIER_THREAD_SECRET is not set: set it, or call make_thread_id with secret=...")
    text = told.get_secret_value() if isinstance(told, SecretStr) else told
    key = text.encode() if isinstance(text, str) else text
    try:
        check_thread_secret(key)
    except ValueError as fault:
        raise ConfigError(f"{name} {fault}") from None
    return key


def _part(name: str, value: object) -> bytes:
    """The text of one part with its length before it, so that no two pairs of parts read alike."""
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        raise InvalidThread(f"{name} is a {type(value).__name__}: give a text, a number or a UUID")
    text = str(value).encode("utf-8", "surrogatepass")
    if not text:
        # One empty id for everybody who is not known yet would be one thread for all of them.
        raise InvalidThread(f"{name} is empty: give each user and each session an id of its own")
    return len(text).to_bytes(8) + text
