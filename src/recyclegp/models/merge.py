"""Modules → Ensemble."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, cast

import gpytorch

from .. import arrays
from ..devices import default_device, device_of, retry_on_oom
from ..errors import RecycleGPError
from ..kernels import Kernel, parse
from ..kernels.gpytorch_objects import from_gpytorch
from ..local.kernel_choice import AUTO, SMOOTHNESS
from ..merging.forgetting import aged, check_half_life
from ..merging.merge_config import MergeConfig
from ..merging.owners import Owners
from ..merging.points import PointsWanted
from ..merging.site_source import SiteSource
from ..merging.site_store import SiteStore
from ..merging.trust import Trust
from .ensemble import Ensemble
from .joint.merging import are_joint, joint_modules, merge_jointly, with_outputs_coupled
from .joint.module import JointModule
from .module import Module
from .reading import Frame, ModulesRead, Source, read_modules

JointSource = JointModule | Iterable[JointModule | Module | str | PathLike[str]]
POOL, KEEP = "pool", "keep"  # what becomes of the modules' noises


@dataclass(frozen=True)
class MergeOptions:
    """The arguments of `merge`, as they were given."""

    inducing: Any = "auto"
    kernel: Any = None  # a name, a GPyTorch kernel, a Kernel, or None for the modules' own
    learn: bool = True
    owners: Owners = Owners.AUTO
    noise: str = POOL
    trust: Trust = Trust.LEARN
    half_life: float | None = None
    now: Any = None

    def check(self, frame: Frame) -> None:
        """What is wrong with them is said before a long stream of modules is read."""
        dimension = frame.dimension
        if not frame.categories:  # else others may know more levels
            self.points(frame)
        if isinstance(self.kernel, str):
            if self.kernel == AUTO and not self.learn:
                raise RecycleGPError("kernel='auto' is chosen by learning; with learn=False pass a kernel, or None")
            parse(SMOOTHNESS[0] if self.kernel == AUTO else self.kernel, dimension, frame.categories.columns)
        elif self.kernel is not None and not isinstance(self.kernel, Kernel):
            from_gpytorch(self.kernel, dimension)

    def points(self, frame: Frame) -> PointsWanted:
        if isinstance(self.inducing, str) and self.inducing == "auto":
            return PointsWanted()
        if isinstance(self.inducing, str) and self.inducing == "all":
            return PointsWanted(all_of_them=True)
        dimension, columns, _, categories = frame
        found = arrays.count_or_points(self.inducing, "inducing", dimension, columns, "cpu", categories)
        return PointsWanted(count=found) if isinstance(found, int) else PointsWanted(given=found)

    def recipe(self, dimension: int) -> MergeConfig:
        """How all is chosen."""
        given = self.kernel
        if given is not None and not isinstance(given, (str, Kernel)):
            given = from_gpytorch(given, dimension)
        return MergeConfig(given, self.learn, self.noise == POOL, self._trust)

    @property
    def _trust(self) -> Trust:
        """Of a function that changes nobody can say who is wrong."""
        return self.trust if self.half_life is None else Trust.NONE


def merge(
    modules: Source | JointSource,
    *,
    inducing: Any = "auto",
    kernel: str | gpytorch.kernels.Kernel | None = None,
    learn: bool = True,
    weights: Mapping[str, float] | Sequence[float] | None = None,
    keep: str = "sites",
    owners: str | None = "auto",
    noise: str = "pool",
    trust: str | None = "learn",
    half_life: float | None = None,
    now: Any = None,
    device: Any = None,
    outputs: Any = "auto",
) -> Ensemble:
    """One global GP from fitted modules, without their data.

    Modules of several functions (outputs, classes, varying noise) become a `JointEnsemble`: each function is merged
    from the modules that have it.

    Args:
        modules: a Module, a file, a directory of *.safetensors files, or any iterable of modules and files. They come
            in one at a time: with keep="names" memory does not grow with their sites.
        inducing: "auto" (the cheapest form that loses nothing: as many of the modules' points as express what they
            know, else all of them at once, which is exact, else as many as are affordable), "all" (exact, whatever
            it costs), a number (of the modules' own points; where they are too few to express them, moved), or the
            points Z_* themselves.
        kernel: the global kernel, or its structure by name; by default the structure with most rows, at the median of
            the modules' parameters, each counting with its rows. "auto" compares rbf, matern52 and matern32, and each
            with a linear part, by the evidence of some of the modules.
        learn: True then maximises the block-marginal evidence over kernel and mean, less a price on slack.
        weights: name → w ≥ 0, or one per module; 0 leaves a module out, 2 counts it twice.
        keep: "sites" (needed to remove modules later) or "names".
        owners: how owners' functions may differ from the shared one: None (not at all, as in the paper), "offset" (each
            by a constant of its own), "smooth" (also by a smooth function of its own), both learned by the evidence;
            or "auto", the simplest of the three unless the evidence clearly asks for more (with learn=False: None).
        noise: "pool" (Gaussian modules come to one noise, learned by the evidence from what they say about it; to
            noises of their own, where these clearly differ; with learn=False they stay) or "keep" (they stay as
            they were published).
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

    Returns:
        The ensemble. It warns where its points cannot express what the modules know.
    """
    if keep not in ("sites", "names"):
        raise RecycleGPError(f"keep={keep!r}; use 'sites' or 'names'")
    options = merge_options(
        inducing=inducing,
        kernel=kernel,
        learn=learn,
        owners=owners,
        noise=noise,
        trust=trust,
        half_life=half_life,
        now=now,
    )

    def merge_one(some: Source, weights: Any, own: MergeOptions = options) -> Ensemble:
        with SiteStore(device_of(device)) as store:
            read = read_modules(some, store, keep=keep == "sites", weights=weights, check=own.check)
            return merge_read(read, store, own)

    def merge_coupled(some: list[Module], kernel: Kernel, learn: bool) -> Ensemble:
        # they have been brought to one noise, and judged, output by output
        return merge_one(some, None, replace(options, kernel=kernel, learn=learn, noise=KEEP, trust=Trust.NONE))

    if are_joint(modules):  # declared as one function, as nearly always; see `fit`
        together = joint_modules(modules)
        apart = merge_jointly(together, weights, merge_one)
        return cast(Ensemble, with_outputs_coupled(apart, outputs, learn, merge_coupled))
    return merge_one(cast(Source, modules), weights)


def merge_options(
    *,
    inducing: Any = "auto",
    kernel: str | gpytorch.kernels.Kernel | None = None,
    learn: bool = True,
    owners: str | None = "auto",
    noise: str = POOL,
    trust: str | None = "learn",
    half_life: float | None = None,
    now: Any = None,
) -> MergeOptions:
    """The arguments of `merge` but for its modules and weights, checked as far as they can be without any module."""
    if not isinstance(learn, bool):
        raise TypeError(f"learn must be True or False, not {learn!r}")
    check_half_life(half_life, now)
    models = owners_wanted(owners), noise_wanted(noise), trust_wanted(trust)
    return MergeOptions(inducing, kernel, learn, *models, half_life, now)


def merge_read(read: ModulesRead, store: SiteSource, options: MergeOptions) -> Ensemble:
    """What was read, with the sites wherever they are, as one ensemble."""
    frame = read.frame
    wanted = options.points(frame)
    recipe = options.recipe(frame.dimension)

    def merged() -> Ensemble:
        members, sites = aged(read.members, store, options.half_life, options.now)
        made = recipe.run(members, sites, wanted, frame.dimension, options.owners, frame.columns)
        return Ensemble._from_merged(made, wanted, frame.columns, frame.categories, options.owners, recipe)

    with default_device(store.device):
        return retry_on_oom(merged)


def noise_wanted(noise: Any) -> str:
    """The argument `noise`, checked."""
    if noise not in (POOL, KEEP):
        raise RecycleGPError(f"noise={noise!r}; use 'pool' or 'keep'")
    return str(noise)


def trust_wanted(trust: Any) -> Trust:
    """The argument `trust`, as a value."""
    found = {None: Trust.NONE, "learn": Trust.LEARN, "report": Trust.REPORT}
    if (trust is not None and not isinstance(trust, str)) or trust not in found:
        raise RecycleGPError(f"trust={trust!r}; use 'learn', 'report' or None")
    return found[trust]


def owners_wanted(owners: Any) -> Owners:
    """The argument `owners`, as a value."""
    found = {None: Owners.NONE, "offset": Owners.OFFSET, "smooth": Owners.SMOOTH, "auto": Owners.AUTO}
    if (owners is not None and not isinstance(owners, str)) or owners not in found:
        raise RecycleGPError(f"owners={owners!r}; use 'auto', 'offset', 'smooth' or None")
    return found[owners]
