"""plan, contribute and combine: owners who answer once more, by e-mail if need be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import RecycleGPError
from . import fit_options, models, options
from .options import option, switch
from .parsing import pairs, time_of
from .paths import SUFFIX, check_model_output, check_output, expand
from .screen import Screen
from .signatures import verified

if TYPE_CHECKING:
    from ..models.plan import Plan
    from ..models.privacy import Privacy

PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="File of a plan.")]
AnswerFiles = Annotated[
    list[str], typer.Argument(metavar="FILES…", help="Answers, also earlier ones: files, folders of them, or patterns.")
]

People = Annotated[bool, switch("--people", "Rows are about people: refused, answer with --epsilon.")]
Person = Annotated[
    str | None,
    option("Column that says whose each row is: all rows of a person are protected. It is no input.", "COLUMN", "rows"),
]
RowsEach = Annotated[
    int | None, option("Of a person, so many rows count at most: the first ones.", "N", "1", "--rows-each", min=1)
]


def plan(
    ensemble: options.Ensemble,
    output: options.Output,
    points: Annotated[int, option("Of the modules' points, at which owners will answer.", "N", min=1)] = 256,
    learn: Annotated[bool, switch("--learn/--no-learn", "Learn kernel and noise by the rounds that follow.")] = True,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Propose a plan from a merge: what owners agree on to answer once more, and better.

    Example: recyclegp plan city.safetensors --points 64 -o plan.safetensors
    """
    screen = Screen(quiet, as_json, verbose)
    check_model_output(output, [ensemble])
    with screen.working("Planning"):
        models.load_ensemble(ensemble, "plan").plan(points, learn=learn).save(output)
    models.report(screen, output)


