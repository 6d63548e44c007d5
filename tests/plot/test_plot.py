"""Pictures show what the models say: lines, bands, points and maps are read back and compared with predictions."""

import math

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import cases_plot as cases
import recyclegp as rgp
from cases_pictures import collisions, symbols
from recyclegp.plot import style
from recyclegp.plot.figure import new
from recyclegp.plot.scene import COLOURS, MOST_MODELS, MOST_TOLD_APART, scenes

BLACK = style.BLACK


def contour_sets(ax):
    return [c for c in ax.collections if isinstance(c, mpl.contour.ContourSet)]


# --- one input ---


def test_gaussian_bands_are_of_f_and_of_y():
    m = cases.modules(1, "gaussian")[0]
    ax = rgp.plot.modules(m)
    x = line_x = cases.line(ax, COLOURS[0]).get_xdata()
    mean, variance = m.predict(x[:, None])
    np.testing.assert_allclose(cases.line(ax, COLOURS[0]).get_ydata(), mean)
    of_f, of_y = cases.bands(ax, COLOURS[0])
    for (x, low, high), v in ((of_f, variance), (of_y, variance + m.noise)):
        np.testing.assert_allclose(x, line_x)
        np.testing.assert_allclose(low, mean - cases.BAND_SDS * np.sqrt(v))
        np.testing.assert_allclose(high, mean + cases.BAND_SDS * np.sqrt(v))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "f")


@pytest.mark.parametrize(
    ("likelihood", "link"),
    [("bernoulli", lambda f: 1 / (1 + np.exp(-f))), ("poisson", np.exp)],
)
def test_classes_are_probabilities_and_counts_are_rates(likelihood, link):
    e = cases.ensemble(1, likelihood)
    ax = rgp.plot.ensemble(e)
    x, y = cases.line(ax, BLACK).get_data()
    expected = e.predict_proba(x[:, None])[:, 1] if likelihood == "bernoulli" else e.predict_y(x[:, None])[0]
    np.testing.assert_allclose(y, expected)
    mean, variance = e.predict(x[:, None])
    ((_, low, high),) = cases.bands(ax, BLACK)
    np.testing.assert_allclose(low, link(mean - cases.BAND_SDS * np.sqrt(variance)))
    np.testing.assert_allclose(high, link(mean + cases.BAND_SDS * np.sqrt(variance)))
    assert ax.get_ylabel() == {"bernoulli": "P(y = 1)", "poisson": "rate of y"}[likelihood]
    assert ax.get_ylim()[1] == 1.0 if likelihood == "bernoulli" else ax.get_ylim()[1] > y.max()


def test_probit_has_its_own_link():
    X, y = cases.rows(1, "bernoulli", 0)
    m = rgp.fit(X, y, likelihood="bernoulli-probit", publish=6, learn=False, name="probit")
    ax = rgp.plot.modules(m)
    mean, variance = m.predict(cases.line(ax, COLOURS[0]).get_xdata()[:, None])
    ((_, low, _),) = cases.bands(ax, COLOURS[0])
    lowest = mean - cases.BAND_SDS * np.sqrt(variance)
    np.testing.assert_allclose(low, [0.5 * math.erfc(-f / math.sqrt(2)) for f in lowest])


def test_points_are_on_the_curve_and_a_module_among_others_stays_where_they_are():
    ms = cases.modules(1, "gaussian")
    ax = rgp.plot.modules(ms)
    for m, colour in zip(ms, COLOURS, strict=False):
        (dots,) = [each for each in ax.lines if each.get_color() == colour and each.get_marker() == "o"]
        Z = m.inducing
        np.testing.assert_array_equal(dots.get_xdata(), Z[:, 0])
        np.testing.assert_allclose(dots.get_ydata(), m.predict(Z)[0])
        x, width = cases.line(ax, colour).get_xdata(), np.ptp(Z)
        assert Z.min() - 0.1 * width < x[0] < Z.min()
        assert Z.max() < x[-1] < Z.max() + 0.1 * width
    labels = [t.get_text() for t in ax.figure.legends[0].get_texts()]
    assert labels == [*cases.NAMES, "95% band of f", "95% band of y", "published points"]


