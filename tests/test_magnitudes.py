"""Numbers for people have four digits, and no powers of ten where digits can be read."""

import pytest

from recyclegp.magnitudes import in_digits


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0123456, "0.01235"),
        (390.94, "390.9"),
        (9999.4, "9999"),
        (9999.6, "10,000"),
        (-19732.4, "-19,732"),
        (1.528e8, "152,800,000"),
        (1.5e12, "1.5e+12"),
        (3e-9, "3e-09"),
        (0.0, "0"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_in_digits(value, said):
    assert in_digits(value) == said
