"""How an owner leaves a hub: the module goes at once; a receipt is signed when it is merged without it."""

from __future__ import annotations

import time

from . import evaluations, exchanges, receipts
from .folder import Facts, read_json
from .protocol import RefusedError, Signed
from .records import HubRecords
from .registry import Person, Standing


def leave(hub: HubRecords, person: Person, said: Signed) -> str:
    """Gives the id of the receipt. Asking again, because the answer was lost, gives the same one."""
    with hub.turn(person), hub.lock:
        if person.name not in hub.modules():
            known = receipts.last_of(hub.folder.receipts, person.key.hex())
            if known is None and person.standing is Standing.OUT:
                raise RefusedError(f"{person.name!r} is not in this hub any more", 404)
            if known is None or person.standing is Standing.IN:
                known = _nothing_to_withdraw(hub, person, said)
            hub.registry.change(person.name, Standing.OUT)
            return known
        found = withdraw(hub, person, said.proof)
        hub.registry.change(person.name, Standing.OUT)
        return found


def withdraw(hub: HubRecords, person: Person, request: Facts | None = None) -> str:
    """Gone at once from the dictionary and from rounds; the receipt follows the next merge. Gives its id."""
    with hub.turn(person), hub.lock:
        digest = hub.modules().get(person.name)
        if digest is None:
            raise RefusedError(f"{person.name!r} has no module here", 404)
        hub.dictionary.remove(person.name, by=person.id)
        hub.changed(person.name, None)
        exchanges.end(hub, f"{person.name} has left", only_with=person.name)
        for one in evaluations.every(hub.folder.evaluations):
            one.without(person.name)
        head = hub.log("withdrew", person, module=digest, request=request)
        return _promised(hub, person, digest, head)


def _nothing_to_withdraw(hub: HubRecords, person: Person, said: Signed) -> str:
    """Of somebody who has registered, and sent no module; a model of its answers goes with all of them.

    Or its module has gone, and that could not be written down.
    """
    forget_answers(hub, person)
    unsaid = hub.audit.followed.modules.get(person.name)
    what: Facts = {} if unsaid is None else {"module": unsaid}
    found = _promised(
        hub, person, unsaid, hub.log("left" if unsaid is None else "withdrew", person, **what, request=said.proof)
    )
    hub.sign_owed()
    return found


def _promised(hub: HubRecords, person: Person, module: str | None, head: str) -> str:
    """A receipt that is not signed yet."""
    facts = {"name": person.name, "key": person.key.hex(), "module": module, "withdrawn": time.time()}
    return receipts.promise(hub.folder.receipts, facts | {"model_before": hub.current["model"], "audit": head})


def forget_answers(hub: HubRecords, person: Person) -> None:
    """Of somebody without a module: a sum cannot be taken apart, so the model of all answers goes."""
    exchanges.end(hub, f"{person.name} has left", only_with=person.name)
    if hub.current.get("given") and person.name in hub.current["counted"]:
        hub.forget_model()


def receipt(hub: HubRecords, person: Person, name: str) -> Facts:
    """Signed, or not yet."""
    own = name.startswith(person.key.hex()[:16] + "-") and name.replace("-", "").isalnum()
    found = read_json(hub.folder.receipts / f"{name}.json") if own else None
    if found is None:
        raise RefusedError("there is no such receipt of yours", 404)
    return found
