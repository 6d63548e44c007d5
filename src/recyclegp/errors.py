"""What recyclegp raises and warns with."""


class RecycleGPError(ValueError):
    """Something a caller can put right; the message names the argument and the remedy."""


class NotPositiveDefiniteError(RecycleGPError):
    """A kernel matrix has no Cholesky factor, however much jitter is added: the parameters are impossible.

    While hyperparameters are learned this is a step too far, and not an end.
    """


class RecycleGPWarning(UserWarning):
    """A result was returned, but the caller should know something about it."""


class LittleKeptWarning(RecycleGPWarning):
    """A module's points are too few for what its rows say."""
