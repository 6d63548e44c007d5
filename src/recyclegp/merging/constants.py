"""Numbers of merging that were chosen, not derived. Where an experiment chose or checks one, the comment names it.

Limits of memory and time stand where they are used (`affordable.py`, `site_store.py`, `points.py`).
"""

from __future__ import annotations

from typing import NamedTuple


class Screening(NamedTuple):
    """Who contradicts the others. Chosen by hand; what screening does with them is measured in docs/robustness.md."""

    price: float = 8.0  # nats by which another explanation of a module must be better than that it is honest
    # times the usual squared distance from the others, per number: nearer, a module is unusual, and may well be honest
    gross: float = 10.0
    gross_scale: float = 1.4  # of f, from which on it is another unit
    # The same where owners have functions of their own, which are honestly larger for some of them than for others.
    # Chosen on the sets of `groups` to be looked at, where honest owners are up to 23 and 2 away.
    gross_own: float = 50.0
    gross_own_scale: float = 3.0
    gross_shift: float = 3.0  # standard deviations of f: a constant of an owner's own is no larger
    gross_sure: float = 6.0  # times too sure of itself: fewer may well be honest
    too_sure: float = 3.0  # times what is usual: squared distances from the others that are no accident
    farthest: float = 30.0  # standard deviations of f from its mean: what is said beyond cannot be
    seeds: int = 6  # modules whose friends are tried as the trusted ones
    steps: int = 20  # changes of the trusted set, from each start
    # squared distances per number, in the middle, from which on something is wrong, though nobody stands out
    unusual: float = 1.5
    # of the modules: where no more stand out, and nothing else is wrong, other starts are not tried
    few: float = 0.01
    checked: float = 0.4  # of what a module says: so much the others must know, for it to be screened,
    certain: float = 100.0  # unless the little that they know contradicts it by so many nats
    most_usual: float = 3.0  # a model that suits nobody makes squared distances so many times larger, not more
    # how far a and b of a·f + b may be from 1 and 0: a in itself, b in standard deviations of f
    units_sd: float = 2.0
    units_scales: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)  # times that: each is as probable
    points: int = 200  # at which modules are compared, at most
    least_points: int = 32  # at which they are compared where there are many modules
    unsaid: float = 0.1  # nats that these may leave unsaid, of what all modules say: no verdict depends on that
    # times the usual precision: beyond it, a module has no more say about where the points are, or who is right
    max_relative_precision: float = 10.0
    most_forged: float = 0.3  # of the modules: against so many forged files, working together, the others are guarded
    min_trusted_to_rule_out_effects: int = 8  # trusted modules from which one can tell whether owners differ
    differ_less: float = 10.0  # times less than is believed owners differ, where those few are looked for who need it
    rounds: int = 3  # in which they are left out, and others may stand out in turn
    # standard deviations, of how most owners differ and of what these know of f together, by which few may move f where
    # the others know it. Honest owners in the sets of `groups` do so by 2.7 (plm/Grunfeld), all others by less than 2.
    most_moved: float = 3.0
    known: float = 0.5  # of the variance of f: where less than that is open, it is known
    most_own: float = 0.1  # of the variance of f: owners' own functions, beside which a majority can be found
    fewest: int = 3  # modules: of two that contradict each other nobody can say who is wrong
    most_unit_searches: int = 24  # inputs of modules, in all, that are tried in other units: it takes a while
    max_length_ratio: float = 2.0  # a module's own lengthscale over the shared one, from which its inputs are doubted


class Explaining(NamedTuple):
    """Why a module contradicts the others. Chosen by hand; what is found is measured in docs/robustness.md."""

    price: float = 1.0  # nats for each number that is needed, beside half the logarithm of how many it explains
    rounds: int = 10  # of weighing and fitting a change of units
    decades: int = 8  # of factors of the variance that are tried,
    steps: int = 81  # so many
    near_known: float = 3.0  # nats by which a known change of units may explain it worse than the best one,
    as_likely: float = 1.0  # and by which it must be better than any other known one
    clear: float = 0.1  # of a scale, and of what f varies by: how well the numbers of a proposal must be known
    least_scale: float = 0.05  # of a change of units: nearer to zero, the module knows nothing of f


