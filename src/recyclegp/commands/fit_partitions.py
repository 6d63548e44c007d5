"""fit --partition-by, fit --partitions: a large table becomes many modules, and one ensemble of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RecycleGPError
from ..threads import using_threads
from . import models
from .paths import SUFFIX, check_model_output
from .screen import Screen, say

if TYPE_CHECKING:
    from ..local.options import FitOptions
    from .rows import Rows


class Partitioning(NamedTuple):
    """What the options say about it."""

    by: str | None
    number: int | None
    dask: str | None
    jobs: int | None
    modules: Path | None
    skip_failed: bool

    @property
    def wanted(self) -> bool:
        return self.by is not None or self.number is not None

    @property
    def kept(self) -> tuple[str, ...]:
        """Columns that are carried along."""
        return () if self.by is None else (self.by,)

    def check(self, data: str, alone: Mapping[str, Any]) -> None:
        """Do the options fit together? `alone` are those of a single module."""
        if self.by is not None and self.number is not None:
            raise RecycleGPError("--partition-by and --partitions are two ways to divide the rows; give one of them")
        if not self.wanted:
            given: dict[str, Any] = {"--dask": self.dask, "--jobs": self.jobs, "--modules": self.modules}
            given["--skip-failed"] = self.skip_failed or None
            for option, value in given.items():
                if value is not None:
                    raise RecycleGPError(f"{option}: it is for many partitions; add --partition-by or --partitions")
            if Path(data).is_dir():
                raise RecycleGPError(
                    f"{data}: a folder is not a table for one model; Parquet files in it are fitted in partitions: "
                    "add --partition-by COLUMN or --partitions N"
                )
            return
        for option, value in alone.items():
            if value is not None:
                raise RecycleGPError(f"{option}: it is for a single module; leave it out where there are partitions")
        if self.dask is not None and self.jobs is not None:
            raise RecycleGPError("--dask and --jobs: the cluster knows how many workers it has; leave --jobs out")


def check_destination(output: Path, modules: Path | None, data: str) -> None:
    """A file is for the ensemble, a folder for the modules alone."""
    if output.suffix == SUFFIX:
        check_model_output(output, [data])
        return
    if modules is not None:
        raise RecycleGPError(f"-o {output}: it is a folder for the modules, and so is --modules; give one of them")
    if output.exists() and not output.is_dir():
        raise RecycleGPError(f"-o {output}: a file that is there, and no folder for modules; ensembles end in {SUFFIX}")
    if output.exists() and Path(data).exists() and output.samefile(data):
        raise RecycleGPError(f"-o {output}: the rows are in this folder; write to another one")
    if not output.absolute().parent.is_dir():
        raise RecycleGPError(f"-o {output}: there is no folder {output.absolute().parent}; make it first")


def fit_parts(screen: Screen, rows: Rows, how: Partitioning, output: Path, threads: int, options: FitOptions) -> None:
    """Divide, fit and merge; the rows lie beside the output meanwhile, so that all workers can read them."""
    from .division import by_column, by_order, divided  # pandas takes a second

    with tempfile.TemporaryDirectory(prefix=".recyclegp-rows-", dir=output.absolute().parent) as made:
        if how.by is not None:
            names, way = by_column(how.by, rows.drop_missing, rows.table, screen)
        else:
            names, way = by_order(how.number or 1, rows.table, screen)
        folder = Path(made)
        parts = divided(rows, names, way, folder, screen)
        with _executor(how, threads) as executor:
            from ..engines import fitting

            given = options.changed(labels=rows.class_labels, classes=_levels(options, parts)).keywords
            _note_words(screen, rows, parts, options)
            job = fitting.prepared(
                list(parts.values()),
                names=list(parts),
                on_failure="skip" if how.skip_failed else "raise",
                progress=False if screen.quiet or screen.as_json else True if screen.verbose else None,
                **given,
            )
            if output.suffix == SUFFIX:
                where = folder / "modules" if how.modules is None else how.modules  # seen by all workers, as the rows
                fitting.fit_partitions(executor, job, where).save(output)
                models.report(screen, output, rows_left_out=rows.left_out)
            else:
                output.mkdir(parents=True, exist_ok=True)
                _report_modules(screen, output, fitting.fit_chunks(executor, job, output.absolute()), rows)


def _levels(options: FitOptions, parts: Mapping[str, Any]) -> Any:
    """Those of the whole table, where they are in an order: a partition may lack some, and all must have the same."""
    from .. import likelihoods

    wanted, first = options.inference, next(iter(parts.values()))
    family = likelihoods.first_of(wanted.likelihood)
    if wanted.classes is not None or not family.ordered:
        return wanted.classes
    return list(family.for_data(list(first.labels), len(first.labels), None).own_labels)


def _note_words(screen: Screen, rows: Rows, parts: Mapping[str, Any], options: FitOptions) -> None:
    from ..target import Target
    from . import words

    first, unit = next(iter(parts.values())), options.naming.unit
    names = rows.targets.names if rows.targets is not None else ()
    units = [unit] * len(names) if unit is None or isinstance(unit, str) else unit
    targets = [Target(name, own, rows.class_labels) for name, own in zip(names, units, strict=False)]
    words.note(screen, words.words(parts, (), rows.inputs, first.categories, targets, ("classes", first.labels)))


@contextmanager
def _executor(how: Partitioning, threads: int) -> Iterator[Any]:
    if how.dask is None:
        from ..engines.joblib import JoblibExecutor

        with using_threads(threads):
            yield JoblibExecutor(-1 if how.jobs is None else how.jobs)
        return
    from ..engines.dask import DaskExecutor, connected

    with connected(how.dask) as client:
        yield DaskExecutor(client)


def _report_modules(screen: Screen, folder: Path, chunks: list[Any], rows: Rows) -> None:
    found = {
        "folder": str(folder),
        "modules": sum(len(c.modules) for c in chunks),
        "files": len(chunks),
        "found": sum(len(c.modules) for c in chunks if c.found),
        "rows": sum(m.rows for c in chunks for m in c.modules),
        "rows_left_out": rows.left_out,
    }
    words = {
        "folder": str(folder),
        "modules": f"{found['modules']:,} in {found['files']:,} files",
        "rows": f"{found['rows']:,}",
    }
    if found["found"]:
        words["found there"] = f"{found['found']:,} of the modules, which were not fitted again"
    screen.result(found, lambda: say(words))
