"""hub and coordinate: modules behind an address, and whoever keeps them together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import RecycleGPError, printable
from ..extras import install
from . import options
from .hub_errors import exit_codes
from .options import option, output_to, switch
from .screen import Screen, plain_table, show

if TYPE_CHECKING:
    from ..hub.client import HubClient

ACTIONS = ("invite", "people", "approve", "expel", "rounds", "evaluate", "scores", "report", "model", "audit", "page")
FILES = {"model": "merged.safetensors", "audit": "audit.jsonl"}  # what is fetched, and its usual name


def hub(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the hub keeps everything; made if need be.")],
    host: Annotated[str, option("Address to listen on; 0.0.0.0 is every one of this machine.", "ADDRESS")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, option("To listen on; 0 is any that is free.", min=0, max=65535)] = 8443,
    admission: Annotated[str, option("Who becomes an owner?", "invited|approved|open")] = "invited",
    expect: Annotated[int, option("Owners whose modules are waited for.", "N", min=1)] = 1,
    rounds: Annotated[int, option("Ask owners once more, so often.", "N", "not at all", min=0)] = 0,
    points: Annotated[int, option("At which they answer.", "N", min=1)] = 256,
    deadline: Annotated[float, option("Seconds that owners have for an answer.", "SECONDS", min=1)] = 3600.0,
    evaluate: Annotated[
        bool, switch("--evaluate/--no-evaluate", "Ask owners to score each model on rows held back at home.")
    ] = True,
    title: Annotated[str, option("What it is called on its page.")] = "recyclegp hub",
    largest: Annotated[int, option("MiB that a module may have.", "MIB", min=1)] = 64,
    most_points: Annotated[int, option("Points that a module may have.", "N", min=1)] = 4096,
    merge_seconds: Annotated[float, option("Seconds that a merge may take.", "SECONDS", min=1)] = 3600.0,
    coordinator: Annotated[
        Path | None, option("Public key of the coordinator.", "NAME.pub", "one is made in DIR")
    ] = None,
    certificate: Annotated[Path | None, option("For TLS: certificate chain.", "FILE.pem", "none: plain HTTP")] = None,
    key: Annotated[Path | None, option("For TLS: its private key.", "FILE.pem")] = None,
    behind_proxy: Annotated[
        bool, switch("--behind-proxy", "A reverse proxy on this machine says who asks (X-Forwarded-For).")
    ] = False,
    public_page: Annotated[
        bool, switch("--public-page", "Show the page without downloads to anybody, at the address itself.")
    ] = False,
    rate_limits: Annotated[
        bool, switch("--rate-limits/--no-rate-limits", "Limit how often one key and one address may ask.")
    ] = True,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Run a hub, until Ctrl-C: owners join it with one command, and it merges what they send.

    Owners are known by their public keys, and every request is signed. Modules
    are screened and merged as they arrive. The address of the page that is
    printed holds a token: whoever knows it sees who is in, and may download.

    Example: recyclegp hub city --port 8443 --expect 5 --rounds 3
    """
    screen = Screen(quiet, as_json, verbose)
    if (certificate is None) != (key is None):
        raise RecycleGPError("--certificate and --key belong together; give both, or none")
    with screen.working("Starting", threads):
        server = _server()
        from ..hub.hub import Hub
        from ..hub.limits import Limits
        from ..hub.protocol import fingerprint
        from ..hub.registry import Admission
        from ..hub.settings import Settings

        known = {each.value: each for each in Admission}
        if admission not in known:
            raise RecycleGPError(f"--admission {admission}: choose one of {', '.join(known)}")
        limits = Limits(largest_module=largest * 2**20, most_points=most_points)
        settings = Settings(
            title=title,
            admission=known[admission],
            expect=expect,
            rounds=rounds,
            points=points,
            deadline=deadline,
            evaluate=evaluate,
            job_seconds=merge_seconds,
            limits=limits if rate_limits else limits.without_rates(),
        )
        opened = Hub(folder, settings, coordinator)
    from .telling import warned

    tls = None if certificate is None or key is None else server.Certificate(certificate, key)
    try:
        with server.serving(
            opened,
            host=host,
            port=port,
            certificate=tls,
            behind_proxy=behind_proxy,
            public_page=public_page,
            threads=threads,
        ) as running:
            facts = {"address": running.address, "page": running.page, "fingerprint": fingerprint(opened.public)}
            screen.result(facts, lambda: typer.echo(f"{running.address}\n{running.page}"))
            sys.stdout.flush()  # whoever reads it from a pipe can go on
            screen.note(f"the hub's key is {facts['fingerprint']}; the second address is the page; Ctrl-C ends it")
            with screen.telling("Hub") if verbose and not quiet else warned():
                running.run()
    finally:
        opened.close()