class UnitSearch(NamedTuple):
    """Other units of a module's inputs. Chosen by hand; what is found is measured in docs/robustness.md."""

    price: float = 1.0  # nats for each changed input, beside the logarithm of how many changes are tried
    learned_price: float = 4.0  # nats more for a factor that nobody uses: where it could be, a usual one is meant
    decades: float = 4.0  # on either side of one, in which a factor is learned
    steps: int = 65  # of the first search for it
    finer: int = 4  # later ones between the neighbours of the best,
    finer_steps: int = 9  # of so many
    # factors that tell for which inputs it is worth while
    probes: tuple[float, ...] = (0.01, 0.1, 0.4, 0.6, 0.8, 1.25, 1.7, 2.5, 10.0, 100.0)
    most_learned: int = 2  # inputs whose factor is learned
    most_changed: int = 3  # inputs


class Levels(NamedTuple):
    """Whose numbers are in another unit, by their levels and scales. Chosen on the tables that benchmarks/units.py
    names for it, and checked on others: docs/robustness.md.
    """

    fewest: int = 3  # modules: of two nobody can say whose unit is the wrong one
    share: float = 0.7  # of the modules, whose distances from the middle say how far honest ones are from it
    centre_sd: float = 0.3  # how far honest centres may be from each other beside that, in spreads,
    scale_sd: float = 0.2  # and the logarithms of their spreads
    alike_centre: float = 1.0  # spreads that modules may be apart from each other, to be compared at all,
    alike_scale: float = 0.7  # and in the logarithms of their spreads
    far: float = 3.2  # standard deviations from the others, beyond which a module's unit is asked for,
    few: float = 5.0  # of so many modules; of more of them
    for_many: float = 4.0  # times log(modules/few) later, in squares
    near: float = 2.5  # standard deviations from the others, at which a change of units arrives among them,
    gain: float = 8.0  # nearer by so much, in squares: there are dozens of changes
    huge_factor: float = 100.0  # which is a reason to ask even where there are only two others
    rare: float = 2.0  # in squares: of changes by other factors than powers of ten
    as_likely: float = 2.0  # in squares: changes that differ by less cannot be told apart,
    most_named: int = 3  # and so many of them are named
    # standard deviations of level and scale, and the factor, beyond which a module of another unit does not count
    gross_level: float = 2.5
    gross_scale: float = 4.0
    gross_factor: float = 5.0


class Noise(NamedTuple):
    """Noises and how far they differ. Chosen by hand; what pooling does is measured in docs/calibration.md."""

    apart_gain: float = 1.0  # nats by which noises must be better kept apart than as one for all
    level_sd: float = 1.0  # of log σ² about what the residuals say, before it is asked how well they know it
    # nats by which it must be less probable if it is asked, for the search to go on from there: a standard deviation
    level_gain: float = 0.5
    open_sd: float = 0.7  # of log κ: how far from the truth is what points leave open
    missed: float = 0.1  # c: of what a module has missed of f, so much is in its noise
    missed_sd: float = 1.0  # of log c
    missed_by_most: float = 1.0  # times its noise a module in the middle must have missed, for c to be looked for
    missed_tried: tuple[float, ...] = (0.05, 0.2)  # values of c where the search begins,
    missed_dof: float = 20.0  # beside this ν
    # nats by which c must explain modules better: where functions are simple and noises really differ it does by up to
    # 4, where owners see too little of a rough function by 13 to 40
    missed_gain: float = 6.0
    # nats that c may explain them worse beside owners' own smooth functions, which are no prior's 0.1: on the sets of
    # `groups` to be looked at it costs less than 0.02, and one of them was 0.18 worse than staying alone without it
    missed_loss: float = 8.0
    most_opened: float = 30.0  # times more or less than modules have said, points may leave open under another kernel
    closed: float = 1e-3  # of the noise: what points leave open is nothing beside it
    dof: float = 10.0  # ν before anything is known
    dof_sd: float = 2.0  # how far its logarithm may be from that


