"""What modules that are merged must share: inputs of one number, by name where they have names, and their levels."""

from __future__ import annotations

from .. import arrays
from ..categories import called
from ..errors import RecycleGPError
from ..kernels.units import permuted
from ..record import About, Latent
from .how import Frame


def fitted(frame: Frame | None, module: Frame, label: str) -> Frame:
    """The frame with that of one more module in it, if it fits."""
    if frame is None:
        return module
    if module.dimension != frame.dimension:
        raise RecycleGPError(
            f"{label} has {_listed(module.dimension, module.columns)} where the others have "
            f"{_listed(frame.dimension, frame.columns)}; merge modules over the same inputs"
        )
    if module.columns is not None and frame.columns is not None:
        arrays.common_columns([frame.columns, module.columns], [frame.named_by, module.named_by])
        order = [module.columns.index(c) for c in frame.columns]
        module = module._replace(columns=frame.columns, categories=module.categories.permuted(order))
    _check_categories(frame, module, label)
    named = frame if module.columns is None or frame.columns is not None else module
    return named._replace(categories=frame.categories.union(module.categories))


def _check_categories(frame: Frame, module: Frame, label: str) -> None:
    """Do all take the same columns for categories?"""
    if frame.categories.columns == module.categories.columns:
        return
    column = min(set(frame.categories.columns) ^ set(module.categories.columns))
    mine, theirs = "categories", "numbers"
    if column not in module.categories.columns:
        mine, theirs = theirs, mine
    name = called(column, module.columns if frame.columns is None else frame.columns)
    raise RecycleGPError(
        f"{label} has {mine} in {name} where {frame.named_by!r} has {theirs}; fit one anew, with the column as text "
        "(categories) or as numbers in both"
    )


def _listed(dimension: int, columns: arrays.Columns) -> str:
    return f"{dimension} input column{'s' * (dimension != 1)}" + ("" if columns is None else f" ({', '.join(columns)})")


def words_of(about: About, c: int, frame: Frame) -> About:
    """What is said of one function, in the order and with the levels of all; as it is, where that is so already."""
    columns = None if about.columns is None else frame.columns  # a module without names is told positions
    if about.columns == columns and about.categories == frame.categories and len(about.targets) == 1:
        return about
    return about._replace(targets=(about.targets[c],), columns=columns, categories=frame.categories)


def aligned(about: About, latent: Latent, frame: Frame) -> Latent:
    """Columns and levels by name: in the order and with the codes that they have among those of all."""
    site, kernel, categories = latent.known_site, latent.kernel, about.categories
    if about.columns is not None and frame.columns is not None and about.columns != frame.columns:
        order = [about.columns.index(c) for c in frame.columns]
        site, kernel = site._replace(Z=site.Z[:, order]), permuted(kernel, order)
        categories = categories.permuted(order)
    if categories != frame.categories:
        site = site._replace(Z=categories.recoded(site.Z, frame.categories))
    return latent if site is latent.site else latent._replace(site=site, kernel=kernel)
