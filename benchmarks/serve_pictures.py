"""The pictures of docs/serve.md: the page of eight classes of Dutch schools, in a browser.

python benchmarks/serve_pictures.py [--docs docs]

Needs [experiments] for the data, [serve], playwright and a chromium.
"""

from __future__ import annotations

import argparse
import shutil
import threading
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import recyclegp as rgp
from recyclegp.commands.served_tables import ServedTables
from recyclegp.experiments.data import nlschools
from recyclegp.serve.server import page as page_of
from recyclegp.serve.state import Held, ServeState, Snapshot, Test

CLASSES = 8  # the largest
OTHER_UNITS = 3  # this one counts in tenths of a point
SHAPES = {"light": (1280, 900, 1, False), "dark": (1280, 900, 1, True), "phone": (390, 844, 2, False)}
FLAGS = ["--no-sandbox", "--disable-gpu"]


def serve_state() -> ServeState:
    """Modules of the largest classes, and pupils of all others to score them on."""
    pupils = nlschools(None)
    table = pd.DataFrame({"IQ": pupils.X[:, 0], "SES": pupils.X[:, 1], "language test": pupils.y})
    sizes = pd.Series(pupils.owner).value_counts(sort=True)
    largest = sorted(sizes.index[:CLASSES])
    held = []
    for k, number in enumerate(largest):
        rows = table[pupils.owner == number]
        y = 10 * rows["language test"] if k == OTHER_UNITS else rows["language test"]
        module = rgp.fit(rows[["IQ", "SES"]], y, name=f"class {number}")
        held.append(Held(module, f"class-{number}.safetensors"))
    rest = table[~np.isin(pupils.owner, largest)]
    test = Test(rest[["IQ", "SES"]], rest["language test"].to_numpy(), None, "other-classes.csv")
    return ServeState(Snapshot(tuple(held), test, reader=ServedTables()))


def visit(browser: Browser, address: str, name: str) -> Page:
    width, height, scale, dark = SHAPES[name]
    page = browser.new_page(
        viewport={"width": width, "height": height},
        device_scale_factor=scale,
        color_scheme="dark" if dark else "light",
    )
    page.goto(address)
    settle(page)
    return page


def settle(page: Page) -> None:
    page.wait_for_selector("body[aria-busy=false]", timeout=120_000)


def save(page: Page, path: Path, full: bool) -> None:
    """As few colours as a page has, so that the file is small."""
    picture = Image.open(BytesIO(page.screenshot(full_page=full)))
    picture.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    print(path, f"{path.stat().st_size:,} bytes")


def main() -> None:
    options = argparse.ArgumentParser(description="The pictures of docs/serve.md")
    options.add_argument("--docs", type=Path, default=Path("docs"))
    figures = options.parse_args().docs / "figures"
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with page_of(serve_state()) as served, sync_playwright() as started:
        threading.Thread(target=served.run, daemon=True).start()
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        page = visit(browser, served.address, "light")
        save(page, figures / "serve-light.png", full=True)
        page.locator("#column").select_option("")
        settle(page)
        save(page, figures / "serve-map.png", full=False)
        page.locator("#column").select_option("0")
        settle(page)
        page.get_by_role("button", name="Try").first.click()
        settle(page)
        page.locator("#map g[role=switch] circle").first.click()
        settle(page)
        page.get_by_role("button", name="Units").nth(OTHER_UNITS).click()
        save(page, figures / "serve-units.png", full=True)
        save(visit(browser, served.address, "dark"), figures / "serve-dark.png", full=False)
        phone = visit(browser, served.address, "phone")
        save(phone, figures / "serve-phone.png", full=False)
        phone.locator("#modules").scroll_into_view_if_needed()
        phone.evaluate("document.querySelector('.modules').scrollIntoView()")
        save(phone, figures / "serve-phone-modules.png", full=False)
        browser.close()
        served.stop()


if __name__ == "__main__":
    main()
