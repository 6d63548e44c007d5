"""Every kind of picture is drawn, looked at for colours and for texts that cover each other, and written to files."""

import subprocess
import sys
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import cases_plot as cases
import recyclegp as rgp
from recyclegp.plot.scene import COLOURS

ALL = ("module", "modules", "ensemble", "all", "names")
KINDS = [(likelihood, kind) for likelihood in cases.LIKELIHOODS for kind in ALL]
KINDS = [(likelihood, kind) for likelihood, kind in KINDS if likelihood == "gaussian" or kind == "all"]


@pytest.mark.parametrize("dimension", cases.DIMENSIONS)
@pytest.mark.parametrize(("likelihood", "kind"), KINDS)
def test_every_kind_is_a_picture_with_its_colours_and_legible_text(dimension, likelihood, kind):
    figure, _ = cases.drawn(cases.objects(dimension, likelihood, kind))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    red, green, blue = np.asarray(canvas.buffer_rgba())[..., :3].reshape(-1, 3).T.astype(int)
    seen = set(np.unique(red * 65536 + green * 256 + blue).tolist())
    wanted = {"module": COLOURS[:1], "names": ()}.get(kind, COLOURS[:3])
    for colour in wanted:
        assert int(colour[1:], 16) in seen, colour
    assert overlaps(figure, canvas.get_renderer()) == []


@pytest.mark.parametrize(("dimension", "panel"), [(2, -1), (3, 0)])
def test_long_numbers_do_not_touch(dimension, panel):
    """Days since 1970, as --dates days reads them."""
    X, y = cases.rows(dimension, "gaussian", 0)
    X[:, 0] = 19_732 + 60 * X[:, 0]
    figure, axes = cases.drawn([rgp.fit(X, y, publish=6, learn=False, name=name, privacy="things") for name in "ab"])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    labels = axes[panel].get_xticklabels()
    boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels if len(label.get_text()) == 5]
    assert len(boxes) > 2
    assert all(right.x0 - left.x1 > 0.5 * left.height for left, right in pairwise(boxes))


def overlaps(figure, renderer):
    """Pairs of texts that cover each other; only contours' labels may stand where other things are."""
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts(figure) if text.get_text().strip()]
    return [
        (a, b)
        for i, (a, one) in enumerate(boxes)
        for b, other in boxes[:i]
        if min(one.x1, other.x1) - max(one.x0, other.x0) > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1
    ]


def texts(figure):
    yield figure._suptitle
    yield from figure.legends[0].get_texts()
    for ax in figure.axes:
        yield from (ax.title, ax._left_title)
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            labels = [(t.get_loc(), label) for t in axis.get_major_ticks() for label in (t.label1, t.label2)]
            yield from (label for place, label in labels if low <= place <= high and label.get_visible())
            if axis.label.get_visible():
                yield axis.label


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")])
def test_formats_by_suffix(suffix, start, tmp_path):
    file = tmp_path / f"figure.{suffix}"
    rgp.plot.save(cases.objects(2, "gaussian", "ensemble"), file)
    assert file.read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("name", ["a$b$c", r"$\bad{", "_hidden", "</svg><script>", "x" * 200])
def test_names_are_shown_as_they_are(name, tmp_path):
    models = [cases.modules(1, "gaussian")[0].rename(name), cases.modules(1, "gaussian")[1]]
    rgp.plot.save(models, tmp_path / "figure.svg")
    figure, _ = cases.drawn(models)
    shown = figure.legends[0].get_texts()[0].get_text().strip().replace(r"\$", "$")
    assert shown == (name if len(name) < 30 else "x" * 33 + "…")
    assert "</svg><script>" not in (tmp_path / "figure.svg").read_text()


@pytest.mark.slow
def test_nothing_global_is_touched():
    before = dict(mpl.rcParams)
    rgp.plot.ensemble(cases.ensemble(2, "bernoulli"))
    assert dict(mpl.rcParams) == before
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import sys, recyclegp as r; assert 'matplotlib' not in sys.modules\n"
        "m = r.fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5], publish=2, learn=False)\n"
        "r.plot.modules(m).figure.savefig('/dev/null', format='png')\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    with pytest.raises(FileNotFoundError):
        rgp.plot.save([cases.modules(1, "gaussian")[0]], tmp_path / "absent" / "figure.png")
    (tmp_path / "figure.png").mkdir()
    with pytest.raises(OSError, match=r"figure\.png"):
        rgp.plot.save([cases.modules(1, "gaussian")[0]], tmp_path / "figure.png")
    assert [p.name for p in tmp_path.iterdir()] == ["figure.png"]
