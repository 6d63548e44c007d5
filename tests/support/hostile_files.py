"""Files nobody would write by accident: golden files with something changed in them, and what must come of them.

`mutated` changes bytes, at random but the same for the same number; `forged` what a file says, with digests that fit;
`rebuilt` puts a file together from a header that a test has changed, and `sealed` from bytes.
"""

import copy
import json
import random
import struct
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from recyclegp import Answer, Module, Plan, RecycleGPError, RecycleGPWarning, load, load_many, merge, screen
from recyclegp.commands import fact_words, facts, inspecting
from recyclegp.commands.inspect import _rows as compare_rows
from recyclegp.storage import container, digest

GOLDEN = Path(__file__).parents[1] / "golden"
NUMBERS = ["0", "-1", "1", "2", "2.0", "true", "null", '""', "[]", "{}", "1e999", "-1e308", "1e-320", "NaN", "Infinity"]
NUMBERS += [
    "65536",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
    "9" * 400,
    "[[[[[[]]]]]]",
    '"\\ud800"',
]
DOUBLES = [0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e308, 1e101, 1e100, -1e100, 1e-320, 1e-200]
LENGTHS = [0, 1, 7, 2**16, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64 - 1]


def golden_files():
    """The bytes of every file that must stay readable."""
    return [path.read_bytes() for path in sorted(GOLDEN.rglob("*.safetensors"))]


