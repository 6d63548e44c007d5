"""What can be wrong with any picture: texts on each other, marks on texts, symbols where words belong."""

import re
from itertools import combinations

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox

SYMBOLS = re.compile(r"Z_|\$Z|M_k|M_\*|σ_b|sigma_b|\bD ?= ?\d|\bK ?= ?\d|\bM ?= ?\d|θ")


def drawn(figure):
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    return figure.canvas.get_renderer()


def _of_axes(ax):
    upright = [t for t in ax.texts if t.get_rotation() % 90 == 0]  # numbers along contours have no box of their own
    found = [ax.title, ax._left_title, ax._right_title, ax.xaxis.label, ax.yaxis.label, *upright]
    for axis in (ax.xaxis, ax.yaxis):
        ticks = axis._update_ticks()  # those that are in view
        found += [t for tick in ticks for t in (tick.label1, tick.label2)]
    return found + _of_legends([ax.get_legend()])


def _of_legends(legends):
    return [text for legend in legends if legend is not None for text in legend.get_texts()]


def texts(figure):
    """Every text that is seen, with its box in pixels."""
    renderer = drawn(figure)
    found = [*figure.texts, *_of_legends(figure.legends), *([figure._suptitle] if figure._suptitle else [])]
    found += [t for ax in figure.axes for t in _of_axes(ax)]
    seen = {id(t): t for t in found if t.get_visible() and t.get_text().strip()}
    return [(t.get_text(), t.get_window_extent(renderer)) for t in seen.values()]


def collisions(figure):
    """Pairs of texts that stand on each other, and texts that reach beyond the paper."""
    all_of_them = [(text, box.padded(-1)) for text, box in texts(figure)]
    paper = Bbox.from_bounds(0, 0, *(figure.get_size_inches() * figure.dpi)).padded(2)
    on_each_other = [(a, b) for (a, box), (b, other) in combinations(all_of_them, 2) if box.overlaps(other)]
    beyond = [text for text, box in all_of_them if not (paper.contains(*box.min) and paper.contains(*box.max))]
    return on_each_other + beyond


def marked_texts(figure):
    """Texts inside a panel that marks along its edges stand on."""
    renderer, found = drawn(figure), []
    for ax in figure.axes:
        boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in ax.texts if t.get_text().strip()]
        for line in ax.lines:
            if line.get_marker() in ("None", "", None) or line.get_linestyle() not in ("None", "", " "):
                continue
            places = line.get_transform().transform(np.column_stack(line.get_data()))
            half = line.get_markersize() * figure.dpi / 144
            marks = [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in places]
            found += [text for text, box in boxes if any(box.overlaps(mark) for mark in marks)]
    return found


def symbols(figure):
    """Texts with symbols of formulas, which only the page about notation explains."""
    return [text for text, _ in texts(figure) if SYMBOLS.search(text)]
