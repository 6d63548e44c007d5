"""A page in a real browser, as tests look at it."""

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Visit:
    """A page in a tab of its own, with all that it has complained about."""

    def __init__(self, browser, address, width=1280, dark=False):
        self.complaints, self.requests = [], []
        self.context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        self.page = self.context.new_page()
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(address)
        self.settle()

    def settle(self):
        """Until what was asked last has been answered."""
        self.page.wait_for_selector("body[aria-busy=false]", timeout=60_000)

    def switch(self, name):
        self.page.get_by_role("row", name=name).get_by_role("switch").click()
        self.settle()

    def curve(self):
        """The merged mean, as it is drawn."""
        return self.page.evaluate("data.panels[0].curves.find(c => data.entries[c.entry].name === 'merged').mean")

    def score(self, name="rmse"):
        return float(self.page.locator(f"[data-score={name}]").inner_text().replace("−", "-"))

    def row(self, name):
        return self.page.get_by_role("row", name=name)

    def curves(self):
        """All that is drawn along one input, by name."""
        return self.page.evaluate("Object.fromEntries(data.panels[0].curves.map(c => [data.entries[c.entry].name, c]))")


def overflow(v):
    """By how many pixels the page is wider than its window."""
    return v.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
