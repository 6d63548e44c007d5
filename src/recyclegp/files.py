"""Files: safetensors with a JSON header. Never pickle: modules come from strangers.

Tensors are stored as float64 as they are, so a round trip is bit-exact. Everything read is checked
before an object is made of it; a file is written beside its target and moved there when complete.
docs/schema.md describes the format.
"""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from . import __version__, arrays, kernels
from .atomic import write_atomically
from .ensemble import Ensemble, Member
from .errors import RecycleGPError
from .kernels import Kernel
from .least_squares import Rows
from .likelihoods import Likelihood
from .module import Convergence, Module, check_name
from .sites import Site

SCHEMA = 1
KEY = "recyclegp"
LARGEST = 2**33  # bytes; more is not a summary of data
EXTREME = math.log(arrays.LARGEST)  # of the logarithm of a kernel's parameter

Header = dict[str, Any]
Tensors = dict[str, Tensor]


def save(model: Module | Ensemble, path: str | PathLike[str]) -> None:
    """Write a module or an ensemble, all or nothing."""
    if not isinstance(model, (Module, Ensemble)):
        raise TypeError(f"only a Module or an Ensemble can be saved, not {type(model).__name__}")
    header, tensors = _module_out(model) if isinstance(model, Module) else _ensemble_out(model)
    header = {"schema": SCHEMA, "written_by": f"recyclegp {__version__}", **header}
    text = json.dumps(header, allow_nan=False, sort_keys=True)
    tensors = {k: t.detach().cpu().contiguous() for k, t in tensors.items()}
    write_atomically(Path(path), to_bytes(tensors, metadata={KEY: text}))


def load(path: str | PathLike[str]) -> Module | Ensemble:
    """Read what was saved: a Module or an Ensemble. Nothing in the file is executed."""
    path = Path(path)
    header, tensors = read(path)
    readers: dict[Any, Callable[[_Reader], Module | Ensemble]] = {"module": _module_in, "ensemble": _ensemble_in}
    kind = header.get("kind")
    if not isinstance(kind, str) or kind not in readers:
        raise RecycleGPError(f"{path}: it holds a {str(kind)[:50]!r}, which this version cannot read; upgrade")
    try:
        return readers[kind](_Reader(header, tensors))
    except RecycleGPError as broken:
        raise RecycleGPError(f"{path}: {broken}; ask for the file again") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as broken:
        raise RecycleGPError(f"{path}: the header is malformed ({broken!r}); ask for the file again") from None


def read(path: Path) -> tuple[Header, Tensors]:
    size = path.stat().st_size  # FileNotFoundError and PermissionError are the convention
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file; load its files one by one", str(path))
    if size > LARGEST:
        raise RecycleGPError(f"{path}: {size} bytes is larger than a module can be")
    try:
        with safe_open(str(path), framework="pt") as stream:
            text = (stream.metadata() or {}).get(KEY)
            if text is None:
                raise RecycleGPError(f"{path}: a safetensors file, but not one of recyclegp's")
            header = json.loads(text, parse_constant=_refuse)
            if not isinstance(header, dict):
                raise ValueError("the header is not an object")
            if type(header.get("schema")) is not int or header["schema"] != SCHEMA:
                raise RecycleGPError(
                    f"{path}: schema {header.get('schema')!r}; this version of recyclegp ({__version__}) reads "
                    f"schema {SCHEMA}. Upgrade recyclegp, or ask for the file in schema {SCHEMA}"
                )
            return header, {k: stream.get_tensor(k) for k in stream.keys()}  # noqa: SIM118 (no dict)
    except (SafetensorError, ValueError, RecursionError) as broken:
        if isinstance(broken, RecycleGPError):
            raise
        raise RecycleGPError(
            f"{path}: not a complete recyclegp file ({broken}); it may be truncated or of another format (of a table, "
            "`recyclegp fit` makes one)"
        ) from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"the header holds {constant}")


