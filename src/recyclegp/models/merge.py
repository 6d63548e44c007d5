"""Modules → Ensemble."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .. import arrays, threads
from ..arrays import Array, CountOrPoints, PerOutput
from ..devices import default_device, device_of, memory_seen_once, retry_on_oom
from ..errors import Argument, Name, RecycleGPError
from ..garbage import looked_for_afterwards
from ..kernels import Kernel, parse
from ..likelihoods import Outputs
from ..local.kernel_choice import AUTO, SMOOTHNESS
from ..merging.decay import aged, check_half_life
from ..merging.merge_config import MergeConfig
from ..merging.owners import Owners
from ..merging.points import PointsWanted
from ..merging.trust import Trust
from .checks import are_moderate, check_it_answers
from .couple import wanted as outputs_wanted
from .ensemble import Ensemble
from .failures import (
    FAILED,
    OnFailure,
    are_all,
    culprits,
    is_about_an_argument,
    is_of_algebra,
    named,
    on_failure_wanted,
    unexplained,
    warn_skipped,
    without,
)
from .how import Frame, How
from .intake import FunctionRead, ModuleIntake, ModulesRead
from .merge_warnings import about_unchecked
from .merging import given_noises, merge_functions
from .modules import Modules
from .sources import Source

if TYPE_CHECKING:
    import gpytorch

P = ParamSpec("P")
T = TypeVar("T")
POOL, KEEP = "pool", "keep"  # what becomes of the modules' noises


@dataclass(frozen=True)
class MergeOptions:
    """The arguments of `merge` but for its modules and weights, listed once; engines take them by the same names."""

    inducing: CountOrPoints = "auto"
    kernel: Any = None  # a name, a GPyTorch kernel, a Kernel, or None for the modules' own
    learn: bool = True
    owners: str | None = "auto"
    noise: Any = POOL  # or "keep", a variance, or one for each output
    trust: str | None = "learn"
    half_life: float | None = None
    now: Any = None
    outputs: Any = "auto"

    def __post_init__(self) -> None:
        """What can be checked without any module."""
        if not isinstance(self.learn, bool):
            raise TypeError(f"learn must be True or False, not {self.learn!r}")
        check_half_life(self.half_life, self.now)
        check_noise(self.noise)
        owners_wanted(self.owners), trust_wanted(self.trust)

    @staticmethod
    def among(names: Mapping[str, Any]) -> MergeOptions:
        """From all names of a function, as locals() has them, of which some are options."""
        return MergeOptions(**{f.name: names[f.name] for f in fields(MergeOptions) if f.name in names})

    def check(self, frame: Frame) -> None:
        """What is wrong with them is said before a long stream of modules is read."""
        dimension = frame.dimension
        if not frame.categories:  # else others may know more levels
            self.points(frame)
        if isinstance(self.kernel, str):
            if self.kernel == AUTO and not self.learn:
                raise RecycleGPError(
                    Argument("kernel", AUTO),
                    " is chosen by learning; with ",
                    Argument("learn", False),
                    " pass a kernel, or none",
                )
            parse(SMOOTHNESS[0] if self.kernel == AUTO else self.kernel, dimension, frame.categories.columns)
        else:
            self._kernel_given(dimension)

    def _kernel_given(self, dimension: int) -> Kernel | str | None:
        """What `kernel` asks for; a GPyTorch object is read once for each number of columns."""
        if self.kernel is None or isinstance(self.kernel, (str, Kernel)):
            return self.kernel
        if dimension not in self._kernels_read:
            from ..kernels.gpytorch_objects import from_gpytorch

            self._kernels_read[dimension] = from_gpytorch(self.kernel, dimension)
        return self._kernels_read[dimension]

    @cached_property
    def _kernels_read(self) -> dict[int, Kernel]:
        return {}

    @cached_property
    def _points(self) -> dict[Frame, PointsWanted]:
        return {}

    def points(self, frame: Frame) -> PointsWanted:
        """What `inducing` asks for beside these inputs; looked at once, unless later modules name columns or levels."""
        inputs = frame._replace(named_by="")
        if inputs not in self._points:
            self._points[inputs] = self._wanted(inputs)
        return self._points[inputs]

    def _wanted(self, frame: Frame) -> PointsWanted:
        if isinstance(self.inducing, str) and self.inducing == "auto":
            return PointsWanted()
        if isinstance(self.inducing, str) and self.inducing == "all":
            return PointsWanted(all_of_them=True)
        found = arrays.count_or_points(
            self.inducing, "inducing", frame.dimension, frame.columns, "cpu", frame.categories
        )
        return PointsWanted(count=found) if isinstance(found, int) else PointsWanted(given=found)

    @property
    def plain(self) -> MergeOptions:
        """The same points, and nothing that is learned: what modules that cannot be merged fail at, too."""
        return replace(self, learn=False, owners=None, trust=None, noise=KEEP, kernel=None)

    def how(self, read: ModulesRead) -> How:
        """How all is chosen, for each function."""
        given = self._kernel_given(read.frame.dimension)
        # of a function that changes nobody can say who is wrong
        trust = trust_wanted(self.trust) if self.half_life is None else Trust.NONE
        config = MergeConfig(given, self.learn, not isinstance(self.noise, str) or self.noise == POOL, trust)
        noises = [None] * len(read.functions)
        if not isinstance(self.noise, str):
            noises = given_noises(read.likelihood, self.noise)  # type: ignore[assignment]
        C = len(read.functions)
        choice = self.points(read.frame).choice
        if isinstance(read.likelihood, Outputs):
            asked = outputs_wanted(self.outputs, C)
        elif isinstance(self.outputs, str) and self.outputs == "auto":
            asked = None
        else:
            raise RecycleGPError(Name("outputs"), f": these modules have {read.likelihood.meaning}; leave it out")
        return How(choice, owners_wanted(self.owners), tuple(map(config.with_noise, noises)), asked, read.skipped)


def _of_one_list(function: Callable[P, T]) -> Callable[P, T]:
    """Python's own words would be that it takes one positional argument."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        if len(args) > 1:
            raise TypeError(f"merge takes one list of modules, not {len(args)} arguments; write merge([a, b])")
        return function(*args, **options)

    return call