def contribute(
    plan: PlanFile,
    data: options.Data,
    targets: options.Targets,
    output: options.Output,
    inputs: options.ModelInputs = None,
    name: Annotated[str | None, option("Yours, the same in every round.", None, "the table's")] = None,
    owner: fit_options.RowsOwner = None,
    time: fit_options.Time = None,
    noise_column: options.NoiseOfRows = None,
    noise_sd_column: options.NoiseSdOfRows = None,
    score: Annotated[
        bool, switch("--score", "Keep a tenth of the rows out of every answer, and say how well models predict them.")
    ] = False,
    slopes: Annotated[
        bool | None,
        option(
            "Send derivatives, too: a larger file, and one exchange less.",
            None,
            "where it is small",
            "--slopes/--no-slopes",
        ),
    ] = None,
    rows_per_point: Annotated[
        int | None, option("Refuse, unless there are so many rows for each of the plan's points.", "N", min=1)
    ] = None,
    people: People = False,
    things: fit_options.Things = False,
    epsilon: Annotated[
        float | None, option("Make the answer differentially private, with this ε.", "NUMBER", "no guarantee")
    ] = None,
    delta: Annotated[float | None, option("δ of the guarantee, far below one over the rows.", "NUMBER")] = None,
    bound: Annotated[
        float | None, option("How far y may be from the plan's mean; farther values are clipped.", "NUMBER")
    ] = None,
    person: Person = None,
    rows_each: RowsEach = None,
    ledger: Annotated[
        Path | None, option("Write down here what is spent, and refuse what exceeds --budget.", "FILE.json")
    ] = None,
    budget: Annotated[float | None, option("ε of all answers in the ledger together.", "NUMBER", "--epsilon")] = None,
    public_plan: Annotated[
        bool, switch("--public-plan", "The plan was not made from these rows, or it does not matter.")
    ] = False,
    allow_small: options.AllowSmall = False,
    dates: options.Dates = None,
    missing: options.Missing = "refuse",
    positive: options.Positive = None,
    censored: options.Censored = None,
    drop_missing: options.DropMissing = False,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Answer a plan: sums over the rows of a table, at the plan's points.

    Send the file to whoever has made the plan. It holds no data rows.

    Example: recyclegp contribute plan.safetensors north.csv --target y -o north-1.safetensors
    """
    screen = Screen(quiet, as_json, verbose)
    chosen = fit_options.privacy(people, things)
    private = private_answer(epsilon, delta, bound, ledger, budget, public_plan, person, rows_each)
    if private is not None and chosen is not None:
        raise RecycleGPError("--epsilon: with a guarantee --people and --things say nothing more; leave them out")
    check_model_output(output, [plan, data])
    at = None if time is None else time_of(time, "time")
    from .rows import NoiseColumn
    from .tables import ReadAs, open_table
    from .targets import of_model, target_names

    measured = NoiseColumn.given(None, noise_column, noise_sd_column)
    table = open_table(data, ReadAs(decimal, encoding, sheet))
    names = target_names(targets, table)
    with screen.working("Loading"):
        agreed = load_plan(plan)
    wanted = of_model(names, agreed.likelihoods[0], missing, positive, censored)
    rows = models.rows_for(
        agreed, table, wanted, inputs=inputs, dates=dates, noise=measured, person=person, drop_missing=drop_missing
    )
    read = models.read(agreed, rows, screen)
    with screen.working("Answering", threads):
        answer = agreed.contribute(
            read.X,
            read.y,
            name=Path(data).stem if name is None else name,
            owner=owner,
            time=at,
            noise=read.noise,
            missing=missing,
            rows_per_point=rows_per_point,
            privacy=private or chosen,
            allow_small=allow_small,
            score=score,
            slopes=slopes,
            persons=models.persons(read, person),
        )
        answer.save(output)
    models.report(screen, output, rows_left_out=rows.left_out)


def private_answer(
    epsilon: float | None,
    delta: float | None,
    bound: float | None,
    ledger: Path | None,
    budget: float | None,
    public_plan: bool,
    person: str | None = None,
    rows_each: int | None = None,
) -> Privacy | None:
    """What --epsilon and its companions ask for, if anything."""
    if epsilon is None:
        given: dict[str, Any] = {"--delta": delta, "--bound": bound, "--ledger": ledger, "--budget": budget}
        given |= {"--person": person, "--rows-each": rows_each}
        for option_name in [name for name, value in given.items() if value is not None]:
            raise RecycleGPError(f"{option_name} is part of a guarantee; give --epsilon, too")
        return None
    if delta is None or bound is None:
        raise RecycleGPError("--epsilon needs --delta and --bound, too")
    if person is None and rows_each is not None:
        raise RecycleGPError("--rows-each is of persons; give --person, too")
    from ..models.privacy import Privacy
    from ..record import PERSON, ROW

    unit = ROW if person is None else PERSON
    return Privacy(epsilon, delta, bound, unit, rows_each or 1, ledger, budget, public_plan=public_plan)


def combine(
    plan: PlanFile,
    files: AnswerFiles,
    output: options.Output,
    following: Annotated[
        Path | None, option("Write the next plan here, for owners to answer.", "FILE.safetensors", None, "--next")
    ] = None,
    weights: Annotated[
        list[str] | None, option("What an owner counts; may be repeated.", "NAME=W,…", "1", "--weights")
    ] = None,
    keep: Annotated[
        str, option("With names only the file is small, but none can be removed.", "sites|names")
    ] = "sites",
    trusted: options.OnlyTrusted = None,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Combine answers to a plan: the ensemble of all rows, and the next plan.

    Give all answers there are, also to the plans before it: whoever has not
    answered this one counts with what was said last. The ensemble is exactly
    the sparse model of all rows in one place.

    Example: recyclegp combine plan.safetensors answers/ -o city2.safetensors --next plan-2.safetensors
    """
    screen = Screen(quiet, as_json, verbose)
    paths = expand(files)
    check_model_output(output, [plan, *paths])
    if following is not None:
        if following.suffix != SUFFIX:
            raise RecycleGPError(f"--next {following}: files of plans end in {SUFFIX}")
        check_output(following, [plan, *paths])
    verified(paths, trusted)
    with screen.working("Combining", threads):
        merged, after = load_plan(plan).combine(_answers(paths), keep=keep, weights=pairs(weights or [], "--weights"))
        merged.save(output)
        if following is not None:
            after.save(following)
    last = after.history[-1]
    more: dict[str, Any] = {"round": after.round, "done": after.done, "gain_over_one_shot": after.gain}
    models.report(screen, output, **more, **{key: last[key] for key in ("score", "missing", "left_out")})


def _answers(paths: list[Path]) -> list[Path]:
    """Those among the files that are answers; a folder may hold plans and ensembles, too."""
    from ..models.plan_answers import may_be_answer

    return [path for path in paths if may_be_answer(path)]


def load_plan(path: str) -> Plan:
    from ..models.load import load
    from ..models.plan import Plan

    found = load(path)
    if not isinstance(found, Plan):
        raise RecycleGPError(f"{path}: it holds no plan; make one of an ensemble with plan")
    return found
