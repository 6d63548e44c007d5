"""Tables as text: CSV, also compressed or through a pipe, in whatever encoding somebody has saved them."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RecycleGPError, RecycleGPWarning
from . import reading
from .reading import MISSING, ReadAs, with_commas
from .screen import Advance

if TYPE_CHECKING:
    import pandas as pd

GZIP = b"\x1f\x8b"  # how such files begin
BYTES_AT_ONCE = 2**20
SAMPLE = 2**16  # characters in which quotes are looked at
UTF_8, WINDOWS = "utf-8-sig", "cp1252"
SHOWN = {UTF_8: "UTF-8", WINDOWS: "Windows-1252"}
MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}  # with which a file says its encoding
WORD = re.compile(r"\w*[^\x00-\x7f]\w*")  # one that is not the same in all encodings


class TextHeader(NamedTuple):
    """What the beginning of a table says of all of it."""

    names: tuple[str, ...]
    delimiter: str
    codes: dict[str, str]  # columns of numbers that look like codes, and why


@dataclass(frozen=True)
class TextReader:
    path: Path
    names: tuple[str, ...]
    delimiter: str
    decimal: str
    encoding: str
    content: bytes | None = None  # of a table that is no file, but came through a pipe

    counts_rows = False

    @property
    def size(self) -> float:
        return os.path.getsize(self.path) if self.content is None else len(self.content)

    def frames(self, numbers: Sequence[str], advance: Advance, only: Sequence[str]) -> Generator[pd.DataFrame]:
        """All columns: text is read as a whole."""
        import pandas as pd

        options: dict[str, Any] = {
            "sep": self.delimiter,
            "header": 0,
            "names": list(self.names),
            "index_col": False,
            "dtype": {n: str for n in self.names if n not in numbers},
            "keep_default_na": False,
            "na_values": {n: MISSING for n in numbers},
            "skipinitialspace": True,
            "encoding": self.encoding,
            "compression": "gzip" if _zipped(self.path, self.content) else None,
            "decimal": self.decimal,
            "chunksize": reading.ROWS_AT_ONCE,
        }
        with _opened(self.path, self.content) as stream, warnings.catch_warnings():
            # Rows longer than the header would be cut without an error. Columns that are partly text come later.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)
            try:
                with pd.read_csv(stream, **options) as frames:
                    for frame in frames:
                        advance(to=stream.tell())
                        yield with_commas(self.path, frame, numbers) if self.decimal == "," else frame
            except pd.errors.ParserWarning:
                raise RecycleGPError(
                    f"{self.path}: rows have more fields than the {len(self.names)} names in the header; "
                    "are there decimal commas?"
                ) from None
            except (pd.errors.ParserError, UnicodeError, EOFError, gzip.BadGzipFile) as error:
                said = str(error).replace("Error tokenizing data. C error: ", "")
                raise RecycleGPError(f"{self.path}: not a table in CSV ({said.strip()})") from None


def open_text(path: Path, how: ReadAs, content: bytes | None = None) -> tuple[TextReader, dict[str, str]]:
    """The reader, and columns of numbers that look like codes, with the reason."""
    encoding = _encoding(path, how.encoding, content)
    header = _header(path, content, how.decimal, encoding)
    return TextReader(path, header.names, header.delimiter, how.decimal, encoding, content), header.codes


# --- the encoding -----------------------------------------------------------------------------


def _encoding(path: Path, given: str | None, content: bytes | None) -> str:
    """As somebody says, as the file says, UTF-8 where it is, and else Windows-1252, which a warning says."""
    if given is not None:
        try:
            name = codecs.lookup(given).name
            "".encode(name)  # a codec of bytes is none of text
        except LookupError:
            raise RecycleGPError(
                f"--encoding {given}: it is not known; use one as utf-8, windows-1252, latin-1 or utf-16"
            ) from None
        return UTF_8 if name == "utf-8" else name
    try:
        with _plain(path, content) as stream:
            begins = stream.read(2)
    except (EOFError, gzip.BadGzipFile):
        raise RecycleGPError(f"{path}: not a table that was compressed by gzip; save it as CSV in UTF-8") from None
    if begins in MARKS:
        return MARKS[begins]
    if _first_word(path, content, "utf-8") is not None:
        return UTF_8
    word = _first_word(path, content, WINDOWS)
    if word is None:
        raise RecycleGPError(
            f"{path}: not a text table in UTF-8 or Windows-1252; name its --encoding, or save it as CSV in UTF-8"
        )
    warnings.warn(
        f"{path}: it is not in UTF-8 and was read as Windows-1252, so that there is {word!r}; if that is wrong, say "
        "what it is in with --encoding",
        RecycleGPWarning,
        stacklevel=2,
    )
    return WINDOWS


def _first_word(path: Path, content: bytes | None, encoding: str) -> str | None:
    """The first word that is not ASCII, "" where there is none; None where the text is not in this encoding."""
    decoder, word = codecs.getincrementaldecoder(encoding)(), ""
    try:
        with _plain(path, content) as stream:
            while True:
                some = stream.read(BYTES_AT_ONCE)
                text = decoder.decode(some, final=not some)
                if not word and not text.isascii():
                    found = WORD.search(text)
                    word = "" if found is None else found.group()
                if not some:
                    return word
    except (ValueError, EOFError, gzip.BadGzipFile):
        return None


# --- the header -------------------------------------------------------------------------------


def _opened(path: Path, content: bytes | None) -> Any:
    return open(path, "rb") if content is None else io.BytesIO(content)


@contextmanager
def _plain(path: Path, content: bytes | None) -> Iterator[Any]:
    """Without compression."""
    with _opened(path, content) as raw:
        if not _zipped(path, content):
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as plain:
            yield plain


def _zipped(path: Path, content: bytes | None) -> bool:
    return path.suffix.lower() == ".gz" if content is None else content[:2] == GZIP


def _header(path: Path, content: bytes | None, decimal: str, encoding: str) -> TextHeader:
    try:
        with _plain(path, content) as plain, io.TextIOWrapper(plain, encoding=encoding, newline="") as stream:
            first = stream.readline()
            while first and not first.strip():
                first = stream.readline()
            sample = stream.read(SAMPLE)
            if "\0" in first + sample:
                raise ValueError
    except (ValueError, EOFError, gzip.BadGzipFile):
        raise RecycleGPError(
            f"{path}: not a text table in {SHOWN.get(encoding, encoding)}; save it as CSV in UTF-8"
        ) from None
    if decimal == ",":
        delimiter = next((d for d in ";\t" if d in first), ";")
        if delimiter not in first and "," in first:
            raise RecycleGPError(
                f"{path}: with --decimal , columns are separated by semicolons or tabs, and the header has commas; "
                "leave the option out, or save the table so"
            )
    else:
        delimiter = "," if "," in first else next((d for d in "\t;" if d in first), ",")
    names = tuple(n.strip() for n in next(csv.reader([first], delimiter=delimiter, skipinitialspace=True), []))
    return TextHeader(names, delimiter, _codes(names, sample, delimiter))


class _Cells(NamedTuple):
    """What the cells of a column in the sample have been, those that hold nothing aside."""

    quoted: int = 0
    plain: int = 0
    leading: str = ""  # one that begins with a 0 before other digits


def _codes(names: Sequence[str], sample: str, delimiter: str) -> dict[str, str]:
    """Columns that somebody wrote as text, beside others that were not; and those whose numbers begin with 0."""
    if '"' not in sample and not re.search(rf"(^|[{delimiter}\r\n])\s*0\d", sample):
        return {}
    columns = [_Cells()] * len(names)
    lines = sample.splitlines()
    for cells in _cells("\n".join(lines if len(sample) < SAMPLE else lines[:-1]), delimiter):
        for c, (text, quoted) in enumerate(cells[: len(names)]):
            own = columns[c]
            if not text:
                continue
            leading = own.leading or (text if re.fullmatch(r"0\d+", text) else "")
            columns[c] = _Cells(own.quoted + quoted, own.plain + (not quoted), leading)
    some_plain = any(own.plain for own in columns)
    found = {}
    for name, own in zip(names, columns, strict=True):
        if own.leading:
            found[name] = f"numbers that begin with 0 ({own.leading})"
        elif own.quoted and not own.plain and some_plain:
            found[name] = "numbers in quotes, as text is"
    return found


def _cells(text: str, delimiter: str) -> Generator[list[tuple[str, bool]]]:
    """The cells of each line, and whether they were in quotes."""
    cell = re.compile(rf'[ \t]*(?:"((?:[^"]|"")*)"[^{delimiter}\n]*|([^{delimiter}\n]*))({delimiter}|\n|$)')
    line: list[tuple[str, bool]] = []
    at = 0
    while at < len(text):
        found = cell.match(text, at)
        if found is None:
            return
        quoted = found.group(1) is not None
        line.append(((found.group(1) if quoted else found.group(2)).strip(), quoted))
        at = found.end()
        if found.group(3) != delimiter:
            yield line
            line = []
            if found.end() == found.start():
                return