def lanes(ax, mark):
    return {each.get_color(): each.get_xdata() for each in ax.lines if each.get_marker() == mark}


def test_an_ensemble_marks_its_points_and_those_of_its_modules():
    e = cases.ensemble(1, "gaussian")
    ax = rgp.plot.ensemble(e)
    np.testing.assert_array_equal(lanes(ax, "^")[BLACK], e.inducing[:, 0])
    ticks = lanes(ax, "|")
    assert list(ticks) == list(COLOURS[:3])
    for m, colour in zip(cases.modules(1, "gaussian"), COLOURS, strict=False):
        np.testing.assert_array_equal(ticks[colour], m.inducing[:, 0])
    # lanes are below the curves
    x, low, _ = cases.bands(ax, BLACK)[-1]
    top = max(line.get_ydata().max() for line in ax.lines if line.get_marker() in "^|")
    assert ax.transAxes.inverted().transform(ax.transData.transform((x[0], low.min())))[1] > top


def test_an_ensemble_of_names_shows_what_there_is():
    e = cases.ensemble(1, "gaussian").forget_sites()
    ax = rgp.plot.ensemble(e)
    np.testing.assert_array_equal(lanes(ax, "^")[BLACK], e.inducing[:, 0])
    assert lanes(ax, "|") == {}
    assert not any("ward" in t.get_text() for t in ax.figure.legends[0].get_texts())


def test_modules_keep_their_colours_beside_their_ensemble():
    _, (ax,) = cases.drawn(cases.objects(1, "gaussian", "all"))
    assert lanes(ax, "|") == {}  # their points are on their curves already
    assert set(lanes(ax, "o")) == set(COLOURS[:3])
    assert len(cases.bands(ax, BLACK)) == 2
    for colour in COLOURS[:3]:
        assert len(cases.bands(ax, colour)) == 1  # of f; only the ensemble shows y


# --- owners who differ ---


def thin(ax):
    """Lines of owners, by colour; those of many owners share one."""
    found = {}
    for line in ax.lines:
        if line.get_linewidth() == 0.9 and len(line.get_xdata()) > 100:
            found.setdefault(line.get_color(), []).append(line)
    return found


@pytest.mark.parametrize("inducing", ["all", 9])
def test_owners_functions_are_drawn_about_the_shared_one(inducing):
    e = cases.differing(1, inducing=inducing)
    ax = rgp.plot.ensemble(e)
    x = cases.line(ax, BLACK).get_xdata()[:, None]
    mean, variance = e.predict(x)
    np.testing.assert_allclose(cases.line(ax, BLACK).get_ydata(), mean)
    drawn = thin(ax)
    assert list(drawn) == list(COLOURS[:3])
    for name, colour in zip(cases.NAMES, COLOURS, strict=False):
        np.testing.assert_allclose(drawn[colour][0].get_ydata(), e.predict(x, name)[0])
    (_, _, f_high), (_, _, y_high) = cases.bands(ax, BLACK)
    np.testing.assert_allclose(f_high, mean + cases.BAND_SDS * np.sqrt(variance))
    np.testing.assert_allclose(y_high, mean + cases.BAND_SDS * np.sqrt(e.predict_y(x)[1]))  # of somebody new
    labels = [t.get_text() for t in ax.figure.legends[0].get_texts()]
    assert labels[:4] == ["merged", *(f"f of {name}" for name in cases.NAMES)]
    assert "95% band of a new owner's y" in labels


