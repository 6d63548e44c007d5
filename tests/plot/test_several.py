"""Figures of several outputs, of classes, and of noise that varies: panels, numbers, and what is refused."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import recyclegp as rgp
from cases_cli import answer
from cases_joint import CLASSES, classes, outputs, varying
from recyclegp import RecycleGPError
from recyclegp.plot import classes as class_figures
from recyclegp.plot import figure as figures
from recyclegp.plot.scene import scenes

OWNERS = [("north", 0, 4), ("south", 3, 6), ("east", 1, 5)]


def fitted(make, inputs, y, **how):
    tables = [(name, make(i, low, high, 40)) for i, (name, low, high) in enumerate(OWNERS)]
    return [rgp.fit(t[inputs], t[y], name=name, publish=6, **how) for name, t in tables]


@pytest.fixture(scope="module")
def measured():
    """Modules of two outputs over one input; the last has seen only one of them."""
    modules = fitted(outputs, ["day"], ["heat", "salt"], unit=["K", None])
    return [*modules[:2], rgp.Module.of_outputs([modules[2].part("salt")])]


@pytest.fixture(scope="module")
def kinds():
    """Modules of three classes over two inputs; the second has not met the first class."""
    return fitted(classes, ["day", "depth"], "kind", likelihood="categorical")


def drawn_lines(ax):
    """Curves, by their colours; marks have few points."""
    return {line.get_color(): line.get_xydata() for line in ax.lines if len(line.get_xdata()) > 200}


def test_each_output_has_a_panel(measured):
    merged = rgp.merge(measured, owners=None)
    axes = rgp.plot.ensemble(merged)
    assert [ax.get_ylabel() for ax in axes] == ["heat (K)", "salt"]
    for c, ax in enumerate(axes):
        ((x, y),) = [line.T for line in drawn_lines(ax).values()]
        np.testing.assert_allclose(y, merged.predict(x[:, None])[0][:, c], rtol=1e-8)
        assert ax.get_xlim() == axes[0].get_xlim()


def test_a_module_has_one_colour_in_all_panels(measured):
    drawn = scenes([*measured, rgp.merge(measured, owners=None)])
    looks = [{s.label: s.colour for s in part.subjects} for part in drawn]
    assert set(looks[0]) == {"north", "south", "merged"}
    assert looks[0].items() <= looks[1].items()
    assert len(set(looks[1].values())) == 4


def test_outputs_over_two_inputs_are_maps_of_each(tmp_path):
    modules = fitted(outputs, ["day", "depth"], ["heat", "salt"])
    axes = rgp.plot.modules(modules[:1])
    titles = [ax.get_title(loc="left") for ax in axes]
    assert titles == ["mean of heat", "sd of heat", "mean of salt", "sd of salt"]


def test_axes_of_the_caller_are_used(measured):
    own = Figure().subplots(2, 1)
    assert rgp.plot.modules(measured, ax=own) is own
    assert [ax.get_ylabel() for ax in own] == ["heat (K)", "salt"]
    with pytest.raises(RecycleGPError, match="3 axes for 2 functions"):
        rgp.plot.modules(measured, ax=Figure().subplots(3, 1))


def test_probabilities_are_drawn_along_one_input():
    modules = fitted(classes, ["day"], "kind", likelihood="categorical")
    merged = rgp.merge(modules, owners=None)
    ax = rgp.plot.ensemble(merged)
    found = drawn_lines(ax)
    for c, colour in enumerate(class_figures.colours(3)):
        x, p = found[colour].T
        np.testing.assert_allclose(p, merged.predict_proba(x[:, None])[:, c], rtol=1e-8, atol=1e-12)
    axes = rgp.plot.modules(modules)
    assert [ax.get_title(loc="left") for ax in axes] == ["north", "south", "east"]
    assert [len(drawn_lines(ax)) for ax in axes] == [len(m.classes) for m in modules]


def test_regions_have_the_colour_of_the_likeliest_class_and_are_paler_where_it_is_less_certain(kinds):
    merged = rgp.merge(kinds, owners=None)
    ax = rgp.plot.ensemble(merged)
    (image,) = ax.images
    pixels, side = np.asarray(image.get_array()), class_figures.MAP_SIDE
    (left, right), (low, high) = merged_region(ax)
    x, y = np.linspace(left, right, side), np.linspace(low, high, side)
    places = [(20, 30), (80, 90), (130, 140), (75, 55)]
    X = np.array([[x[j], y[i]] for i, j in places])
    p = merged.predict_proba(X)
    strength = class_figures.FAINTEST + (1 - class_figures.FAINTEST) * (p.max(1) - 1 / 3) / (2 / 3)
    for (i, j), best, s in zip(places, p.argmax(1), strength, strict=True):
        colour = np.array(to_rgb(class_figures.colours(3)[best]))
        np.testing.assert_allclose(pixels[i, j], s * colour + 1 - s, atol=1e-6)
    assert set(CLASSES) <= {t.get_text() for t in ax.texts}


def merged_region(ax):
    return ax.get_xlim(), ax.get_ylim()


def test_points_of_all_modules_are_marked_also_of_those_that_lack_a_class(kinds):
    assert "low" not in kinds[1].classes
    merged = rgp.merge(kinds, owners=None)
    (drawn,) = scenes([merged])
    marks = {m.label: m.Z for m in drawn.marks(drawn.subjects[0]) if not m.chosen}
    assert set(marks) == {"north", "south", "east"}
    for module in kinds:
        expected = np.unique(np.concatenate([np.asarray(Z) for Z in module._points]), axis=0)
        np.testing.assert_allclose(marks[module.name], expected)


def test_slices_of_classes_and_of_varying_noise():
    def three(make):
        def with_hour(seed, low, high, rows):
            hour = np.random.default_rng(seed).uniform(0, 24, rows)
            return make(seed, low, high, rows).assign(hour=hour, wind=hour[::-1] % 7)

        return with_hour

    inputs = ["day", "hour", "wind"]
    kinds = fitted(three(classes), inputs, "kind", likelihood="categorical")
    assert [ax.get_xlabel() for ax in rgp.plot.modules(kinds[:1])] == inputs
    noisy = fitted(three(varying), inputs, "y", likelihood="heteroscedastic")
    assert [ax.get_xlabel() for ax in rgp.plot.modules(noisy[:1])] == inputs


def test_the_band_of_y_varies_with_the_noise():
    modules = fitted(varying, ["day"], "y", likelihood="heteroscedastic")
    merged = rgp.merge(modules, owners=None)
    ax = rgp.plot.ensemble(merged)
    bands = [c.get_paths()[0].vertices for c in ax.collections]
    assert len(bands) == 2
    widest = max(bands, key=lambda v: np.ptp(v[:, 1]))
    x = np.unique(widest[:, 0])[5:-5:40]
    low, high = merged.predict_interval(x[:, None])
    for at, a, b in zip(x, low, high, strict=True):
        ys = widest[np.isclose(widest[:, 0], at), 1]
        np.testing.assert_allclose([ys.min(), ys.max()], [a, b], rtol=1e-6)
    figure, _ = figures.new(scenes([merged]))
    said = [t.get_text() for t in figure.legends[0].get_texts()]
    assert "95% band of y, whose noise varies" in said


def test_noise_over_two_inputs_is_a_map_of_its_own():
    def with_hour(seed, low, high, rows):
        return varying(seed, low, high, rows).assign(hour=np.linspace(0, 9, rows))

    modules = fitted(with_hour, ["day", "hour"], "y", likelihood="heteroscedastic")
    titles = [ax.get_title(loc="left") for ax in rgp.plot.modules(modules[:1])]
    assert titles == ["mean of f", "sd of f", "mean of log noise", "sd of log noise"]


def test_what_cannot_be_drawn_is_refused_by_name(measured, kinds):
    merged = rgp.merge(kinds, owners=None)
    with pytest.raises(RecycleGPError, match="likelihood='categorical'"):
        rgp.plot.ensemble(merged, likelihood="categorical")
    with pytest.raises(RecycleGPError, match="one module has outputs, another classes"):
        rgp.plot.modules([measured[0], kinds[0]])
    with pytest.raises(RecycleGPError, match="2 axes for 1 models of classes"):
        rgp.plot.ensemble(merged, ax=Figure().subplots(1, 2))
    with pytest.raises(TypeError, match=r"plot\.ensemble draws an Ensemble"):
        rgp.plot.ensemble(measured[0])
    with pytest.raises(RecycleGPError, match="nothing to draw"):
        rgp.plot.modules(kinds, region={"day": (90, 91)})


def test_more_classes_than_the_palette_have_different_colours():
    assert len(set(class_figures.colours(3))) == 3
    assert len(set(class_figures.colours(12))) == 12
    assert len(class_figures.colours(40)) == 40


def test_the_command_draws_them(measured, kinds, tmp_path):
    for m in measured:
        m.save(tmp_path / f"{m.name}.safetensors")
    rgp.merge(measured, owners=None).save(tmp_path / "all.safetensors")
    files = [tmp_path / "north.safetensors", tmp_path / "all.safetensors"]
    found = answer("plot", *files, "-o", tmp_path / "a.png", "--region", "day=1:3")
    assert found["models"] == ["north", "all"]
    assert found["bytes"] > 10_000
    kinds[0].save(tmp_path / "k.safetensors")
    answer("plot", tmp_path / "k.safetensors", "-o", tmp_path / "k.svg")
    answer("plot", tmp_path / "k.safetensors", "-o", tmp_path / "k.html")
    assert (tmp_path / "k.html").read_text().startswith("<!DOCTYPE html>")