@_of_one_list
def merge(
    modules: Source,
    *,
    inducing: CountOrPoints = "auto",
    kernel: str | gpytorch.kernels.Kernel | None = None,
    learn: bool = True,
    weights: Mapping[str, float] | Sequence[float] | None = None,
    keep: str = "sites",
    owners: str | None = "auto",
    noise: str | float | PerOutput = "pool",
    trust: str | None = "learn",
    half_life: float | None = None,
    now: Any = None,
    device: Any = None,
    outputs: str | int | Array = "auto",
    on_failure: str = "name",
) -> Ensemble:
    """One global GP from fitted modules, without their data.

    Of modules of several functions (outputs, classes, varying noise) each function is merged from the modules that
    have it. A module of one function beside modules of several outputs is the output that its target names.

    Args:
        modules: a Module, a file, a directory of *.safetensors files, or any iterable of modules and files. They come
            in one at a time: with keep="names" memory does not grow with their sites.
        inducing: "auto" (the cheapest form that loses nothing: as many of the modules' points as express what they
            know, else all of them at once, which is exact, else as many as are affordable), "all" (exact, whatever
            it costs), a number (of the modules' own points; where they are too few to express them, moved), or the
            points Z_* themselves.
        kernel: the global kernel, or its structure by name; by default the structure with most rows, at the median of
            the modules' parameters, each counting with its rows; with rbf in place of matern52, which is what modules
            have unless their owners say otherwise, where the evidence prefers it. "auto" compares rbf, matern52 and
            matern32, and each with a linear part, by the evidence of some of the modules.
        learn: True then maximises the block-marginal evidence over kernel and mean, less a price on slack.
        weights: name → w ≥ 0, or one per module; 0 leaves a module out, 2 counts it twice.
        keep: "sites" (needed to remove modules later) or "names".
        owners: how owners' functions may differ from the shared one: None (not at all, as in the paper), "offset" (each
            by a constant of its own), "smooth" (also by a smooth function of its own), both learned by the evidence;
            or "auto", the simplest of the three unless the evidence clearly asks for more (with learn=False: None);
            an owner who asks for itself is then answered in part from its own module, as far as stacking says so.
        noise: "pool" (Gaussian modules come to one noise, learned by the evidence from what they say about it; to
            noises of their own, where these clearly differ; with learn=False they stay), "keep" (they stay as
            they were published), or a variance that is known: the ensemble's, also after `add`, `remove` and
            relearning. Modules that say what their rows know of their noise are brought to it; what others say of f
            stays. Of several outputs one number for all, one for each, or {output: number} of some.
        trust: what becomes of modules that contradict the others (see `screen`): "learn" (they do not count, and a
            warning says who and why), "report" (they count, and `report` names them) or None (nobody looks). With
            learn=False or a half_life nobody looks either: what changes with time contradicts itself honestly.
        half_life: the age at which a module counts half as much: each has the weight 2^(−age/half_life), times the one
            in `weights`. In the unit of the modules' times (`fit(time=...)`), which for dates is days.
        now: the time from which ages are counted; that of the newest module unless given.
        device: where to compute, as "cuda"; the CPU unless given. The ensemble stays there; `to("cpu")` brings it back.
        outputs: of modules with several outputs, how these go together: "independent" (each is merged by itself),
            "correlated" (by an index kernel B = WWᵀ + diag(κ) beside the kernel of the inputs, both learned; as many
            columns of W as the evidence asks for), a number of columns, B itself, or "auto": correlated where the
            evidence clearly asks for it (with learn=False: independent).
        on_failure: what to do about a module that cannot be read or merged: "name" (the merge fails, and says whose
            fault it is) or "skip" (it goes on without, warns, and the ensemble remembers it in `skipped`).

    Returns:
        The ensemble. It warns where its points cannot express what the modules know.

    Raises:
        RecycleGPError: Modules do not have the same inputs or functions, two have one name, weights do not fit, or a
            file cannot be read; the message names the module or the file.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> ms = [rgp.fit(X[i::3], np.sin(X[i::3, 0]), name=f"ward-{i}") for i in range(3)]
        >>> rgp.merge(ms).names
        ['ward-0', 'ward-1', 'ward-2']
    """
    if keep not in ("sites", "names"):
        raise RecycleGPError(Argument("keep", keep), "; use 'sites' or 'names'")
    options = MergeOptions.among(locals())
    skip = on_failure_wanted(on_failure) is OnFailure.SKIP
    # of members made from columns Python looks for circles once, with all that is made of them
    at_once = looked_for_afterwards() if isinstance(modules, Modules) else nullcontext()
    with at_once, ModuleIntake(device=device_of(device), keep=keep == "sites", weights=weights) as intake:
        read = (intake.read_what_can_be if skip else intake.read)(modules, options.check)
        while True:
            try:
                merged = _merged_and_asked(read, options)
                break
            except FAILED as failed:
                if is_about_an_argument(failed):
                    raise
                bad = culprits(read, *(partial(_merged_and_asked, options=how) for how in (options.plain, options)))
                if not bad and is_of_algebra(failed):
                    raise unexplained(read, failed) from failed
                if not bad:
                    raise
                if not skip or are_all(read, bad):
                    raise named(bad, failed) from failed
                read = without(read, bad)
    warn_skipped(read.skipped)
    about_unchecked([m for group in merged.groups for m in group.members])
    return merged


