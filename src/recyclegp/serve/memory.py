"""How much memory a process may take that reads and merges what strangers have sent."""

from __future__ import annotations

import os
from pathlib import Path


def limit_memory(more: int) -> None:
    """So many bytes above what this process has now; where the system cannot limit it, nothing is limited."""
    try:
        import resource

        now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = now + more if hard == resource.RLIM_INFINITY else min(now + more, hard)
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    except (ImportError, OSError, ValueError):
        return
