"""One browser for each file of tests, and pages in it."""

import pytest

from cases_browser import CHROMIUM, Visit


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def visit(browser):
    opened = []

    def visit(address, **options):
        opened.append(Visit(browser, address, **options))
        return opened[-1]

    yield visit
    for each in opened:
        each.context.close()
