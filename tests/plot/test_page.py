"""The interactive page: the right numbers, nothing fetched, no name taken for markup, and it works in a browser."""

import html.parser
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import cases_joint as several
import cases_plot as cases
import recyclegp as rgp
from recyclegp.models.how import Signer
from recyclegp.target import Target

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = "</script><script>document.title='x'</script><img src=x onerror=y>"


class Elements(html.parser.HTMLParser):
    """Every element with its attributes, as a browser would find them; and the embedded data."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts, self._inside = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") or tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.texts[self._inside] = self.texts.get(self._inside, "") + data

    @property
    def views(self):
        """What the page shows, one function after the other."""
        return json.loads(self.texts["data"])["views"]

    @property
    def data(self):
        """Of the only function."""
        (view,) = self.views
        return view


def page(models, folder, **options):
    rgp.plot.save(models, folder / "page.html", **options)
    return (folder / "page.html").read_text(encoding="utf-8")


def same(actual, expected):
    np.testing.assert_allclose(np.array(actual, dtype=float), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("dimension", cases.DIMENSIONS)
def test_nothing_is_fetched(dimension, tmp_path):
    text = page(cases.objects(dimension, "bernoulli", "all"), tmp_path)
    found = Elements(text).found
    for tag, attributes in found:
        assert tag != "link"
        for key in ("src", "href", "action", "data", "srcset", "poster"):
            assert attributes.get(key, "data:").startswith("data:"), (tag, attributes)
    policy = next(a["content"] for tag, a in found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    # the name of the SVG language is the only address, and it is not looked up
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    assert "{{" not in text.replace("${{", "")


def test_curves_are_the_predictions(tmp_path):
    models = cases.objects(1, "gaussian", "all")
    data = Elements(page(models, tmp_path)).data
    assert [e["name"] for e in data["entries"]] == [*cases.NAMES, "merged"]
    assert [e["kind"] for e in data["entries"]] == ["module"] * 3 + ["ensemble"]
    (panel,) = data["panels"]
    for curve, model in zip(panel["curves"], models, strict=True):
        x = np.linspace(curve["from"], curve["to"], len(curve["mean"]))
        mean, variance = model.predict(x[:, None])
        same(curve["mean"], mean)
        same(curve["low"], mean - cases.BAND_SDS * np.sqrt(variance))
        same(curve["high"], mean + cases.BAND_SDS * np.sqrt(variance))
    same(panel["curves"][0]["Z"], models[0].inducing[:, 0])
    same(panel["curves"][0]["at"], models[0].predict(models[0].inducing)[0])
    same(panel["curves"][3]["noisy"][1], mean + cases.BAND_SDS * np.sqrt(variance + models[3].noise))
    (lane,) = panel["lanes"]
    same(lane["Z"], models[3].inducing[:, 0])


@pytest.mark.slow
def test_maps_are_the_predictions(tmp_path):
    models = cases.objects(2, "bernoulli", "all")
    data = Elements(page(models, tmp_path)).data
    assert [layer["label"] for layer in data["layers"]] == ["P(y = 1)", "sd of f"]
    axes = [np.linspace(*limits, data["side"]) for limits in data["region"]]
    X = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    probability, sd = (np.array(layer["values"][3], dtype=float) for layer in data["layers"])
    same(probability, models[3].predict_proba(X)[:, 1])
    same(sd, np.sqrt(models[3].predict(X)[1]))
    for entry, drawn in enumerate(data["layers"][0]["values"][:3]):
        known = np.array([v is not None for v in drawn])
        same(np.array(drawn)[known].astype(float), models[entry].predict_proba(X[known])[:, 1])
    # a contour lies where the probability is its level
    for contour in data["layers"][0]["contours"][3]:
        for line in contour["lines"]:
            at = models[3].predict_proba(np.reshape(line, (-1, 2)))[:, 1]
            np.testing.assert_allclose(at, contour["level"], atol=0.02)
    points = data["models"][3]["points"]
    assert [p["entry"] for p in points] == [0, 1, 2, 3]  # each module's, then Z_*
    same(points[3]["y"], models[3].inducing[:, 1])


def test_owners_functions_are_on_the_page(tmp_path):
    e = cases.differing(1)
    data = Elements(page([e], tmp_path)).data
    assert [(entry["name"], entry["kind"]) for entry in data["entries"]] == [
        ("merged", "ensemble"),
        *((name, "owner") for name in cases.NAMES),
    ]
    ((curve,),) = (panel["curves"] for panel in data["panels"])
    x = np.linspace(curve["from"], curve["to"], len(curve["mean"]))[:, None]
    for own, name in zip(curve["owners"], cases.NAMES, strict=True):
        same(own["mean"], e.predict(x, name)[0])
    same(curve["noisy"][1], e.predict(x)[0] + cases.BAND_SDS * np.sqrt(e.predict_y(x)[1]))
    assert [lane["entry"] for lane in data["panels"][0]["lanes"]] == [0, 1, 2, 3]  # switched with their functions
    data = Elements(page([e], tmp_path, owners=False)).data
    assert [entry["kind"] for entry in data["entries"][1:]] == ["points"] * 3
    assert data["panels"][0]["curves"][0]["owners"] == []


def test_modules_of_which_only_points_are_known_can_be_switched_too(tmp_path):
    data = Elements(page(cases.objects(1, "poisson", "ensemble"), tmp_path)).data
    assert [(e["name"], e["kind"]) for e in data["entries"]] == [
        ("merged", "ensemble"),
        *((name, "points") for name in cases.NAMES),
    ]
    assert [lane["entry"] for lane in data["panels"][0]["lanes"]] == [0, 1, 2, 3]


@pytest.mark.parametrize("title", [None, EVIL, "{{data}} {{picture}}"])
def test_names_are_never_markup(title, tmp_path):
    m = cases.modules(1, "gaussian")[0]
    named = [m.rename(EVIL[:34]), m.rename('"><b>&amp;{{data}}')]
    text = page(named, tmp_path, title=title)
    found = Elements(text)
    assert [tag for tag, _ in found.found].count("script") == 2
    assert [tag for tag, _ in found.found].count("img") == 1  # the picture for browsers without scripts
    assert "b" not in [tag for tag, _ in found.found]
    assert not any(key.startswith("on") for _, attributes in found.found for key in attributes)
    assert [e["name"] for e in found.data["entries"]] == [EVIL[:34], '"><b>&amp;{{data}}']
    assert found.texts["h1"] == (title or "2 modules")


def described(dimension, **words):
    """A module with these words, as a file may bring them."""
    m = cases.modules(dimension, "gaussian")[0]
    return replace(m, about=m.about._replace(**words))


def test_column_names_are_never_markup(tmp_path):
    # as a file may bring them: lone surrogates, line ends, marks that turn the text round
    m = described(2, columns=("</script><i>", "\ud800\n\u202e"))
    found = Elements(page([m], tmp_path))
    assert "i" not in [tag for tag, _ in found.found]
    assert found.data["columns"] == ["</script><i>", "\ufffd" * 3]


def test_the_name_of_the_target_is_shown_and_never_markup(tmp_path):
    m = described(1, targets=(Target("</script><i>", "<b>"),))
    found = Elements(page([m], tmp_path))
    assert not {"i", "b"} & {tag for tag, _ in found.found}
    assert found.data["label"] == "</script><i> (<b>)"


# --- several functions ---


@pytest.fixture(scope="module")
def outputs():
    """Modules of two outputs over one input and over two; the last has seen one of them."""
    tables = [several.outputs(k, 0, 6) for k in range(3)]

    def fitted(inputs):
        found = [rgp.fit(t[inputs], t[["heat", EVIL[:30]]], name=f"m{k}", publish=6) for k, t in enumerate(tables)]
        return [*found[:2], rgp.Module.of_outputs([found[2].part("heat")])]

    tables = [t.rename(columns={"salt": EVIL[:30]}) for t in tables]
    return {1: fitted(["day"]), 2: fitted(["day", "depth"])}


def test_each_output_is_a_view_and_its_name_is_text(outputs, tmp_path):
    merged = rgp.merge(outputs[1], owners=None, outputs="correlated")
    found = Elements(page([*outputs[1], merged], tmp_path))
    assert [tag for tag, _ in found.found].count("script") == 2
    heat, salt = found.views
    assert [heat["label"], salt["label"]] == ["heat", EVIL[:30]]
    assert [e["name"] for e in heat["entries"]] == ["m0", "m1", "m2", "merged"]
    assert [e["name"] for e in salt["entries"]] == ["m0", "m1", "merged"]
    for c, view in enumerate((heat, salt)):
        assert view["panels"][0]["limits"] == heat["panels"][0]["limits"]
        curve = view["panels"][0]["curves"][-1]
        mean, variance = merged.predict(np.linspace(curve["from"], curve["to"], len(curve["mean"]))[:, None])
        same(curve["mean"], mean[:, c])
        same(curve["high"], mean[:, c] + cases.BAND_SDS * np.sqrt(variance[:, c]))
        assert "noisy" in curve


def test_outputs_over_two_inputs_have_maps_of_their_own(outputs, tmp_path):
    first = outputs[2][0]
    views = Elements(page([first], tmp_path)).views
    assert [[layer["label"] for layer in view["layers"]] for view in views] == [
        ["mean of heat", "sd of heat"],
        [f"mean of {EVIL[:30]}", f"sd of {EVIL[:30]}"],
    ]
    X = np.stack(np.meshgrid(*(np.linspace(*ends, views[1]["side"]) for ends in views[1]["region"])), -1)
    same(views[1]["layers"][0]["values"][0], first.predict(X.reshape(-1, 2))[0][:, 1])


def of_classes(inputs):
    tables = [several.classes(k, low, low + 4) for k, low in enumerate((0, 2))]
    return [
        rgp.fit(t[inputs], t["kind"], likelihood="categorical", name=f"m{k}", publish=6) for k, t in enumerate(tables)
    ]


def test_classes_are_curves_of_their_probabilities(tmp_path):
    modules = of_classes(["day"])
    merged = rgp.merge(modules, owners=None)
    data = Elements(page([*modules, merged], tmp_path)).data
    assert [(e["name"], e["kind"]) for e in data["entries"]] == [
        *((name, "class") for name in several.CLASSES),
        ("m0", "points"),
        ("m1", "points"),
    ]
    assert [p["title"] for p in data["panels"]] == ["m0", "m1", "merged"]
    for model, panel in zip([*modules, merged], data["panels"], strict=True):
        assert [several.CLASSES[c["entry"]] for c in panel["curves"]] == list(model.classes)
        x = np.linspace(panel["curves"][0]["from"], panel["curves"][0]["to"], len(panel["curves"][0]["mean"]))
        same(np.transpose([c["mean"] for c in panel["curves"]]), model.predict_proba(x[:, None]))
        assert not any("low" in c for c in panel["curves"])
    assert [lane["entry"] for lane in data["panels"][2]["lanes"]] == [3, 4]


def test_classes_over_two_inputs_are_regions(tmp_path):
    merged = rgp.merge(of_classes(["day", "depth"]), owners=None)
    data = Elements(page([merged], tmp_path)).data
    X = np.stack(np.meshgrid(*(np.linspace(*ends, data["side"]) for ends in data["region"])), -1).reshape(-1, 2)
    p = merged.predict_proba(X)
    assert [c["entry"] for c in data["read"]] == [0, 1, 2]
    same(np.transpose([c["values"][0] for c in data["read"]]), p)
    (layer,) = data["layers"]
    shades = len(layer["colours"]) // 3
    places = np.array(layer["values"][0])
    np.testing.assert_array_equal(places // shades, p.argmax(1))
    certain = (p.max(1) - 1 / 3) / (2 / 3)
    np.testing.assert_allclose((places % shades) / (shades - 1), certain, atol=0.51 / (shades - 1))
    for contour in layer["contours"][0]:  # where two classes are equally likely, no other is likelier
        for line in contour["lines"]:
            at = np.sort(merged.predict_proba(np.reshape(line, (-1, 2))), axis=1)
            np.testing.assert_allclose(at[:, 2] - at[:, 1], 0, atol=0.03)


def test_noise_that_varies_is_a_band_or_a_view_of_its_own(tmp_path):
    rows = several.varying(0, 0, 6).assign(hour=np.linspace(0, 9, 60))
    m = rgp.fit(rows[["day"]], rows["y"], likelihood="heteroscedastic", publish=6, name="m")
    (curve,) = Elements(page([m], tmp_path)).data["panels"][0]["curves"]
    low, high = m.predict_interval(np.linspace(curve["from"], curve["to"], len(curve["mean"]))[:, None])
    same(curve["noisy"][0], low)
    same(curve["noisy"][1], high)
    over_two = rgp.fit(rows[["day", "hour"]], rows["y"], likelihood="heteroscedastic", publish=6, name="m")
    views = Elements(page([over_two], tmp_path)).views
    assert [view["label"] for view in views] == ["f", "log noise"]
    X = np.stack(np.meshgrid(*(np.linspace(*ends, views[1]["side"]) for ends in views[1]["region"])), -1)
    same(views[1]["layers"][0]["values"][0], np.log(over_two.predict_noise(X.reshape(-1, 2))))


# --- in a browser, where there is one ---


def browse(file, script):
    """What the page looks like after a script has run in it, which says what it saw in the title."""
    text = file.read_text(encoding="utf-8").replace("</body>", f"<script>{script}</script></body>")
    (file.parent / "asked.html").write_text(text, encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"]
    command += [f"--user-data-dir={file.parent / 'profile'}", (file.parent / "asked.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return json.loads(Elements(done.stdout).texts["title"])


HOVER = """
const svg = document.querySelectorAll(".panel > svg")[0], seen = svg.getBoundingClientRect();
const at = (x, y) => svg.dispatchEvent(new PointerEvent("pointermove",
  { clientX: seen.left + x * seen.width, clientY: seen.top + y * seen.height }));
