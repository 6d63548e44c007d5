"""The interactive page says whom an ensemble does not simply trust, and takes no name for markup."""

import html.parser
import json
from dataclasses import replace

import pytest

import cases_plot as cases
import recyclegp as rgp
from recyclegp.merging.verdicts import TRUSTED, Standing, Verdict

EVIL = "</script><img src=x onerror=y>"


class Page(html.parser.HTMLParser):
    """Elements and the embedded data."""

    def __init__(self, file):
        super().__init__()
        self.tags, self.texts, self._inside = [], {}, None
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._inside = dict(attrs).get("id") or tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.texts[self._inside] = self.texts.get(self._inside, "") + data


@pytest.fixture
def judged():
    """An ensemble whose modules have been judged, by hand."""
    e = cases.ensemble(1, "gaussian")
    verdicts = (TRUSTED, Verdict(Standing.FLAGGED, f"unlike {EVIL}", weight=1.0), Verdict(Standing.UNCHECKED, "alone"))
    members = tuple(
        m._replace(verdict=v, about=m.about._replace(name=EVIL if v.flagged else m.name))
        for m, v in zip(e._members, verdicts, strict=True)
    )
    return with_members(e, (members[0], members[1]._replace(weight=0.0), members[2]))


def with_members(e, members):
    return replace(e, groups=(replace(e.groups[0], members=members),))


def trusted(file):
    (view,) = json.loads(Page(file).texts["data"])["views"]
    return view["trust"]


def test_names_and_reasons_are_text(judged, tmp_path):
    rgp.plot.save([judged], tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    found = trusted(tmp_path / "page.html")
    flagged, unchecked = (module.pop("others_add") for module in found)
    assert flagged is None
    assert unchecked == pytest.approx(judged.report()[2]["others_add"])
    assert found == [
        {"name": EVIL, "function": "f", "standing": "flagged", "reason": f"unlike {EVIL}", "weight": 0.0},
        {"name": cases.NAMES[2], "function": "f", "standing": "cannot be checked", "reason": "alone", "weight": 1.0},
    ]
    assert page.tags.count("script") == 2
    assert page.tags.count("img") == 1  # the picture for browsers without scripts
    assert EVIL not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_reasons_from_files_are_made_plain(judged, tmp_path):
    """Marks that turn text round, as a file may bring them."""
    members = judged._members
    strange = members[1].verdict._replace(reason="a\u202eb\nc")
    turned = with_members(judged, (members[0], members[1]._replace(verdict=strange), members[2]))
    rgp.plot.save([turned], tmp_path / "page.html")
    reason = trusted(tmp_path / "page.html")[0]["reason"]
    assert "\u202e" not in reason
    assert "\n" not in reason


def test_nobody_is_named_where_all_are_trusted_or_nobody_looked(tmp_path):
    rgp.plot.save([cases.ensemble(1, "gaussian"), cases.modules(1, "gaussian")[0]], tmp_path / "page.html")
    assert trusted(tmp_path / "page.html") == []
