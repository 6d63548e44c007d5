"""Powers of ten between modules' regions: for all members at once, as one by one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recyclegp.merging.constants import REGION_UNITS
from recyclegp.merging.input_units import RegionUnit, powers_of_ten


def one_by_one(boxes, numbers):
    """Every member against every other, in plain Python."""
    found = []
    for i, own in enumerate(boxes):
        for column in numbers:
            others = [box[:, column] for j, box in enumerate(boxes) if j != i]
            power = power_of_ten(own[:, column], others)
            if power:
                found.append(RegionUnit(i, column, power))
    return found


def power_of_ten(own, others):
    if len(others) < 2 or float(own[0]) <= 0 or any(float(other[0]) <= 0 for other in others):
        return 0
    mine, theirs = own.log10(), [other.log10() for other in others]
    alike = [a for i, a in enumerate(theirs) if any(shared(a, b) for j, b in enumerate(theirs) if j != i)]
    if len(alike) < len(theirs) or any(float(mine[0]) <= float(a[1]) and float(a[0]) <= float(mine[1]) for a in theirs):
        return 0
    middle = torch.stack([a.mean() for a in theirs]).median()
    power = round(float(middle - mine.mean()))
    moved = mine + power
    return power if abs(power) >= REGION_UNITS.far_power and all(shared(moved, a) for a in theirs) else 0


def shared(a, b):
    common = float(torch.minimum(a[1], b[1]) - torch.maximum(a[0], b[0]))
    return common > 0.5 * min(float(a[1] - a[0]), float(b[1] - b[0]))


def region(low, high):
    return st.tuples(st.floats(low, high), st.floats(low, high)).map(sorted)


@st.composite
def places(draw):
    """Most members in one region; some are a power of ten away, elsewhere, below zero, or at a single point."""
    K, D = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    boxes = torch.zeros(K, 2, D, dtype=torch.float64)
    for k in range(K):
        for d in range(D):
            low = draw(st.floats(1.0, 1.6))
            ends = torch.tensor([low, low + draw(st.floats(1.0, 9.0))], dtype=torch.float64)
            kind = draw(st.sampled_from(["here"] * 7 + ["scaled", "scaled", "elsewhere", "negative", "point"]))
            if kind == "scaled":
                ends = ends * 10.0 ** draw(st.integers(-4, 4))
            elif kind == "elsewhere":
                ends = torch.tensor(draw(region(0.001, 5000.0)), dtype=torch.float64)
            elif kind == "negative":
                ends = ends - 5
            elif kind == "point":
                ends = ends[:1].repeat(2)
            boxes[k, :, d] = ends
    return boxes


@settings(max_examples=400, deadline=None, derandomize=True)
@given(places())
def test_all_at_once_is_one_by_one(boxes):
    numbers = range(boxes.shape[2])
    assert powers_of_ten(boxes, numbers) == one_by_one(boxes, numbers)


def around(K, D=1, seed=0):
    """K boxes about [1, 10]."""
    noise = torch.rand(K, 2, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.tensor([1.0, 10.0], dtype=torch.float64)[None, :, None] * (1 + 0.2 * noise)


@pytest.mark.parametrize(("factor", "power"), [(1e-3, 3), (1e-2, 2), (1e2, -2), (1e6, -6)])
def test_one_in_another_unit_is_found(factor, power):
    boxes = around(5, 2)
    boxes[3, :, 1] *= factor
    assert powers_of_ten(boxes, [0, 1]) == [RegionUnit(3, 1, power)]
    assert powers_of_ten(boxes, [0]) == []  # column 1 holds codes of categories
    boxes[0, 0, 1] = -0.1
    assert powers_of_ten(boxes, [0, 1]) == []


def test_two_modules_or_too_many_are_not_compared():
    boxes = around(REGION_UNITS.most_compared)
    boxes[1] *= 1e3
    assert powers_of_ten(boxes, [0]) == [RegionUnit(1, 0, -3)]
    assert powers_of_ten(torch.cat([boxes, around(1)]), [0]) == []
    assert powers_of_ten(boxes[:2], [0]) == []


def test_two_in_another_unit_are_nobody_to_tell():
    """Those who agree with each other may be right."""
    boxes = around(6)
    boxes[[1, 4]] *= 1e3
    assert powers_of_ten(boxes, [0]) == one_by_one(boxes, [0]) == []


def test_fifty_modules_and_many_columns():
    boxes = around(50, 8)
    boxes[7] *= 1e3
    assert powers_of_ten(boxes, range(8)) == [RegionUnit(7, column, -3) for column in range(8)]
