"""Tables for the page of `serve`: read as `score` reads them, and predicted at as `predict` does."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from .. import likelihoods
from ..errors import RecycleGPError, RecycleGPWarning, printable
from ..likelihoods import Likelihood
from ..serve.tables import Table, Test
from . import models
from .reading import ReadAs
from .screen import Screen
from .tables import Table as File
from .tables import open_table
from .targets import ALLOW, REFUSE, of_model, outputs_of, target_names

if TYPE_CHECKING:
    from ..models.ensemble import Ensemble
    from ..models.module import Module

NOBODY = Screen(quiet=True)


@dataclass(frozen=True)
class ServedTables:
    """How they are read, as options say it."""

    target: str | None = None
    inputs: str | None = None
    likelihood: str | None = None
    positive: str | None = None
    dates: str | None = None
    drop_missing: bool = False
    read_as: ReadAs = ReadAs()  # noqa: RUF009  # a value that never changes

    def test(self, path: str, modules: Sequence[Module], screen: Screen) -> Test:
        """The table that is named on the command line: its target must be there."""
        file, first = open_table(path, self.read_as), _widest(modules)
        chosen = self._chosen(first)
        names = self._targets(file, first, chosen, self.target) or [n for n in [first.target.name] if n is not None]
        if not names:
            raise RecycleGPError(
                f"--test {path}: the modules do not say what y is called; name its column with --target"
            )
        gaps = bool(outputs_of(chosen)) and not self.drop_missing
        return self._scored(file, first, names, screen, gaps=gaps, drop=self.drop_missing)[0]

    def read(self, path: Path, label: str, modules: Sequence[Module], target: str | None) -> Table:
        """One that was uploaded: rows that lack something are predicted as far as they can be, and not scored."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RecycleGPWarning)
                return self._read(path, label, _widest(modules), target)
        except RecycleGPError as refused:
            raise RecycleGPError(_called(refused, path, label)) from None

    def _read(self, path: Path, label: str, first: Module, target: str | None) -> Table:
        file = open_table(path, self.read_as)
        chosen = self._chosen(first)
        names = self._targets(file, first, chosen, target or self.target)
        inputs = self.inputs
        if inputs is None and first.columns is None:
            inputs = ",".join(name for name in file.names if name not in names)
        rows = models.rows_for(first, file, inputs=inputs, dates=self.dates, keep=file.names, every=True)
        with closing(rows.parts(NOBODY)) as read:
            parts = rows.settled(lambda: list(read))
        found = Table(label, sum(len(part.X) for part in parts), file.names, parts)
        if not names:
            return replace(found, targets=tuple(n for n in file.names if n not in (first.columns or ())))
        found = replace(found, target=", ".join(names))
        try:
            gaps = bool(outputs_of(chosen))  # who has seen one output is scored on that one
            test, left_out = self._scored(file, first, names, NOBODY, gaps=gaps, drop=not gaps)
        except RecycleGPError as refused:
            return replace(found, unscored=_called(refused, path, label))
        return replace(found, test=test._replace(label=label), left_out=left_out)

    def predictions(self, model: Ensemble, table: Table) -> bytes:
        """As CSV, behind the columns of the table."""
        from .predict import csv_rows
        from .predictions import Predictions, likelihood_of

        asked = Predictions(model, None, likelihood_of(model, self.likelihood))
        clash = [c for c in table.columns if c in asked.columns]
        if clash:
            raise RecycleGPError(f"{table.label}: its column {clash[0]!r} has the name of a prediction; rename it")
        stream = BytesIO()
        csv_rows(stream, map(asked.frame, table.parts))
        return stream.getvalue()

    def _chosen(self, first: Module) -> Likelihood:
        models.check_likelihood(first, self.likelihood)
        if self.likelihood is not None:
            return likelihoods.named(self.likelihood)
        return likelihoods.choose(first.likelihoods, None)

    def _targets(self, file: File, first: Module, chosen: Likelihood, said: str | None) -> list[str]:
        """The columns of y: those that are named, or those that modules name, as far as they are there."""
        if said is not None:
            return target_names([said], file)
        known = outputs_of(chosen) or (first.target.name,)
        return [name for name in known if name in file.names]

    def _scored(
        self, file: File, first: Module, names: Sequence[str], screen: Screen, *, gaps: bool, drop: bool
    ) -> tuple[Test, int]:
        """Rows whose target is there, and how many are not."""
        wanted = of_model(names, self._chosen(first), ALLOW if gaps else REFUSE, self.positive)
        rows = models.rows_for(first, file, wanted, inputs=self.inputs, dates=self.dates, drop_missing=drop)
        found = models.read(first, rows, screen)
        return Test(found.X, found.y, self.likelihood, printable(file.path.name)), rows.left_out


def _widest(modules: Sequence[Module]) -> Module:
    """Of modules with several functions, one that has most of them."""
    return max(modules, key=lambda m: len(m.functions))


def _called(refused: RecycleGPError, path: Path, label: str) -> str:
    """What is wrong with a file that people know by its label."""
    return refused.worded(shell=True).replace(str(path), label).replace(path.name, label)
