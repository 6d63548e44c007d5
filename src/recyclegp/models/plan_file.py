"""Plans and answers in their files. Tensors of function c are called c/name; triangles are half of a matrix."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import RecycleGPError
from ..kernels.file_form import from_json as kernel_from_json
from ..kernels.file_form import to_json as kernel_to_json
from ..likelihoods import MOST_FUNCTIONS
from ..plans.prior import Prior
from ..plans.restating import same_coordinates
from ..plans.search import Search
from ..plans.sums import NOISY, NOT_NOISY, Sums
from ..record import Record
from ..storage import facts, limits
from ..storage.container import Document, Header, Tensors
from ..storage.facts import At, Entry, Fact
from ..storage.fields import UNITS, Fields, count, fields, flag, listed, number, positive, text
from ..storage.making import ANSWER, PLAN
from ..storage.record_json import (
    INPUTS,
    NOWHERE,
    about_from_json,
    about_to_json,
    likelihood_from_json,
    likelihood_to_json,
    origin_from_json,
    origin_to_json,
    targets_from_json,
    targets_to_json,
)
from . import module_file
from .ensemble_json import EFFECTS
from .how import Frame
from .naming import check_name, check_owner
from .plan_facts import AnswerFacts, Asks, Evaluated, OneShot, PlanFacts, Round, Score

SCALARS = ("n", "logdet", "c", "a", "o", "t")
VECTORS = ("G", "b", "h")
MOST_ROUNDS = 100_000
MOST_PARAMETERS = 10_000  # of a kernel, that are learned


# --- small values ---------------------------------------------------------------------------------

SCORE = Entry(
    Score,
    (
        Fact("owner", lambda v, at: text(v, "an owner")),
        Fact("rows", lambda v, at: count(v, "rows of a score")),
        Fact("total", lambda v, at: number(v, "a score")),
    ),
    "a score",
)


def _texts(found: Any, what: str, most: int) -> tuple[str, ...]:
    return tuple(text(v, what) for v in listed([] if found is None else found, what, most=most))


def _scores(found: Any) -> tuple[Score, ...]:
    entries = listed([] if found is None else found, "scores", most=limits.MOST_MEMBERS)
    return tuple(SCORE.read(entry, NOWHERE) for entry in entries)


def _scores_to_json(scores: Sequence[Score]) -> list[Header]:
    return [SCORE.write(s, NOWHERE) for s in scores]


def _digest(found: Any) -> str:
    value = text(found, "a digest")
    if len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise RecycleGPError("a digest is not 64 hexadecimal digits")
    return value


ROUND = Entry(
    Round,
    (
        Fact("asked", lambda v, at: Asks(v), lambda v, at: v.value),
        Fact("bound", lambda v, at: number(v, "a bound")),
        Fact("owners", lambda v, at: count(v, "owners")),
        Fact("bytes", lambda v, at: count(v, "bytes")),
        Fact("score", lambda v, at: None if v is None else number(v, "a score")),
        Fact("missing", lambda v, at: _texts(v, "missing", limits.MOST_MEMBERS), lambda v, at: list(v) or None),
        Fact("left_out", lambda v, at: _texts(v, "left_out", limits.MOST_MEMBERS), lambda v, at: list(v) or None),
    ),
    "a round",
)
SEARCH = (
    Fact("length", lambda v, at: positive(v, "length")),
    Fact(
        "value",
        lambda v, at: -math.inf if v is None else number(v, "value"),
        lambda v, at: v if math.isfinite(v) else None,
    ),
    Fact("evaluations", lambda v, at: count(v, "evaluations")),
    Fact("stalled", lambda v, at: count(v, "stalled")),
    Fact("done", lambda v, at: flag(v, "done")),
)


# --- priors and sums ------------------------------------------------------------------------------


def _priors_to(priors: Sequence[Prior], where: str, tensors: Tensors) -> list[Header]:
    """Points that all functions share are in the file once."""
    shared = all(torch.equal(p.Z, priors[0].Z) for p in priors)
    if shared:
        tensors[f"{where}Z"] = priors[0].Z
    found = []
    for c, p in enumerate(priors):
        if not shared:
            tensors[f"{where}{c}/Z"] = p.Z
        said: Header = {"kernel": kernel_to_json(p.kernel, p.Z.shape[1]), "mean": p.mean, "noise": p.noise}
        said |= {"jitter": p.jitter}
        said |= {"effects": EFFECTS.write(p.effects, At(p.Z.shape[1]))} if p.effects.present else {}
        found.append(said)
    return found


def _priors_from(f: Fields, found: Any, where: str, dimension: int | None) -> tuple[Prior, ...]:
    priors = []
    for c, entry in enumerate(listed(found, "priors", most=MOST_FUNCTIONS)):
        said = fields(entry, "a prior")
        key = f"{where}{c}/Z"
        Z = f.tensor(key if key in f.tensors else f"{where}Z", None, dimension)
        if not len(Z):
            raise RecycleGPError("a plan needs at least one point")
        limits.check_points(len(Z))
        effects = EFFECTS.read_if_any(said.get("effects"), At(Z.shape[1]))
        prior = Prior(
            Z,
            kernel_from_json(said["kernel"], Z.shape[1]),
            number(said["mean"], "mean"),
            positive(said["noise"], "noise"),
            number(said["jitter"], "jitter", 0.0),
        )
        priors.append(prior if effects is None else prior._replace(effects=effects))
    return tuple(priors)


def _sums_to(sums: Sums, where: str, tensors: Tensors) -> None:
    for key in VECTORS:
        tensors[f"{where}{key}"] = getattr(sums, key)
    tensors[f"{where}scalars"] = torch.stack([getattr(sums, key) for key in SCALARS])
    if sums.noisy:
        tensors[f"{where}noise"] = sums.noise


def _sums_from(f: Fields, where: str, M: int) -> Sums:
    sizes = {"G": M * (M + 1) // 2, "b": M, "h": M}
    found = {key: f.tensor(f"{where}{key}", size) for key, size in sizes.items()}
    scalars = f.tensor(f"{where}scalars", len(SCALARS)).unbind()
    noise = f.tensor(f"{where}noise", len(NOISY)) if f"{where}noise" in f.tensors else NOT_NOISY
    if bool((noise < 0).any()):
        raise RecycleGPError("a variance of noise is negative")
    return Sums(**found, **dict(zip(SCALARS, scalars, strict=True)), noise=noise)


def _model_to(model: Evaluated, where: str, tensors: Tensors) -> Header:
    for c, total in enumerate(model.totals):
        _sums_to(total, f"{where}{c}/", tensors)
    priors = _priors_to(model.priors, where, tensors)
    return {
        "priors": priors,
        "owners": list(model.owners),
        "bound": model.bound if math.isfinite(model.bound) else None,
        "scores": _scores_to_json(model.scores),
    }


def _model_from(f: Fields, found: Any, where: str, dimension: int) -> Evaluated | None:
    if found is None:
        return None
    said = fields(found, "a model")
    priors = _priors_from(f, said["priors"], where, dimension)
    totals = tuple(_sums_from(f, f"{where}{c}/", len(p.Z)) for c, p in enumerate(priors))
    owners = _texts(said["owners"], "owners", limits.MOST_MEMBERS)
    height = -math.inf if said.get("bound") is None else number(said["bound"], "bound")
    return Evaluated(priors, totals, owners, height, _scores(said.get("scores")))


# --- a plan ---------------------------------------------------------------------------------------


def plan_to_document(plan: PlanFacts) -> Document:
    tensors: Tensors = {}
    D = plan.frame.dimension
    header: Header = {
        "kind": PLAN,
        "likelihood": likelihood_to_json(plan.likelihood),
        **facts.to_json(plan.frame, INPUTS, At(D)),
        "units": UNITS,
        "priors": _priors_to(plan.priors, "", tensors),
        "learn": plan.learn,
        "asks": plan.asks.value,
        "search": facts.to_json(plan.search, SEARCH, NOWHERE),
        "lineage": list(plan.lineage),
        "history": [ROUND.write(r, NOWHERE) for r in plan.history],
    }
    more = {
        "targets": targets_to_json(plan.targets),
        "origin": origin_to_json(plan.origin),
        "model": None if plan.model is None else _model_to(plan.model, "model/", tensors),
        "best": None if plan.best is None else _model_to(plan.best, "best/", tensors),
        "before": None if plan.before is None else _model_to(plan.before, "before/", tensors),
    }
    for key in ("x", "step", "slope", "metric", "centre"):
        tensors[f"search/{key}"] = getattr(plan.search, key)
    if plan.candidates is not None and plan.anchor is not None:
        tensors |= {"candidates": plan.candidates, "anchor": plan.anchor}
    if plan.one_shot is not None:
        inner = module_file.to_document(plan.one_shot.record)
        more["one_shot"] = {"module": inner.header, "scores": _scores_to_json(plan.one_shot.scores)}
        tensors |= {f"one_shot/{name}": t for name, t in inner.tensors.items()}
    tensors = {name: t.clone() for name, t in tensors.items()}  # the same number may be there twice
    return Document(header | {key: said for key, said in more.items() if said is not None}, tensors)


def plan_from_fields(f: Fields) -> PlanFacts:
    h = f.header
    likelihood = likelihood_from_json(h["likelihood"])
    priors = _priors_from(f, h["priors"], "", None)
    D, C = priors[0].Z.shape[1], len(likelihood.functions)
    if len(priors) != C:
        raise RecycleGPError(f"{len(priors)} priors for {C} functions")
    p = sum(len(prior.x) for prior in priors)
    x, step, slope, centre = (f.tensor(f"search/{key}", p) for key in ("x", "step", "slope", "centre"))
    said = facts.from_json(fields(h["search"], "search"), SEARCH, NOWHERE)
    search = Search(x, step, slope, f.tensor("search/metric", p, p), centre, **said)
    has_candidates = "candidates" in f.tensors
    frame = Frame(D, **facts.from_json(h, INPUTS, At(D)))
    for prior in priors:
        frame.categories.check_codes(prior.Z)
    models = [_model_from(f, h.get(key), f"{key}/", D) for key in ("model", "best", "before")]
    if any(m is not None and len(m.priors) != C for m in models):
        raise RecycleGPError(f"a model has not {C} functions, as the plan has")
    asks = Asks(h["asks"])
    if asks is Asks.SLOPES and (models[0] is None or not all(map(same_coordinates, models[0].priors, priors))):
        raise RecycleGPError("a plan that asks for slopes has no sums at its points")
    return PlanFacts(
        likelihood=likelihood,
        frame=frame,
        targets=targets_from_json(h.get("targets"), C),
        priors=priors,
        search=search,
        learn=flag(h["learn"], "learn"),
        origin=origin_from_json(h.get("origin")),
        asks=asks,
        model=models[0],
        best=models[1],
        before=models[2],
        one_shot=_one_shot(f, h.get("one_shot")),
        candidates=f.tensor("candidates", None, D) if has_candidates else None,
        anchor=f.tensor("anchor", p) if has_candidates else None,
        lineage=tuple(_digest(d) for d in listed(h["lineage"], "lineage", most=MOST_ROUNDS)),
        history=tuple(ROUND.read(r, NOWHERE) for r in listed(h["history"], "history", most=MOST_ROUNDS)),
    )


def _one_shot(f: Fields, found: Any) -> OneShot | None:
    if found is None:
        return None
    said = fields(found, "one_shot")
    inner = {name.removeprefix("one_shot/"): t for name, t in f.tensors.items() if name.startswith("one_shot/")}
    record: Record = module_file.from_fields(Fields(Document(fields(said["module"], "a module"), inner)))
    return OneShot(record, _scores(said.get("scores")))


def digest(plan: PlanFacts) -> str:
    """SHA-256 of all that a plan says: whoever answers has seen these very numbers."""
    document = plan_to_document(plan)
    found = hashlib.sha256(json.dumps(document.header, sort_keys=True).encode())
    for name in sorted(document.tensors):
        tensor: Tensor = document.tensors[name].detach().cpu().contiguous()
        found.update(f"{name}{tuple(tensor.shape)}".encode())
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()


# --- an answer ------------------------------------------------------------------------------------


def answer_to_document(answer: AnswerFacts) -> Document:
    tensors: Tensors = {}
    for c, sums in enumerate(answer.sums):
        _sums_to(sums, f"{c}/", tensors)
    for c, sums in enumerate(answer.own):
        _sums_to(sums, f"{c}/own/", tensors)
    for c, each in enumerate(answer.derivatives):
        for j, sums in enumerate(each):
            _sums_to(sums, f"{c}/by/{j}/", tensors)
    if answer.slopes is not None:
        tensors["slopes"] = answer.slopes
    header = {
        "kind": ANSWER,
        **about_to_json(answer.about),
        "likelihood": likelihood_to_json(answer.likelihood),
        "units": UNITS,
        "plan": answer.plan,
        "round": answer.round,
        "priors": _priors_to(answer.priors, "", tensors),
        "rows": list(answer.rows),
        "known_noise": answer.known_noise,
        "sums": bool(answer.sums),
        "derivatives": [len(each) for each in answer.derivatives],
        "scores": {which: SCORE.write(score, NOWHERE) for which, score in answer.scores},
    }
    return Document(header, {name: t.clone() for name, t in tensors.items()})


def answer_from_fields(f: Fields) -> AnswerFacts:
    h = f.header
    likelihood = likelihood_from_json(h["likelihood"])
    priors = _priors_from(f, h["priors"], "", None)
    C, D = len(likelihood.functions), priors[0].Z.shape[1]
    rows = tuple(count(n, "rows") for n in listed(h["rows"], "rows", most=C))
    if len(priors) != C or len(rows) != C or not any(rows):
        raise RecycleGPError(f"{len(priors)} priors and {len(rows)} numbers of rows for {C} functions")
    about = about_from_json(h, D, C)
    check_name(about.name)
    check_owner(about.owner_override)
    sizes = [len(p.Z) for p in priors]
    derived = [count(n, "derivatives") for n in listed(h["derivatives"], "derivatives", most=C)]
    if derived and derived != [len(p.x) for p in priors]:
        raise RecycleGPError("derivatives are not as many as the kernel has parameters")
    has_sums = flag(h["sums"], "sums")
    if has_sums == ("slopes" in f.tensors):
        raise RecycleGPError("an answer has either sums or slopes")
    scores = fields(h["scores"], "scores")
    differ = any(p.effects.present for p in priors)
    return AnswerFacts(
        about=about,
        likelihood=likelihood,
        plan=_digest(h["plan"]),
        round=count(h["round"], "round"),
        priors=priors,
        rows=rows,
        known_noise=flag(h["known_noise"], "known_noise"),
        sums=tuple(_sums_from(f, f"{c}/", M) for c, M in enumerate(sizes)) if has_sums else (),
        own=tuple(_sums_from(f, f"{c}/own/", M) for c, M in enumerate(sizes)) if has_sums and differ else (),
        slopes=None if has_sums else f.tensor("slopes", sum(len(p.x) for p in priors)),
        derivatives=tuple(
            tuple(_sums_from(f, f"{c}/by/{j}/", sizes[c]) for j in range(n)) for c, n in enumerate(derived)
        ),
        scores=tuple((text(which, "a model"), SCORE.read(score, NOWHERE)) for which, score in list(scores.items())[:2]),
    )
