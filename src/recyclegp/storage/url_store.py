"""A dictionary in an object store, by fsspec: memory://, s3://, gs://, abfs://, …

    URL/events/0000000013/event.json            as in a folder
    URL/modules/<id of the event>/              the module that came with it, and its entry

An object appears whole, but several do not appear at once, and folders cannot be renamed. So a module is put first,
under a name that nobody else uses, and its event last, on condition that there is none of its number. Stores that
cannot put on a condition (pipe_file(mode="create") of fsspec) are for one writer at a time.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from typing import Any

from ..errors import RecycleGPError
from ..extras import install
from .event_store import ENTRY, EVENT, EVENTS, INDEX, NUMBER, Files, Prepared, as_text, folder

MODULES = "modules"
CREATING = threading.Lock()  # fsspec looks whether a file is there, and writes it then: here nobody comes in between


class UrlStore:
    """At a URL that fsspec understands; `options` are those of its file system."""

    readers = 32

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        try:
            import fsspec
        except ModuleNotFoundError:
            raise RecycleGPError(f"{url}: URLs need fsspec; {install('urls')}") from None
        try:
            self.files, root = fsspec.core.url_to_fs(url, **options)
        except (ImportError, ValueError) as refused:
            raise RecycleGPError(f"{url}: {refused}") from None
        self.root = str(root).rstrip("/")

    def numbers(self) -> list[int]:
        self.files.invalidate_cache()
        try:
            found = self.files.ls(f"{self.root}/{EVENTS}", detail=False)
        except FileNotFoundError:
            return []
        names = (str(path).rstrip("/").rsplit("/", 1)[-1] for path in found)
        return sorted(int(name) for name in names if NUMBER.fullmatch(name))

    def event(self, number: int) -> str | None:
        content = self._content(self._event(number))
        return None if content is None else as_text(content)

    def read(self, number: int, identity: str, file: str) -> bytes:
        content = self._content(f"{self.root}/{MODULES}/{identity}/{file}")
        if content is None:  # or where a folder has it that was copied here
            content = self._content(f"{self.root}/{EVENTS}/{folder(number)}/{file}")
        if content is None:
            raise FileNotFoundError(file)
        return content

    def modules(self, number: int) -> list[str]:
        """Not known without the event."""
        return []

    def prepare(self, identity: str, event: str, files: Files) -> Prepared:
        prepared = UrlPrepared(self, identity, event, files)
        try:
            for name, content in files.items():
                self.files.pipe_file(f"{self.root}/{MODULES}/{identity}/{name}", content)
        except BaseException:
            prepared.discard()
            raise
        return prepared

    def drop(self, number: int, identity: str, file: str) -> None:
        for name in (file, ENTRY):
            for place in (f"{MODULES}/{identity}", f"{EVENTS}/{folder(number)}"):
                with contextlib.suppress(FileNotFoundError):
                    self.files.rm_file(f"{self.root}/{place}/{name}")

    def sync(self) -> None:
        """Whatever a store has answered for is durable."""

    def create(self, number: int, event: str) -> bool:
        """An event of this number, unless there is one."""
        path, content = self._event(number), event.encode()
        with CREATING:
            if self._content(path) is not None:
                return False
            try:
                if "mode" in inspect.signature(self.files.pipe_file).parameters:
                    self.files.pipe_file(path, content, mode="create")
                else:
                    self.files.pipe_file(path, content)
            except FileExistsError:
                return False
        return self._content(path) == content

    def read_index(self) -> bytes | None:
        with contextlib.suppress(OSError):
            return self._content(f"{self.root}/{INDEX}")
        return None

    def write_index(self, content: bytes) -> None:
        with contextlib.suppress(OSError):
            self.files.pipe_file(f"{self.root}/{INDEX}", content)

    def _event(self, number: int) -> str:
        return f"{self.root}/{EVENTS}/{folder(number)}/{EVENT}"

    def _content(self, path: str) -> bytes | None:
        try:
            return bytes(self.files.cat_file(path))
        except FileNotFoundError:
            return None


class UrlPrepared:
    def __init__(self, store: UrlStore, identity: str, event: str, files: Files) -> None:
        self.store, self.identity, self.event, self.files = store, identity, event, files

    def publish(self, number: int) -> bool:
        try:
            return self.store.create(number, self.event)
        except BaseException:
            self.files = {}  # the event may be there although nobody could say so: what came with it must stay
            raise

    def discard(self) -> None:
        for name in self.files:
            with contextlib.suppress(OSError):
                self.store.files.rm_file(f"{self.store.root}/{MODULES}/{self.identity}/{name}")
