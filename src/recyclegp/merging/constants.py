"""Numbers of merging that were chosen, not derived. Where an experiment chose or checks one, the comment names it.

Limits of memory and time stand where they are used (`affordable.py`, `site_store.py`, `points.py`).
"""

from __future__ import annotations

from typing import NamedTuple


class Screening(NamedTuple):
    """Who contradicts the others. Chosen by hand; what screening does with them is measured in docs/robustness.md."""

    price: float = 8.0  # nats by which another explanation of a module must be better than that it is honest
    too_sure: float = 3.0  # times what is usual: squared distances from the others that are no accident
    seeds: int = 6  # modules whose friends are tried as the trusted ones
    steps: int = 20  # changes of the trusted set, from each start
    # squared distances per number, in the middle, from which on something is wrong, though nobody stands out
    unusual: float = 1.5
    # of the modules: where no more stand out, and nothing else is wrong, other starts are not tried
    few: float = 0.01
    checked: float = 0.4  # of what a module says: so much the others must know, for it to be screened
    most_usual: float = 3.0  # a model that suits nobody makes squared distances so many times larger, not more
    # how far a and b of a·f + b may be from 1 and 0: a in itself, b in standard deviations of f
    units_sd: float = 2.0
    units_scales: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)  # times that: each is as probable
    points: int = 200  # at which modules are compared, at most
    least_points: int = 32  # at which they are compared where there are many modules
    unsaid: float = 0.1  # nats that these may leave unsaid, of what all modules say: no verdict depends on that
    # times the usual precision: beyond it, a module has no more say about where the points are
    max_relative_precision: float = 10.0
    min_trusted_to_rule_out_effects: int = 8  # trusted modules from which one can tell whether owners differ
    fewest: int = 3  # modules: of two that contradict each other nobody can say who is wrong
    most_asked: int = 24  # inputs of modules, in all, that are tried in other units: it takes a while
    max_length_ratio: float = 2.0  # a module's own lengthscale over the shared one, from which its inputs are doubted


class Gain(NamedTuple):
    """Nats by which the evidence must prefer a richer model: so many, and more for each owner or module."""

    least: float
    for_each: float


class Noise(NamedTuple):
    """One noise for all, or one for each. Chosen by hand; what pooling does is measured in docs/calibration.md."""

    apart_gain: Gain = Gain(3.0, 1.0)  # from which noises differ between modules
    level_sd: float = 2.0  # of log σ² about what the residuals say
    dof: float = 10.0  # ν before anything is known
    dof_sd: float = 2.0  # how far its logarithm may be from that


class Effects(NamedTuple):
    """Do owners differ? The gains were checked on fresh seeds: experiments owners and schools, docs/experiments.md."""

    offset_gain: Gain = Gain(8.0, 0.1)  # from which owners have offsets; lower, a module of two rows could decide
    smooth_gain: Gain = Gain(20.0, 0.5)  # from which they have smooth departures, which can explain nearly anything
    unclear: float = 0.3  # of such a gain: a reason to ask more of the modules; chosen by hand


class Learning(NamedTuple):
    """What the evidence may do with kernel and points. Chosen by hand."""

    slack_scale: float = 30.0  # nats of slack up to which the kernel may be adapted to the points
    # nats of slack above which a given number of points is too small to stay where modules put theirs
    move_points_above_slack: float = 10.0
    movable: int = 512  # coordinates that may be learned beside the kernel
    farthest: float = 5.0  # lengthscales that a point may move


class Pooling(NamedTuple):
    """Of members' kernels. Chosen by hand."""

    sample: int = 1000  # modules and points that say how large a function is, for a kernel none of them has
    outlier: float = 10.0  # times the median: a parameter beyond it is brought back there
    negligible: float = 0.02  # of all rows: members with fewer may have learned anything
    shorter_lengthscale_factor: float = 10.0  # times shorter than theirs, a lengthscale is not supported by the members


SCREENING = Screening()
NOISE = Noise()
EFFECTS = Effects()
LEARNING = Learning()
POOLING = Pooling()
