"""Files on the command line: patterns, folders, and where results go."""

from __future__ import annotations

import glob
import warnings
from collections.abc import Sequence
from pathlib import Path

from ..errors import RecycleGPError, RecycleGPWarning
from ..storage.layout import is_companion

SUFFIX = ".safetensors"


def expand(arguments: Sequence[str]) -> list[Path]:
    """Every file that is meant, once. Those of a folder or a pattern (also a quoted one) come in alphabetical order."""
    found: dict[Path, None] = {}
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            from ..models.dictionary_files import files_in

            # of a dictionary, or of any folder
            files = files_in(path) or sorted(p for p in path.glob(f"*{SUFFIX}") if not is_companion(p))
            remedy = f"the folder holds no *{SUFFIX} files"
        elif not path.exists() and glob.has_magic(argument):
            some = map(Path, glob.glob(argument, recursive=True))
            files = sorted(p for p in some if not p.is_dir() and not is_companion(p))
            remedy = "no file matches"
        else:
            files, remedy = [path], ""  # whether it exists is found out when it is read
        if not files:
            raise RecycleGPError(f"{argument}: {remedy}; name the files of modules")
        twice = next((f for f in files if f in found), None)
        if twice is not None:
            warnings.warn(f"{twice} is named twice; it counts once", RecycleGPWarning, stacklevel=2)
        found |= dict.fromkeys(files)
    return list(found)


def check_model_output(output: Path, read: Sequence[str | Path] = ()) -> None:
    """The same of a file of a model, which its name must say."""
    if output.suffix != SUFFIX:
        instead = output.parent / f"{output.stem or 'model'}{SUFFIX}"
        raise RecycleGPError(f"-o {output}: files of models end in {SUFFIX}; write to {instead}")
    check_output(output, read)


def check_output(output: Path, read: Sequence[str | Path]) -> None:
    """Refuse, before any work, an output that cannot be written or is one of the files that are read."""
    from ..storage.atomic import check_writable

    check_writable(output)
    if output.exists() and any(Path(r).exists() and output.samefile(r) for r in read):
        raise RecycleGPError(f"-o {output}: this file is among those that are read; write to another one")
