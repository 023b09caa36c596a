"""The one error of the embedded servers."""


class EmbeddedError(RuntimeError):
    """The embedded servers could not be started. The message names the thing, the fact and the next step."""
