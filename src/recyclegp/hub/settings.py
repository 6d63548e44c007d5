"""What a coordinator chooses when a hub is started."""

from __future__ import annotations

from dataclasses import dataclass, field

from .limits import Limits
from .registry import Admission


@dataclass(frozen=True)
class Settings:
    title: str = "recyclegp hub"
    admission: Admission = Admission.INVITED
    expect: int = 1  # owners with a module before the model counts as complete, and rounds begin
    rounds: int = 0  # how often the common bound is computed; 0: owners are asked for nothing but their modules
    points: int = 256  # of the plans
    deadline: float = 3600.0  # seconds that owners have for an answer
    evaluate: bool = True  # ask owners to score every model that is complete
    fewest: int = 3  # owners behind a sum of scores that is shown
    quiet: float = 0.3  # seconds without an arrival before modules are merged
    settle: float = 600.0  # seconds without one before a model that others were added to is learned from all of them
    job_seconds: float = 3600.0  # that a merge, or one exchange of rounds, may take
    job_memory: int = 2**34  # bytes that it may take
    limits: Limits = field(default_factory=Limits)
