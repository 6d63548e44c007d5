"""Numbers of fitting that were chosen, not derived. Where an experiment checks one, the comment names it.

Limits of memory, and how much is worked on at once, stand where they are used.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import NamedTuple

from .request import Method


class Prior(NamedTuple):
    """Of a parameter's logarithm, in standard deviations of the data."""

    centre: float
    sd: float


class Planning(NamedTuple):
    """What a fit does unless the caller says otherwise. Chosen by hand; times in docs/benchmarks.md."""

    exact_rows: int = 3000  # "auto" is exact up to here
    inducing: Mapping[Method, int] = {Method.EXACT: 0, Method.COLLAPSED: 512, Method.DUAL: 200}  # points
    few_inducing: tuple[int, ...] = (16, 32, 64, 128)  # automatic points, where rows are few
    fewest: int = 64  # points that may be wanted, however few rows there are
    noise: float = 0.1  # of the kernel's variance, where nothing is learned


class PublishedPoints(NamedTuple):
    """Automatic points: docs/calibration.md measures what they lose, docs/privacy-measured.md what they give away."""

    kept: float = 0.95  # of what the rows say about f, that they keep if they can
    most: int = 512  # chosen by hand
    rows_each: int = 2  # rows behind each point, at least
    fewest_rows: int = 3  # of a module, unless somebody says that it may be smaller: fewer are what they were
    # of what may be left out: the bound that decides how many points are placed is far from sharp; chosen by hand
    spare: float = 0.2


class ImportedPoints(NamedTuple):
    """Automatic points of a model that was fitted elsewhere, which people expect to be the same model afterwards.

    With 95% and half as many points as rows, scikit-learn's regressors came out up to 0.12 off in one and two columns,
    where the noise's standard deviation was 0.1; with these numbers up to 0.02. `ways` and `most` were chosen on
    uniform inputs in one to six columns, 15 to 2,000 rows, rbf and matern52, at several lengthscales.
    """

    kept: float = 0.99
    most: int = 1024
    # how near to rows points lie, as a share of the way to those of a fit, and how many there may be for each row: the
    # next is tried where those before do not keep as much. At a quarter of the way 99% took half as many points, but a
    # point then lies a tenth of the way from one row to the next, and shows it to whoever looks
    ways: tuple[tuple[float, int], ...] = ((1.0, 1), (0.5, 1), (1.0, 2), (0.5, 16))
    otherwise: int = 4  # for each row, where none of these keeps as much
    rows_seen: int = 1024  # by which points are chosen
    # variance that must be open at a point, of the prior's: less of it amplifies rounding. Where noise is less than the
    # first, so much as the noise, but no less than the second
    most_residual: float = 1e-5
    least_residual: float = 1e-11


class People(NamedTuple):
    """What is published of people: docs/privacy-measured.md has what attacks find, and what it costs."""

    fewest: int = 20  # rows of a module
    rows_each: int = 10  # rows behind each automatic point, at least
    rows_share: int = 20  # rows that share each published number, in the sense of `people.shared`
    blur: float = 0.85  # b: how much of the spread of made-up rows is random
    normal: float = 0.1  # a: how much of a made-up row is not given the shape of the columns
    rows_shaped: int = 100  # fewer have no shape: attacks find more of 70 people if they have (diabetes)
    nugget: float = 1e-6  # of the correlations of made-up rows: columns may follow from each other
    beyond: float = 1 / 30  # share of the rows that are beyond either end of a column's central part,
    fewest_beyond: int = 5  # and how many at least
    far_less: float = 0.3  # of the precision that made-up rows give: less is what real ones give
    least_seen: float = 0.02  # of what is unknown of a direction: where real rows say less, nothing is published of it
    digits: int = 3  # of what is known of f
    log_kernel: float = 0.25  # steps of logarithms: of the kernel's parameters,
    log_noise: float = 0.3  # of the noise,
    place: float = 0.5  # and of places and means, in spreads
    rows_step: int = 10  # numbers of rows are multiples of this
    rows_of_level: int = 10  # of a category that is named in the file, at least (else 5); by hand


class Placement(NamedTuple):
    """Where points go. Chosen by hand, but for `way`, which is measured in docs/privacy-measured.md."""

    steps_hashed: float = 2**30 * math.sqrt(2)  # in a column's range: rounding is far smaller, and changes nothing
    rows_seen: int = 4096  # data rows between which candidates may lie
    candidates: int = 4  # for each point
    more: int = 5  # times as many where these are few,
    few: int = 400  # that is less than so many candidates
    way: tuple[float, float] = (0.2, 0.8)  # from a row towards its neighbours; at either end it would be a row
    scatter: float = 0.1  # lengthscales about the one place where all rows are
    residual_floor: float = 1e-6  # of the prior variance: points closer than this add rounding, not knowledge
    targets: int = 512  # points whose variance is to be explained
    smallest_pivot: float = 0.05  # of the largest variance left: below it K_ZZ would be badly conditioned
    steps: int = 8  # in which points are moved where they keep too little,
    step: float = 0.1  # each about so many standard deviations of the rows