def coordinate(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Of the hub, as https://hub.example:8443.")],
    action: Annotated[str, typer.Argument(metavar="ACTION", help=f"One of {', '.join(ACTIONS)}.")],
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAMES…]", help="For approve and expel.")] = None,
    key: Annotated[Path, option("The coordinator's private key.", "FILE.pem", None, "--key")] = Path("coordinator.pem"),
    name: Annotated[str, option("Under which that key is registered.")] = "coordinator",
    invitation: Annotated[
        str | None, option("Of a reader, the first time: registers this key and --name.", "TEXT")
    ] = None,
    count: Annotated[int, option("Of invite: how many. Of rounds: how many.", "N", None, "-n", "--count", min=0)] = 1,
    readers: Annotated[bool, switch("--readers", "Of invite: let in readers, who may fetch the model only.")] = False,
    points: Annotated[int, option("Of rounds: at which owners answer.", "N", min=1)] = 256,
    deadline: Annotated[float, option("Of rounds: seconds that owners have.", "SECONDS", min=1)] = 3600.0,
    plan: Annotated[
        Path | None,
        option("Of rounds: this one is asked, of everybody who is registered.", "FILE", "the merge proposes one"),
    ] = None,
    secure: Annotated[
        bool, switch("--secure", "Of rounds with --plan: a secure sum; nobody sees a single owner's answer.")
    ] = False,
    epsilon: Annotated[
        float | None, option("Of a secure sum: ε that all owners agree on, with --delta and --bound.", "NUMBER")
    ] = None,
    delta: Annotated[float | None, option("Of a secure sum: δ.", "NUMBER")] = None,
    bound: Annotated[float | None, option("Of a secure sum: how far y may be from the plan's mean.", "NUMBER")] = None,
    output: Annotated[Path | None, output_to("FILE", "Of model and audit: the file to write.")] = None,
    certificate: Annotated[Path | None, option("That the hub's certificate is checked with.", "FILE.pem")] = None,
    patience: Annotated[float, option("Seconds to go on trying.", "SECONDS", min=0)] = 30.0,
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Do what only the coordinator of a hub may do, from anywhere.

    invite prints an invitation for each owner; people lists who is there;
    approve and expel take names; rounds and evaluate ask owners once more;
    scores, report, model and audit fetch what has come of it; page prints the
    address of the page. Owners and readers may ask for report, model and page,
    with their own key and name; a reader gives its invitation the first time.

    Example: recyclegp coordinate http://127.0.0.1:8443 invite -n 5 --key city/coordinator.pem
    """
    screen = Screen(quiet, as_json)
    if action not in ACTIONS:
        raise RecycleGPError(f"{action}: not an action; choose one of {', '.join(ACTIONS)}")
    if (action in ("approve", "expel")) != bool(names):
        raise RecycleGPError(f"{action}: {'say whom by name' if not names else 'it takes no names'}")
    if output is not None and action not in FILES:
        raise RecycleGPError("-o is for model and audit")
    private = {"epsilon": epsilon, "delta": delta, "bound": bound}
    if (secure or any(value is not None for value in private.values())) and plan is None:
        raise RecycleGPError("--secure, --epsilon, --delta and --bound are for a plan of your own; give --plan")
    if plan is not None and action != "rounds":
        raise RecycleGPError("--plan is for rounds")
    with exit_codes():
        from ..hub.client import HubClient
        from ..storage.signing import private_key

        client = HubClient(address, private_key(key), name, patience=patience, certificate=certificate, say=screen.note)
        client.about()
        if invitation is not None:
            _register(screen, client, invitation)
        asked = {"rounds": count, "points": points, "deadline": deadline}
        if action == "invite":
            _invite(screen, client, "reader" if readers else "owner", count)
        elif action in ("approve", "expel"):
            for each in names or ():
                client.ask("POST", "/people", {"name": each, "standing": "in" if action == "approve" else "out"})
            done = "approved" if action == "approve" else "expelled"
            screen.result({done: names}, lambda: typer.echo(printable(f"{done}: {', '.join(names or ())}")))
        elif plan is not None:
            _ask_plan(screen, client, plan, {"rounds": count, "deadline": deadline, "secure": int(secure), **private})
        elif action == "rounds":
            client.ask("POST", "/rounds", asked)
            screen.result(asked, lambda: typer.echo("rounds begin when all modules are merged"))
        elif action == "page":
            whole = address.rstrip("/") + client.ask("GET", "/page")["page"]
            screen.result({"page": whole}, lambda: typer.echo(whole))
        elif action in FILES:
            _fetch(screen, client, f"/{action}", output or Path(FILES[action]))
        else:
            _shown(screen, client, action)


def _register(screen: Screen, client: HubClient, invitation: str) -> None:
    from ..hub.home import token_of

    assert client.hub is not None
    found = client.ask("POST", "/register", {"invitation": token_of(invitation, client.hub)})
    screen.note(f"{found['name']} is registered as {found['role']}")


def _invite(screen: Screen, client: HubClient, role: str, count: int) -> None:
    from ..hub.home import with_fingerprint

    assert client.hub is not None
    found = client.ask("POST", "/invitations", {"role": role, "count": count})["invitations"]
    whole = [with_fingerprint(token, client.hub) for token in found]
    screen.result({"invitations": whole}, lambda: typer.echo("\n".join(whole)))


def _ask_plan(screen: Screen, client: HubClient, plan: Path, asked: dict[str, Any]) -> None:
    from ..hub.client import query

    given = {name: str(value) for name, value in asked.items() if value is not None}
    found = client.send(query("/rounds", **given), plan.read_bytes())
    words = f"asked: {', '.join(found['owners'])}"
    screen.result(found, lambda: typer.echo(printable(words)))


def _fetch(screen: Screen, client: HubClient, path: str, output: Path) -> None:
    from ..storage.atomic import write_atomically

    content = client.fetch(path)
    write_atomically(output, content)
    facts: dict[str, Any] = {"file": str(output), "bytes": len(content)}
    words = str(output)
    if path == "/audit":
        from ..hub import audit

        facts["entries"] = audit.verify(output)
        words += f": {facts['entries']} entries, each of which follows from the one before"
    screen.result(facts, lambda: typer.echo(printable(words)))


def _shown(screen: Screen, client: HubClient, action: str) -> None:
    paths = {"people": ("GET", "/people"), "evaluate": ("POST", "/evaluations"), "scores": ("GET", "/evaluations")}
    method, path = paths.get(action, ("GET", "/report"))
    found = client.ask(method, path)
    rows: list[dict[str, Any]] = found.get({"people": "people", "scores": "evaluations"}.get(action, ""), [found])
    private = tuple(c for c in ("epsilon", "delta") if any(row.get(c) is not None for row in rows))
    columns = {
        "people": ("name", "role", "what", "rows", "points", "gain", *private, "flagged"),
        "report": ("kind", "round", "rows", "summary"),
    }.get(action, ("id", "answered", "owners", "rows", "merged", "alone"))

    def table() -> None:
        drawn = plain_table(*columns, folded=1)
        for row in rows:
            drawn.add_row(*(_cell(row.get(column)) for column in columns))
        show(drawn)

    screen.result(found, table)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else printable(str(value))


def _server() -> Any:
    """The part that needs the extra, which may not be there."""
    try:
        from ..hub import server
    except ModuleNotFoundError as absent:
        if absent.name not in ("starlette", "uvicorn", "anyio", "h11"):
            raise
        raise RecycleGPError(f"hub needs {absent.name}; {install('hub')}") from None
    return server
