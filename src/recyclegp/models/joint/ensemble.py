"""JointEnsemble: several functions, each merged from many modules. Immutable; every operation returns a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import arrays
from ...categories import Categories, union_of
from ...core.posterior import Predicted
from ...devices import CPU
from ...errors import RecycleGPError
from ...export import gpytorch_model
from ...likelihoods import Likelihood
from ...storage import container
from ...storage.fields import Fields
from ..ensemble import Ensemble
from ..naming import NEW, few, name_of_update
from ..units import new_units
from . import files
from .coupled import Coupled, coupled_from_json
from .links import Classes, Link, Outputs, noise_of_cells, of_output, some_rows
from .module import JointModule
from .new_rows import modules_of_rows
from .predictive import JointPredictive, covariances_of, draws_of, side_by_side
from .units import changes_of


@dataclass(frozen=True, eq=False, repr=False)
class JointEnsemble(JointPredictive):
    """Many modules of several functions as one model, itself publishable. Made by `merge` and `load`.

    A function is merged from the modules that have it: an owner may have seen some outputs, or some classes, only.
    """

    link: Link
    parts: tuple[Ensemble, ...]  # one for each function, each merged by itself
    coupled: Coupled | None = None  # outputs that go together: then this is what predicts

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.link.names):
            raise RecycleGPError(f"{len(self.parts)} parts for {len(self.link.names)} functions; give one each")

    def __repr__(self) -> str:
        return (
            f"JointEnsemble({len(self.names)} modules: {few(self.names)}; {len(self.parts)} {self.link.kind}: "
            f"{files.few_functions(self.link)}{'' if self.coupled is None else ', correlated'}; {self.rows} rows in "
            f"{self.dimension}-D)"
        )

    # --- what it knows ---

    @property
    def names(self) -> list[str]:
        """Of the modules, in the order in which they came."""
        return list(dict.fromkeys(name for part in self.parts for name in part.names))

    @property
    def owners(self) -> list[str]:
        """Whose modules they are."""
        return list(dict.fromkeys(owner for part in self.parts for owner in part.owners))

    @property
    def rows(self) -> int:
        """Data rows behind it: of the function that has most."""
        return max(part.rows for part in self.parts)

    @property
    def columns(self) -> arrays.Columns:
        return self.parts[0].columns

    @property
    def dimension(self) -> int:
        """Number of input columns."""
        return self.parts[0].dimension

    @property
    def categories(self) -> Categories:
        """Input columns that are categories, with the levels of all functions."""
        return union_of([part.categories for part in self.parts])

    @property
    def likelihoods(self) -> tuple[Likelihood, ...]:
        return tuple(part.likelihoods[0] for part in self.parts)

    @property
    def evidence(self) -> float:
        """Of all functions together."""
        return sum(part.evidence for part in self.parts) if self.coupled is None else self.coupled.evidence

    @property
    def slack(self) -> float:
        """Nats of the modules' knowledge that points cannot express, of all functions."""
        return sum(part.slack for part in self.parts) if self.coupled is None else self.coupled.ensemble.slack

    @property
    def output_covariance(self) -> np.ndarray | None:
        """B, where outputs are correlated: their prior covariances, in their units, times k(x, x'); else None."""
        return None if self.coupled is None else self.coupled.covariance

    @property
    def _keeps_sites(self) -> bool:
        return all(part._keeps_sites for part in self.parts)

    def independent(self) -> JointEnsemble:
        """The same with every output by itself, as it would be without the others."""
        return replace(self, coupled=None)

    @property
    def region(self) -> np.ndarray:
        """(D, 2): from where to where modules have points, along each input."""
        ends = np.stack([part.region for part in self.parts])
        return np.stack([ends[..., 0].min(0), ends[..., 1].max(0)], -1)

    def part(self, function: str) -> Ensemble:
        """One of its functions as an ensemble by itself."""
        if function not in self.link.names:
            raise RecycleGPError(f"function={function!r}: there are {', '.join(self.link.names)}")
        return self.parts[self.link.names.index(function)]

    def report(self) -> list[dict[str, Any]]:
        """One row for each function of each module, as `Ensemble.report`, with the function's name."""
        return [
            {"function": name, **row}
            for name, part in zip(self.link.names, self.parts, strict=True)
            for row in part.report()
        ]

    def _moments(self, X: Any, owner: str | None, *, of_y: bool) -> Predicted:
        self._check_owner(owner)
        if self.coupled is not None:
            return self.coupled.moments(X, owner, of_y=of_y)
        return side_by_side(
            [part._latent(part._inputs(X), part._answers(self._whose(part, owner), of_y=of_y)) for part in self.parts]
        )

    def _covariances(self, X: Any, owner: str | None) -> Tensor:
        self._check_owner(owner)
        if self.coupled is not None:
            return torch.stack(self.coupled.covariances(X, owner))
        return covariances_of(self.parts, X, [self._whose(part, owner) for part in self.parts])

    def _check_owner(self, owner: str | None) -> None:
        if owner is not None and owner != NEW and owner not in self.owners:
            raise RecycleGPError(f"owner={owner!r}: nobody here is called so; there are {few(self.owners)}, and 'new'")

    def _whose(self, part: Ensemble, owner: str | None) -> str | None:
        """An owner who has not seen one of the functions is somebody new to it."""
        return NEW if owner in self.owners and owner not in part.owners else owner

    def sample(self, X: Any, n: int = 1, seed: int = 0, owner: str | None = None) -> Any:
        """Joint draws of the functions at the rows of X.

        Args:
            X: inputs.
            n: number of draws.
            seed: of the draws.
            owner: whose functions, by name, or "new"; the shared ones unless given.

        Returns:
            (n, len(X), C) numbers.
        """
        if self.coupled is not None:
            if owner is not None:
                raise RecycleGPError("sample: of correlated outputs the shared functions are drawn; leave owner out")
            return arrays.like(X, self.coupled.sample(X, n, arrays.seed(seed)))
        return draws_of(list(self.parts), X, n, seed, [self._whose(part, owner) for part in self.parts])

    # --- operations: each returns a new ensemble ---

    def add(self, modules: JointModule | Iterable[JointModule], *, relearn: bool = False) -> JointEnsemble:
        """With more modules, at the same kernels, means and noises unless `relearn`.

        Args:
            modules: one joint module or several. All of their functions must be known here; of new ones `merge` anew.
            relearn: choose kernels, points, means and noises anew.

        Returns:
            The larger ensemble.
        """
        new = [modules] if isinstance(modules, JointModule) else list(modules)
        for module in new:
            if not isinstance(module, JointModule):
                raise TypeError(f"add takes joint modules, not {type(module).__name__}")
            strange = [name for name in module.link.names if name not in self.link.names]
            if strange or type(module.link) is not type(self.link):
                raise RecycleGPError(
                    f"module {module.name!r} has {module.link.kind} {few(list(module.link.names))}; here are "
                    f"{self.link.kind} {few(list(self.link.names))}. Merge all modules anew"
                )
        more = self._map(
            lambda name, part: (
                part.add(own, relearn=relearn) if (own := [m.part(name) for m in new if name in m.link.names]) else part
            )
        )
        if self.coupled is None:
            return more
        if relearn:
            raise RecycleGPError("relearn=True: correlated outputs are learned by merge; merge all modules anew")
        return more._coupled_with({m.name for m in new})

    def remove(self, names: str | Iterable[str], *, relearn: bool = False) -> JointEnsemble:
        """Without the named modules: of every function that has them.

        Args:
            names: one or several.
            relearn: choose kernels, points, means and noises anew, as if the modules had never been merged.

        Returns:
            The smaller ensemble.
        """
        gone = {names} if isinstance(names, str) else set(names)
        self._need_names("remove", gone)
        rest = self._map(lambda _, part: part.remove(own, relearn=relearn) if (own := gone & set(part.names)) else part)
        return rest if self.coupled is None else replace(rest, coupled=self.coupled.remove(gone, relearn=relearn))

    def reweight(self, weights: dict[str, float], *, relearn: bool = False) -> JointEnsemble:
        """With other weights for the named modules.

        Args:
            weights: name → w ≥ 0; modules that are not named keep theirs.
            relearn: choose kernels, points, means and noises anew.

        Returns:
            The reweighted ensemble.
        """
        self._need_names("reweight", set(weights))

        def changed(_: str, part: Ensemble) -> Ensemble:
            own = {name: w for name, w in weights.items() if name in part.names}
            return part.reweight(own, relearn=relearn) if own else part

        other = self._map(changed)
        if self.coupled is None:
            return other
        return replace(other, coupled=self.coupled.reweight(weights, relearn=relearn))

    def update(
        self,
        X: Any,
        y: Any,
        *,
        noise: Any = None,
        name: str | None = None,
        owner: str | None = None,
        relearn: bool = False,
        forget: float = 1.0,
    ) -> JointEnsemble:
        """With new data.

        Args:
            X: inputs of the new rows.
            y: their outputs (n, C), NaN where one was not seen; their classes; or their numbers, where noise varies.
            noise: noise variance of new rows of outputs: one number, one for each row, or one for each cell (n, C);
                the ensemble's own unless given.
            name: what to call them; update-1, … unless given.
            owner: whose rows they are; somebody new, called like them, unless given.
            relearn: choose kernels, points, means and noises anew afterwards.
            forget: what all that is known counts beside the new rows, in (0, 1].

        Returns:
            The ensemble with the new rows.
        """
        label = name_of_update(name, self.names)
        if not len(X):
            raise RecycleGPError("update: X has no rows; pass at least one")
        if isinstance(self.link, Outputs):  # each has observations of its own
            Y = self.link.check(y, len(X), CPU)
            noises = noise_of_cells(noise, len(Y), self.link.names)
            options: dict[str, Any] = {"name": label, "owner": owner, "relearn": relearn, "forget": forget}

            def with_rows(function: str, part: Ensemble) -> Ensemble:
                own = Y[:, self.link.names.index(function)]
                seen = torch.isfinite(own)
                if not bool(seen.any()):
                    return part
                known = of_output(noises, self.link.names.index(function), seen)
                return part.update(some_rows(X, seen), own[seen], noise=known, **options)

            more = self._map(with_rows)
            if self.coupled is None:
                return more
            if relearn or forget != 1:
                raise RecycleGPError("relearn and forget: not for correlated outputs; use independent(), or merge anew")
            return more._coupled_with({label})
        if noise is not None:
            raise RecycleGPError(f"noise: {self.link.kind} have none to be given; leave it out")
        rows = modules_of_rows(self.link, self.parts, X, y, label, owner)
        faded = self if forget == 1 else self._map(lambda _, part: part.reweight(_less(part, forget)))
        return faded._map(lambda function, part: part.add([rows[function]], relearn=relearn))

    def transform(
        self,
        input_shift: Any = None,
        output_scale: Any = 1.0,
        output_shift: Any = 0.0,
        unit: Any = None,
        *,
        input_scale: Any = None,
    ) -> JointEnsemble:
        """The ensemble of the functions s·f((x − shift)/scale) + b; arguments as for joint modules."""
        each = changes_of(self.link, output_scale, output_shift, unit)
        changes = dict(zip(self.link.names, each, strict=True))
        other = self._map(lambda name, part: part.transform(input_shift, *changes[name], input_scale=input_scale))
        if self.coupled is None:
            return other
        discrete = self.parts[0]._prior_kernel.structure.discrete
        given = (input_scale, input_shift, 1.0, 0.0, None)
        new = new_units(*given, dimension=self.dimension, columns=self.columns, discrete=discrete)
        return replace(other, coupled=self.coupled.in_units(new.inputs, [(c.scale, c.shift) for c in each]))

    def to(self, device: Any) -> JointEnsemble:
        """The same on another device, as "cuda" or "cpu"."""
        moved = self._map(lambda _, part: part.to(device))
        if self.coupled is None:
            return moved
        return replace(moved, coupled=replace(self.coupled, ensemble=self.coupled.ensemble.to(device)))

    def forget_sites(self) -> JointEnsemble:
        """Keep only the modules' names: small, but nothing can be removed afterwards."""
        less = self._map(lambda _, part: part.forget_sites())
        if self.coupled is None:
            return less
        return replace(less, coupled=replace(self.coupled, ensemble=self.coupled.ensemble.forget_sites()))

    def to_module(self, name: str, inducing: Any = "auto") -> JointModule:
        """What the ensemble knows of the shared functions as one joint module, to be recycled again.

        Args:
            name: of the module.
            inducing: as for `Ensemble.to_module`.

        Returns:
            The module.
        """
        if self.coupled is not None:
            raise RecycleGPError(
                "to_module: what correlated outputs have told each other would count twice where they are merged "
                "again; use independent().to_module(name)"
            )
        return JointModule(self.link, tuple(part.to_module(name, inducing) for part in self.parts))

    def to_gpytorch(self) -> Any:
        """GPyTorch models, as `Ensemble.to_gpytorch` gives them.

        Returns:
            Of outputs (model, likelihood) pairs in the order of `outputs`; GPyTorch's IndependentModelList takes the
            models. Of classes one model of all functions, in the order of `classes`, and a SoftmaxLikelihood.
        """
        if isinstance(self.link, Classes):
            return gpytorch_model.classes_to_gpytorch([part._points_form.posterior for part in self.parts])
        if not isinstance(self.link, Outputs):
            raise RecycleGPError(f"to_gpytorch: GPyTorch has no likelihood of {self.link.kind}; use predict_y")
        if self.coupled is not None:
            raise RecycleGPError(
                "to_gpytorch: these outputs are correlated, and the models would be independent; use "
                "independent().to_gpytorch()"
            )
        return [self.part(name).to_gpytorch() for name in self.outputs]

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing."""
        documents = [part._document() for part in self.parts]
        if self.coupled is None:
            container.write(path, files.document("joint ensemble", self.link, documents))
            return
        whole = files.document("joint ensemble", self.link, [*documents, self.coupled.ensemble._document()])
        units = {"scale": list(self.coupled.scale), "shift": list(self.coupled.shift)}
        container.write(path, whole._replace(header=whole.header | {"coupled": units}))

    @staticmethod
    def _from_fields(fields: Fields) -> JointEnsemble:
        coupled = fields.header.get("coupled")
        link, parts = files.parts(fields, "ensemble", more=0 if coupled is None else 1)
        made = [Ensemble._from_fields(part) for part in parts]
        if coupled is None:
            return JointEnsemble(link, tuple(made))
        return JointEnsemble(link, tuple(made[:-1]), coupled_from_json(coupled, link, made))

    # --- behind them ---

    def _coupled_with(self, names: set[str]) -> JointEnsemble:
        """The same with modules that its parts already have among the coupled outputs."""
        assert self.coupled is not None
        new = [
            (output, member, part.categories)
            for output, part in zip(self.link.names, self.parts, strict=True)
            for member in part._members
            if member.name in names
        ]
        return replace(self, coupled=self.coupled.add(new))

    def _map(self, change: Callable[[str, Ensemble], Ensemble]) -> JointEnsemble:
        return replace(self, parts=tuple(change(*pair) for pair in zip(self.link.names, self.parts, strict=True)))

    def _need_names(self, what: str, wanted: set[str]) -> None:
        unknown = wanted - set(self.names)
        if unknown:
            raise RecycleGPError(
                f"{what}: no module is named {', '.join(sorted(map(str, unknown)))}; there are {few(self.names)}"
            )


def _less(part: Ensemble, share: float) -> dict[str, float]:
    return {m.name: m.weight * share for m in part._members}
