"""Tables in Parquet: a file, or a folder of them whose rows follow each other."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import RecycleGPError
from ..extras import install
from . import reading
from .screen import Advance

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ParquetReader:
    files: tuple[Path, ...]

    counts_rows = True

    @property
    def size(self) -> float:
        return sum(_opened(path).metadata.num_rows for path in self.files)

    def frames(self, numbers: Sequence[str], advance: Advance, only: Sequence[str]) -> Generator[pd.DataFrame]:
        for path in self.files:
            with _opened(path) as file:
                for batch in file.iter_batches(batch_size=reading.ROWS_AT_ONCE, columns=list(only)):
                    advance(by=batch.num_rows)
                    yield batch.to_pandas(ignore_metadata=True)


def column_names(path: Path) -> list[str]:
    return [n for n in _opened(path).schema_arrow.names if not n.startswith("__index_level_")]


def _opened(path: Path) -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise RecycleGPError(f"{path}: reading Parquet needs pyarrow; {install('parquet')}") from None
    try:
        return parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise RecycleGPError(f"{path}: not a complete Parquet file ({error})") from None
