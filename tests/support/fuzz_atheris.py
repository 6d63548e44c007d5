"""Reads broken files, guided by which lines they reach: for those who have installed atheris (`pip install atheris`).

    python tests/support/fuzz_atheris.py -runs=20000

Options are libFuzzer's. It begins with the golden files, and ends at the first file that is neither refused nor a
model that works; libFuzzer writes that file to the working folder. `make fuzz` calls it where atheris can be imported.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["recyclegp.storage", "recyclegp.kernels.file_form", "recyclegp.models"]):
    import hostile_files

FOLDER = tempfile.TemporaryDirectory()
TARGET = Path(FOLDER.name) / "case.safetensors"
LIMITS = ["-timeout=10", "-max_len=20000", "-print_final_stats=1"]


def one(content):
    TARGET.write_bytes(content)
    hostile_files.answers(TARGET)


if __name__ == "__main__":
    seeds = Path(FOLDER.name) / "seeds"
    seeds.mkdir()
    for i, content in enumerate(hostile_files.golden_files()):
        (seeds / str(i)).write_bytes(content)
    atheris.Setup([sys.argv[0], *LIMITS, *sys.argv[1:], str(seeds)], one)
    atheris.Fuzz()
