"""How good a predictive is, in one place: every table is made with these numbers.

`score` says it all of a model on test data. `evaluate` keeps what it is made of, row by row, of which `summary` makes
the score of all rows or of some. The metrics themselves are functions of arrays.
"""

from .classes import Reliability, auroc, brier, ece, error_rate, log_loss, reliability
from .numbers import coverage, mae, nlpd, pit_histogram, rmse
from .score import (
    LEVEL,
    LEVELS,
    Evaluated,
    Model,
    OutputRows,
    Score,
    concatenate,
    evaluate,
    evaluate_outputs,
    score,
    score_outputs,
    summary,
)

__all__ = [
    "LEVEL",
    "LEVELS",
    "Evaluated",
    "Model",
    "OutputRows",
    "Reliability",
    "Score",
    "auroc",
    "brier",
    "concatenate",
    "coverage",
    "ece",
    "error_rate",
    "evaluate",
    "evaluate_outputs",
    "log_loss",
    "mae",
    "nlpd",
    "pit_histogram",
    "reliability",
    "rmse",
    "score",
    "score_outputs",
    "summary",
]