class _Reader:
    """Header fields and tensors, each checked as it is taken."""

    def __init__(self, header: Header, tensors: Tensors) -> None:
        self.header = header
        self.tensors = tensors

    def text(self, key: str) -> str:
        value = self.header[key]
        if not isinstance(value, str):
            raise RecycleGPError(f"{key} is not text")
        return value

    def number(self, key: str, *, least: float = -math.inf) -> float:
        return _number(self.header[key], key, least)

    def count(self, value: Any, *, least: int = 0) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise RecycleGPError(f"{value!r} is not a count of at least {least}")
        return value

    def tensor(self, key: str, *shape: int | None, dtype: torch.dtype = torch.float64) -> Tensor:
        """A finite tensor of this shape (None: any length)."""
        if key not in self.tensors:
            raise RecycleGPError(f"tensor {key!r} is missing")
        t = self.tensors[key]
        fits = len(t.shape) == len(shape) and all(w in (None, n) for w, n in zip(shape, t.shape, strict=True))
        if t.dtype != dtype or not fits:
            raise RecycleGPError(
                f"tensor {key!r} is {t.dtype} of shape {tuple(t.shape)}; expected {dtype} of shape {shape}"
            )
        if dtype.is_floating_point and not bool((t.abs() <= arrays.LARGEST).all()):
            raise RecycleGPError(f"tensor {key!r} holds NaN or infinite values, or some beyond {arrays.LARGEST:g}")
        return t

    def kernel(self, dimension: int) -> Kernel:
        return _kernel_in(self.header["kernel"], dimension)

    def columns(self, dimension: int) -> tuple[str, ...] | None:
        names = self.header["columns"]
        if names is None:
            return None
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise RecycleGPError("columns is not a list of names")
        if len(names) != dimension or len(set(names)) != dimension:
            raise RecycleGPError(f"columns does not name the {dimension} inputs, each by its own name")
        return tuple(names)


# --- modules ----------------------------------------------------------------------------------


def _module_out(m: Module) -> tuple[Header, Tensors]:
    header = {
        "kind": "module",
        "name": m.name,
        "kernel": _kernel_out(m.kernel_spec),
        "mean": m.mean,
        "jitter": m.jitter,
        "likelihoods": _likelihoods_out(m.likelihoods),
        "rows": m.rows,
        "columns": None if m.columns is None else list(m.columns),
        "units": "as in the data: Z in those of X; f, mean, noise and kernel in those of y",
        "convergence": m.convergence.__dict__,
        "method": m.method,
    }
    return header, {"Z": m._site.Z, "Rt": m._site.Rt, "rho": m._site.rho, "e": m._site.e}


def _module_in(r: _Reader) -> Module:
    Z = r.tensor("Z", None, None)
    M, D = Z.shape
    Rt = r.tensor("Rt", None, M)
    if M == 0 or D == 0 or len(Rt) > M:
        raise RecycleGPError(f"a site of {len(Rt)} rows on {M} points in {D}-D is not one")
    ended = r.header["convergence"]
    return Module(
        name=r.text("name"),
        _site=Site(Z, Rt, r.tensor("rho", len(Rt)), r.tensor("e")),
        kernel_spec=r.kernel(D),
        mean=r.number("mean"),
        jitter=r.number("jitter", least=0.0),
        likelihoods=_likelihoods_in(r.header["likelihoods"]),
        rows=r.count(r.header["rows"], least=1),
        columns=r.columns(D),
        convergence=Convergence(bool(ended["converged"]), r.count(ended["evaluations"]), str(ended["message"])),
        method=r.text("method"),
    )


# --- ensembles --------------------------------------------------------------------------------


def _ensemble_out(e: Ensemble) -> tuple[Header, Tensors]:
    kept = [m.site for m in e._members if m.site is not None]
    header = {
        "kind": "ensemble",
        "kernel": _kernel_out(e.kernel_spec),
        "mean": e.mean,
        "jitter": e.jitter,
        "likelihoods": _likelihoods_out(e.likelihoods),
        "columns": None if e.columns is None else list(e.columns),
        "choice": e.choice,
        "units": "as in the data: Z in those of X; f, mean, noise and kernel in those of y",
        "members": [
            {
                "name": m.name,
                "rows": m.rows,
                "weight": m.weight,
                "likelihoods": _likelihoods_out(m.likelihoods),
                "kernel": _kernel_out(m.kernel),
                "mean": m.mean,
                "surprise": None if math.isnan(m.surprise) else m.surprise,
                "agreement": None if math.isnan(m.agreement) else m.agreement,
                "site": None if m.site is None else [len(m.site.Z), len(m.site.rho)],
            }
            for m in e._members
        ],
    }
    tensors = {
        "Z": e._Z,
        # all sites behind one another: thousands of small tensors would be thousands of headers
        "sites.Z": torch.cat([s.Z for s in kept]) if kept else e._Z[:0],
        "sites.Rt": torch.cat([s.Rt.flatten() for s in kept]) if kept else e._Z.new_zeros(0),
        "sites.rho": torch.cat([s.rho for s in kept]) if kept else e._Z.new_zeros(0),
        "sites.e": torch.stack([s.e for s in kept]) if kept else e._Z.new_zeros(0),
    }
    for part, rows in (("bound", e._bound_of), ("evidence", e._evidence_of)):
        tensors |= {f"{part}.{key}": getattr(rows, key) for key in ("H", "rho", "e", "slack")}
    return header, tensors


