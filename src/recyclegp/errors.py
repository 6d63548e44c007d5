"""What recyclegp raises and warns with."""


class RecycleGPError(ValueError):
    """Something a caller can put right; the message names the argument and the remedy."""


class RecycleGPWarning(UserWarning):
    """A result was returned, but the caller should know something about it."""
