"""The tasks run on the cores of one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, TypeVar

from ..errors import RecycleGPError
from ..models.ensemble import Ensemble
from .executor import Done, Tree
from .fitting import fit_partitions as fit_all
from .fitting import prepared
from .partitions import Partitions, Targets

try:
    from joblib import Parallel, delayed
except ImportError:
    raise RecycleGPError("engines.joblib needs joblib; pip install 'recyclegp[dask]'") from None

T = TypeVar("T")


def fit_partitions(
    partitions: Partitions,
    *,
    jobs: int = -1,
    folder: str | PathLike[str] | None = None,
    names: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    target: Targets = None,
    merge: Mapping[str, Any] | None = None,
    per_task: int | None = None,
    on_failure: str = "raise",
    progress: bool | None = None,
    **options: Any,
) -> Ensemble:
    """Fit each partition of one's own data in processes of this machine, and merge all modules.

    The same as `engines.dask.fit_partitions`, without a cluster; what is not explained here is explained there.

    Args:
        partitions: as there.
        jobs: processes; -1 for as many as there are cores, 1 for none but this one.
        folder: where modules are written, and found again when a run that was stopped is started once more. Without
            one it is a temporary folder.
        **options: of the fits, as for `fit_many`.

    Returns:
        The ensemble, to the bit that of a cluster.

    Raises:
        RecycleGPError: A partition or an option cannot be what it is, or models failed.
        TypeError: No option has such a name.

    Examples:
        >>> import numpy as np
        >>> x = np.linspace(0, 6, 60)
        >>> fit_partitions([(x[i::3], np.sin(x[i::3])) for i in range(3)], jobs=1).names
        ['part-0', 'part-1', 'part-2']
    """
    job = prepared(partitions, options, names, inputs, target, merge, per_task, on_failure, progress)
    return fit_all(JoblibExecutor(jobs), job, folder)


class JoblibExecutor(NamedTuple):
    """Processes stay from one call to the next, as joblib keeps them."""

    jobs: int

    def map(self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]], name: str) -> Iterator[Done]:
        calls = (delayed(function)(*item) for item in items)
        for position, result in enumerate(self._pool()(calls)):
            yield Done(position, result)

    def tree(self, function: Callable[[Any], T], items: Sequence[Any], join: Callable[[T, T], T], name: str) -> T:
        """Results are joined here as they come in, so that only a few are ever held."""
        tree = Tree(join)
        for result in self._pool()(delayed(function)(item) for item in items):
            tree.put(result)
        root: T = tree.root()
        return root

    def _pool(self) -> Any:
        return Parallel(n_jobs=self.jobs, return_as="generator")
