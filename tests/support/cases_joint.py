"""Small tables of several functions, for the tests of commands and figures."""

import numpy as np
import pandas as pd

CLASSES = ("low", "middle", "top")


def outputs(seed, low, high, rows=40):
    """Two inputs, two outputs in different units."""
    rng = np.random.default_rng(seed)
    day, depth = rng.uniform(low, high, rows), rng.uniform(-1, 1, rows)
    heat = np.sin(day) + 0.2 * depth + 0.1 * rng.standard_normal(rows)
    salt = 30 + 2 * np.cos(day) + 0.3 * rng.standard_normal(rows)
    return pd.DataFrame({"day": day, "depth": depth, "heat": heat, "salt": salt})


def classes(seed, low, high, rows=60):
    """Three classes along one input, the second of which hardly matters."""
    rng = np.random.default_rng(seed)
    day, depth = rng.uniform(low, high, rows), rng.uniform(-1, 1, rows)
    score = day + 0.2 * depth + 0.4 * rng.standard_normal(rows)
    return pd.DataFrame({"day": day, "depth": depth, "kind": np.array(CLASSES)[np.digitize(score, [2.0, 4.0])]})


def varying(seed, low, high, rows=60):
    """Noise that grows along the input."""
    rng = np.random.default_rng(seed)
    day = rng.uniform(low, high, rows)
    return pd.DataFrame({"day": day, "y": np.sin(day) + (0.05 + 0.1 * day) * rng.standard_normal(rows)})
