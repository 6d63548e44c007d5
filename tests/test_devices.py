"""Where new tensors are made."""

import torch
from torch.overrides import _get_current_function_mode_stack

from recyclegp.devices import default_device


def made():
    return torch.zeros(1).device.type


def test_a_block_for_the_cpu_inside_another_is_left_to_it_again():
    with default_device("meta"):
        assert made() == "meta"
        with default_device("cpu"):
            assert made() == "cpu"
            assert _get_current_function_mode_stack() == []  # nothing is looked at
            with default_device("meta"):
                assert made() == "meta"
            assert made() == "cpu"
        assert made() == "meta"
    assert made() == "cpu"


def test_a_users_own_block_is_left_alone():
    with torch.device("meta"):
        with default_device("cpu"):
            assert made() == "cpu"
        assert made() == "meta"
