"""How large numbers may be."""

from __future__ import annotations

LARGEST = 1e100  # beyond it squares overflow
