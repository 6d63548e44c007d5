"""Where the time of a piece of work on a GPU goes: in Python, in starting kernels, in waiting for them, in kernels."""

from __future__ import annotations

import cProfile
import io
import pstats
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

SHOWN = 14  # lines of each table
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")  # the CPU stands still meanwhile
STARTS = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx")
COPIES = ("cudaMemcpyAsync",)


def profiled(work: Callable[[], Any]) -> str:
    """What Python functions took of it, and what the device was asked for; the work is done three times."""
    return f"{_python(work)}\n{_device(work)}"


def python_calls(work: Callable[[], Any]) -> int:
    """How many functions of Python are called: what grows with the modules is work for each one."""
    seen = cProfile.Profile()
    seen.runcall(work)
    return int(pstats.Stats(seen).total_calls)  # type: ignore[attr-defined]


def _python(work: Callable[[], Any]) -> str:
    """By their own time, and by that of all that they call."""
    seen, text = cProfile.Profile(), io.StringIO()
    seen.runcall(work)
    table = pstats.Stats(seen, stream=text).strip_dirs()
    table.sort_stats("tottime").print_stats(SHOWN)
    table.sort_stats("cumtime").print_stats(2 * SHOWN)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines() if line.strip())


def _device(work: Callable[[], Any]) -> str:
    """Kernels by their time, and how often the CPU started one, copied, or waited."""
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    work()
    with profile(activities=activities) as seen:
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    events = seen.key_averages()
    lines = []
    for name, calls in (("waits", WAITS), ("starts of kernels", STARTS), ("copies", COPIES)):
        found = [event for event in events if event.key in calls]
        spent = sum(event.self_cpu_time_total for event in found) / 1e6
        lines.append(f"{name}: {sum(event.count for event in found):,}, {spent:.2f} s of the CPU's time")
    own = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    kernels = sorted(events, key=lambda event: -getattr(event, own))
    lines.append(f"kernels: {sum(getattr(event, own) for event in kernels) / 1e6:.2f} s")
    lines += [f"{getattr(e, own) / 1e6:9.3f} s {e.count:9,} × {e.key[:90]}" for e in kernels[:SHOWN]]
    return "\n".join(lines)
