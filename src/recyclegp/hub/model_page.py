"""The page of `recyclegp serve`, of the modules of a hub and the model that it has made of them.

One process answers, with limits of its own and behind everything else that the hub does. It is started when somebody
looks, again when there is another model, and ended when nobody has looked for a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from ..errors import RecycleGPError
from ..serve.worker import Limits, Line, Worker
from .folder import Facts, Folder
from .hub import Hub
from .protocol import RefusedError

if TYPE_CHECKING:
    from ..models.ensemble import Ensemble
    from ..models.module import Module
    from ..serve.state import ServeState

LIMITS = Limits(120.0, 2**32, nice=10)
IDLE = 300.0  # seconds without a question, after which its memory is given back
COMPARED = "merged, as the hub has it"
ALONE = "the model"  # what a model without modules is called


class ModelPage:
    """The line for the model of now."""

    def __init__(self, hub: Hub, limits: Limits = LIMITS) -> None:
        self._hub, self._limits = hub, limits
        self._line: Line | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def line(self, request: Request) -> Line:
        current = self._hub.current
        if current["model"] is None:
            raise RefusedError("there is no merged model yet; wait for the owners", 404)
        version = _version(current)
        if self._line is None or self._line.version != version:
            self.end()
            opening = partial(opened, str(self._hub.folder.root), current, self._hub.settings.title)
            self._line = Line(Worker(opening, 1, self._limits), version=version)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(IDLE + self._limits.seconds, self.end)
        return self._line

    def end(self) -> None:
        """Whoever waits for an answer is told that there is none."""
        line, self._line = self._line, None
        if line is not None:
            line.end()


def _version(current: Facts) -> str:
    """Of a model with the modules behind it: a flagged one is on the page, and leaves the model as it was."""
    content = json.dumps([current["model"], current["modules"]], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


# --- in the process that answers ---


def opened(root: str, current: Facts, title: str) -> ServeState:
    """The modules behind a model, and the model as what merging them gives."""
    from ..models.dictionary import Dictionary
    from ..models.load import load
    from ..serve import state
    from ..serve.state import Held, Merged, ServeState, Snapshot

    folder = Folder(Path(root))
    model: Ensemble = load(folder.model(current["model"]))
    words: dict[str, Any] = {"compared": COMPARED, "home": title}
    dictionary = Dictionary(folder.modules)
    here = {entry.name: entry.digest for entry in dictionary.list()}
    held, missing = list[Held](), list[str]()
    counted = set(model.names)
    for name in sorted(current["modules"], key=lambda name: (name not in counted, name)):
        if here.get(name) != current["modules"][name]:
            raise RecycleGPError("modules have changed in this moment; look again when they are merged")
        out = "" if name in counted else current["flagged"].get(name) or "it is not in this model"
        why = f"a page shows up to {state.MOST_MODULES:,} modules"
        if len(held) < state.MOST_MODULES:
            try:
                module = dictionary.get(name)
                check_fits(module, model)
                held.append(Held(module, name, left_out=out))
                continue
            except (RecycleGPError, OSError) as refused:
                why = str(refused)
        missing.append(f"{name} is not on this page: {why}")
    if not any(not one.left_out for one in held):  # of answers to a plan alone, or nobody who counts can be drawn
        only = Held(model.to_module(ALONE), ALONE)
        state.check_showable(only.module, ALONE)
        alone = state.Settings(None, None, learn=False)
        return ServeState(Snapshot((only,), settings=alone, missing=tuple(missing), **words))
    held.sort(key=lambda one: one.module.name)
    snapshot = Snapshot(state.with_modules((), held), missing=tuple(missing), **words)
    return ServeState(snapshot, Merged(model, model.report(), []))


def check_fits(module: Module, model: Ensemble) -> None:
    """Can it be drawn beside the model? One that cannot must not keep others from looking."""
    from ..models.alignment import fitted
    from ..models.how import Frame
    from ..plot.scene import functions_of
    from ..serve.state import check_showable

    check_showable(module, module.name)
    fitted(model.frame, Frame(module.dimension, module.columns, module.categories, module.name), module.name)
    functions_of([model, module])
