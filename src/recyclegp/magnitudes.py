"""How large numbers may be, and how they are written for people."""

from __future__ import annotations

LARGEST = 1e100  # beyond it squares overflow


def in_digits(value: float) -> str:
    """Four digits of whatever size, and whole numbers in full: 0.01235, 390.9, 19,732."""
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e9 else f"{value:.4g}"
