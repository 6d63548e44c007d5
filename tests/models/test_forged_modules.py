"""A file that says something else, with digests that fit: whatever people do with its module ends well, or is refused.

Case 4991 of an earlier fuzz run, of changes that are no longer known, had ended `publish` with a traceback.
"""

from dataclasses import replace

import numpy as np
import pytest

import recyclegp as rgp
from hostile_files import check_message, forged, golden_files

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
    theta = latent.kernel.theta.clone()
    theta[0] = -458.0
    small = replace(m, latents=(latent._replace(kernel=latent.kernel.with_theta(theta)),)).publish(2)
    assert len(small.inducing) == 1
    assert np.isfinite(small.predict(X)).all()