class Effects(NamedTuple):
    """Do owners differ? The gains were checked on fresh seeds: experiments owners and schools, docs/experiments.md."""

    # Nats, and as many more over the square of how many owners there are: how much two or three of them differ can
    # hardly be known, and a module of two rows must not decide it. Chosen on the sets of `groups` to be looked at.
    offset_gain: tuple[float, float] = (1.0, 30.0)  # from which owners have offsets,
    smooth_gain: tuple[float, float] = (1.0, 80.0)  # and smooth departures, which can explain nearly anything
    # Least nats for offsets seen through approximate likelihoods, whose sites have about 0.6 of what rows have to say
    # for them; an offset that is not there costs 0.001 nats per row, one that is missed 0.01. By simulated yes or no.
    approximate_offset_gain: float = 0.0
    unclear: float = 0.3  # of such a gain: a reason to look at more of the modules; chosen by hand
    # The effects are small beside f before anything is known, within a factor of a few; chosen by hand.
    offset_share: float = 0.1  # of the variance of f
    smooth_share: float = 0.05  # likewise
    share_sd: float = 1.5  # of their logarithms
    collapsed: float = 2.0  # times shorter than modules' own in the middle: the shared lengths have collapsed
    smooth_start: float = 0.5  # of the variance of modules' own functions, where a search begins
    length_sd: float = 0.4  # of the logarithms of lengths of owners' own functions, about those of the modules
    most_lengths: int = 8  # inputs up to which these are learned; with more they are those of the modules


class Learning(NamedTuple):
    """What the evidence may do with kernel and points. Chosen by hand."""

    prior_sd: float = 2.0  # how far, in log units, learned kernel parameters stay near their pooled values
    reach: float = 12.0  # bounds, in log units about them
    # One evaluation of the exact evidence costs n³. Steps that gain less than a thousandth of a nat are not worth that.
    tolerance: float = 1e-6  # of the value
    gradient: float = 1e-3  # nats per log unit
    least_gain: float = 1e-3  # nats: what a step at points gains beside all modules, however many
    slack_scale: float = 30.0  # nats of slack up to which the kernel may be adapted to the points
    # nats of slack above which a given number of points is too small to stay where modules put theirs
    move_points_above_slack: float = 10.0
    movable: int = 512  # coordinates that may be learned beside the kernel
    farthest: float = 5.0  # lengthscales that a point may move
    # parameters: a kernel of more, as a stranger may send, is not learned. The search keeps that many squared, and
    # takes as many steps; an honest kernel has a few for each input
    most_parameters: int = 512


class Points(NamedTuple):
    """Z_*. Chosen by hand."""

    residual_floor: float = 1e-8  # of the prior variance: Z_* may be denser than a module's points: one jitter
    early: float = 0.01  # of the tolerance: where pools stop, as those that lost do not come back
    tolerance: float = 1e-4  # nats of slack for each row, at which automatic selection stops,
    least_tolerance: float = 0.1  # but not before,
    most_tolerance: float = 10.0  # nor later
    negligible: float = 3.0  # times the tolerance: slack that is not worth another form
    many: int = 4  # points of which all modules have at most so many times more cost as much as all of them
    nothing: float = 1e-9  # nats: nothing that was known is lost on purpose


class Outputs(NamedTuple):
    """Which outputs go together. Checked on fresh seeds: tests/models/test_several_functions.py."""

    highest_rank: int = 3  # of B that is tried
    gain: float = 2.0  # nats by which outputs must be explained better by one more column of W; chosen by hand
    least_own: float = 0.05  # of an output's variance that is its own, where a search begins
    loading_sd: float = 0.5  # of an index kernel's loadings: a few modules make any two outputs look alike
    own_sd: float = 0.7  # of the logarithms of what is each output's own


