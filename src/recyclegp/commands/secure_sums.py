"""gather-sum and join-sum: one answer of all owners together, of whom nobody's own can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..logs import logger
from . import models, options
from .options import option, switch
from .paths import check_model_output
from .plans import PlanFile, load_plan, private_answer
from .screen import Screen

log = logger(__name__)
Folder = Annotated[
    Path, option("Where messages are, and are awaited; a new one for each sum.", "FOLDER", None, "--folder")
]
Epsilon = Annotated[float | None, option("ε of the sum, where it is to be private.", "NUMBER", "no guarantee")]
Delta = Annotated[float | None, option("δ of the guarantee, far below one over the rows.", "NUMBER")]
Bound = Annotated[float | None, option("How far y may be from the plan's mean; farther values are clipped.", "NUMBER")]
Timeout = Annotated[float, option("Seconds to wait for others at each of four stages.", "NUMBER", "3600", "--timeout")]


def gather_sum(
    plan: PlanFile,
    owners: Annotated[list[str], option("Names of the owners; may be repeated.", "NAME", None, "--owner")],
    folder: Folder,
    output: options.Output,
    threshold: Annotated[int | None, option("Owners who must stay to the end.", "N", "two thirds", min=2)] = None,
    honest: Annotated[
        int | None, option("Owners whose noise alone makes the sum private.", "N", "--threshold", min=1)
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    bound: Bound = None,
    timeout: Timeout = 3600.0,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Add up owners' answers to a plan, of which none can be read: the coordinator's side.

    It writes a message for each owner and waits for theirs, four times; send
    the files to and fro if the folder is not shared. What comes out is one
    answer, for combine.

    Example: recyclegp gather-sum plan.safetensors --owner north --owner south --folder sum-1 -o sum.safetensors
    """
    screen = Screen(quiet, as_json, verbose)
    check_model_output(output, [plan])
    privacy = private_answer(epsilon, delta, bound, None, None, False)
    with screen.working("Loading"):
        agreed = load_plan(plan)
        from ..models.secure_answers import SecureSum
        from ..models.sum_files import gather

    gathering = SecureSum(agreed, owners, threshold=threshold, privacy=privacy, honest=honest)
    with screen.working("Gathering"):
        gather(gathering, folder, timeout, tell=log.info).save(output)
    models.report(screen, output, owners=list(gathering.survivors))


def join_sum(
    plan: PlanFile,
    data: options.Data,
    targets: options.Targets,
    folder: Folder,
    inputs: options.ModelInputs = None,
    name: Annotated[str | None, option("Yours, by which you were invited.", None, "the table's")] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    bound: Bound = None,
    ledger: Annotated[
        Path | None, option("Write down here what is spent, and refuse what exceeds --budget.", "FILE.json")
    ] = None,
    budget: Annotated[float | None, option("ε of all answers in the ledger together.", "NUMBER", "--epsilon")] = None,
    public_plan: Annotated[
        bool, switch("--public-plan", "The plan was not made from these rows, or it does not matter.")
    ] = False,
    timeout: Timeout = 3600.0,
    dates: options.Dates = None,
    drop_missing: options.DropMissing = False,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Add the rows of a table to a sum that nobody can take apart: an owner's side.

    It answers the coordinator's messages in the folder, and ends with the sum.
    Secrets are in its memory only: a command that was stopped cannot go on.

    Example: recyclegp join-sum plan.safetensors north.csv --target y --folder sum-1
    """
    screen = Screen(quiet, as_json, verbose)
    privacy = private_answer(epsilon, delta, bound, ledger, budget, public_plan)
    from .tables import ReadAs, open_table
    from .targets import of_model, target_names

    table = open_table(data, ReadAs(decimal, encoding, sheet))
    names = target_names(targets, table)
    with screen.working("Loading"):
        agreed = load_plan(plan)
        from ..models.sum_files import take_part
    wanted = of_model(names, agreed.likelihoods[0], "refuse", None)
    rows = models.rows_for(agreed, table, wanted, inputs=inputs, dates=dates, noise=None, drop_missing=drop_missing)
    read = models.read(agreed, rows, screen)
    own = Path(data).stem if name is None else name
    with screen.working("Taking part"):
        keys = take_part(agreed, folder, read.X, read.y, name=own, timeout=timeout, privacy=privacy, tell=log.info)
    screen.result({"name": own, "keys": keys}, lambda: screen.note(f"{own} is in the sum; keys of all owners: {keys}"))