def test_owners_can_be_left_out():
    e = cases.differing(1)
    ax = rgp.plot.ensemble(e, owners=False)
    assert thin(ax) == {}
    assert not any("f of" in t.get_text().replace("band of f", "") for t in ax.figure.legends[0].get_texts())
    assert thin(rgp.plot.ensemble(cases.ensemble(1, "gaussian"))) == {}  # they do not differ
    with pytest.raises(TypeError, match="owners must be True or False, not 'ward-7'"):
        rgp.plot.ensemble(e, owners="ward-7")


def test_an_owner_whose_module_is_drawn_is_not_drawn_twice():
    first, *_ = cases.of_owners(1)
    _, (ax,) = cases.drawn([first, cases.differing(1)])
    assert list(thin(ax)) == list(COLOURS[1:3])


def test_owners_of_whom_only_names_are_known_are_drawn_where_the_ensemble_is_exact():
    assert len(thin(rgp.plot.ensemble(cases.differing(1).forget_sites()))) == 3
    assert thin(rgp.plot.ensemble(cases.differing(1, inducing=9).forget_sites())) == {}
    weighed = cases.differing(1, inducing=9).reweight({cases.NAMES[0]: 0})
    assert len(thin(rgp.plot.ensemble(weighed))) == 2


def test_an_owner_of_several_modules_is_one_line():
    a, b, c = cases.of_owners(1)
    e = rgp.merge([a, b.owned_by("both"), c.owned_by("both")], inducing="all", learn=False, owners="offset")
    ax = rgp.plot.ensemble(e)
    assert list(thin(ax)) == list(COLOURS[:2])
    x, y = thin(ax)[COLOURS[1]][0].get_data()
    np.testing.assert_allclose(y, e.predict(x[:, None], "both")[0])


def test_a_crowd_of_owners_has_one_colour_and_one_name():
    ax = rgp.plot.ensemble(cases.differing(1, count=MOST_TOLD_APART + 1))
    ((colour, lines),) = thin(ax).items()
    assert (colour, len(lines)) == (style.FAINT, MOST_TOLD_APART + 1)
    assert [t.get_text() for t in ax.figure.legends[0].get_texts()][1] == f"f of {MOST_TOLD_APART + 1} owners"


def test_slices_and_given_axes_show_owners_too():
    e = cases.differing(3)
    axes = Figure().subplots(1, 3)
    rgp.plot.ensemble(e, axes)
    base = np.median(np.concatenate([e.inducing, *(m.inducing for m in cases.of_owners(3))]), axis=0)
    for j, ax in enumerate(axes):
        line = thin(ax)[COLOURS[2]][0]
        X = np.tile(base, (len(line.get_xdata()), 1))
        X[:, j] = line.get_xdata()
        np.testing.assert_allclose(line.get_ydata(), e.predict(X, cases.NAMES[2])[0])
    assert "f of lab-2" in [t.get_text() for t in axes[0].get_legend().get_texts()]


@pytest.mark.slow
def test_maps_show_the_shared_function():
    e = cases.differing(2)
    assert len(rgp.plot.ensemble(e)) == 2


def test_several_likelihoods_share_f_unless_one_is_chosen():
    models = [cases.modules(1, "gaussian")[0], cases.modules(1, "bernoulli")[1]]
    e = rgp.merge(models, learn=False)
    ax = rgp.plot.ensemble(e)
    assert ax.get_ylabel() == "f"
    x, y = cases.line(ax, BLACK).get_data()
    np.testing.assert_allclose(y, e.predict(x[:, None])[0])
    assert len(cases.bands(ax, BLACK)) == 1
    assert len(cases.bands(rgp.plot.ensemble(e, likelihood="gaussian"), BLACK)) == 2
    chosen = rgp.plot.ensemble(e, likelihood="bernoulli")
    x, y = cases.line(chosen, BLACK).get_data()
    np.testing.assert_allclose(y, e.predict_proba(x[:, None], likelihood="bernoulli")[:, 1])
    with pytest.raises(rgp.RecycleGPError, match="has gaussian, bernoulli"):
        rgp.plot.ensemble(e, likelihood="poisson")