class Unfinished(NamedTuple):
    """Modules of searches that had not ended. Chosen on modules of the authors' program and of GPyTorch."""

    farthest: float = 30.0  # standard deviations under its own prior: what lies farther away is no statement
    size_factor: float = 2.0  # of the variance of f, within which it is chosen where nobody else can say it
    steps: int = 5  # of that choice
    absurd: float = 100.0  # times what any module says: no result
    # of its precision, with which an import agrees: 0.06 to 0.24 after ten steps of Adam, 0.5 and more of finished ones
    least_agreeing: float = 0.3
    fewest_judges: int = 2  # modules fitted here: of one and an import nobody can say who is right
    open: float = 0.5  # of the variance of f: where the others leave less of it open, they know what a site should say
    chance: float = 2.0  # standard deviations of a squared distance, above its mean, that are no contradiction
    halvings: int = 60  # of where the logarithm of a share may be


class Influence(NamedTuple):
    """What one member may decide for all. Chosen by hand; attacks that know these are in docs/robustness.md."""

    honest: float = 0.7  # of the members are taken to say truly how many rows they have
    noise_rows: float = 10.0  # times the usual rows, at most, count in what a member says about the common noise
    more_than_rows: float = 3.0  # times what rows at the points could say, a site may: rows may lie between them
    unseen_precision: float = 100.0  # times the usual, at most, has a site of which the others know too little
    least_dof: float = 0.3  # of the degrees of freedom that rows must leave for their noise; files may be rounded
    noisier: float = 100.0  # times the usual variance: a noise beyond it is not brought to the common one
    # times less noise than it publishes: what a member's own rows cannot say (honest ones of eight rows: up to five)
    contradicts: float = 10.0


class Stacking(NamedTuple):
    """Owners' own answers beside the merged ones. Chosen on the sets of `groups` to be looked at."""

    prior: float = 1.0  # pseudo-observations' worth of belief in the merge
    least: float = 0.02  # a smaller share is not worth a second posterior
    most_owners: int = 64  # who are asked
    # times the variance that an owner alone has between its points, beyond which a merge has lost what was known there:
    # on 23 sets to be looked at at most 1.3 in the middle of the owners, on the one where the kernel collapsed 4.4
    lost: float = 2.5


class Strangers(NamedTuple):
    """Effects of new owners. Chosen on the sets of `groups` to be looked at, one owner left out at a time."""

    owners: int = 3  # fewest that say something about another one
    scale_sd: float = 1.0  # of the logarithm of c: effects may be this much larger or smaller than they were learned
    dof: tuple[float, ...] = (2.0, 4.0, 8.0)  # ν, beside that of the learned variance
    least: float = 0.5  # probability of other sizes, up to which nothing is changed
    slopes: tuple[float, ...] = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5)  # γ; the same both ways, as y may be −y
    level_gain: float = 1.0  # nats from which owners differ more where f is larger: as six slopes are tried
    constant: float = 1e-3  # of the size of f: it does not vary


class Pooling(NamedTuple):
    """Of members' kernels. Chosen by hand."""

    starts: int = 4  # members whose kernels learning may begin at
    sample: int = 1000  # modules and points that say how large a function is, for a kernel none of them has
    outlier: float = 10.0  # times the median: a parameter beyond it is brought back there
    negligible: float = 0.02  # of all rows: members with fewer may have learned anything
    shorter_lengthscale_factor: float = 10.0  # times shorter than theirs, a lengthscale is not supported by the members
    # from which on it is looked whether owners know less than alone, or disagree:
    doubtful_lengthscale_factor: float = 2.0
    implausible: float = 1e-6  # probability, over how many members there are, of what one of them says


SCREENING = Screening()
EXPLAINING = Explaining()
UNIT_SEARCH = UnitSearch()
LEVELS = Levels()
NOISE = Noise()
EFFECTS = Effects()
STRANGERS = Strangers()
LEARNING = Learning()
POINTS = Points()
OUTPUTS = Outputs()
INFLUENCE = Influence()
STACKING = Stacking()
POOLING = Pooling()
UNFINISHED = Unfinished()
