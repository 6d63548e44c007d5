"""What somebody should know of modules that have just been fitted: too few rows, too few points, or none at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..errors import Argument, Either, FewRowsWarning, LittleKeptWarning, Message, Name, PrivacyWarning, warn_user
from ..local.options import Publishing
from ..local.planning import PEOPLE_OPTION
from ..record import Privacy, Record
from .modules import Modules

FEW_ROWS = 10  # below which a module says much about each of its rows
MANY_POINTS = 0.1  # for each row, above which attacks find people (docs/privacy-measured.md)
LITTLE_KEPT = 0.8  # of what the rows say, below which somebody should know


THINGS_OPTION = Either("privacy='things'", "--things")


class PublishedSize(NamedTuple):
    """What a module has become of its rows; of several functions that which keeps least."""

    name: str
    rows: int
    points: int
    dimension: int
    kept: float | None

    @staticmethod
    def of(record: Record) -> PublishedSize:
        points = [latent.known_site.Z.shape for latent in record.latents]
        found = (
            PublishedSize(record.about.name, latent.rows, M, D, latent.kept)
            for latent, (M, D) in zip(record.latents, points, strict=True)
        )
        return least_kept(list(found))

    @staticmethod
    def of_all(modules: Modules) -> Iterator[PublishedSize]:
        """Of many, of which no objects are made."""
        for block, _ in modules._pieces():
            columns = [
                zip(f.rows.tolist(), f.models.sites.points.tolist(), f.models.kept.tolist(), strict=True)
                for f in block.functions
            ]
            D = block.common.dimension
            if len(columns) == 1:
                for name, (rows, points, kept) in zip(block.names, columns[0], strict=True):
                    yield PublishedSize(name, rows, points, D, kept)
                continue
            for name, *functions in zip(block.names, *columns, strict=True):
                yield least_kept([PublishedSize(name, rows, points, D, kept) for rows, points, kept in functions])

    def bytes(self, points: int) -> int:
        """Of the numbers in its site, if it had so many points."""
        return 8 * (points * (self.dimension + points + 1) + 1)


def least_kept(functions: Sequence[PublishedSize]) -> PublishedSize:
    """Of the functions of one module that which keeps least, with the rows of that which has most."""
    worst = min(functions, key=lambda f: 1.0 if f.kept is None else f.kept)
    return worst._replace(rows=max(f.rows for f in functions))


def warn_about_publishing(modules: Sequence[PublishedSize], options: Publishing) -> None:
    """Of modules that say too much about single rows, or too little about all of them: once of each."""
    if not options.allow_small:
        _warn_about_few_rows(modules)
    if options.privacy is not Privacy.PEOPLE:  # of whom less is published on purpose
        _warn_about_little_kept(modules, options.rows_per_point)
    if options.privacy is None:
        _warn_about_people(modules)


def _warn_about_few_rows(modules: Sequence[PublishedSize]) -> None:
    small = [m for m in modules if m.rows < FEW_ROWS]
    if not small:
        return
    fewest = min(small, key=lambda m: m.rows)
    others = _others(len(small) - 1, len(modules), f"fewer than {FEW_ROWS}")
    warn_user(
        f"{fewest.name} has {fewest.rows} row{'s' * (fewest.rows != 1)}{others}: a module of fewer than {FEW_ROWS} "
        "says much about each of them; collect more before you publish it, or pass ",
        Argument("allow_small", True),
        category=FewRowsWarning,
    )


def _warn_about_people(modules: Sequence[PublishedSize]) -> None:
    """Of modules with many points for each row, where nobody has said whether rows are people; of few more is said."""
    many = [m for m in modules if m.points > MANY_POINTS * m.rows and m.rows >= FEW_ROWS]
    if not many:
        return
    worst = max(many, key=lambda m: m.points / m.rows)
    others = _others(len(many) - 1, len(modules), f"more than {MANY_POINTS:g} for each row")
    warn_user(
        f"{worst.name} has {worst.points} points for {worst.rows} rows{others}: enough to find out who some of "
        "them are and what they had; if they are people, pass ",
        PEOPLE_OPTION,
        ", else ",
        THINGS_OPTION,
        category=PrivacyWarning,
    )


def _warn_about_little_kept(modules: Sequence[PublishedSize], rows_per_point: int | None) -> None:
    """With what more points would cost."""
    poor = [m for m in modules if m.kept is not None and m.kept < LITTLE_KEPT]
    if not poor:
        return
    worst = min(poor, key=lambda m: m.kept or 0.0)
    now = worst.points
    more = f"{2 * now} points would take {worst.bytes(2 * now):,} bytes instead of {worst.bytes(now):,}"
    others = _others(len(poor) - 1, len(modules), f"less than {LITTLE_KEPT:.0%}", verb="keep")
    fewer = Message("a smaller ", Name("rows_per_point"), f" than {rows_per_point}")
    remedy = Argument("publish", 2 * now) if rows_per_point is None else fewer
    warn_user(
        f"{worst.name} keeps {worst.kept:.0%} of what its {worst.rows} rows say about f at {now} points{others}; "
        f"{more} (",
        remedy,
        ")",
        category=LittleKeptWarning,
    )


def _others(others: int, modules: int, what: str, verb: str = "have") -> str:
    """How many more there are, in words that agree in number."""
    if not others:
        return ""
    singular = {"have": "has", "keep": "keeps"}[verb]
    return f", and {others} other{'s' * (others > 1)} of {modules} modules {verb if others > 1 else singular} {what}"


def failure_message(failures: Mapping[str, str]) -> str:
    """The beginning of an error about models that failed."""
    return f"{len(failures)} of the models failed ({_reasons(failures)})"


def warn_about_failures(failures: Mapping[str, str]) -> None:
    """Of models that were left out."""
    if failures:
        were = "models were" if len(failures) > 1 else "model was"
        warn_user(f"{len(failures)} {were} left out ({_reasons(failures)})")


def _reasons(failures: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in failures.items())
