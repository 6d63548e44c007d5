"""The record of a module and of a member as JSON: every field there and back, and nothing where nothing is said."""

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

from recyclegp import trees
from recyclegp.categories import Categories, Levels
from recyclegp.core.convergence import Convergence
from recyclegp.core.effects import Offset
from recyclegp.core.noise import NoiseEvidence
from recyclegp.core.sites import Site
from recyclegp.errors import RecycleGPError
from recyclegp.kernels import Kernel, parse
from recyclegp.likelihoods import (
    Bernoulli,
    DirichletCategorical,
    Gaussian,
    Heteroscedastic,
    Outputs,
    Poisson,
    SoftmaxCategorical,
    StudentT,
)
from recyclegp.merging.member import Member
from recyclegp.merging.verdicts import InputFactor, Standing, Units, Verdict
from recyclegp.models import module_file
from recyclegp.record import About, Guaranteed, Latent, Origin, Privacy, Record
from recyclegp.storage import container
from recyclegp.storage.fields import Fields
from recyclegp.storage.member_json import member_from_json, member_to_json
from recyclegp.storage.record_json import (
    about_from_json,
    about_to_json,
    latent_from_json,
    latent_to_json,
    likelihood_from_json,
    likelihood_to_json,
    words_to_json,
)
from recyclegp.target import NO_TARGET, Target


def kernel():
    structure = parse("rbf", 2).structure
    return Kernel(structure, torch.tensor([0.1, -0.3, 0.7], dtype=torch.float64))


def site(points=3):
    Z = torch.arange(2.0 * points, dtype=torch.float64).reshape(points, 2)
    return Site(Z, torch.eye(points, dtype=torch.float64), torch.ones(points, dtype=torch.float64), Z.new_tensor(-1.5))


FULL_ABOUT = About(
    name="ward-7, spring",
    owner_override="ward-7",
    time=datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
    method="exact",
    columns=("a", "sex"),
    categories=Categories((Levels(1, ("f", "m")),)),
    targets=(Target("heat", "K"), NO_TARGET, Target(labels=("ok", None))),
    privacy=Privacy.PEOPLE,
    origin=Origin.ROWS,
    held_back=0.25,
    guaranteed=Guaranteed(1.0, 1e-6, 3.0, "person", 4, 10, 7),
)
FULL_LATENT = Latent(
    site=site(),
    kernel=kernel(),
    mean=0.25,
    rows=30,
    jitter=1e-9,
    effective_rows=12.5,
    kept=0.75,
    noise_evidence=NoiseEvidence(1.0, 0.25, 2.0, 17.5),
    convergence=Convergence(False, 50, "stopped"),
)
FULL_MEMBER = Member(
    about=About("a", columns=("a", "b"), targets=(Target("heat", "K"),)),
    latent=FULL_LATENT,
    likelihoods=(Gaussian(0.5),),
    weight=0.5,
    function=2,
    noise=0.125,
    left_open=0.03125,
    missed=0.03,
    verdict=Verdict(Standing.FLAGGED, "upside down", Units(-1.0, 2.0, (InputFactor("a", 2.0, 1.0),)), 1.0),
    surprise=3.0,
    others_add=0.5,
    agreement=0.01,
    offset=Offset(0.5, 0.25),
    points_appended=2,
    slack=0.75,
    added_after_merge=True,
    update=True,
)


def there_and_back(value):
    return json.loads(json.dumps(value, allow_nan=False))


def test_every_field_is_in_a_table():
    """Whoever adds a field to the record is told here that files do not have it yet."""
    assert set(about_to_json(FULL_ABOUT)) == {("owner" if f == "owner_override" else f) for f in About._fields}
    assert set(latent_to_json(FULL_LATENT, 2)) == set(Latent._fields) - {"site"}
    words, numbers = set(words_to_json(FULL_MEMBER.about)), set(latent_to_json(FULL_LATENT, 2))
    assert set(member_to_json(FULL_MEMBER, 2)) - words - numbers == {*Member._fields, "site"} - {"about", "latent"}


def test_words_there_and_back():
    assert about_from_json(there_and_back(about_to_json(FULL_ABOUT)), 2, 3) == FULL_ABOUT
    assert about_from_json(there_and_back(about_to_json(About("a"))), 2, 1) == About("a")


def test_numbers_there_and_back():
    found = latent_from_json(there_and_back(latent_to_json(FULL_LATENT, 2)), FULL_LATENT.site, 2, (Gaussian(0.5),))
    assert found == FULL_LATENT
    small = Latent(None, kernel(), 0.0, 1)
    assert latent_from_json(there_and_back(latent_to_json(small, 2)), None, 2, (Poisson(),)) == small