class Priors(NamedTuple):
    """A few rows cannot tell a rough function from noise. What they take for a function, no other owner can average
    away; what they take for noise, a merge can. So before anything is known there is much noise, and a function whose
    lengthscales are alike and hold a dozen rows. Many rows can say otherwise. Checked in docs/calibration.md.
    """

    kernel: Prior = Prior(0.0, 1.5)
    level: Prior = Prior(0.0, 1.0)  # of the lengthscales of one kernel together
    deviation: Prior = Prior(0.0, 0.7)  # of each of them from the others
    too_short_sd: float = 0.3  # of their level below the lengthscale that holds a dozen rows
    rows_per_lengthscale: int = 12  # a search may not begin at lengthscales that hold fewer
    likelihood: Mapping[str, Prior] = {
        "noise": Prior(math.log(0.3), 1.0),
        "df": Prior(math.log(4.0), 0.7),
        "dispersion": Prior(math.log(3.0), 1.5),
        "gap": Prior(0.0, 1.0),  # between the cuts of ordered levels, in standard deviations of their noise; by hand
    }
    mean: Prior = Prior(0.0, 1.0)


PERIODS = tuple(2.0 ** (-j / 2) for j in range(-3, 9))  # from 2.8 standard deviations to a sixteenth of one


class Gaps(NamedTuple):
    """Rows that lack some inputs (`gaps`, models/completing.py). Numbers as those of multiple imputation; by hand."""

    imputed_from: int = 5  # similar rows whose mean is filled in
    values_each: int = 10  # similar rows whose values are tried, where they are integrated over
    least_share: float = 1e-3  # of a row, below which a value is left out
    fewest_complete: int = 10  # rows that lack nothing, from which shares follow
    most_givers: int = 2000  # rows among which similar ones are sought


class Search(NamedTuple):
    """For hyperparameters. Chosen by hand, but for `curvature`, with which a search takes a third of the steps."""

    reach: float = 12.0  # bounds, in log units about the prior mean
    curvature: float = 5.0  # nats per unit² of φ, typically
    lengthscales: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)  # tried before the optimiser begins
    periods: tuple[float, ...] = PERIODS  # likewise
    quiet: float = 0.03  # noise at which a second search begins, of the variance of y
    # steps after which two searches are compared, and more for each parameter: curvature is learned one step at a time
    first: int = 5
    first_each: float = 0.5
    # rows from which they are learned
    rows: Mapping[Method, int] = {Method.EXACT: 3000, Method.COLLAPSED: 6000, Method.DUAL: 2000}
    # rows that make a fit long: then a search begins on the exact evidence of the first so many
    large: Mapping[Method, int] = {Method.EXACT: 1500, Method.COLLAPSED: 3000, Method.DUAL: sys.maxsize}
    first_rows: int = 1000
    # exact searches of so many rows begin on a share of them, of at least so many, and so many for each input
    fewer_from: int = 128
    fewer: float = 0.25
    fewest: int = 48
    fewest_each: int = 24
    # the same of collapsed searches that decide where points go, with so many for each point and input; and how many
    # rows say how curved the rest of the way is
    fewer_collapsed: float = 0.125
    fewest_collapsed: int = 64
    fewest_for_points: int = 20
    few_for_curvature: int = 16
    one_end: float = 0.03  # nats between two ends of such searches that are one
    # gradient, in nats, at which a search ends; and that of a kernel which only decides where points go
    closely: Mapping[Method, float] = {Method.EXACT: 1e-2, Method.COLLAPSED: 1e-2, Method.DUAL: 1e-3}
    roughly: float = 0.1
    # nats: a step that promises no more is not taken, nor in a search which only begins another
    promise: float = 3e-4
    rough_promise: float = 1e-2


class Comparison(NamedTuple):
    """Of kernels (kernel="auto"), and of ways in which functions see y. Chosen by hand."""

    rows: int = 300  # of each data set
    sets: int = 32  # data sets
    line_gain: float = 2.0  # nats by which a line beneath must be better
    way_gain: float = 1.0  # nats by which another way, or another likelihood, must explain the rows better


class FixedPoint(NamedTuple):
    """Of dual inference. Chosen by hand; `reach` after outliers had tilted merges without limit."""

    steps: int = 200
    tolerance: float = 1e-9  # of the bound
    halvings: int = 12  # of a step that does not raise it
    memory: int = 6  # steps the extrapolation looks back
    reach: float = 3.0  # times as far from f as its observation, a pseudo-observation may lie
    least_precision: float = 1e-10  # of a pseudo-observation, in units of the likelihood's own resolution


PLANNING = Planning()
PUBLISHED = PublishedPoints()
IMPORTED = ImportedPoints()
PEOPLE = People()
PLACEMENT = Placement()
PRIORS = Priors()
SEARCH = Search()
COMPARISON = Comparison()
FIXED_POINT = FixedPoint()
GAPS = Gaps()
