"""A file that says something else, with digests that fit: whatever people do with its module ends well, or is refused.

Case 4991 of an earlier fuzz run, of changes that are no longer known, had ended `publish` with a traceback.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
from hostile_files import check_message, forged, golden_files
from recyclegp.kernels import Kernel, parse
from recyclegp.kernels.nodes import Product

BLOCK = 50
SEEDS = [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 6))]


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """The files of one module each."""
    path, found = tmp_path_factory.mktemp("golden") / "m.safetensors", []
    for content in golden_files():
        path.write_bytes(content)
        try:
            if isinstance(rgp.load(path), rgp.Module):
                found.append(content)
        except rgp.RecycleGPError:  # many of them
            continue
    return found


def changes(module):
    X = np.array([Z[:1] for Z in (module.inducing if isinstance(module.inducing, tuple) else [module.inducing])])[0]
    here = module.categories.named(X)
    yield lambda: module.publish(1)
    yield lambda: module.publish(3)
    yield lambda: module.publish(here)
    yield lambda: module.rounded(3)
    yield lambda: module.transform(input_scale=2.0, input_shift=1.0)


@pytest.mark.parametrize("block", SEEDS)
def test_publishing_and_rounding(modules, tmp_path, block):
    path, read, made = tmp_path / "m.safetensors", 0, 0
    cases = [*range(block * BLOCK, (block + 1) * BLOCK), *([4991] if block == 0 else [])]
    for case in cases:
        path.write_bytes(forged(modules, "publish", case))
        try:
            module = rgp.load(path)
        except rgp.RecycleGPError:
            continue
        read += 1
        for change in changes(module):
            try:
                found = change()
                found.save(path)
                again = rgp.load(path)
            except rgp.RecycleGPError as refused:
                check_message(str(refused))
                continue
            assert again.rows == found.rows
            made += 1
    assert read > 10
    assert made > 3 * read


def test_a_kernel_that_is_nothing_is_published_at_one_point():
    """Of variance e^-458, beside which no point is better than another: case 430850 of the fuzz."""
    X = np.random.default_rng(0).uniform(0, 6, (20, 2))
    m = rgp.fit(X, np.sin(X[:, 0]), publish=6, learn=False, privacy="things")
    latent = m.latents[0]
    scaled = latent.kernel.structure
    theta = latent.kernel.theta.clone()
    theta[0] = -229.0
    kernel = Kernel(Product((scaled, scaled)), torch.cat([theta, theta]))
    small = replace(m, latents=(latent._replace(kernel=kernel),)).publish(2)
    assert len(small.inducing) == 1
    assert np.isfinite(small.predict(X)).all()


def test_a_kernel_that_reads_levels_as_numbers_is_not_published_between_them():
    """Case 839800 of the fuzz: a point at level 0.57, of a file that nobody could load."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=40), "s": np.array(list("fm"))[rng.integers(0, 2, 40)]})
    m = rgp.fit(X, X.a.to_numpy(), publish=8, learn=False, privacy="things")
    forged_ = replace(m, latents=(m.latents[0]._replace(kernel=parse("rbf", 2)),))
    with pytest.raises(rgp.RecycleGPError, match="no level in column 1, whose levels are 2"):
        forged_.publish(3)
    assert len(m.publish(3).inducing) == 3