def test_members_there_and_back():
    frame = (FULL_MEMBER.about.columns, FULL_MEMBER.about.categories)
    found = member_from_json(there_and_back(member_to_json(FULL_MEMBER, 2)), FULL_LATENT.site, 2, *frame)
    assert found == FULL_MEMBER
    plain = Member(About("b"), Latent(None, kernel(), 0.0, 1), (Poisson(),))
    again = member_from_json(there_and_back(member_to_json(plain, 2)), None, 2, None, plain.about.categories)
    assert math.isnan(again.surprise)
    known = dict.fromkeys(("surprise", "agreement", "others_add"), 0.0)
    assert again._replace(**known) == plain._replace(**known)


def test_what_says_nothing_is_not_written():
    assert about_to_json(About("a")) == {"name": "a"}
    assert set(latent_to_json(Latent(None, kernel(), 0.0, 1), 2)) == {"kernel", "mean", "rows", "jitter"}
    plain = Member(About("b"), Latent(None, kernel(), 0.0, 1), (Poisson(),))
    assert set(member_to_json(plain, 2)) == {"name", "kernel", "mean", "rows", "jitter", "likelihoods", "weight"}


@pytest.mark.parametrize(
    ("likelihood", "said"),
    [
        (Gaussian(0.5), {"name": "gaussian", "parameters": [0.5]}),
        (Gaussian(), {"name": "gaussian"}),
        (Bernoulli(), {"name": "bernoulli"}),
        (StudentT(0.5, 4.0), {"name": "student-t", "parameters": [0.5, 4.0]}),
        (DirichletCategorical(("a", "b")), {"name": "categorical", "labels": ["a", "b"]}),
        (SoftmaxCategorical(("a", "b")), {"name": "categorical-softmax", "labels": ["a", "b"]}),
        (SoftmaxCategorical(), {"name": "categorical-softmax"}),
        (Heteroscedastic(), {"name": "heteroscedastic"}),
        (Heteroscedastic("log noise"), {"name": "heteroscedastic", "function": "log noise"}),
        (
            Outputs(("heat", "spots"), (Gaussian(0.5), Poisson())),
            {
                "name": "outputs",
                "functions": [
                    {"name": "heat", "likelihood": {"name": "gaussian", "parameters": [0.5]}},
                    {"name": "spots", "likelihood": {"name": "poisson"}},
                ],
            },
        ),
    ],
    ids=str,
)
def test_likelihoods(likelihood, said):
    assert likelihood_to_json(likelihood) == said
    assert likelihood_from_json(there_and_back(said)) == likelihood


def test_families_are_written_without_numbers():
    both = Outputs(("heat", "spots"), (Gaussian(0.5), Poisson()))
    assert "parameters" not in json.dumps(likelihood_to_json(both, numbers=False))


@pytest.mark.parametrize("shared", [True, False])
def test_points_that_all_functions_share_are_written_once(shared, tmp_path):
    first, second = site(), site() if shared else site(4)
    latents = (FULL_LATENT._replace(site=first), FULL_LATENT._replace(site=second, noise_evidence=None))
    record = Record(About("a", targets=(NO_TARGET,) * 2), (Outputs(("p", "q"), (Gaussian(0.5), Poisson())),), latents)
    document = module_file.to_document(record)
    points = {name for name in document.tensors if name.endswith("Z")}
    assert points == ({"Z"} if shared else {"0/Z", "1/Z"})
    container.write(tmp_path / "m", document)
    found = module_file.read_record(Fields(container.read(tmp_path / "m")), 3)
    assert found.about == record.about
    assert found.likelihoods == record.likelihoods
    for one, other in zip(found.latents, latents, strict=True):
        assert one._replace(site=None) == other._replace(site=None)
        assert all(torch.equal(a, b) for a, b in zip(one.known_site, other.known_site, strict=True))


@pytest.mark.parametrize("name", ["", "n" * 201, "a\nb", None, 7])
def test_a_record_has_a_name(name):
    record = Record(About("a"), (Gaussian(0.5),), (FULL_LATENT,))
    header, tensors, _ = module_file.to_document(record)
    with pytest.raises((RecycleGPError, TypeError)):
        module_file.from_fields(Fields(container.Document(header | {"name": name}, tensors)))


def test_the_schema_page_has_every_kernel_that_is_read():
    """Words of the reader that are no field are kinds, and those of a table on the page."""
    reader = Path(trees.__file__).read_text(encoding="utf-8")
    tests = re.findall(r"if kind (?:==|in) (\([^)]*\)|\"\w+\")", reader)
    kinds = {word for test in tests for word in re.findall(r"\"(\w+)\"", test)}
    page = (Path(__file__).parents[2] / "docs" / "schema.md").read_text(encoding="utf-8")
    table = page[page.index("## Kernel\n") :].split("\n## ")[0]
    assert {"index", "centred", "matern", "product"} <= kinds
    assert kinds <= set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE))))
