"""A small file that would make a merge take long: its cost is bounded, whatever it says of its rows."""

import time
import warnings

import numpy as np
import pytest

import recyclegp as rgp
from fuzz_cases import forget_peak, memory
from hostile_files import rebuilt, taken_apart

NODES = 62
MOST_SECONDS = 10.0  # of the processor, as SECURITY.md says
MOST_MEMORY = 64.0  # MiB above idle, likewise
LEVELS = 49  # of an index kernel whose numbers fit into ten kilobytes


def fitted(seed, name):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 6, (24, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.standard_normal(24)
    return rgp.fit(x, y, name=name, publish=5, privacy="things", learn=False)


@pytest.fixture(scope="module")
def honest():
    return [fitted(seed, f"honest-{seed}") for seed in range(3)]


@pytest.fixture(scope="module")
def bomb(tmp_path_factory):
    """Sixty-two periodic kernels, of which no two are alike, and so many rows that all others would be nothing."""
    path = tmp_path_factory.mktemp("bombs") / "bomb.safetensors"
    fitted(9, "bomb").save(path)
    outer, header, body = taken_apart(path.read_bytes())
    header["parts"][0] |= {
        "rows": 10**15,
        "kernel": {
            "tree": {"kind": "sum", "parts": [{"kind": "periodic", "ard": None, "dims": None}] * NODES},
            "log_parameters": [0.1 * (i % 7) for i in range(2 * NODES)],
        },
    }
    path.write_bytes(rebuilt(outer, header, body))
    assert path.stat().st_size < 10_000
    return path


def seconds(modules, **options):
    """Of the processor: the machine may have other things to do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        start = time.process_time()
        found = rgp.merge(modules, **options)
        taken = time.process_time() - start
    assert np.isfinite(found.predict(np.array([[1.0]]))).all()
    return taken


@pytest.mark.parametrize("options", [{}, {"trust": None}, {"trust": None, "owners": "smooth"}], ids=str)
def test_many_rows_and_many_periodic_kernels_among_honest_ones(bomb, honest, options):
    """That took 104 s."""
    assert seconds([bomb, *honest], **options) < MOST_SECONDS


@pytest.mark.slow
def test_many_rows_and_many_periodic_kernels_beside_one_other(bomb, honest):
    """Nobody can say which of the two is right, and the kernel is that with most rows."""
    assert seconds([bomb, honest[0]]) < MOST_SECONDS


@pytest.fixture(scope="module")
def many_parameters(tmp_path_factory):
    """An index kernel of 2,450 parameters, and so many rows that it would be everybody's."""
    path = tmp_path_factory.mktemp("bombs") / "index.safetensors"
    fitted(9, "bomb").save(path)
    outer, header, body = taken_apart(path.read_bytes())
    tree = {"kind": "index", "dims": [0], "levels": LEVELS, "rank": LEVELS}
    kernel = {"tree": tree, "log_parameters": [1] * (LEVELS * LEVELS + LEVELS)}
    header["parts"][0] |= {"rows": 10**15, "kernel": kernel}
    first, last = next(place["data_offsets"] for name, place in outer.items() if name.endswith("Z"))
    body = body[:first] + bytes(last - first) + body[last:]  # all points are the first level
    path.write_bytes(rebuilt(outer, header, body))
    assert path.stat().st_size < 10_000
    return path


@pytest.mark.parametrize("kernel", [None, "auto"])
@pytest.mark.parametrize("beside", range(4))
def test_a_kernel_of_very_many_parameters_is_not_learned(many_parameters, honest, beside, kernel):
    """Alone it took 23 s and 327 MiB."""
    seconds(honest, kernel=kernel)  # what that imports is no bomb's
    forget_peak()
    idle = memory()
    assert seconds([many_parameters, *honest[:beside]], kernel=kernel) < MOST_SECONDS
    assert memory() - idle < MOST_MEMORY


def test_what_is_not_learned_is_said(many_parameters, honest):
    with pytest.warns(rgp.RecycleGPWarning, match="more than the 512 parameters that are learned"):
        rgp.merge([many_parameters])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        e = rgp.merge([many_parameters, *honest[:2]])
    assert e.kernel_spec.structure == honest[0].kernel_spec.structure  # theirs can be learned
