"""The tasks run on the cores of one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any, NamedTuple, TypeVar

from ..errors import RecycleGPError
from ..extras import install
from ..models.ensemble import Ensemble
from ..models.plan import Plan
from ..models.rounds import Rounds
from .executor import Done, Tree
from .fitting import fit_partitions as fit_all
from .fitting import prepared
from .partitions import Partitions
from .rounds import rounds_over_partitions

try:
    from joblib import Parallel, delayed
except ImportError:
    raise RecycleGPError(f"engines.joblib needs joblib; {install('dask', 'joblib')}") from None

T = TypeVar("T")


def fit_partitions(
    partitions: Partitions, *, jobs: int = -1, folder: str | PathLike[str] | None = None, **how: Any
) -> Ensemble:
    """Fit each partition of one's own data in processes of this machine, and merge all modules.

    The same as `engines.dask.fit_partitions`, without a cluster; what is not explained here is explained there.

    Args:
        partitions: as there.
        jobs: processes; -1 for as many as there are cores, 1 for none but this one.
        folder: where modules are written, and found again when a run that was stopped is started once more. Without
            one it is a temporary folder.
        **how: names, inputs, target, merge, per_task, on_failure, progress and the options of the fits, as there.

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
    return fit_all(JoblibExecutor(jobs), prepared(partitions, **how), folder)


def rounds(
    partitions: Partitions,
    rounds: int = 10,
    points: int = 256,
    *,
    plan: Plan | None = None,
    jobs: int = -1,
    folder: str | PathLike[str] | None = None,
    **how: Any,
) -> Rounds:
    """One common sparse model of all partitions, by rounds: see `recyclegp.rounds`.

    Every exchange reads the partitions once, and only sums over rows come back.

    Args:
        partitions: as for `fit_partitions`.
        rounds: how often the common bound is computed, at most.
        points: of the plan that the merge of all partitions' modules proposes.
        plan: where to begin, instead of with such a merge.
        jobs: as for `fit_partitions`.
        folder: as for `fit_partitions`: of the modules that the first plan is made from.
        **how: as for `fit_partitions`.

    Returns:
        The ensemble, which keeps names only, and the next plan.

    Raises:
        RecycleGPError: A partition or an option cannot be what it is.
        TypeError: No option has such a name.

    Examples:
        >>> import numpy as np
        >>> x = np.linspace(0, 6, 90)
        >>> e, plan = rounds([(x[i::3], np.sin(x[i::3])) for i in range(3)], rounds=2, points=8, jobs=1)
        >>> e.names
        ['part-0', 'part-1', 'part-2']
    """
    return rounds_over_partitions(JoblibExecutor(jobs), prepared(partitions, **how), folder, rounds, points, plan)


class JoblibExecutor(NamedTuple):
    """Processes stay from one call to the next, as joblib keeps them."""

    jobs: int

    def map(self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]], name: str) -> Iterator[Done]:
        calls = (delayed(function)(*item) for item in items)
        yield from enumerate(self._pool()(calls))

    def tree(self, function: Callable[[Any], T], items: Sequence[Any], join: Callable[[T, T], T], name: str) -> T:
        """Results are joined here as they come in, so that only a few are ever held."""
        tree = Tree(join)
        for result in self._pool()(delayed(function)(item) for item in items):
            tree.put(result)
        root: T = tree.root()
        return root

    def _pool(self) -> Any:
        return Parallel(n_jobs=self.jobs, return_as="generator")
