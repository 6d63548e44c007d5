"""The options of fitting as values, listed once: how models are inferred, what is published, what things are called.

`fit`, `fit_many`, engines, estimators and the command line all build `FitOptions`. A new option is a field in one of
the three groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from ..anonymity import ROWS_PER_LEVEL, LevelGuard
from ..arrays import CountOrPoints
from ..errors import Argument, RecycleGPError
from ..kernels import DEFAULT_KERNEL
from ..likelihoods import CHOICES
from ..record import Privacy
from .constants import PEOPLE
from .held_back import check_share

KernelLike: TypeAlias = Any  # a name, as "rbf + linear", or a GPyTorch kernel in the user's units
Noise: TypeAlias = Any  # a variance, or an Array with one for each row; of several outputs also for each cell
PublishLike: TypeAlias = Any  # "auto", a number of points, the share to keep, points, None, or a Publishing
PrivacyLike: TypeAlias = Any  # "people", "things", a Privacy, or None where nobody has chosen
DeviceLike: TypeAlias = Any  # as torch takes it, by name or as a torch.device

# what becomes of missing cells: of y (allow), and of rows that lack something
REFUSE, ALLOW, DROP, IMPUTE, MARGINALISE = "refuse", "allow", "drop", "impute", "marginalise"
COMPLETED = (DROP, IMPUTE, MARGINALISE)  # rows are complete before they are fitted
AUTO = "auto"


@dataclass(frozen=True)
class Inference:
    """How a model is inferred from its rows."""

    likelihood: str = "gaussian"
    kernel: KernelLike = DEFAULT_KERNEL
    method: str = AUTO
    inducing: CountOrPoints = None
    learn: bool = True
    noise: Noise = None
    seed: int = 0
    device: DeviceLike = None
    missing: str = REFUSE
    classes: Sequence[Any] | None = None  # all that a row could have had
    hold_back: float | None = None  # the share of rows that are kept out of the fit

    def __post_init__(self) -> None:
        object.__setattr__(self, "hold_back", check_share(self.hold_back))


@dataclass(frozen=True)
class Publishing:
    """What is published of a model, and whether to warn about few rows."""

    publish: PublishLike = AUTO
    rows_per_point: int | None = None  # rows behind each published point, at least
    allow_small: bool = False  # one or two rows are taken, and nothing is said of fewer than ten
    privacy: PrivacyLike = None  # what the rows are about; a Privacy once it is here

    def __post_init__(self) -> None:
        object.__setattr__(self, "privacy", _privacy(self.privacy))


def _privacy(given: Any) -> Privacy | None:
    """A Privacy, from itself or by its name."""
    if given is None or isinstance(given, Privacy):
        return given
    names = [p.value for p in Privacy]
    if given not in names:
        raise RecycleGPError(f"privacy is {given!r}; use {' or '.join(map(repr, names))}")
    return Privacy(given)


@dataclass(frozen=True)
class Naming:
    """What inputs and targets are called."""

    columns: Sequence[str] | None = None  # of an array of inputs
    categories: Sequence[str | int] | None = None  # columns of text, all of whose levels may be named in the file
    target: str | Sequence[str] | None = None  # what y is called,
    unit: str | Sequence[str | None] | None = None  # its unit,
    labels: Sequence[str | None] | None = None  # and the names of classes 0 and 1,
    positive: Any = None  # or that of class 1 alone, where y holds words


@dataclass(frozen=True)
class FitOptions:
    """All options of one fit, or of many alike."""

    inference: Inference = Inference()
    publishing: Publishing = Publishing()
    naming: Naming = Naming()

    @staticmethod
    def of(**keywords: Any) -> FitOptions:
        """From keyword arguments as `fit` has them.

        In place of the argument that is first among those of its group, all of the group may be given as one value:
        publish=Publishing(64, rows_per_point=5), method=Inference(...), target=Naming(...).

        Raises:
            TypeError: No option has such a name.
            RecycleGPError: An option is given both by itself and within a value.

        Examples:
            >>> FitOptions.of(publish=64, kernel="matern52").publishing.publish
            64
        """
        unknown = [name for name in keywords if name not in OPTIONS]
        if unknown:
            raise TypeError(f"no option is called {unknown[0]!r}; there are {', '.join(OPTIONS)}")
        return FitOptions(**{group: _group(group, keywords) for group in GROUPS})

    @staticmethod
    def among(names: Mapping[str, Any]) -> FitOptions:
        """From all names of a function, as locals() has them, of which some are options.

        Raises:
            RecycleGPError: An option is given both by itself and within a value.

        Examples:
            >>> FitOptions.among({"X": 0, "learn": False}).inference.learn
            False
        """
        return FitOptions.of(**{name: value for name, value in names.items() if name in OPTIONS})

    def changed(self, **keywords: Any) -> FitOptions:
        """With other values of some options.

        Raises:
            TypeError: No option has such a name.

        Examples:
            >>> FitOptions().changed(publish=8).publishing.publish
            8
        """
        return FitOptions.of(**(self.keywords | keywords))

    @property
    def keywords(self) -> dict[str, Any]:
        """Every option by name."""
        return {name: getattr(getattr(self, group), name) for name, group in OPTIONS.items()}

    @property
    def chooses_kernel(self) -> bool:
        """Is the kernel to be chosen by the evidence?"""
        kernel = self.inference.kernel
        return isinstance(kernel, str) and kernel == AUTO and self.inference.learn is True

    @property
    def chooses_likelihood(self) -> bool:
        """Is the likelihood, of those that its name stands for?"""
        return bool(self.likelihoods) and self.inference.learn is True

    @property
    def likelihoods(self) -> tuple[str, ...]:
        """Those of which the data choose one; none where it is known."""
        name = self.inference.likelihood
        return CHOICES.get(name, ()) if isinstance(name, str) else ()

    @property
    def level_guard(self) -> LevelGuard:
        """Decides which texts of the inputs may become words in a file."""
        rows = PEOPLE.rows_of_level if self.publishing.privacy is Privacy.PEOPLE else ROWS_PER_LEVEL
        return LevelGuard.given(self.naming.categories, rows=rows)

    def check(self) -> None:
        """What can be checked without data.

        Raises:
            TypeError: What must be True or False is neither.
            RecycleGPError: `missing` is none of the words that it may be.

        Examples:
            >>> FitOptions.of(learn=False).check()
        """
        for argument, value in (("learn", self.inference.learn), ("allow_small", self.publishing.allow_small)):
            if not isinstance(value, bool):
                raise TypeError(f"{argument} must be True or False, not {value!r}")
        ways = (REFUSE, ALLOW, *COMPLETED)
        if self.inference.missing not in ways:
            names = f"{', '.join(map(repr, ways[:-1]))} or {ways[-1]!r}"
            raise RecycleGPError(Argument("missing", self.inference.missing), f"; use {names}")


GROUPS: dict[str, type[Any]] = {"inference": Inference, "publishing": Publishing, "naming": Naming}
OPTIONS: dict[str, str] = {f.name: group for group, kind in GROUPS.items() for f in fields(kind)}  # name → group
DEFAULTS: dict[str, Any] = {name: getattr(GROUPS[group](), name) for name, group in OPTIONS.items()}
WHOLE = {"inference": "method", "publishing": "publish", "naming": "target"}  # the argument that may be all of a group


def _group(group: str, keywords: Mapping[str, Any]) -> Any:
    """One of the three values, given as such or option by option."""
    own = {name: value for name, value in keywords.items() if OPTIONS[name] == group}
    whole = own.get(WHOLE[group])
    if not isinstance(whole, GROUPS[group]):
        return GROUPS[group](**own)
    twice = [name for name, value in own.items() if name != WHOLE[group] and not _is_default(name, value)]
    if twice:
        raise RecycleGPError(
            f"{twice[0]}: {WHOLE[group]}= is a whole {GROUPS[group].__name__} already; give {twice[0]} within it"
        )
    return whole


def _is_default(name: str, value: Any) -> bool:
    return value is DEFAULTS[name] or (isinstance(value, (str, int)) and value == DEFAULTS[name])
