"""Modules of one function with other numbers than they were fitted with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import recyclegp as rgp


def with_latent(module: rgp.Module, **numbers: Any) -> rgp.Module:
    """With other values in the record of its function: site, kernel, mean, convergence, …"""
    return replace(module, latents=(module.latents[0]._replace(**numbers),))
