"""The paper's experiments and two of our own, end to end: `recyclegp experiment --list`."""