def _ensemble_in(r: _Reader) -> Ensemble:
    Z = r.tensor("Z", None, None)
    M, D = Z.shape
    if M == 0 or D == 0:
        raise RecycleGPError("an ensemble needs at least one point")

    def rows(part: str) -> Rows:
        H = r.tensor(f"{part}.H", None, M)
        rho = r.tensor(f"{part}.rho", len(H))
        return Rows(H, rho, torch.zeros_like(rho), r.tensor(f"{part}.e"), r.tensor(f"{part}.slack"))

    return Ensemble(
        kernel_spec=r.kernel(D),
        mean=r.number("mean"),
        _Z=Z,
        jitter=r.number("jitter", least=0.0),
        likelihoods=_likelihoods_in(r.header["likelihoods"]),
        _members=_members_in(r, D),
        columns=r.columns(D),
        _bound_of=rows("bound"),
        _marginal=rows("evidence"),
        choice=_choice_in(r.header["choice"]),
    )


def _members_in(r: _Reader, D: int) -> tuple[Member, ...]:
    entries = r.header["members"]
    for e in entries:
        check_name(e["name"])
    if not entries or len({e["name"] for e in entries}) < len(entries):
        raise RecycleGPError("the ensemble's modules are none, or two have the same name")
    shapes = [(r.count(e["site"][0]), r.count(e["site"][1])) for e in entries if e["site"] is not None]
    if any(m == 0 or n > m for m, n in shapes):
        raise RecycleGPError("a module's site has no points, or more rows than points")
    Zs = r.tensor("sites.Z", sum(m for m, _ in shapes), D).split([m for m, _ in shapes])
    Rts = r.tensor("sites.Rt", sum(m * n for m, n in shapes)).split([m * n for m, n in shapes])
    rhos = r.tensor("sites.rho", sum(n for _, n in shapes)).split([n for _, n in shapes])
    es = r.tensor("sites.e", len(shapes))
    kept = iter(
        [
            Site(Z.clone(), Rt.reshape(n, m).clone(), rho.clone(), e.clone())
            for (m, n), Z, Rt, rho, e in zip(shapes, Zs, Rts, rhos, es, strict=True)
        ]
    )
    return tuple(
        Member(
            name=e["name"],
            site=None if e["site"] is None else next(kept),
            rows=r.count(e["rows"], least=1),
            weight=_number(e["weight"], "a weight", 0.0),
            likelihoods=_likelihoods_in(e["likelihoods"]),
            kernel=_kernel_in(e["kernel"], D),
            mean=_number(e["mean"], "a mean", -math.inf),
            surprise=math.nan if e["surprise"] is None else _number(e["surprise"], "a surprise", 0.0),
            agreement=math.nan if e["agreement"] is None else _number(e["agreement"], "an agreement", 0.0),
        )
        for e in entries
    )


# --- shared pieces ----------------------------------------------------------------------------


def _number(value: Any, what: str, least: float, most: float = arrays.LARGEST) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not max(least, -most) <= value <= most:
        raise RecycleGPError(f"{what} is {value!r}, not a finite number{f' of at least {least}' * (least == 0)}")
    return float(value)


def _kernel_out(k: Kernel) -> Header:
    return {"tree": json.loads(k.tree), "log_parameters": list(k.theta)}


def _kernel_in(spec: Header, dimension: int) -> Kernel:
    tree = kernels.dump(spec["tree"])
    kernels.check_tree(tree, dimension)
    return Kernel(tree, tuple(_number(t, "a log-parameter", -EXTREME, EXTREME) for t in spec["log_parameters"]))


def _choice_in(choice: Any) -> int | str | None:
    if choice is None or choice == "auto" or (type(choice) is int and choice > 0):
        return choice
    raise RecycleGPError(f"choice is {choice!r}, neither a number of points nor 'auto'")


def _likelihoods_out(likelihoods: tuple[Likelihood, ...]) -> list[Header]:
    return [{"name": p.name, "parameters": list(p.parameters)} for p in likelihoods]


def _likelihoods_in(entries: list[Header]) -> tuple[Likelihood, ...]:
    found = tuple(
        Likelihood(e["name"], tuple(_number(p, "a parameter", 0.0) for p in e["parameters"])) for e in entries
    )
    if not found or len({p.name for p in found}) < len(found):
        raise RecycleGPError("the likelihoods are none, or one is named twice")
    return found
