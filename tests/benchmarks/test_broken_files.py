"""The table of what came of broken files, from records."""

import json

import broken_files
from fuzz_cases import Kind
from fuzz_files import Found


def block(first, *found):
    return {"seed": 0, "first": first, "last": first + 100, "found": [list(one) for one in found]}


def test_kinds_are_those_of_the_cases():
    assert len(broken_files.KINDS) == len(Kind)
    assert Found._fields == broken_files.NAMES


def test_records_are_summed_and_shown(tmp_path, capsys):
    one = [Found(90, 20, 0.1, 7, 1.0), Found(1, 1, 0.2, 50, 2.0), Found(8, 4, 0.3, 17, 3.0), Found(1, 0, 4.5, 0, 40.25)]
    two = [Found(90, 30, 0.4, 107, 0.5), Found(1, 0), Found(8, 4), Found(1, 0, failed=(100,))]
    record, kept = tmp_path / "fuzz.jsonl", tmp_path / "fuzz.json"
    record.write_text("\n".join(map(json.dumps, (block(0, *one), block(100, *two)))))
    broken_files.main(["--record", str(record), "--commit", "abc", "--json", str(kept)])
    said = capsys.readouterr().out
    assert "**200 cases, 1 of which failed** (commit abc)" in said
    files, *_, merges = json.loads(kept.read_text())["kinds"]
    assert (files["cases"], files["working"], files["slowest"], files["which"]) == (180, 50, 0.4, 107)
    assert (merges["failed"], merges["slowest"], merges["memory"]) == ([100], 4.5, 40.25)
    assert any(
        line.startswith("| files that are merged") and "| 2 | 2 | 1 | 4.50 | 40.2 |" in line
        for line in said.splitlines()
    )
    broken_files.main(["--show", str(kept)])
    assert capsys.readouterr().out == said
