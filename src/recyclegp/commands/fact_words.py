"""What there is to say of a file, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import printable
from ..magnitudes import in_digits
from . import plan_words
from .lines import Table
from .screen import plain_table

WORDS_SHOWN = 20  # of one kind in a file; --json has all
COLUMNS_SHOWN = 8  # of a region, or with levels
NAMES_SHOWN = 5  # modules, classes or levels that are named
FLAGGED = "flagged"  # how the verdict on a module begins that contradicts the others
ONE = "one function"
SINGULAR = {"outputs": "output", "classes": "class"}
KEEPS = {
    "sites": "the modules' sites: they can be removed or reweighted",
    "names": "only the modules' names: none can be removed or reweighted",
}

Facts = dict[str, Any]
Lines = dict[str, str | None]


def in_words(f: Facts) -> dict[str, str]:
    """By what they are about; nothing is said where there is nothing to say."""
    if f["kind"] in (plan_words.PLAN, plan_words.ANSWER):
        return plan_words.in_words(f, _place(f), words(f["words"]))
    one, alike = f["holds"] == ONE, f["kind"] != "modules"
    lines = {
        "file": f"{f['file']}, {f['bytes']:,} bytes, schema {f['schema']}, by {f['written_by']}",
        **{"module": _module, "ensemble": _ensemble, "modules": _modules}[f["kind"]](f),
        **_place(f),
        "target": f["target"] if one else None,
        "likelihood": ", ".join(f["likelihoods"]),
        "levels": _levels(f.get("levels")),
        **((_one_function(f) if one else _functions(f)) if alike else {}),
        "modules not converged": shown(f.get("not_converged", ())),
        **(_merged(f) if f["kind"] == "ensemble" else {}),
        "rows are": f["privacy"],
        "words in this file": words(f["words"]),
        "is any point a row": _origin(f),
        "smallest member": _smallest(f),
        "guarantee": _guarantee(f),
        "content id": f["content_id"],
        "signature": _signature(f["signature"]),
        "digest": None if f["digest"] else "none: the file is an earlier one, and whether it is damaged cannot be seen",
    }
    return {label: text for label, text in lines.items() if text}


def _levels(found: Facts | None) -> str | None:
    """As "none < mild < severe; f is cut at 0 and 1.3"."""
    if found is None:
        return None
    *first, last = [f"{cut:.3g}" for cut in found["cuts"]] or [""]
    at = f"; f is cut at {', '.join(first)}{' and ' * bool(first)}{last}" if last else ""
    return " < ".join(found["names"]) + at


def table(found: Sequence[Facts]) -> Table:
    """Of several files."""
    numbers = ("rows", "points", "per row", "likelihood", "bytes", "content id")
    made = plain_table("file", "holds", "inputs", *numbers, folded=3)
    for f in found:
        made.add_row(
            printable(f["file"]),
            _holds(f),
            printable(", ".join(f["columns"] or [str(f["inputs"])])),
            f"{f['rows']:,}",
            str(f["points"]),
            f"{f['points_per_row']:.2g}",
            ", ".join(f["likelihoods"]),
            f"{f['bytes']:,}",
            f["content_id"][7:15],
        )
    return made


def _signature(found: Facts | None) -> str | None:
    """Of whom, as far as the file beside it says."""
    if found is None:
        return None
    if found["why_not"] is not None:
        return f"NOT GOOD: {found['why_not']}"
    version = "" if found["version"] is None else f", version {found['version']}"
    return f"good, by whoever has the key {found['key'][:16]}{version}"


def shown(names: Sequence[str]) -> str:
    """Some of them."""
    return ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")


def many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


# --- the kinds of files -----------------------------------------------------------------------


def _size(f: Facts) -> str:
    return f"{many(f['rows'], 'row')} of {many(f['inputs'], 'input')}"


def _module(f: Facts) -> Lines:
    one = f["holds"] == ONE
    kept = f"{f['kept']:.0%} of what the rows say about f" if one and f["kept"] is not None else None
    return {
        "module": f"{f['name']}, {_size(f)}, {f['method']} method",
        "holds": _what(f),
        "kept": kept and f"{kept}, at {many(f['points'], 'point')}",
        "points per row": f"{f['points_per_row']:.2g}" if one else None,
        "owner": f["owner"] if f["owner"] != f["name"] else None,
        "time": None if f["time"] is None else str(f["time"]),
        "held back": None
        if f["held_back"] is None
        else f"{f['held_back']:g} of the rows, to see whether merging helps",
    }


def _ensemble(f: Facts) -> Lines:
    return {
        "ensemble": f"of {many(len(f['names']), 'module')} ({shown(f['names'])}), {_size(f)}",
        "holds": _what(f),
        "points per row": _points_of_each(f["members"]),
        "correlated": _correlated([own["function"] for own in f["functions"]], f["correlation"]),
    }


def _points_of_each(members: Sequence[Facts]) -> str | None:
    """Of every member, whichever of its functions has most; nothing where only names are kept."""
    each: dict[str, float] = {}
    for m in members:
        if m["points_per_row"] is not None:
            each[m["name"]] = max(m["points_per_row"], each.get(m["name"], 0.0))
    more = f" and {len(each) - WORDS_SHOWN:,} more" if len(each) > WORDS_SHOWN else ""
    return ", ".join(f"{name} {most:.2g}" for name, most in list(each.items())[:WORDS_SHOWN]) + more


def _modules(f: Facts) -> Lines:
    points = f"at {many(f['points'], 'point')} in all"
    return {
        "modules": f"{f['modules']:,} ({shown(f['names'])}), {_size(f)}",
        "holds": _what(f),
        "kept": f"at least {f['kept']:.0%} of what the rows of each say about {_known_of(f)}, {points}",
        "points per row": f"{f['points_per_row']:.2g} in all",
    }


def _what(f: Facts) -> str | None:
    """As "3 classes: ant, bee, wasp"; nothing of one function."""
    names = [own["function"] for own in f["functions"]]
    if f["holds"] in SINGULAR:
        return f"{_counted(f)}: {shown(names)}"
    return None if f["holds"] == ONE else f"a function and its noise, which varies: {', '.join(names)}"


def _counted(f: Facts) -> str:
    count = len(f["functions"])
    return f"{count} {SINGULAR[f['holds']] if count == 1 else f['holds']}" if f["holds"] in SINGULAR else f["holds"]


def _holds(f: Facts) -> str:
    """For a table of files."""
    if f["kind"] in (plan_words.PLAN, plan_words.ANSWER):
        return f["kind"] if f["kind"] == plan_words.PLAN else f"answer of {f['name']}"
    if f["kind"] == "modules":
        whose = f"{f['modules']:,} modules"
    else:
        whose = f["name"] if f["kind"] == "module" else f"ensemble of {f['modules']}"
    late = f["kind"] != "modules" and not f["converged"]
    return whose + ("" if f["holds"] == ONE else f", {_counted(f)}") + (", NOT CONVERGED" if late else "")


def _place(f: Facts) -> Lines:
    """Where its points are."""
    region = _some(f"{name} from {in_digits(low)} to {in_digits(high)}" for name, (low, high) in f["region"].items())
    unnamed = " (the columns have no names)" if region and f["columns"] is None else ""
    each = f["categories"].items()
    return {
        "region": region + unnamed,
        "categories": _some(f"{name} ({many(len(own), 'level')}: {shown(own)})" for name, own in each),
    }


def _some(said: Iterable[str]) -> str:
    """Of each column something, of many only of the first; --json has all."""
    every = list(said)
    more = f" and {len(every) - COLUMNS_SHOWN:,} more" if len(every) > COLUMNS_SHOWN else ""
    return ", ".join(every[:COLUMNS_SHOWN]) + more


def words(found: dict[str, list[str]]) -> str:
    """Those that somebody has chosen, by what they are."""
    more = {what: len(some) - WORDS_SHOWN for what, some in found.items()}
    return "; ".join(
        f"{what}: {', '.join(some[:WORDS_SHOWN])}" + (f" and {more[what]:,} more" if more[what] > 0 else "")
        for what, some in found.items()
    )


# --- functions --------------------------------------------------------------------------------


def _one_function(f: Facts) -> Lines:
    noise = f["noise"]
    lines: Lines = {
        "kernel": f"{f['kernel_in_short']}, prior mean {in_digits(f['mean'])}",
        "noise": None if noise is None else _noise(noise),
    }
    if f["kind"] == "module":
        after = f"after {many(f['evaluations'], 'evaluation')}" if f["evaluations"] else f["convergence"]
        return lines | {"converged": f"{'yes' if f['converged'] else 'NO: ' + f['convergence']}, {after}"}
    late = None if f["converged"] else f"NO: the search for the kernel {f['convergence']}"
    return lines | {"form": f["size"], "owners": _difference(f), "converged": late}


def _noise(variance: float) -> str:
    return f"variance {in_digits(variance)}, standard deviation {in_digits(math.sqrt(variance))}"


def _functions(f: Facts) -> Lines:
    return {f"function {own['function']}": _function(own) for own in f["functions"]}


def _function(own: Facts) -> str:
    said = [many(own["rows"], "row"), f"{many(own['points'], 'point')} ({own['points_per_row']:.2g} per row)"]
    if "names" in own:
        said.insert(0, many(len(own["names"]), "module"))
    if own["target"] not in (None, own["function"]):
        said.insert(0, own["target"])
    if own.get("kept") is not None:
        said.append(f"{own['kept']:.0%} kept")
    said.append(f"{own['kernel_in_short']}, prior mean {in_digits(own['mean'])}")
    if own["noise"] is not None:
        said.append(f"noise variance {in_digits(own['noise'])}")
    differ = _difference(own)
    if differ:
        said.append(f"owners {differ}")
    said.append("converged" if own["converged"] else f"NOT CONVERGED: {own['convergence']}")
    return ", ".join(said)


def _correlated(names: Sequence[str], correlation: list[list[float]] | None) -> str | None:
    """The pairs of outputs that go together most; nothing where each is merged by itself."""
    if correlation is None:
        return None
    pairs = [(correlation[i][j], names[i], names[j]) for i in range(len(names)) for j in range(i)]
    most = sorted(pairs, key=lambda pair: -abs(pair[0]))[:NAMES_SHOWN]
    return ", ".join(f"{b} and {a} {r:.2f}" for r, a, b in most) + (", …" if len(pairs) > len(most) else "")


def _difference(f: Facts) -> str:
    """How owners differ from the function they share; nothing where they do not."""
    said = []
    if f.get("offset_sd"):
        said.append(f"by a constant of sd {f['offset_sd']:.3g}")
    if f.get("smooth_sd"):
        said.append(f"by a smooth function of {f['smooth_sd']:.3g} times the sd of the shared one")
    return f"differ {' and '.join(said)}" if said else ""


# --- what merging and removing leave ----------------------------------------------------------


def _merged(f: Facts) -> Lines:
    doubts = {name: why.removeprefix(FLAGGED).removeprefix(": ") for name, why in f["not_trusted"].items()}
    return {
        "not trusted": shown([f"{name} ({why})" for name, why in doubts.items()]),
        "left out": shown([f"{name} ({why})" for name, why in f["skipped"].items()]),
        "signed by": shown([f"{s['name']} with key {s['key'][:16]}" for s in f["signers"]]),
        **{f"try for {p['name']}": p["command"] or p["python"] for p in f.get("proposals", ())},
        "removed": f["removed"] if f["modules_removed"] else None,
        "keeps": KEEPS[f["keeps"]],
    }


def _known_of(f: Facts) -> str:
    return "f" if f["holds"] == ONE else "each function"


def _origin(f: Facts) -> str:
    """Whether rows are among the points; of an ensemble also for whom else that is not known."""
    said = {
        "placed": "no: recyclegp placed them, and never on one",
        "unknown": "not known: somebody else chose them, or they were rounded",
        "rows": "YES: rows of the data are among them",
    }[f["origin"]] + _of_whom(f, "origin", f["origin"])
    doubtful = _of_whom(f, "origin", "unknown") if f["origin"] == "rows" else ""
    return f"{said}; not known of others{doubtful}" if doubtful else said


def _of_whom(f: Facts, what: str, value: str | bool) -> str:
    """Those members of an ensemble of which it is said, where that is not all."""
    own = list(dict.fromkeys(m["name"] for m in f.get("members", ()) if m[what] == value))
    return f" ({shown(own)})" if 0 < len(own) < len(f.get("names", ())) else ""


def _guarantee(f: Facts) -> str | None:
    if f["privacy_guarantee"] != "none":
        return str(f["privacy_guarantee"])
    whose = _of_whom(f, "noise_for_people", True)
    if f["noise_for_people"] or whose:
        return f"none: noise is added for people{whose}, and what it hides is measured, not proven"
    return "none: no noise is added for privacy"


def _smallest(f: Facts) -> str | None:
    """Of several: the fewest rows, who has them, and the most points that any member has for a row."""
    if f["kind"] == "module":
        return None
    members = f.get("members", ())
    fewest = list(dict.fromkeys(m["name"] for m in members if m["rows"] == f["smallest_member"]))
    whose = f" ({shown(fewest)})" if 0 < len(fewest) < len(f["names"]) else ""
    return f"{many(f['smallest_member'], 'row')}{whose}; at most {f['most_points_per_row']:.2g} points per row"