function tip() {
  const box = svg.parentElement.querySelector(".tip"), rows = [...box.querySelectorAll("tbody tr")];
  return box.hidden ? null : [box.firstChild.textContent, ...rows.map(r => [...r.children].map(c => c.textContent))];
}
const shown = i => [...document.querySelectorAll(`[data-entry="${i}"]`)].map(e => !e.classList.contains("off"));
"""


def number(text):
    return float(text.replace("−", "-"))


@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_curves_answer_the_pointer_and_can_be_switched_off(tmp_path):
    e = cases.ensemble(1, "gaussian")
    page([cases.modules(1, "gaussian")[0], e], tmp_path)
    ask = """
    at(0.3, 0.5); const first = tip(); document.querySelectorAll("#who input")[0].click(); at(0.3, 0.5);
    const second = tip(); at(0.001, 0.5);
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
    document.title = JSON.stringify({ first, second, shown: [shown(0), shown(1)], keyed: tip()[0] });"""
    seen = browse(tmp_path / "page.html", HOVER + ask)
    place, merged, module = seen["first"]
    x = number(place.removeprefix("x = "))
    mean, variance = (float(v[0]) for v in e.predict([[x]]))
    assert [merged[0], module[0]] == ["■ merged", "■ ward-7"]
    assert number(merged[1]) == pytest.approx(mean, abs=5e-3)
    low, high = (number(v) for v in merged[2].split(" to "))
    assert (low, high) == pytest.approx(
        (mean - cases.BAND_SDS * math.sqrt(variance), mean + cases.BAND_SDS * math.sqrt(variance)), abs=5e-3
    )
    y_low, y_high = (number(v) for v in merged[3].split(" to "))
    assert y_high - y_low == pytest.approx(2 * cases.BAND_SDS * math.sqrt(variance + e.noise), abs=1e-2)
    assert [row[0] for row in seen["second"][1:]] == ["■ merged"]
    assert not any(seen["shown"][0])
    assert all(seen["shown"][1])
    assert seen["keyed"].startswith("x = ")


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_owners_answer_the_pointer_and_can_be_switched_off(tmp_path):
    e = cases.differing(1)
    page([e], tmp_path)
    ask = """
    at(0.3, 0.5); const first = tip(); document.querySelectorAll("#who input")[2].click(); at(0.3, 0.5);
    document.title = JSON.stringify({ first, second: tip(), shown: [shown(1), shown(2)] });"""
    seen = browse(tmp_path / "page.html", HOVER + ask)
    place, _, *owners = seen["first"]
    x = number(place.removeprefix("x = "))
    assert [row[0] for row in owners] == [f"■ {name}" for name in cases.NAMES]
    for row, name in zip(owners, cases.NAMES, strict=True):
        assert number(row[1]) == pytest.approx(float(e.predict([[x]], name)[0][0]), abs=5e-3)
    assert [row[0] for row in seen["second"][2:]] == ["■ ward-7", "■ st. mary"]
    assert all(seen["shown"][0])
    assert not any(seen["shown"][1])


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_maps_answer_the_pointer(tmp_path):
    e = cases.ensemble(2, "poisson")
    page([e], tmp_path)
    seen = browse(tmp_path / "page.html", HOVER + "at(0.4, 0.4); document.title = JSON.stringify(tip());")
    x = [[number(part.split(" = ")[1]) for part in seen[0].split(", ")]]
    assert seen[1][0] == "■ merged"
    assert number(seen[1][1]) == pytest.approx(float(e.predict_y(x)[0][0]), rel=0.01)
    assert number(seen[1][2]) == pytest.approx(float(np.sqrt(e.predict(x)[1][0])), rel=0.01)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_another_function_can_be_chosen(outputs, tmp_path):
    page(outputs[1], tmp_path)
    ask = """
    const list = document.querySelector("#which select"), before = document.querySelectorAll("#who input").length;
    document.querySelectorAll("#who input")[0].click();
    list.selectedIndex = 1; list.dispatchEvent(new Event("change"));
    const label = document.querySelector(".panel > svg").getAttribute("aria-label");
    const after = document.querySelectorAll("#who input").length;
    document.title = JSON.stringify({ before, after, label, shown: shown(0) });"""
    seen = browse(tmp_path / "page.html", HOVER + ask)
    assert (seen["before"], seen["after"]) == (3, 2)
    assert seen["label"].startswith(EVIL[:30])
    assert not any(seen["shown"])  # who is switched off stays so


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_a_stranger_s_name_does_nothing_in_a_browser(tmp_path):
    m = cases.modules(1, "gaussian")[0]
    page(
        [m.rename("<img src=x onerror=alert(1)>"), m], tmp_path, title="</title><script>document.body.remove()</script>"
    )
    ask = """at(0.4, 0.5);
    document.title = JSON.stringify([document.querySelectorAll("img").length, tip()[1][0], tip()[2][0]]);"""
    images, *names = browse(tmp_path / "page.html", HOVER + ask)
    assert images == 0
    assert set(names) == {"■ <img src=x onerror=alert(1)>", "■ ward-7"}


def test_who_has_signed_what(tmp_path):
    """Of an ensemble whose modules' signatures were verified when it was merged; of others nothing is said."""
    merged = cases.ensemble(1, "gaussian")
    note = json.loads(Elements(page([merged], tmp_path)).texts["data"])["note"]
    assert "Signed" not in note
    names = merged.names[:2]
    signed = merged._signed(Signer(name, f"{i}" * 64, 3) for i, name in enumerate(names, 1))
    note = json.loads(Elements(page([signed], tmp_path)).texts["data"])["note"]
    assert note.endswith(f"Signed: {names[0]} with key {'1' * 16}, {names[1]} with key {'2' * 16}")
    note = json.loads(Elements(page([signed], tmp_path, title="mine")).texts["data"])["note"]
    assert note.startswith("Signed: ")
