"""join and leave: the whole of an owner's side of a hub, in one command each."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..errors import RecycleGPError, printable
from . import fit_options, options
from .fit_options import library_options
from .hub_errors import Code, exit_codes, logged
from .options import option, output_to, switch
from .parsing import in_days
from .plans import private_answer
from .screen import Screen, say

if TYPE_CHECKING:
    from ..hub.home import Home
    from ..hub.owner import Promise, Rows
    from ..local.options import FitOptions

HomeFolder = Annotated[
    Path | None, option("Keys, module and what comes back are kept here.", "FOLDER", "TABLE.hub, beside the table")
]
Certificate = Annotated[
    Path | None, option("That the hub's certificate is checked with.", "FILE.pem", "what this machine trusts")
]
Patience = Annotated[float, option("Seconds to go on trying where the hub is not reachable.", "SECONDS", min=0)]
Poll = Annotated[float, option("Seconds between two questions to the hub.", "SECONDS", min=0.05)]


def join(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Of the hub, as https://hub.example:8443.")],
    data: options.Data,
    target: options.Target,
    name: Annotated[str | None, option("Yours, in the hub.", None, "the table's")] = None,
    invitation: Annotated[str | None, option("From the coordinator, where one is needed.", "TEXT")] = None,
    home: HomeFolder = None,
    output: Annotated[
        Path | None, output_to("FILE.safetensors", "Where the merged model goes; else into the home.")
    ] = None,
    inputs: options.Inputs = None,
    likelihood: fit_options.Likelihood = "gaussian",
    kernel: fit_options.Kernel = "matern52",
    publish: fit_options.Publish = None,
    people: fit_options.People = False,
    things: fit_options.Things = False,
    unit: fit_options.Unit = None,
    epsilon: Annotated[
        float | None,
        option("Send no module; answer rounds with differential privacy, with this ε.", "NUMBER", "no guarantee"),
    ] = None,
    delta: Annotated[float | None, option("δ of the guarantee, far below one over the rows.", "NUMBER")] = None,
    bound: Annotated[
        float | None, option("How far y may be from the plan's mean; farther values are clipped.", "NUMBER")
    ] = None,
    ledger: Annotated[
        Path | None,
        option("Where it is written down what is spent of --budget.", "FILE.json", "ledger.json in the home"),
    ] = None,
    budget: Annotated[float | None, option("ε of all answers in the ledger together.", "NUMBER", "--epsilon")] = None,
    secure: Annotated[
        bool, switch("--secure", "Send no module; take part in secure sums only, under masks that cancel.")
    ] = False,
    hold_back: Annotated[
        float, option("Share of the rows that is kept at home, to see what merging gains.", "SHARE")
    ] = 0.1,
    share_score: Annotated[
        bool, switch("--share-score", "Let the hub keep your scores under your name, also in rounds; else in a sum.")
    ] = False,
    yes: Annotated[bool, switch("-y --yes", "Agree beforehand to what will leave this machine.")] = False,
    stay: Annotated[bool, switch("--stay", "Go on answering when the model is complete, until Ctrl-C.")] = False,
    wait: Annotated[float | None, option("Seconds for all of it.", "SECONDS", "until it is done", min=0)] = None,
    categories: options.Categories = None,
    dates: options.Dates = None,
    positive: options.Positive = None,
    censored: options.Censored = None,
    drop_missing: options.DropMissing = False,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    allow_small: options.AllowSmall = False,
    certificate: Certificate = None,
    patience: Patience = 300.0,
    poll: Poll = 2.0,
    seed: options.Seed = 0,
    threads: options.Threads = 1,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Join a hub: fit at home, show what will leave, send it, answer what is asked, and fetch the merged model.

    Rows never leave. A tenth of them is held back at home, to say what merging
    has gained over staying alone. Killed, it goes on where it was when it is
    started again with the same home. With --epsilon or --secure no module leaves,
    but answers only, to a plan that the coordinator has made without your rows.

    Exit codes: 0 done, 2 something to put right here, 3 the hub is not
    reachable, 4 it refuses, 5 nobody has agreed, 6 it does not count the module,
    7 --wait is over before the model is complete.

    Example: recyclegp join https://hub.example:8443 north.csv --target y
    """
    given = dict(locals())
    screen = Screen(quiet, as_json, verbose)
    private = fit_options.privacy(people, things)
    table_path = Path(data)
    called = table_path.stem if name is None else name
    place = table_path.with_name(f"{table_path.stem}.hub") if home is None else home
    kept_at = place / "ledger.json" if ledger is None and epsilon is not None else ledger
    guarantee = private_answer(epsilon, delta, bound, kept_at, budget, public_plan=False)
    if guarantee is not None and private is not None:
        raise RecycleGPError("--epsilon: with a guarantee --people and --things say nothing more; leave them out")
    with exit_codes():
        from ..hub.client import HubClient
        from ..hub.home import Home
        from ..hub.waiting import Wait

        limit = Wait(wait)
        table = _read(screen, given, private)
        own = Home(place)
        own.make()
        with own.lock(), logged(own, "join"):
            _check_same(own, address, called)

            def tell(text: str) -> None:
                screen.note(text)
                own.tell(text)

            client = HubClient(
                address,
                own.key(),
                called,
                hub=own.hub(),
                patience=patience,
                wait=limit,
                certificate=certificate,
                say=tell,
            )
            about = client.about()
            own.note(address=client.address, hub=about["key"], name=called)
            rows = _fit(screen, own, given, table)
            from ..hub.owner import Owner, Promise

            promise = Promise(guarantee, secure) if guarantee is not None or secure else None
            _agree(screen, own, about["title"], yes, promise)
            owner = Owner(client, own, rows, share_score=share_score, say=tell, promise=promise)
            owner.register(invitation, poll, patience, limit)
            if promise is None:
                own.tell(f"{client.address} has module {owner.send_module()}")
            status = owner.attend(poll, stay=stay, wait=limit)
            _finish(screen, owner, own, status, output or own.merged)