def test_noise_that_is_not_known_has_no_band():
    m = cases.modules(1, "gaussian")[0]
    unknown = rgp.Module.from_moments([[0.0], [1.0]], [0.0, 0.5], 0.1 * np.eye(2), kernel=m.kernel, name="w")
    assert len(cases.bands(rgp.plot.modules(unknown), COLOURS[0])) == 1


def test_wide_rates_are_logarithmic_and_narrow_ones_are_not():
    m = cases.modules(1, "poisson")[0]
    assert rgp.plot.modules(m).get_yscale() == "linear"
    X = np.linspace(0, 6, 60)[:, None]
    steep = rgp.fit(X, np.round(np.exp(X[:, 0])), likelihood="poisson", publish=8, learn=False, name="steep")
    ax = rgp.plot.modules(steep)
    assert ax.get_yscale() == "log"
    _, low, _ = cases.bands(ax, COLOURS[0])[0]
    assert (low > 0).all()
    assert min(ax.get_yticks()) >= low.min()


# --- two inputs ---


@pytest.mark.parametrize("likelihood", cases.LIKELIHOODS)
def test_maps_are_the_predictions(likelihood):
    e = cases.ensemble(2, likelihood)
    mean_map, sd_map = rgp.plot.ensemble(e)
    left, right = mean_map.get_xlim()
    bottom, top = mean_map.get_ylim()
    (image,), (sd_image,) = mean_map.images, sd_map.images
    n = image.get_array().shape[0]
    x, y = np.linspace(left, right, n), np.linspace(bottom, top, n)
    X = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    mean, variance = e.predict(X)
    expected = mean if likelihood == "gaussian" else e.predict_y(X)[0]
    np.testing.assert_allclose(image.get_array().ravel(), expected)
    np.testing.assert_allclose(sd_image.get_array().ravel(), np.sqrt(variance))
    # pixels are centred on these places, the first row at the bottom
    pixel = (right - left) / (n - 1)
    np.testing.assert_allclose(image.get_extent()[:2], [left - pixel / 2, right + pixel / 2])
    assert image.origin == "lower"
    assert mean_map.get_title(loc="left") == {"gaussian": "mean of f", "bernoulli": "P(y = 1)"}.get(
        likelihood, "rate of y"
    )
    assert (mean_map.get_xlabel(), mean_map.get_ylabel()) == ("x1", "x2")


def test_probabilities_have_three_contours_and_points_are_where_they_are():
    e = cases.ensemble(2, "bernoulli")
    mean_map, _ = rgp.plot.ensemble(e)
    (contours,) = contour_sets(mean_map)
    assert set(contours.levels) <= {0.2, 0.5, 0.8}
    assert 0.5 in contours.levels
    assert mean_map.images[0].get_clim() == (0, 1)
    drawn = {each.get_color(): np.stack(each.get_data(), axis=-1) for each in mean_map.lines[:-1]}
    for m, colour in zip(cases.modules(2, "bernoulli"), COLOURS, strict=False):
        np.testing.assert_array_equal(drawn[colour], m.inducing)
    rings = mean_map.lines[-1]
    assert rings.get_markerfacecolor() == "none"
    np.testing.assert_array_equal(np.stack(rings.get_data(), axis=-1), e.inducing)


def test_several_maps_share_their_colours_and_stay_where_the_points_are():
    ms = cases.modules(2, "gaussian")
    axes = rgp.plot.modules(ms)
    means, sds = axes[:3], axes[3:]
    for group in (means, sds):
        assert len({ax.images[0].get_clim() for ax in group}) == 1
    for m, ax in zip(ms, means, strict=True):
        assert ax.get_title(loc="left") == f"{m.name}: mean of f"
        values = np.ma.filled(ax.images[0].get_array(), np.nan)
        inside = np.argwhere(np.isfinite(values))
        n = len(values)
        for column, (limits, Z) in enumerate(zip((ax.get_xlim(), ax.get_ylim()), m.inducing.T, strict=True)):
            at = np.linspace(*limits, n)[inside[:, 1 - column]]
            assert abs(at.min() - Z.min()) < 0.1 * np.ptp(Z)
            assert abs(at.max() - Z.max()) < 0.1 * np.ptp(Z)