@looked_for_afterwards()
def _merged_and_asked(read: ModulesRead, options: MergeOptions) -> Ensemble:
    """What comes of it can be asked, and so be saved and loaded again; it is tried where numbers are large."""
    found = merge_read(read, options)
    if not are_moderate(t for group in found.groups for t in group.form.tensors()):
        check_it_answers(found)
    return found


def merge_read(read: ModulesRead, options: MergeOptions) -> Ensemble:
    """What was read, with the sites wherever they are, as one ensemble."""
    device = read.functions[0].sites.device
    how = options.how(read)

    def merged() -> Ensemble:
        functions = [
            FunctionRead(*aged(own.members, own.sites, options.half_life, options.now)) for own in read.functions
        ]
        groups = merge_functions(read.likelihood, functions, read.frame, how, options.points(read.frame))
        return Ensemble._of_groups(read.likelihood, read.frame, groups, how, device)

    # beside a GPU the CPU has small tensors only, and starting threads for each of them takes longer than all of it
    few = threads.limit_threads(0.0) if device.type != "cpu" else nullcontext()
    with default_device(device), few, memory_seen_once():
        return retry_on_oom(merged)


def check_noise(noise: Any) -> None:
    """The argument `noise`, as far as it can be checked without modules."""
    if noise is None or (isinstance(noise, str) and noise not in (POOL, KEEP)):
        raise RecycleGPError(Argument("noise", noise), "; use 'pool', 'keep' or a variance")
    if not isinstance(noise, (str, Mapping)) and not arrays.are_several(noise):
        arrays.number(noise, "noise", positive=True)


def trust_wanted(trust: Any) -> Trust:
    """The argument `trust`, as a value."""
    found = {None: Trust.NONE, "learn": Trust.LEARN, "report": Trust.REPORT}
    if (trust is not None and not isinstance(trust, str)) or trust not in found:
        raise RecycleGPError(Argument("trust", trust), "; use 'learn', 'report' or None")
    return found[trust]


def owners_wanted(owners: Any) -> Owners:
    """The argument `owners`, as a value."""
    found = {None: Owners.NONE, "offset": Owners.OFFSET, "smooth": Owners.SMOOTH, "auto": Owners.AUTO}
    if (owners is not None and not isinstance(owners, str)) or owners not in found:
        raise RecycleGPError(Argument("owners", owners), "; use 'auto', 'offset', 'smooth' or None")
    return found[owners]