def leave(
    home: Annotated[Path, typer.Argument(metavar="HOME", help="The folder that join has made, as north.hub.")],
    output: Annotated[Path | None, output_to("FILE.json", "Where the receipt goes; else into the home.")] = None,
    certificate: Certificate = None,
    patience: Patience = 300.0,
    poll: Poll = 1.0,
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Leave a hub: the module is removed there, the model learned again without it, and a receipt signed.

    Exit codes are those of join.

    Example: recyclegp leave north.hub
    """
    screen = Screen(quiet, as_json)
    with exit_codes():
        from ..hub import receipts
        from ..hub.client import HubClient
        from ..hub.folder import write_json
        from ..hub.home import Home

        own = Home(home)
        known = own.known() if home.is_dir() else {}
        if not known:
            raise RecycleGPError(f"{home}: not a folder that join has made; name that of the owner who leaves")
        client = HubClient(
            known["address"],
            own.key(),
            known["name"],
            hub=own.hub(),
            patience=patience,
            certificate=certificate,
            say=screen.note,
        )
        from ..hub.owner import leave as withdraw

        with logged(own, "leave"), screen.bar("Waiting for the receipt"):
            found = withdraw(client, poll, patience)
        assert client.hub is not None
        receipts.check(found, client.hub)
        path = output or own.receipt
        write_json(path, found)
    after = found["receipt"]["model_after"]
    model = "there is no model now" if after is None else f"the model without it is {after[:8]}"
    screen.result(
        found, lambda: typer.echo(printable(f"{known['name']} has left; {model}; {path} is the signed receipt"))
    )


# --- parts of join --------------------------------------------------------------------------------


def _check_same(own: Home, address: str, name: str) -> None:
    """A home belongs to one owner in one hub."""
    known = own.known()
    if known and known["name"] != name:
        raise RecycleGPError(
            f"{own.folder}: this is the home of {known['name']!r}, not of {name!r}; give another with --home"
        )


class _Table(NamedTuple):
    """The rows of the table, and how they are fitted."""

    X: Any
    y: Any
    how: FitOptions
    private: str | None


def _read(screen: Screen, given: dict[str, Any], private: str | None) -> _Table:
    """What is wrong with the table is said before anybody is asked anything."""
    from .rows import Rows as TableRows
    from .tables import ReadAs, open_table
    from .targets import target_names, to_fit

    table = open_table(given["data"], ReadAs(given["decimal"], given["encoding"], given["sheet"]))
    names = target_names([given["target"]], table)
    from .. import likelihoods

    wanted = to_fit(
        names, likelihoods.first_of(given["likelihood"]), "refuse", given["positive"], None, given["censored"]
    )
    how = library_options(given).changed(target=names if wanted.outputs else names[0], privacy=private)
    columns = table.inputs(given["inputs"], *names, given["censored"])
    held, days = set(given["categories"] or ()), in_days(given["dates"])
    rows = TableRows(table, columns, wanted, given["drop_missing"], (), held, guard=how.level_guard, dates=days)
    X, y, *_ = rows.whole(screen)
    return _Table(X, y, how.changed(labels=rows.class_labels), private)


def _fit(screen: Screen, own: Home, given: dict[str, Any], table: _Table) -> Rows:
    """The module is fitted, unless it was: of these very rows, with these options."""
    made_of = _identity(given, Path(given["data"]))
    if not own.module.exists() or own.known().get("made_of") != made_of:
        with screen.working("Fitting", given["threads"]):
            from ..models.fit import fit

            fit(table.X, table.y, name=own.known()["name"], **table.how.keywords).save(own.module)
        own.note(made_of=made_of)
    from ..hub.owner import Rows

    return Rows(table.X, table.y, None, given["hold_back"], table.private)


OF_THE_FIT = (
    *("target", "inputs", "likelihood", "kernel", "publish", "people", "things", "unit", "hold_back"),
    *("categories", "dates", "positive", "censored", "drop_missing", "decimal", "encoding", "sheet", "seed"),
)


def _identity(given: dict[str, Any], table: Path) -> str:
    """Of what the module is made of: a killed command that is started again does not fit once more."""
    chosen = {key: given[key] for key in OF_THE_FIT}
    content = table.read_bytes() if table.is_file() else b""
    return hashlib.sha256(json.dumps(chosen, sort_keys=True, default=str).encode() + content).hexdigest()


def _agree(screen: Screen, own: Home, title: str, yes: bool, promise: Promise | None) -> None:
    """Show what will leave this machine, and ask."""
    from . import fact_words
    from .facts import of_file

    if promise is None:
        facts = of_file(own.module)
        what, shown = facts["content_id"], fact_words.in_words(facts)
        asked = "sums over your rows at a plan's points, when it asks for rounds"
        if facts["privacy"] == "people":
            asked = "no sums over your rows, but those under masks that cancel, when it asks for a secure sum"
        more = f"{asked}; of rows held back, two sums of scores"
        shown["seen by"] = (
            "the coordinator; as a curve under your name all owners and readers of this hub, and anybody where its "
            "page is public; in part everybody who has the merged model"
        )
    else:
        what = f"no module, answers {promise.words}"
        shown = {"module": "none: it stays here, and so do scores; neither has a guarantee"}
        if promise.privacy is not None:
            shown["ledger"] = f"{promise.privacy.ledger}, which stays here and says what was spent"
        more = f"sums over your rows at a plan's points, {promise.words}"
    if own.known().get("agreed") == what:
        return
    if not screen.as_json and not screen.quiet:
        typer.echo(f"This will leave this machine, for {printable(title)}:", err=True)
        say({f"  {label}": text for label, text in {**shown, "later": more}.items()}, sys.stderr)
    if not yes:
        if not sys.stdin.isatty():
            typer.echo("recyclegp: nobody is here to agree; look at what will leave, and give --yes", err=True)
            raise typer.Exit(Code.NOT_AGREED)
        if not typer.confirm("Send it?", default=False, err=True):
            typer.echo("recyclegp: nothing has left this machine", err=True)
            raise typer.Exit(Code.NOT_AGREED)
    own.note(agreed=what)
    own.tell(f"agreed to what leaves: {what}")


def _finish(screen: Screen, owner: Any, own: Home, status: dict[str, Any], path: Path) -> None:
    """Fetch the model, and say what it is good for."""
    facts: dict[str, Any] = {"home": str(own.folder), "module": status["module"], "model": None}
    if not status["counted"]:
        why = status["flagged"] or "nothing is said about why"
        screen.result({**facts, "flagged": why}, lambda: None)
        words = f"the hub does not count your module: {why}"
        own.tell(words)
        typer.echo(f"recyclegp: {printable(words)}", err=True)
        raise typer.Exit(Code.DOES_NOT_COUNT)
    merged = owner.fetch(path)
    found = owner.gain(merged)
    facts |= {"model": status["model"], "file": str(path), "kind": status["kind"], "owners": len(merged.names)}
    facts |= {"rows_held_back": found.rows, "merged": found.merged, "alone": found.alone, "gain": found.gain}
    facts |= {"verdict": found.verdict.value}
    own.tell(f"the merged model is {path}, owners: {len(merged.names)}; {found}")
    lines = {"merged model": str(path), "owners": str(len(merged.names)), "gain": str(found)}
    screen.result(facts, lambda: say(lines))