def exchange_files():
    """A plan and an answer of every shape, as bytes."""
    from cases_plans import answers, owners, plan

    of = owners(2, 60)
    first = plan(4, offset_sd=0.3)
    _, second = first.combine(answers(first, of, slopes=False))
    made = [first, second, answers(first, of, slopes=True, score=True)[0], answers(second, of, score=True)[0]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "exchange.safetensors"
        found = []
        for one in made:
            one.save(path)
            found.append(path.read_bytes())
    return found


def changed_points(Z, rng):
    """Points that coincide, lie in a line, far apart, far away, or very close."""
    scale, how = (
        10.0 ** rng.uniform(-6, 6),
        rng.choice(["same", "twice", "line", "wide", "away", "close", "as they are"]),
    )
    if how == "same":
        return np.full_like(Z, rng.choice([0.0, 1.0, 123.456]))
    if how == "twice":
        return Z[[rng.randrange(len(Z) // 2) for _ in Z]]
    if how == "line":
        return np.linspace(0, scale, len(Z))[:, None] * np.ones_like(Z)
    return {"wide": Z * scale, "away": Z + scale, "close": Z * 1e-12, "as they are": Z}[how]


# --- a file in its parts ----------------------------------------------------------------------


class Parts(NamedTuple):
    outer: dict  # where tensors lie, as safetensors has it
    header: dict  # ours
    body: bytes  # the tensors


def taken_apart(content):
    text, body = _split(content)
    outer = json.loads(text)
    return Parts(outer, json.loads(outer["__metadata__"]["recyclegp"]), body)


def rebuilt(outer, header, body):
    """A file of these parts, with digests of what it holds now if it had any; `header` may be text that is no JSON."""
    sealed = isinstance(header, dict) and digest.DATA in header
    header = header | digest.blank(len(body)) if sealed else header
    text = header if isinstance(header, str) else json.dumps(header)
    if isinstance(outer, dict) and isinstance(outer.get("__metadata__"), dict):
        outer = outer | {"__metadata__": outer["__metadata__"] | {"recyclegp": text}}
    content = _joined(json.dumps(outer).encode(), body)
    return digest.fill(content[: len(content) - len(body)], memoryview(body)) + body if sealed else content


def sealed(content):
    """A file that was changed, with digests that fit: readers come as far as to what it says."""
    return rebuilt(*taken_apart(content))


def without_digests(content):
    """What a file says, whether it has digests or not."""
    outer, header, body = taken_apart(content)
    places = {name: place for name, place in outer.items() if name != "__metadata__"}
    return places, {k: v for k, v in header.items() if k not in (digest.HEAD, digest.DATA)}, body


def _split(content):
    (length,) = struct.unpack("<Q", content[:8])
    return content[8 : 8 + length], content[8 + length :]


def _joined(text, body):
    return struct.pack("<Q", len(text)) + text + body


# --- bytes changed at random ------------------------------------------------------------------


def mutated(files, seed, case):
    """The bytes of this case: a golden file with one to four changes, half of them where lengths stay right."""
    rng = random.Random(f"{seed}/{case}")
    content = rng.choice(files)
    for _ in range(rng.choice([1, 1, 2, 4])):
        try:
            content = rng.choice(CHANGES)(content, rng, files)
        except (struct.error, IndexError, ValueError):  # an earlier change has left nothing that this one could change
            continue
    return content


def _flip(content, rng, files):
    return _overwritten(content, rng.randrange(len(content)), bytes([rng.randrange(256)]))


def _flip_bit(content, rng, files):
    place = rng.randrange(len(content))
    return _overwritten(content, place, bytes([content[place] ^ (1 << rng.randrange(8))]))


def _insert(content, rng, files):
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.choice([1, 2, 8, 64])) + content[place:]


def _delete(content, rng, files):
    place = rng.randrange(len(content))
    return content[:place] + content[place + rng.choice([1, 2, 8, 64]) :]


def _truncate(content, rng, files):
    return content[: rng.randrange(len(content))]


def _repeat(content, rng, files):
    start = rng.randrange(len(content))
    stop = start + rng.choice([1, 8, 100])
    return content[:stop] + content[start:stop] * rng.choice([1, 3, 200]) + content[stop:]


def _splice(content, rng, files):
    other = rng.choice(files)
    return content[: rng.randrange(len(content))] + other[rng.randrange(len(other)) :]


def _length(content, rng, files):
    (length,) = struct.unpack("<Q", content[:8])
    return (
        struct.pack("<Q", rng.choice([*LENGTHS, length + 1, length - 1, len(content), len(content) - 8])) + content[8:]
    )


def _double(content, rng, files):
    """A number of a tensor."""
    text, body = _split(content)
    place = 8 * rng.randrange(len(body) // 8)
    return _joined(text, _overwritten(body, place, struct.pack("<d", rng.choice(DOUBLES))))


def _body(content, rng, files):
    """Tensors of another file behind this header."""
    return _joined(_split(content)[0], _split(rng.choice(files))[1])


def _header_bytes(content, rng, files):
    text, body = _split(content)
    return _joined(rng.choice([_flip, _flip_bit, _insert, _delete, _repeat])(text, rng, files), body)


def _header_number(content, rng, files):
    """A number of the header, of ours or of where tensors lie, becomes something else."""
    text, body = _split(content)
    return _joined(_number(text, rng, files), body)


def _number(text, rng, files):
    places = [i for i, c in enumerate(text) if c in b"0123456789" and text[i - 1] not in b"0123456789.e-_"]
    start = rng.choice(places)
    stop = start
    while text[stop : stop + 1] and text[stop] in b"0123456789.e-":
        stop += 1
    new = rng.choice(NUMBERS).replace("\\", "\\\\").replace('"', '\\"').encode()
    return text[:start] + new + text[stop:]


def _header_token(content, rng, files):
    """A word of the header is exchanged for another one of some header."""
    text, body = _split(content)
    return _joined(_token(text, rng, [_split(rng.choice(files))[0]]), body)


def _token(text, rng, files):
    words, others = text.split(b'"'), rng.choice(files).split(b'"')
    words[rng.randrange(len(words))] = rng.choice(others)
    return b'"'.join(words)


def _header_nest(content, rng, files):
    text, body = _split(content)
    return _joined(_nest(text, rng, files), body)


def _nest(text, rng, files):
    place, depth = rng.randrange(len(text)), rng.choice([10, 200, 5000])
    opened, closed = rng.choice([(b"[", b"]"), (b'{\\"a\\":', b"}"), (b'{"a":', b"}")])
    return text[:place] + opened * depth + b"0" + closed * depth + text[place:]


def _overwritten(content, place, new):
    return content[:place] + new + content[place + len(new) :]


OF_THE_FILE = [_flip, _flip_bit, _insert, _delete, _truncate, _repeat, _splice, _length]
OF_ITS_PARTS = [_double, _double, _body, _header_bytes, _header_number, _header_number, _header_token, _header_nest]
CHANGES = OF_THE_FILE + OF_ITS_PARTS
OF_TEXTS = [_flip, _flip_bit, _insert, _delete, _truncate, _repeat, _splice, _number, _number, _token, _nest]


# --- what a file says, changed ----------------------------------------------------------------

POWERS = [-100, -30, -12, -6, -3, -1, 1, 3, 6, 12, 30, 100]  # of ten, by which a number is made another
LISTED = 64  # entries of a list that are looked at
SAID = [None, True, 0, 1, -1, 2, 0.5, 1e100, 1e-300, 10**15, 2**62, 2**63, "", "auto", "rbf", "a", [], {}, [0], [[]]]


def forged(files, seed, case):
    """A file that says something else in one to three places: numbers, words, tensors; its digests fit."""
    rng = random.Random(f"{seed}/{case}/said")
    outer, header, body = taken_apart(rng.choice(files))
    for _ in range(rng.choice([1, 1, 2, 3])):
        if body and rng.random() < 0.4:
            body = _other_numbers(outer, body, rng)
        else:
            say_otherwise(header, rng)
    return rebuilt(outer, header, body)


def places(value):
    """(container, key) of everything within a value."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(min(LISTED, len(value))):
            yield value, key
            yield from places(value[key])


def say_otherwise(header, rng):
    found = [(holder, key) for holder, key in places(header) if key not in (digest.HEAD, digest.DATA, "schema")]
    holder, key = rng.choice(found)
    if isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool) and rng.random() < 0.8:
        other = holder[key] * 10.0 ** rng.choice(POWERS) * rng.choice([1, 1, -1])
        holder[key] = int(other) if isinstance(holder[key], int) and abs(other) < 1e30 else other
    elif rng.random() < 0.15 and isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = copy.deepcopy(rng.choice(SAID))  # another change may put something into it


def _other_numbers(outer, body, rng):
    """One number of the tensors, or all of one tensor: another, multiplied, moved, all alike."""
    start, stop = rng.choice([place["data_offsets"] for name, place in outer.items() if name != "__metadata__"])
    if start == stop:
        return body
    numbers = np.frombuffer(body[start:stop], "<f8").copy()
    some = slice(None) if rng.random() < 0.6 else rng.randrange(len(numbers))
    by = 10.0 ** rng.choice(POWERS)
    with np.errstate(over="ignore"):
        change = rng.choice(["times", "plus", "minus", "is", "rank"])
        if change == "times":
            numbers[some] *= by
        elif change == "plus":
            numbers[some] += by
        elif change == "minus":
            numbers[some] *= -1
        elif change == "is":
            numbers[some] = rng.choice(DOUBLES)
        else:
            numbers[: len(numbers) // 2] = 0.0
    return body[:start] + numbers.tobytes() + body[stop:]


# --- what must come of it ---------------------------------------------------------------------


def answers(path):
    """Reads a file and asks what is in it: True for a model that works, False for a file that is refused.

    Anything else, as another error, a warning, or a prediction that is no number, is raised.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = _read(path)
        if model is None:
            return False
        assert repr(model)
        if isinstance(model, Plan):
            _plan_answers(model)
            return True
        if isinstance(model, Answer):
            try:
                model = model.module
            except RecycleGPError as refused:  # it has slopes only, or numbers that overflow
                check_message(str(refused))
                return True
        points = model.inducing[-1] if isinstance(model.inducing, tuple) else model.inducing
        for X in (np.zeros((1, model.dimension)), points[:2] + 0.5):
            X[:, list(model.categories.columns)] = 0.0  # the first level, by its name
            for ask in (model.predict, model.predict_y) if len(model.functions) > 1 else (model.predict,):
                try:
                    found = ask(model.categories.named(X))
                except RecycleGPError:  # at this X numbers overflow, or the noise is not known
                    continue
                assert np.isfinite(found).all(), "a prediction is not finite"
                assert (found[1] >= 0).all(), "a variance is negative"
        return True


def _plan_answers(plan):
    """Somebody contributes to it, and it is combined."""
    X = np.zeros((12, plan.dimension))
    X[:, 0] = np.arange(12)
    warnings.simplefilter("ignore", RecycleGPWarning)
    try:
        e, _ = plan.combine([plan.contribute(X, X[:, 0], name="a", privacy="things")])
        assert np.isfinite(e.predict(X)).all(), "a prediction is not finite"
    except RecycleGPError as refused:
        check_message(str(refused))


def tells_more(path):
    """Asks a file everything else that people ask, without merging it: True where all of it works."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RecycleGPWarning)
        if _read(path) is None:
            return False
        refused = _refusals(lambda: fact_words.in_words(facts.of_file(path)))
        model = _read(path)
        if isinstance(model, (Plan, Answer)):
            return not refused
        for machines in (False, True):
            looked = inspecting.of_file(str(path), for_machines=machines)
            assert looked is None or fact_words.in_words(looked)
        X = _places(model)
        for ask in _questions(model):
            _refusals(lambda ask=ask: _check_numbers(ask(X)))  # of some likelihoods there is no answer
        module = []
        if _refusals(lambda: module.append(model.to_module("whole", 4) if hasattr(model, "to_module") else model)):
            return False
        for change in (lambda m: m.publish(2), lambda m: m.publish(X[:1]), lambda m: m.rounded(3)):
            refused += _refusals(lambda change=change: _check_numbers(change(module[0]).predict(X)))
        return not refused


def _questions(model):
    each = [model.predict, model.predict_y, model.predict_noise, model.predict_interval, model.predict_joint]
    each += [model.predict_proba, lambda X: model.predict_quantiles(X, [0.01, 0.5]), model.sample]
    return [*each, lambda X: model.predict_survival(X, 1.0), lambda X: model.extrapolates(X).astype(float)]


def _check_numbers(found):
    for numbers in found if isinstance(found, tuple) else (found,):
        assert np.isfinite(np.asarray(numbers)).all(), "an answer is not finite"


def _refusals(ask):
    """1 where it is refused, clearly; else 0."""
    try:
        ask()
    except RecycleGPError as refused:
        check_message(str(refused))
        return 1
    return 0


def _places(model):
    """Two places near some of its points, as its owner would give them."""
    Z = model.inducing[-1] if isinstance(model.inducing, tuple) else model.inducing
    X = np.asarray(Z)[:2] + 0.5
    X[:, list(model.categories.columns)] = 0.0
    named = model.categories.named(X)
    return pd.DataFrame(named, columns=model.columns) if model.categories.columns else named


def merges(path, honest, into, compared=False, **options):
    """Merges a file with honest modules: True where that works, or goes on without it; False where it is refused.

    Whatever is refused names the file or its module, whatever is saved can be loaded and asked. What an ensemble knows
    is merged as a module. Where files are compared, they are also screened.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RecycleGPWarning)
        mine = path
        if _holds_an_ensemble(path):
            model = _read(path)
            if model is None or _refusals(lambda: model.to_module("whole", 4)):
                return False
            mine = model.to_module("whole", 4)
        try:
            if compared:
                assert screen([mine, *honest]).table
            e = merge([mine, *honest], **options)
        except RecycleGPError as refused:
            _check_named(path, mine, str(refused))
            return False
        try:
            e.save(into)
        except RecycleGPError as refused:
            _check_named(path, mine, str(refused))
            return False
        again = load(into)
        X = _places(honest[0] if honest else again)
        for model in (e, again):
            found = model.predict(X)
            assert np.isfinite(found).all(), "a prediction is not finite"
            assert (found[1] >= 0).all(), "a variance is negative"
            assert model.report()
        if compared:
            assert fact_words.in_words(facts.of_file(into))
            compare_rows(e, [m for m in (mine,) if isinstance(m, Module)] + list(honest))
        return True


def _holds_an_ensemble(path):
    try:
        return str(container.header(path).get("kind")).endswith("ensemble")
    except RecycleGPError:
        return False


def _check_named(path, mine, said):
    """The file, or a module in it, is named."""
    check_message(said)
    if path.name in said:
        return
    header = container.header(path)
    names = [header.get("name"), *(name for block in header.get("blocks", []) for name in block.get("names", []))]
    names += [mine.name] if isinstance(mine, Module) else []
    assert any(repr(name)[1:-1][:20] in said for name in names), f"nobody is named: {said}"


def as_module(path):
    """What somebody would merge of this file: of many modules the last, of an ensemble all that it knows.

    Of other files, and where that is not known, None.
    """
    try:
        model = _read(path)
        if isinstance(model, (Plan, Answer)):
            return None
        return model.to_module("whole", 4) if hasattr(model, "to_module") else model
    except RecycleGPError:
        return None


def _read(path):
    """Whatever a file holds, of many modules the last; None if it is refused."""
    for read in (load, lambda path: load_many(path)[-1]):
        try:
            return read(path)
        except RecycleGPError as refused:
            check_message(str(refused))
            if "many modules" not in str(refused):
                return None
    return None


def check_message(text):
    assert len(text) < 1000, "the message is as long as the file wants"
    assert text.isprintable(), "the message writes what the file wants to the terminal"
