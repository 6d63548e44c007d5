"""Importing the package is cheap: torch comes with the first name that is used."""

import logging
import subprocess
import sys

import pytest

import recyclegp


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_is_lazy():
    heavy = [
        "torch",
        "gpytorch",
        "scipy",
        "sklearn",
        "pandas",
        "matplotlib",
        "dask",
        "distributed",
        "safetensors",
        "typer",
    ]
    heavy += ["tensorflow", "gpflow", "jax", "gpjax", "flwr"]
    code = f"import sys, recyclegp; dir(recyclegp); print([m for m in {heavy!r} if m in sys.modules])"
    assert run(code) == "[]"


def test_import_takes_little_more_than_python_itself():
    """These take as long as Python to start, or half as long, and whoever needs one imports it."""
    code = (
        "import sys; before = set(sys.modules); import recyclegp; recyclegp.RecycleGPError; recyclegp.__version__\n"
        "found = set(sys.modules) - before\n"
        "print(sorted(found & {'dataclasses', 'json', 'logging', 'pathlib'}), len(found) < 45)"
    )
    assert run(code) == "[] True"


def test_errors_and_version_come_without_torch():
    code = "import sys, recyclegp as r; print(r.RecycleGPError.__name__, r.__version__, 'torch' in sys.modules)"
    assert run(code) == f"RecycleGPError {recyclegp.__version__} False"


def test_every_public_name_is_there_and_listed():
    assert {"fit", "fit_many", "merge", "load", "Module", "Ensemble", "RecycleGPError"} <= set(dir(recyclegp))
    assert set(dir(recyclegp)) == set(recyclegp.__all__)
    for name in recyclegp.__all__:
        assert getattr(recyclegp, name) is not None


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        recyclegp.fitt  # noqa: B018
    assert not hasattr(recyclegp, "nothing")


def test_errors_and_warnings_are_the_usual_kinds():
    assert issubclass(recyclegp.RecycleGPError, ValueError)
    assert issubclass(recyclegp.RecycleGPWarning, UserWarning)


def test_library_logging_is_silent():
    assert recyclegp.fit  # what logs has been imported
    handlers = logging.getLogger("recyclegp").handlers
    assert any(isinstance(h, logging.NullHandler) for h in handlers)
    assert all(isinstance(h, logging.NullHandler) for h in handlers)


def test_commands_that_draw_nothing_start_without_rich_and_torch():
    code = (
        "import sys\nfrom recyclegp.cli import app\ntry:\n    app(['--version'])\nfinally:\n"
        "    print([m for m in ('torch', 'numpy', 'pandas', 'rich') if m in sys.modules], len(sys.modules) < 300)"
    )
    assert run(code).split("\n")[-1] == "[] True"


@pytest.mark.slow
def test_reading_a_file_brings_torch_and_nothing_else_that_is_heavy(tmp_path):
    """GPyTorch is for kernel objects, SciPy for a few tails; sympy comes with functions of torch nobody needs."""
    recyclegp.fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5], kernel="rbf", publish=2, name="a").save(tmp_path / "a.st")
    code = (
        "import sys\nfrom recyclegp.cli import app\ntry:\n"
        f"    app(['inspect', {str(tmp_path / 'a.st')!r}, '--json'])\nfinally:\n"
        "    print([m for m in ('gpytorch', 'linear_operator', 'scipy', 'sympy', 'pandas') if m in sys.modules])"
    )
    assert run(code).split("\n")[-1] == "[]"


@pytest.mark.slow
def test_first_use_brings_torch_and_leaves_its_settings_alone():
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import sys, recyclegp as r; f = r.fit; print(r.fit is f, 'torch' in sys.modules)\n"
        "import torch; torch.set_num_threads(1)\n"
        "f([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5], publish=2)\n"
        "print(torch.get_num_threads(), torch.get_default_dtype())"
    )
    assert run(code).split("\n") == ["True True", "1 torch.float32"]
