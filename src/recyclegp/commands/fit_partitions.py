"""fit --partition-by, fit --partitions: a large table becomes many modules, and one ensemble of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RecycleGPError
from ..threads import using_threads
from . import facts
from .paths import SUFFIX, check_model_output
from .screen import Screen, say
from .tables import Table, open_folder, open_table

if TYPE_CHECKING:
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
    def option(self) -> str | None:
        """The one that asks for partitions."""
        return "--partition-by" if self.by is not None else "--partitions" if self.number is not None else None

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


class Destination(NamedTuple):
    ensemble: Path | None
    modules: Path | None


def destination(output: Path, modules: Path | None, data: str) -> Destination:
    """A file is for the ensemble, a folder for the modules alone."""
    if output.suffix == SUFFIX:
        check_model_output(output, [data])
        return Destination(output, modules)
    if modules is not None:
        raise RecycleGPError(f"-o {output}: it is a folder for the modules, and so is --modules; give one of them")
    if output.exists() and not output.is_dir():
        raise RecycleGPError(f"-o {output}: a file that is there, and no folder for modules; ensembles end in {SUFFIX}")
    if output.exists() and Path(data).exists() and output.samefile(data):
        raise RecycleGPError(f"-o {output}: the rows are in this folder; write to another one")
    return Destination(None, output)


def opened(data: str, decimal: str) -> Table:
    path = Path(data)
    return open_folder(path) if path.is_dir() else open_table(path, decimal)


def fit_parts(
    screen: Screen, rows: Rows, how: Partitioning, output: Path, threads: int, options: dict[str, Any]
) -> None:
    """Divide, fit and merge; the rows lie beside the output meanwhile, so that all workers can read them."""
    from .division import ByColumn, ByOrder, divided  # pandas takes a second

    to = destination(output, how.modules, str(rows.table.path))
    with _row_folder(output) as folder:
        way = ByColumn(how.by, rows.drop_missing) if how.by is not None else ByOrder(how.number or 1)
        parts = divided(rows, way, folder, screen)
        with _executor(how, threads) as executor:
            from ..engines import fitting
            from ..engines.options import FitArguments

            given = FitArguments(labels=rows.class_labels, **options)  # type: ignore[typeddict-item]
            job = fitting.prepared(
                parts.sources,
                given,
                names=parts.names,
                target=rows.target,
                on_failure="skip" if how.skip_failed else "raise",
                progress=False if screen.quiet or screen.as_json else None,
            )
            if to.ensemble is not None:
                where = folder / "modules" if to.modules is None else to.modules  # seen by all workers, as the rows
                fitting.fit_partitions(executor, job, where).save(to.ensemble)
            elif to.modules is not None:
                to.modules.mkdir(parents=True, exist_ok=True)
                _report_modules(screen, to.modules, fitting.fit_chunks(executor, job, to.modules.absolute()), rows)
    if to.ensemble is not None:
        facts.report(screen, to.ensemble, rows_left_out=rows.incomplete)


@contextmanager
def _row_folder(output: Path) -> Iterator[Path]:
    parent = output.absolute().parent
    if not parent.is_dir():
        raise RecycleGPError(f"-o {output}: there is no folder {parent}; make it first")
    with tempfile.TemporaryDirectory(prefix=".recyclegp-rows-", dir=parent) as made:
        yield Path(made)


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
        "modules": sum(len(c.members) for c in chunks),
        "files": len(chunks),
        "found": sum(len(c.members) for c in chunks if c.found),
        "rows": sum(m.rows for c in chunks for m in c.members),
        "rows_left_out": rows.incomplete,
    }
    words = {
        "folder": str(folder),
        "modules": f"{found['modules']:,} in {found['files']:,} files",
        "rows": f"{found['rows']:,}",
    }
    if found["found"]:
        words["found there"] = f"{found['found']:,} of the modules, which were not fitted again"
    screen.result(found, lambda: say(words))
