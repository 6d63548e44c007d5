"""Whatever is done to the file of a plan or an answer: it is refused with one clear error, or what is in it works."""

import copy
import random
import warnings

import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases_plans import answers, owners, plan
from hostile_files import mutated, rebuilt, taken_apart
from recyclegp.plans.bound import profile
from recyclegp.plans.sums import Sums

ODD = [
    None,
    True,
    False,
    0,
    -1,
    2,
    0.5,
    2**63,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "sums",
    "\0",
    [],
    {},
    [[]],
    ["a"],
]
CASES = 400


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A plan and an answer of every shape."""
    folder = tmp_path_factory.mktemp("plans")
    of = owners(2, 60)
    first = plan(4, offset_sd=0.3)
    _, second = first.combine(answers(first, of, slopes=False))
    made = [first, second, answers(first, of, slopes=True, score=True)[0], answers(second, of, score=True)[0]]
    merged = rgp.merge([rgp.fit(X, y, name=name, privacy="things") for name, (X, y) in of.items()])
    made.append(merged.plan(4))
    found = []
    for i, one in enumerate(made):
        one.save(folder / f"{i}.safetensors")
        found.append((folder / f"{i}.safetensors").read_bytes())
    return found


def works(path, content):
    """True for something that works, False for a file that is refused; anything else is raised."""
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        try:
            found = rgp.load(path)
        except rgp.RecycleGPError:
            return False
        assert repr(found)
        X = np.zeros((12, found.dimension if isinstance(found, rgp.Plan) else 2))
        X[:, 0] = np.arange(12)
        try:
            if isinstance(found, rgp.Plan):
                given = found.contribute(X, X[:, 0], name="a")
                e = found.combine([given])[0]
                assert np.isfinite(e.predict(X)).all()
            elif isinstance(found, rgp.Answer):
                assert np.isfinite(found.predict(X)).all()
        except rgp.RecycleGPError:
            pass
        return True


def test_changed_bytes(files, tmp_path):
    working = sum(works(tmp_path / "f.safetensors", mutated(files, "plans", case)) for case in range(CASES))
    assert 0 < working < CASES / 2


def places(value, path=()):
    yield path
    each = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, own in each:
        yield from places(own, (*path, key))


@pytest.mark.slow
def test_changed_headers(files, tmp_path):
    chooser = random.Random(0)
    for _ in range(CASES):
        outer, header, body = taken_apart(chooser.choice(files))
        changed = copy.deepcopy(header)
        *path, last = chooser.choice([p for p in places(header) if p])
        where = changed
        for key in path:
            where = where[key]
        if chooser.random() < 0.2 and isinstance(where, dict):
            del where[last]
        else:
            where[last] = chooser.choice(ODD)
        works(tmp_path / "f.safetensors", rebuilt(outer, changed, body))


def test_numbers_that_leave_no_mean_are_refused():
    """hᵀ(sI + G)⁻¹h is less than o for any rows: case 291190 of the fuzz had said that it is not."""
    one = torch.ones((), dtype=torch.float64)
    G, b, h = torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    said = Sums(n=9 * one, logdet=one, G=G, b=b, h=2 * h, c=9 * one, a=9 * one, o=one, t=0 * one)
    with pytest.raises(rgp.RecycleGPError, match="leave no mean that could be"):
        profile(said, 1.0, learn_noise=False)
    assert abs(profile(said._replace(o=9 * one), 1.0, learn_noise=False).change) < 2
