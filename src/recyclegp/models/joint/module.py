"""JointModule: what an owner publishes of several functions at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import arrays
from ...categories import Categories, union_of
from ...core.posterior import Predicted
from ...errors import RecycleGPError
from ...likelihoods import Likelihood
from ...storage import container
from ...storage.container import Document
from ...storage.fields import Fields
from ..module import Module
from . import files
from .links import Link, Outputs
from .predictive import JointPredictive, covariances_of, draws_of, side_by_side
from .units import changes_of


@dataclass(frozen=True, eq=False, repr=False)
class JointModule(JointPredictive):
    """Several functions of one owner, ready to be saved, sent and merged. Made by `fit`, `load` and `of_outputs`."""

    link: Link
    parts: tuple[Module, ...]  # one for each function, all of one name

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.link.names):
            raise RecycleGPError(f"{len(self.parts)} parts for {len(self.link.names)} functions; give one each")
        first = self.parts[0]
        for part in self.parts[1:]:
            if (part.name, part.owner, part.columns, part.dimension) != (
                first.name,
                first.owner,
                first.columns,
                first.dimension,
            ):
                raise RecycleGPError("functions of one module must have its name, its owner and its columns")

    def __repr__(self) -> str:
        kept = [p.kept for p in self.parts if p.kept is not None]
        said = f" keep {min(kept):.0%} to {max(kept):.0%}" if kept else ""
        state = "" if all(p.convergence.converged for p in self.parts) else ", NOT CONVERGED"
        return (
            f"JointModule({self.name!r}, {len(self.parts)} {self.link.kind}: {files.few_functions(self.link)}; "
            f"{self.rows} rows, {max(len(p.inducing) for p in self.parts)} points in {self.dimension}-D{said}{state})"
        )

    @staticmethod
    def of_outputs(parts: Sequence[Module]) -> JointModule:
        """Modules of one owner as one with as many outputs, each called like its target.

        Args:
            parts: modules of one name; each must say what its y is called (`fit(target=...)`).

        Returns:
            The joint module.
        """
        names = [part.target.name for part in parts]
        if not parts or not all(names):
            raise RecycleGPError("outputs are called like their targets; fit each module with target=")
        return JointModule(Outputs(tuple(str(n) for n in names)), tuple(parts))

    # --- what it knows ---

    @property
    def name(self) -> str:
        return self.parts[0].name

    @property
    def owner(self) -> str:
        """Whose it is."""
        return self.parts[0].owner

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
        """The local (bound on the) log marginal likelihood of all functions together."""
        return sum(part.evidence for part in self.parts)

    @property
    def region(self) -> np.ndarray:
        """(D, 2): from where to where it has points, along each input."""
        ends = np.stack([part.region for part in self.parts])
        return np.stack([ends[..., 0].min(0), ends[..., 1].max(0)], -1)

    def part(self, function: str) -> Module:
        """One of its functions as a module by itself."""
        if function not in self.link.names:
            raise RecycleGPError(f"function={function!r}: there are {', '.join(self.link.names)}")
        return self.parts[self.link.names.index(function)]

    def _moments(self, X: Any, owner: str | None, *, of_y: bool) -> Predicted:
        return side_by_side([part._latent(part._inputs(X), part._answers(owner, of_y=of_y)) for part in self.parts])

    def _covariances(self, X: Any, owner: str | None) -> Tensor:
        return covariances_of(self.parts, X, [owner] * len(self.parts))

    def _check_owner(self, owner: str | None) -> None:
        self.parts[0]._answers(owner, of_y=True)

    def sample(self, X: Any, n: int = 1, seed: int = 0, owner: str | None = None) -> Any:
        """Joint draws of the functions at the rows of X.

        Args:
            X: inputs.
            n: number of draws.
            seed: of the draws.
            owner: its owner's name, or None.

        Returns:
            (n, len(X), C) numbers.
        """
        return draws_of(list(self.parts), X, n, seed, [owner] * len(self.parts))

    # --- the same, otherwise ---

    def publish(self, points: Any, seed: int = 0) -> JointModule:
        """The same posterior of every function at other, usually fewer, points.

        Args:
            points: how many, or the points.
            seed: of where automatic points go.

        Returns:
            The smaller module. Functions that had points in common have them again.
        """
        common = all(torch.equal(part._points, self.parts[0]._points) for part in self.parts)
        first = self.parts[0].publish(points, seed)
        return self._map(lambda part: part.publish(first._points if common else points, seed))

    def rounded(self, digits: int) -> JointModule:
        """The same in numbers of fewer digits; see `Module.rounded`."""
        return self._map(lambda part: part.rounded(digits))

    def rename(self, name: str) -> JointModule:
        """The same under another name."""
        return self._map(lambda part: part.rename(name))

    def owned_by(self, owner: str) -> JointModule:
        """The same as a module of this owner, who may have others."""
        return self._map(lambda part: part.owned_by(owner))

    def at_time(self, time: Any) -> JointModule:
        """The same as of a time."""
        return self._map(lambda part: part.at_time(time))

    def with_columns(self, columns: Sequence[str]) -> JointModule:
        """The same with names for its input columns."""
        return self._map(lambda part: part.with_columns(columns))

    def to(self, device: Any) -> JointModule:
        """The same on another device, as "cuda" or "cpu"."""
        return self._map(lambda part: part.to(device))

    def transform(
        self,
        input_shift: Any = None,
        output_scale: Any = 1.0,
        output_shift: Any = 0.0,
        unit: Any = None,
        *,
        input_scale: Any = None,
    ) -> JointModule:
        """The module of the functions s·f((x − shift)/scale) + b.

        Args:
            input_shift: as for a module of one function.
            output_scale: s; for outputs one number for all, one for each, or {output: number} by name. Classes have
                no other units.
            output_shift: b, likewise.
            unit: what y is measured in afterwards, likewise, if the module is to say so.
            input_scale: as for a module of one function.

        Returns:
            The module in its new units. Where noise varies, e^g is in the units of the new y².
        """
        changes = changes_of(self.link, output_scale, output_shift, unit)
        parts = zip(self.parts, changes, strict=True)
        return replace(
            self, parts=tuple(own.transform(input_shift, *new, input_scale=input_scale) for own, new in parts)
        )

    def _map(self, change: Callable[[Module], Module]) -> JointModule:
        return replace(self, parts=tuple(map(change, self.parts)))

    # --- files ---

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a safetensors file, all or nothing."""
        container.write(path, self._document())

    def _document(self) -> Document:
        return files.document("joint module", self.link, [part._document() for part in self.parts], shared=("Z",))

    @staticmethod
    def _from_fields(fields: Fields) -> JointModule:
        link, parts = files.parts(fields, "module")
        return JointModule(link, tuple(Module._from_fields(part) for part in parts))
