"""Ten thousand modules are listed in under a second."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid

import pytest

import cases_dictionary as cases
import recyclegp as rgp
from recyclegp.storage import events
from recyclegp.storage.events import Event, Kind

MODULES = 10_000


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_are_listed_in_under_a_second(tmp_path):
    """In a process that has just begun, by processor time; after the index was made from the files."""
    d = rgp.Dictionary(tmp_path)
    entry, content = d.add(cases.module("m00000")), d.read("m00000")
    for i in range(1, MODULES):  # as `add` writes them, but for waiting for the disk each time
        named = entry._replace(name=f"m{i:05d}", owner=f"m{i:05d}", number=0)
        place = tmp_path / "events" / f"{i + 1:010d}"
        place.mkdir()
        event = Event(0, Kind.CAME, named.name, named.owner, named.digest, None, named.added)
        (place / "event.json").write_text(events.event_to_text(event, uuid.uuid4().hex, "m.safetensors"))
        (place / "entry.json").write_text(events.entry_to_text(named))
        (place / "m.safetensors").write_bytes(content)
    (tmp_path / "index.sqlite").unlink(missing_ok=True)
    program = (
        "import json, sys, time\n"
        "import recyclegp as rgp\n"
        f"d = rgp.Dictionary({str(tmp_path)!r})\n"
        "began = time.process_time()\n"
        "found = d.list()\n"
        "first = time.process_time() - began\n"
        "print(json.dumps([len(found), first, time.process_time(), 'torch' in sys.modules]))"
    )
    took = []
    for _ in range(2):  # the first makes the index
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        count, listing, whole, torch = json.loads(done.stdout)
        assert (count, torch) == (MODULES, False)
        took.append((listing, whole))
    assert took[1][0] < 1.0, took
    assert len(d.list(name="m0012*")) == 10
