"""The page for data protection officers, as a browser prints it: one sheet of A4."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from blocks import ROOT
from cases_browser import CHROMIUM

PAGE = "data-protection.md"
A4 = (595, 842)  # points
CONFIG = """
site_name: recyclegp
use_directory_urls: false
theme: {name: material, font: false}
extra_css: [assets/extra.css]
markdown_extensions: [admonition, attr_list, md_in_html, tables, pymdownx.superfences, {toc: {permalink: true}}]
plugins: []
"""


def printed(folder: Path) -> bytes:
    """The PDF of the page, in the theme and with the style sheet of the site, but without the other pages."""
    (folder / "docs" / "assets").mkdir(parents=True)
    for name in (PAGE, "assets/extra.css"):
        shutil.copy(ROOT / "docs" / name, folder / "docs" / name)
    shutil.copy(ROOT / "docs" / PAGE, folder / "docs" / "index.md")  # which every site has
    (folder / "mkdocs.yml").write_text(CONFIG)
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(folder / "mkdocs.yml")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    pdf, address = folder / "page.pdf", (folder / "site" / PAGE).with_suffix(".html").as_uri()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={pdf}"]
    options.append(f"--user-data-dir={folder / 'profile'}")
    subprocess.run([str(CHROMIUM), *options, address], check=True, capture_output=True, timeout=120)
    return pdf.read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no browser")
def test_the_page_for_data_protection_is_one_sheet_of_a4(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material of [docs]")
    found = printed(tmp_path)
    assert len(re.findall(rb"/Type\s*/Page\b", found)) == 1
    box = re.search(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", found)
    assert box is not None
    assert [round(float(side)) for side in box.groups()] == pytest.approx(A4, abs=1)