def test_columns_are_aligned_and_named():
    X, y = cases.rows(2, "gaussian", 0)
    frame = pd.DataFrame(X, columns=["age", "dose"])
    a = rgp.fit(frame, y, publish=8, name="a", learn=False)
    b = rgp.fit(frame[["dose", "age"]], y, publish=a.inducing[:, ::-1], name="b", learn=False)
    first, second, *_ = rgp.plot.modules([a, b])
    np.testing.assert_allclose(second.images[0].get_array(), first.images[0].get_array(), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(second.lines[0].get_data(), first.lines[0].get_data())
    assert (first.get_xlabel(), first.get_ylabel()) == ("", "dose")  # only outer labels are shown
    alone, _ = rgp.plot.modules(a)
    assert (alone.get_xlabel(), alone.get_ylabel()) == ("age", "dose")
    shifted, _ = rgp.plot.modules(a, region={"dose": (1, 2)})
    assert shifted.get_ylim() == (1, 2)
    assert shifted.get_xlim() == alone.get_xlim()


# --- more inputs ---


def described(columns, likelihood, **words):
    X, y = cases.rows(columns, likelihood, 0)
    return rgp.fit(X, y, likelihood=likelihood, publish=6, learn=False, **words)


@pytest.mark.parametrize("columns", [1, 3])
def test_the_vertical_axis_has_the_name_and_unit_of_the_target(columns):
    m = described(columns, "gaussian", target="pressure", unit="mmHg", name="ward")
    for drawn in (rgp.plot.modules(m), rgp.plot.ensemble(rgp.merge([m], learn=False))):
        assert np.ravel(drawn)[0].get_ylabel() == "pressure (mmHg)"


def test_maps_and_other_kinds_of_data_have_it_too():
    words = {"target": "outcome", "name": "ward"}
    mean_map, sd_map = rgp.plot.modules(described(2, "gaussian", unit="m$", **words))
    assert mean_map.get_title(loc="left") == r"mean of outcome (m\$)"
    assert sd_map.get_title(loc="left") == r"sd of outcome (m\$)"
    assert rgp.plot.modules(described(1, "bernoulli", **words)).get_ylabel() == "P(outcome = 1)"
    ill = described(2, "bernoulli", labels=["well", "ill"], **words)
    assert [ax.get_title(loc="left") for ax in rgp.plot.modules(ill)] == ["P(outcome = ill)", "sd of f"]
    assert rgp.plot.modules(described(1, "poisson", **words)).get_ylabel() == "rate of outcome"


def test_a_name_is_shown_only_where_nobody_contradicts_it():
    a = described(1, "gaussian", target="pressure", unit="mmHg", name="a")
    silent = described(1, "gaussian", name="b")
    other = described(1, "gaussian", target="weight", unit="mmHg", name="c")
    elsewhere = described(1, "gaussian", target="pressure", unit="kPa", name="d")
    classes = described(1, "bernoulli", target="pressure", name="e")
    labels = [rgp.plot.modules([a, m]).get_ylabel() for m in (silent, other, elsewhere, classes)]
    assert labels == ["pressure (mmHg)", "f", "pressure", "f"]


def test_slices_hold_the_other_inputs_at_the_median_of_the_points():
    e = cases.ensemble(5, "gaussian")
    axes = rgp.plot.ensemble(e)
    points = np.concatenate([e.inducing, *(m.inducing for m in cases.modules(5, "gaussian"))])
    base = np.median(points, axis=0)
    assert len(axes) == 5
    assert len({ax.get_ylim() for ax in axes}) == 1
    for j, ax in enumerate(axes):
        x, y = cases.line(ax, BLACK).get_data()
        X = np.tile(base, (len(x), 1))
        X[:, j] = x
        mean, variance = e.predict(X)
        np.testing.assert_allclose(y, mean)
        _, low, high = cases.bands(ax, BLACK)[0]
        np.testing.assert_allclose(high - low, 2 * cases.BAND_SDS * np.sqrt(variance))
        np.testing.assert_array_equal(lanes(ax, "^")[BLACK], e.inducing[:, j])
        assert ax.get_xlabel() == f"x{j + 1}"
    assert "Each input varied alone" in axes[0].figure.get_suptitle()


def test_slices_can_be_held_elsewhere():
    e = cases.ensemble(5, "gaussian")
    at = [1.0, 2.0, 0.5, 3.0, 1.5]
    first = rgp.plot.ensemble(e, at=at)[0]
    x, y = cases.line(first, BLACK).get_data()
    X = np.tile(at, (len(x), 1))
    X[:, 0] = x
    np.testing.assert_allclose(y, e.predict(X)[0])
    by_name = rgp.plot.ensemble(e, at=dict(zip(["x1", "x2", "x3", "x4", "x5"], at, strict=True)))[0]
    np.testing.assert_array_equal(cases.line(by_name, BLACK).get_ydata(), y)


def test_of_many_inputs_the_most_moving_are_shown_and_the_title_says_so():
    rng = np.random.default_rng(8)
    X = rng.uniform(size=(80, 15))
    matter = [2, 9, 14]
    kernel = rgp.fit(X[:5], X[:5, 0], learn=False, publish=3).kernel
    kernel.base_kernel.lengthscale = [0.5 if j in matter else 50.0 for j in range(15)]
    m = rgp.fit(X, X[:, matter].sum(1), kernel=kernel, learn=False, publish=30, name="wide")
    axes = rgp.plot.modules(m)
    shown = [ax.get_xlabel() for ax in axes]
    assert len(shown) == 12
    assert {"x3", "x10", "x15"} <= set(shown)
    assert shown == sorted(shown, key=lambda name: int(name[1:]))
    assert "The 12 of 15 inputs that move the mean most" in axes[0].figure.get_suptitle()
    three = Figure().subplots(1, 3)
    rgp.plot.modules(m, three)
    assert [ax.get_xlabel() for ax in three] == ["x3", "x10", "x15"]


# --- many models ---


def test_a_crowd_has_no_bands_and_a_short_legend():
    m = cases.modules(1, "gaussian")[0]
    many = [m.rename(f"m{k}").transform(output_shift=k) for k in range(MOST_TOLD_APART + 3)]
    ax = rgp.plot.modules(many)
    assert len(ax.collections) == 0
    labels = [t.get_text() for t in ax.figure.legends[0].get_texts()]
    assert labels[MOST_TOLD_APART] == "… and 3 more"
    e = rgp.merge(many, learn=False)
    figure, (ax,) = cases.drawn([*many, e])
    assert len(ax.collections) == 2  # the ensemble's own
    assert figure.legends[0].get_texts()[0].get_text() == "merged"
    crowd = lanes(rgp.plot.ensemble(e), "|")[style.FAINT]
    np.testing.assert_array_equal(crowd, np.tile(m.inducing[:, 0], len(many)))


@pytest.mark.slow
def test_more_models_than_a_figure_can_hold_are_left_out_and_counted():
    m = cases.modules(1, "gaussian")[0]
    many = [m.rename(f"m{k}") for k in range(MOST_MODELS + 2)]
    figure, (ax,) = cases.drawn([*many, cases.ensemble(1, "gaussian")])
    # The two edges of the ensemble's band are lines as well.
    assert sum(len(line.get_xdata()) > 100 for line in ax.lines) == MOST_MODELS + 2
    assert "3 more are left out" in figure.get_suptitle()
    assert "ensemble of 3 modules" in figure.get_suptitle()


# --- on given axes, and at the door ---


def test_given_axes_are_drawn_on_and_returned():
    figure = Figure()
    one, two = figure.subplots(1, 2)
    assert rgp.plot.ensemble(cases.ensemble(1, "gaussian"), one) is one
    assert len(cases.bands(one, BLACK)) == 2
    assert rgp.plot.ensemble(cases.ensemble(2, "gaussian"), two) is two  # the mean alone
    assert len(two.images) == 1
    pair = figure.subplots(1, 2)
    assert rgp.plot.ensemble(cases.ensemble(2, "gaussian"), pair) is pair
    assert [ax.get_title(loc="left") for ax in pair] == ["mean of f", "sd of f"]


def test_names_and_title_can_be_given():
    figure, _ = cases.drawn(cases.objects(1, "gaussian", "all"), names=["A", "B", "C", "all three"], title="Mine")
    assert [t.get_text() for t in figure.legends[0].get_texts()][:4] == ["A", "B", "C", "all three"]
    assert figure.get_suptitle() == "Mine"


def test_region_of_one_input():
    ax = rgp.plot.modules(cases.modules(1, "gaussian")[0], region=(-3, 5))
    assert ax.get_xlim() == (-3, 5)
    x = cases.line(ax, COLOURS[0]).get_xdata()
    assert (x[0], x[-1]) == (-3, 5)


def test_one_place_has_a_region_too():
    m = rgp.fit([[2.0]], [1.0], publish=[[2.0]], learn=False, name="one", allow_small=True)
    low, high = rgp.plot.modules(m).get_xlim()
    assert low < 2 < high


def test_errors_name_the_remedy(tmp_path):
    m, m2 = cases.modules(1, "gaussian")[0], cases.modules(2, "gaussian")[0]
    with pytest.raises(rgp.RecycleGPError, match=r"\.png, \.svg, \.pdf, \.html"):
        rgp.plot.save([m], tmp_path / "figure.gif")
    with pytest.raises(rgp.RecycleGPError, match="at least one"):
        rgp.plot.save([], tmp_path / "figure.png")
    with pytest.raises(rgp.RecycleGPError, match="1 input columns and 'ward-7' has 2"):
        rgp.plot.modules([m, m2])
    X, y = cases.rows(2, "gaussian", 0)
    named = [
        rgp.fit(pd.DataFrame(X, columns=c), y, publish=4, name="".join(c), learn=False)
        for c in (["a", "b"], ["a", "c"])
    ]
    with pytest.raises(rgp.RecycleGPError, match="different columns"):
        rgp.plot.modules(named)
    with pytest.raises(rgp.RecycleGPError, match=r"no column is named z; there are a, b"):
        rgp.plot.modules(named[0], region={"z": (0, 1)})
    with pytest.raises(rgp.RecycleGPError, match=r"shape \(3,\) for 1 input column"):
        rgp.plot.modules(m, region=(0, 1, 2))
    with pytest.raises(rgp.RecycleGPError, match=r"region of x is .*; pass \(low, high\)"):
        rgp.plot.modules(m, region=(2, 1))
    with pytest.raises(rgp.RecycleGPError, match="at has 2 numbers for 5"):
        rgp.plot.ensemble(cases.ensemble(5, "gaussian"), at=[1, 2])
    with pytest.raises(rgp.RecycleGPError, match="3 axes for 1 model of two inputs; pass 1 for the means, or 2"):
        rgp.plot.modules(m2, Figure().subplots(1, 3))
    with pytest.raises(rgp.RecycleGPError, match="2 axes for 1 input column"):
        rgp.plot.modules(m, Figure().subplots(1, 2))
    with pytest.raises(rgp.RecycleGPError, match="one name for each of the 2 models"):
        rgp.plot.save([m, m], tmp_path / "figure.png", names=["a"])
    with pytest.raises(TypeError, match="matplotlib axes, not str"):
        rgp.plot.modules(m, "axes")
    with pytest.raises(TypeError, match=r"plot\.modules draws modules"):
        rgp.plot.ensemble(m)
    with pytest.raises(TypeError, match=r"plot\.ensemble draws ensembles"):
        rgp.plot.modules([cases.ensemble(1, "gaussian")])
    with pytest.raises(TypeError, match="not str"):
        rgp.plot.save(["a.safetensors"], tmp_path / "figure.png")
    assert list(tmp_path.iterdir()) == []


def test_a_region_beside_some_of_the_modules_leaves_them_empty():
    far = rgp.plot.modules(cases.modules(1, "gaussian"), region=(-0.5, 0.5))
    assert len([line for line in far.lines if len(line.get_xdata()) > 100]) == 1
    means = rgp.plot.modules(cases.modules(2, "gaussian"), region=[(-0.5, 0.5), (0, 4)])[:3]
    known = [np.isfinite(np.ma.filled(ax.images[0].get_array(), np.nan)).any() for ax in means]
    assert known == [True, False, False]
    with pytest.raises(rgp.RecycleGPError, match="none of the modules has points there"):
        rgp.plot.modules(cases.modules(1, "gaussian"), region=(90, 91))
    with pytest.raises(rgp.RecycleGPError, match="none of the modules has points there"):
        rgp.plot.modules(cases.modules(2, "gaussian"), region=[(90, 91), (0, 4)])


def test_rates_of_a_model_that_knows_nothing_stay_finite(tmp_path):
    kernel = cases.modules(1, "poisson")[0].kernel
    kernel.outputscale = 1e6
    ignorant = rgp.Module.from_moments(
        [[0.0], [9.0]], [0.0, 1.0], np.eye(2), kernel=kernel, likelihood="poisson", name="none", jitter=1e-6
    )
    ax = rgp.plot.modules(ignorant)
    assert np.isfinite(ax.get_ylim()).all()
    for suffix in ("png", "html"):
        rgp.plot.save([ignorant], tmp_path / f"figure.{suffix}")


# --- what can be read ---


@pytest.mark.parametrize(("each", "mark"), [(8, "^"), (40, "|")])
def test_many_points_below_slices_are_a_rug(each, mark):
    """Triangles one by one, or thin strokes; the legend has the same."""
    rng = np.random.default_rng(0)
    some = []
    for k in range(2):
        X = rng.uniform(0, 5, (90, 3))
        y = np.sin(X[:, 0]) + X[:, 1]
        some.append(rgp.fit(X, y, noise=0.01, learn=False, name=f"m{k}", inducing=X[:each] + 1e-3, publish=None))
    e = rgp.merge(some, inducing="all", learn=False)
    figure, axes = new(scenes([e]))
    for j, ax in enumerate(axes):
        (own,) = [line for line in ax.lines if line.get_color() == BLACK and len(line.get_xdata()) == 2 * each]
        np.testing.assert_allclose(np.sort(own.get_xdata()), np.sort(e.inducing[:, j]))
        assert own.get_marker() == mark
        assert own.get_markeredgewidth() < (1 if mark == "|" else 0.1)
    (legend,) = figure.legends
    handles = {t.get_text(): h for t, h in zip(legend.get_texts(), legend.legend_handles, strict=True)}
    assert handles[style.CHOSEN].get_marker() == mark


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_legends_have_words_and_nothing_stands_on_anything_else(dimension):
    e, ms = cases.ensemble(dimension, "gaussian"), cases.modules(dimension, "gaussian")
    for some in ([e], [*ms, e], [e, e]):
        figure, _ = new(scenes(some))
        assert symbols(figure) == []
        assert collisions(figure) == []
    said = [t.get_text() for t in new(scenes([e]))[0].legends[0].get_texts()]
    assert style.CHOSEN in said
