"""What there is to say of a plan and of an answer, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..magnitudes import in_digits

PLAN, ANSWER = "plan", "answer"  # kinds of facts
Facts = dict[str, Any]


def in_words(f: Facts, place: Mapping[str, str | None], words: str) -> dict[str, str]:
    """By what they are about; nothing is said where there is nothing to say."""
    own = _plan(f) if f["kind"] == PLAN else _answer(f)
    lines: dict[str, str | None] = {
        "file": f"{f['file']}, {f['bytes']:,} bytes, schema {f['schema']}, by {f['written_by']}",
        **own,
        **place,
        "likelihood": ", ".join(f["likelihoods"]),
        **{_called(p, len(f["functions"])): _prior(p) for p in f["functions"]},
        "words in this file": words,
        "content id": f["content_id"],
    }
    return {label: text for label, text in lines.items() if text}


def _called(p: Facts, functions: int) -> str:
    return "function" if functions == 1 else f"function {p['function']}"


def _prior(p: Facts) -> str:
    mean, noise = in_digits(p["mean"]), in_digits(p["noise"])
    said = f"{p['points']} points, {p['kernel_in_short']}, prior mean {mean}, noise variance {noise}"
    differ = [f"a constant of sd {p['offset_sd']:.3g}"] if p["offset_sd"] else []
    differ += [f"a smooth function of {p['smooth_sd']:.3g} times the sd of the shared one"] if p["smooth_sd"] else []
    return said + (f"; owners differ by {' and '.join(differ)}" if differ else "")


def _plan(f: Facts) -> dict[str, str | None]:
    last = f["history"][-1] if f["history"] else None
    return {
        "plan": f"{f['digest_of_plan'][:8]}, after {f['round']} exchanges{', done' if f['done'] else ''}",
        "asks for": f"{f['asks']} over each owner's rows",
        "so far": None if last is None else f"{len(f['counts'])} owners, bound {last['bound']:.6g}" + _score(last),
        "over one shot": None if f["gain_over_one_shot"] is None else f"{f['gain_over_one_shot']:.3g} nats per row",
        "what it gives away": _given_away(f),
    }


def _given_away(f: Facts) -> str:
    said = ["what the merge that it was made from says, as one module"] if f["one_shot"] else []
    said += ["sums over all owners' rows together"] if f["counts"] else []
    return ", and ".join(said) or "nothing of any row"


def _score(last: Facts) -> str:
    return "" if last["score"] is None else f", held-back log density {last['score']:.4g} per row"


def _answer(f: Facts) -> dict[str, str | None]:
    what = "sums over rows" if f["holds_sums"] else "slopes: one number for each parameter of the plan"
    more = ", and their derivatives" if f["derivatives"] else ""
    known = {
        "placed": "no: they are the plan's, placed by recyclegp",
        "unknown": "not known: they are the plan's",
        "rows": "YES: rows of the data are among the plan's points",
    }
    return {
        "answer": f"of {f['name']}, {f['rows']:,} rows, to plan {f['answers_plan'][:8]}",
        "owner": f["owner"] if f["owner"] != f["name"] else None,
        "holds": f"{what}{more}, at the plan's {f['points']} points",
        "points per row": f"{f['points_per_row']:.2g}: the more, the more it says about single rows",
        "held back": f"{f['held_back']:,} rows, of which only log densities are in it" if f["held_back"] else None,
        "is any point a row": known[f["origin"]],
        "rows are": f["privacy"],
        "guarantee": "none: no noise is added for privacy"
        if f["privacy_guarantee"] == "none"
        else f["privacy_guarantee"],
    }
